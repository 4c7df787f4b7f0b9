//! `sed`: its scripts are a language, and two of its commands write or run.

use super::{
    Touch, Verdict, files,
    options::{Parsed, Surprise, parse},
};
use crate::{
    facts::{Access, Class, Reach, Verb},
    field::Field,
};

const OPTIONS: &str = "-nErsuz -e: -l: -i? --quiet --silent --expression: --regexp-extended --separate --unbuffered \
    --null-data --posix --debug --sandbox --in-place? --line-length: --help --version";

pub(super) fn classify(args: &[Field]) -> Option<Verdict> {
    let parsed = parse(OPTIONS, args, Surprise::Refused)?;
    let (scripts, operands) = scripts(&parsed)?;
    let mut touches = Vec::new();
    for script in scripts {
        let reads = Script::read(script)?;
        touches.extend(reads.iter().map(|file| Touch::new(Access::Read, &Field::Literal(file.clone()))));
    }
    if parsed.has(&["help", "version"]) {
        return Some(Verdict::harmless());
    }
    if parsed.has(&["i", "in-place"]) {
        return in_place(&parsed, operands, touches);
    }
    touches.extend(files(operands, Access::Read, Reach::Itself));
    Some(Verdict { class: Class::ReadOnly, touches })
}

/// Whether the arguments are `-n X,Yp FILE`: part of one file as it is.
pub(crate) fn is_print_range(args: &[Field]) -> Option<Field> {
    let [first, script, file] = args else { return None };
    let script = script.literal().filter(|_| first.literal() == Some("-n"))?;
    let range = script.strip_suffix('p')?;
    let plain = !range.is_empty() && range.bytes().all(|b| b.is_ascii_digit() || b == b',' || b == b'$');
    plain.then(|| file.clone())
}

/// The scripts, and the operands that are left.
fn scripts(parsed: &Parsed) -> Option<(Vec<&str>, &[Field])> {
    let given: Vec<&Field> = parsed.values(&["e", "expression"]).collect();
    let (scripts, operands) = if given.is_empty() {
        let (script, operands) = parsed.operands.split_first()?;
        (vec![script], operands)
    } else {
        (given, &parsed.operands[..])
    };
    let scripts: Option<Vec<&str>> = scripts.into_iter().map(Field::literal).collect();
    Some((scripts?, operands))
}

/// Every file is written, and a backup beside it if a suffix is given.
fn in_place(parsed: &Parsed, operands: &[Field], mut touches: Vec<Touch>) -> Option<Verdict> {
    let suffix = parsed.values(&["i", "in-place"]).next().map(|field| field.literal().unwrap_or("/"));
    let plain = |c: char| c.is_ascii_alphanumeric() || "._~-".contains(c);
    if suffix.is_some_and(|suffix| !suffix.chars().all(plain)) {
        return None;
    }
    for operand in operands {
        touches.push(Touch::new(Access::Write, operand));
        if let (Some(suffix), Some(name)) = (suffix, operand.literal()) {
            touches.push(Touch::new(Access::Write, &Field::Literal(format!("{name}{suffix}"))));
        }
    }
    Some(Verdict::edits(Verb::Rewrite, touches))
}

/// A script, read far enough to know that it neither writes nor runs anything.
struct Script<'s> {
    rest: &'s str,
    reads: Vec<String>,
}

impl<'s> Script<'s> {
    /// The files it reads, or nothing if it is not understood.
    fn read(text: &'s str) -> Option<Vec<String>> {
        let mut script = Self { rest: text, reads: Vec::new() };
        loop {
            script.rest = script.rest.trim_start_matches([' ', '\t', '\n', ';', '}']);
            if script.rest.is_empty() {
                return Some(script.reads);
            }
            script.command()?;
        }
    }

    fn next(&mut self) -> Option<char> {
        let c = self.rest.chars().next()?;
        self.rest = &self.rest[c.len_utf8()..];
        Some(c)
    }

    fn skip(&mut self, chars: &[char]) {
        self.rest = self.rest.trim_start_matches(chars);
    }

