//! `awk`: its programs are a language that can write, run and connect.
//!
//! A program is split into tokens and every token is looked at. Whatever can
//! leave the program (`|`, `>` where it redirects, `getline`, `system`, a
//! function that is not built in, an assignment to the list of files) refuses
//! it, and so does a slash that may start a pattern or divide.

use super::{
    Verdict, files,
    options::{Surprise, parse},
};
use crate::{
    facts::{Access, Reach},
    field::Field,
};

/// Functions without effects.
const FUNCTIONS: &[&str] = &[
    "atan2", "cos", "exp", "gensub", "gsub", "index", "int", "length", "log", "match", "mktime", "rand",
    "sin", "split", "sprintf", "sqrt", "srand", "strftime", "sub", "substr", "systime", "tolower", "toupper",
];

const KEYWORDS: &[&str] = &[
    "BEGIN", "END", "break", "continue", "delete", "do", "else", "exit", "for", "if", "in", "next",
    "nextfile", "print", "printf", "return", "while",
];

/// Names that reach out of the program.
const REFUSED: &[&str] = &[
    "ARGC",
    "ARGV",
    "ENVIRON",
    "PROCINFO",
    "SYMTAB",
    "FUNCTAB",
    "func",
    "function",
    "getline",
    "close",
    "fflush",
    "system",
    "extension",
    "BEGINFILE",
    "ENDFILE",
    "switch",
];

pub(super) fn classify(args: &[Field]) -> Option<Verdict> {
    let parsed = parse("-F: -v: --version --field-separator: --assign:", args, Surprise::Refused)?;
    if parsed.has(&["version"]) {
        return Some(Verdict::harmless());
    }
    let named = |value: &Field| {
        let name = value.literal().and_then(|text| text.split_once('=')).map(|(name, _)| name);
        name.is_some_and(|name| !REFUSED.contains(&name))
    };
    if !parsed.values(&["v", "assign"]).all(named) {
        return None;
    }
    let (program, operands) = parsed.operands.split_first()?;
    is_harmless(program.literal()?).then_some(())?;
    // An operand with `=` assigns a variable.
    if operands.iter().any(|field| field.literal().is_some_and(|text| text.contains('='))) {
        return None;
    }
    Some(Verdict::reads(files(operands, Access::Read, Reach::Itself)))
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Token<'p> {
    Name(&'p str),
    Operand,
    Close,
    Operator(char),
}

fn is_harmless(program: &str) -> bool {
    let Some(tokens) = tokens(program) else { return false };
    let mut printing = false;
    let mut open = 0_i32;
    for (idx, token) in tokens.iter().enumerate() {
        match *token {
            Token::Name(name) => {
                let called = tokens.get(idx + 1) == Some(&Token::Operator('('));
                if REFUSED.contains(&name)
                    || (called && !FUNCTIONS.contains(&name) && !KEYWORDS.contains(&name))
                {
                    return false;
                }
                if matches!(name, "print" | "printf") {
                    printing = true;
                    open = 0;
                }
            }
            Token::Operator('(' | '[') => open += 1,
            Token::Close => open -= 1,
            Token::Operator(';' | '{' | '}') => printing = false,
            Token::Operator('|' | '@') => return false,
            Token::Operator('>') if printing && open <= 0 => return false,
            Token::Operator(_) | Token::Operand => (),
        }
    }
    true
}

/// Splits a program; `None` for anything that could be read in two ways.
fn tokens(program: &str) -> Option<Vec<Token<'_>>> {
    let bytes = program.as_bytes();
    let mut out: Vec<Token<'_>> = Vec::new();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            // A newline may or may not end a statement, so it never does here.
            b' ' | b'\t' | b'\n' => at += 1,
            b'#' => at += program[at..].find('\n').unwrap_or(program.len() - at),
            b'"' => {
                at = closing(bytes, at + 1, b'"')?;
                out.push(Token::Operand);
            }
            b'/' => match out.last() {
                Some(Token::Operand) => {
                    out.push(Token::Operator('/'));
                    at += 1;
                }
                Some(Token::Close | Token::Operator('+' | '-')) => return None,
                Some(Token::Name(name)) if !KEYWORDS.contains(name) => return None,
                _ => {
                    at = closing(bytes, at + 1, b'/')?;
                    out.push(Token::Operand);
                }
            },
            b'_' | b'a'..=b'z' | b'A'..=b'Z' => {
                let len =
                    program[at..].bytes().take_while(|b| *b == b'_' || b.is_ascii_alphanumeric()).count();
                out.push(Token::Name(&program[at..at + len]));
                at += len;
            }
            b'0'..=b'9' | b'.' => {
                at += program[at..].bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'.').count();
                out.push(Token::Operand);
            }
            b'|' if bytes.get(at + 1) == Some(&b'|') => {
                out.push(Token::Operator('o'));
                at += 2;
            }
            b')' | b']' => {
                out.push(Token::Close);
                at += 1;
            }
            b'\\' => return None,
            _ if byte.is_ascii_punctuation() => {
                out.push(Token::Operator(char::from(byte)));
                at += 1;
            }
            _ => return None,
        }
    }
    Some(out)
}

/// Behind the closing delimiter.
fn closing(bytes: &[u8], mut at: usize, delimiter: u8) -> Option<usize> {
    loop {
        match bytes.get(at)? {
            b'\\' => at += 2,
            b'\n' => return None,
            // In brackets a slash may or may not end the pattern.
            b'[' if delimiter == b'/' && bracket_hides_slash(&bytes[at..]) => return None,
            byte if *byte == delimiter => return Some(at + 1),
            _ => at += 1,
        }
    }
}

fn bracket_hides_slash(bytes: &[u8]) -> bool {
    let end = bytes.iter().skip(2).position(|b| *b == b']').map_or(bytes.len(), |at| at + 2);
    bytes[..end].contains(&b'/')
}

#[cfg(test)]
mod tests {
    use super::is_harmless;

    #[test]
    fn programs_that_only_print() {
        for program in [
            "{print $1}",
            "{print $NF}",
            "NR==1",
            "/foo/ {print $2}",
            "$3 > 5 {print $1, $2}",
            "BEGIN{FS=\":\"} {print $1}",
            "{s+=$1} END{print s}",
            "{print length($0)}",
            "!seen[$0]++",
            "NR>1 && $2 ~ /a|b/ {print}",
            "{printf \"%s\\n\", $1}",
            "{a[$1]+=$2} END{for (k in a) print k, a[k]}",
            "{print ($1 > 5)}",
            "{gsub(/a/, \"b\"); print}",
            "{print $1 / 2}",
            "/a/,/b/",
            "NR==2,NR==5",
            "{if ($1 > 3) print $2}",
            "{print substr($0, 1, 5)} # comment",
        ] {
            assert!(is_harmless(program), "{program}");
        }
    }

    #[test]
    fn programs_that_reach_out() {
        for program in [
            "BEGIN{system(\"touch x\")}",
            "{print > \"f\"}",
            "{print $1 >> \"f\"}",
            "BEGIN{print \"x\" | \"sh\"}",
            "BEGIN{\"date\" | getline d}",
            "BEGIN{while ((getline l < \"/etc/passwd\") > 0) print l}",
            "{printf \"%s\", $1 > $2}",
            "BEGIN{ARGV[1]=\"/etc/passwd\"; ARGC=2}",
            "@load \"x\"",
            "function f(){}",
            "BEGIN{x(1)}",
            "{print \"a\" > (\"f\")}",
            "BEGIN { a = 4; b = a / 2; print \"x\" > \"f\" / 2 }",
            "{print $1 |& \"x\"}",
            "{print (1) > \"f\"}",
            "{ x = y /1; print \"a\" > \"f\"; z = 1/ 2 }",
            "{print a[1] > \"f\"}",
            "{print 1,\n2 > \"f\"}",
            "{print \"a\"\\\n > \"f\"}",
        ] {
            assert!(!is_harmless(program), "{program}");
        }
    }
}