    fn command(&mut self) -> Option<()> {
        if self.address()? {
            self.skip(&[' ', '\t']);
            if self.rest.starts_with(',') {
                self.next();
                self.skip(&[' ', '\t', '+', '~']);
                if !self.address()? {
                    return None;
                }
            }
        }
        self.skip(&[' ', '\t', '!']);
        match self.next()? {
            '{' => Some(()),
            '#' => {
                self.line();
                Some(())
            }
            '=' | 'd' | 'D' | 'g' | 'G' | 'h' | 'H' | 'n' | 'N' | 'p' | 'P' | 'x' | 'z' | 'F' => self.end(),
            'l' | 'L' | 'q' | 'Q' => {
                self.skip(&[' ', '\t', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9']);
                self.end()
            }
            ':' | 'b' | 't' | 'T' => {
                let len = self.rest.find(['\n', ';', '}']).unwrap_or(self.rest.len());
                let label = &self.rest[..len];
                self.rest = &self.rest[len..];
                label.chars().all(|c| c.is_ascii_alphanumeric() || "_ \t-".contains(c)).then_some(())
            }
            // Text up to the end of the line; a backslash would continue it.
            'a' | 'i' | 'c' => {
                let line = self.line();
                (!line.trim_start().trim_start_matches('\\').contains('\\') && !line.ends_with('\\'))
                    .then_some(())
            }
            'r' => {
                let file = self.line().trim().to_owned();
                self.reads.push(file);
                Some(())
            }
            'y' => {
                let delimiter = self.delimiter()?;
                self.until(delimiter)?;
                self.until(delimiter)?;
                self.end()
            }
            's' => self.substitution(),
            _ => None,
        }
    }

    /// `s/a/b/` with flags that neither write nor run.
    fn substitution(&mut self) -> Option<()> {
        let delimiter = self.delimiter()?;
        self.until(delimiter)?;
        self.until(delimiter)?;
        let flags = ['g', 'p', 'i', 'I', 'm', 'M', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9'];
        self.skip(&flags);
        self.end()
    }

    fn delimiter(&mut self) -> Option<char> {
        self.next().filter(|c| c.is_ascii_punctuation() && *c != '\\')
    }

    /// Up to an unescaped delimiter. Brackets hide it from some versions of
    /// sed and not from others, so one inside them is refused.
    fn until(&mut self, delimiter: char) -> Option<()> {
        let (mut opened, mut closed) = (0_usize, 0_usize);
        loop {
            match self.next()? {
                '\\' => drop(self.next()?),
                '\n' => return None,
                c if c == delimiter => return (opened == closed).then_some(()),
                '[' => {
                    opened += 1;
                    // `[]…]` and `[^]…]` contain a bracket that closes nothing.
                    let inside = self.rest.strip_prefix('^').unwrap_or(self.rest);
                    if inside.starts_with(']') {
                        return None;
                    }
                }
                ']' => closed += 1,
                _ => (),
            }
        }
    }

    /// Takes an address if there is one.
    fn address(&mut self) -> Option<bool> {
        let first = self.rest.chars().next()?;
        match first {
            '0'..='9' => {
                self.skip(&['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', '~']);
                Some(true)
            }
            '$' => {
                self.next();
                Some(true)
            }
            '/' => {
                self.next();
                self.until('/')?;
                self.skip(&['I', 'M']);
                Some(true)
            }
            '\\' => {
                self.next();
                let delimiter = self.delimiter()?;
                self.until(delimiter)?;
                self.skip(&['I', 'M']);
                Some(true)
            }
            _ => Some(false),
        }
    }

    /// Nothing more may follow on this command.
    fn end(&mut self) -> Option<()> {
        self.skip(&[' ', '\t']);
        let ended = self.rest.is_empty() || self.rest.starts_with(['\n', ';', '}', '#']);
        ended.then_some(())
    }

    fn line(&mut self) -> &'s str {
        let len = self.rest.find('\n').unwrap_or(self.rest.len());
        let (line, rest) = self.rest.split_at(len);
        self.rest = rest;
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_that_only_print() {
        for script in [
            "p",
            "2p",
            "1,5p",
            "$p",
            "/a/p",
            "/a/,/b/p",
            "1~2p",
            "2,+3p",
            "0,/x/d",
            "\\,a/b,p",
            "s/a/b/",
            "s/a/b/gI",
            "s|a|b|2p",
            "s/#/##/",
            "/^$/d",
            "1!G;h;$!d",
            "$=",
            "n;d",
            "y/abc/xyz/",
            "1{p;q}",
            "/a/{/b/!d;s/x/y/}",
            ":a;N;$!ba;s/x/ /g",
            "5q",
            "a hello",
            "1i\\ text",
            "# comment",
            "s/\\/usr/x/",
            "s/[abc]/x/",
            "s/[[:space:]]*$//",
        ] {
            assert!(Script::read(script).is_some(), "{script}");
        }
    }

    #[test]
    fn scripts_that_write_or_run() {
        for script in [
            "w f",
            "/a/w f",
            "s/a/b/w f",
            "s/a/b/e",
            "1e touch x",
            "e",
            "W f",
            "s/a/b/gw f",
            "1,2w f",
            "s/a/b/;w f",
            "{w f",
            "}w f",
            "s,a,b,w f",
            "/x/s/a/b/we",
            "R f",
            "s/[/]w f;/b/w f",
            "v",
            "M",
            "s/a/b",
            "y/a/b",
            "s/a\nb/c/",
            "a foo\\\nw f",
            "p w f",
            "\\wfwp;w f",
            "#n\nw f",
            "s/a/b/ w f",
            "1,w f",
            "bx\nw f",
            "s/[^/]*$//",
            "s/[]/]w f/x/w f",
            "s/[^]/]/x/w f",
        ] {
            assert!(Script::read(script).is_none(), "{script}");
        }
        assert_eq!(Script::read("r .env"), Some(vec![".env".to_owned()]));
    }
}
