//! `sed`: two of its script commands write files or run programs.

use super::{
    ProgramAnalysis, TouchedFile, files,
    getopt::{Parsed, UnknownWordRule, parse},
};
use crate::{
    analysis::{EditKind, EffectAccess, EffectScope},
    expansion::Field,
};

const OPTIONS: &str = "-nErsuz -e: -l: -i? --quiet --silent --expression: --regexp-extended --separate --unbuffered \
    --null-data --debug --sandbox --in-place? --line-length: --help --version";

pub(super) fn classify(args: &[Field]) -> Option<ProgramAnalysis> {
    let parsed = parse(OPTIONS, args, UnknownWordRule::Refused)?;
    let (scripts, operands) = scripts(&parsed)?;
    let mut touches = Vec::new();
    for script in scripts {
        let reads = SedScript::read(script)?;
        touches.extend(
            reads.iter().map(|file| TouchedFile::new(EffectAccess::Read, &Field::Literal(file.clone()))),
        );
    }
    if parsed.has(&["help", "version"]) {
        return Some(ProgramAnalysis::harmless());
    }
    if parsed.has(&["i", "in-place"]) {
        return in_place(&parsed, operands, touches);
    }
    touches.extend(files(operands, EffectAccess::Read, EffectScope::Itself));
    Some(ProgramAnalysis::reads(touches))
}

/// The file, if the arguments are `-n X,Yp FILE`, which prints a line range unchanged.
pub(crate) fn is_print_range(args: &[Field]) -> Option<Field> {
    let [first, script, file] = args else { return None };
    let script = script.literal().filter(|_| first.literal() == Some("-n"))?;
    let range = script.strip_suffix('p')?;
    let plain = !range.is_empty() && range.bytes().all(|b| b.is_ascii_digit() || b == b',' || b == b'$');
    plain.then(|| file.clone())
}

/// The scripts, and the remaining operands.
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

/// In-place editing: every file is written, and a backup beside it if a suffix is given.
fn in_place(parsed: &Parsed, operands: &[Field], mut touches: Vec<TouchedFile>) -> Option<ProgramAnalysis> {
    let suffix = parsed.values(&["i", "in-place"]).next().map(|field| field.literal().unwrap_or("/"));
    let plain = |c: char| c.is_ascii_alphanumeric() || "._~-".contains(c);
    if suffix.is_some_and(|suffix| !suffix.chars().all(plain)) {
        return None;
    }
    for operand in operands {
        touches.push(TouchedFile::new(EffectAccess::Write, operand));
        if let (Some(suffix), Some(name)) = (suffix, operand.literal()) {
            touches.push(TouchedFile::new(EffectAccess::Write, &Field::Literal(format!("{name}{suffix}"))));
        }
    }
    Some(ProgramAnalysis::edits(EditKind::Rewrite, touches))
}

/// Parser for GNU sed scripts that accepts only scripts without writing and running commands. Constructs
/// that other versions of sed parse differently are rejected.
struct SedScript<'s> {
    rest: &'s str,
    reads: Vec<String>,
}

impl<'s> SedScript<'s> {
    /// Returns the files the script reads; `None` if it is not accepted.
    fn read(text: &'s str) -> Option<Vec<String>> {
        let sane = text.bytes().all(|byte| matches!(byte, b'\n' | b'\t') || !byte.is_ascii_control());
        let mut script = sane.then_some(Self { rest: text, reads: Vec::new() })?;
        loop {
            script.skip(&[' ', '\t', '\n', ';']);
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
                self.skip(&[' ', '\t']);
                if !self.address_end()? {
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
            '}' | '=' | 'd' | 'D' | 'g' | 'G' | 'h' | 'H' | 'n' | 'N' | 'p' | 'P' | 'x' | 'z' | 'F' => {
                self.end()
            }
            'l' | 'q' | 'Q' => {
                self.skip(&[' ', '\t']);
                self.digits();
                self.end()
            }
            ':' | 'b' | 't' | 'T' => {
                self.skip(&[' ', '\t']);
                let label = |c: char| c == '_' || c.is_ascii_alphanumeric();
                self.rest = self.rest.trim_start_matches(label);
                self.end()?;
                // Some versions take this as part of the label instead of a comment.
                (!self.rest.starts_with('#')).then_some(())
            }
            // Text up to the end of the line; a backslash would continue it.
            'a' | 'i' | 'c' => {
                let line = self.line().trim_start_matches([' ', '\t']);
                let text = line.strip_prefix('\\').unwrap_or(line);
                (!text.trim().is_empty() && !text.contains('\\')).then_some(())
            }
            'r' => {
                let file = self.line().trim_start_matches([' ', '\t']).to_owned();
                (!file.is_empty()).then(|| self.reads.push(file))
            }
            'y' => {
                let delimiter = self.delimiter()?;
                self.text(delimiter)?;
                self.text(delimiter)?;
                self.end()
            }
            's' => self.substitution(),
            _ => None,
        }
    }

    /// `s/a/b/` with flags that neither write nor run; may contain spaces.
    fn substitution(&mut self) -> Option<()> {
        let delimiter = self.delimiter()?;
        self.pattern(delimiter)?;
        self.text(delimiter)?;
        self.rest = self.rest.trim_start_matches(|c: char| {
            c.is_ascii_digit() || matches!(c, 'g' | 'p' | 'i' | 'I' | 'm' | 'M' | ' ')
        });
        self.end()
    }

    fn delimiter(&mut self) -> Option<char> {
        self.next().filter(|c| c.is_ascii_punctuation() && !matches!(c, '\\' | '[' | ']'))
    }

    /// Up to the delimiter that ends a regular expression. Versions of sed disagree whether brackets
    /// hide a delimiter, so only unambiguous brackets are accepted.
    fn pattern(&mut self, delimiter: char) -> Option<()> {
        let mark = u8::try_from(delimiter).ok()?;
        loop {
            if self.rest.starts_with('[') {
                let len = super::bracket_expr::plain(self.rest.as_bytes(), mark)?;
                self.rest = self.rest.get(len..)?;
                continue;
            }
            match self.next()? {
                '\\' => self.escape()?,
                '\n' => return None,
                c if c == delimiter => return Some(()),
                _ => (),
            }
        }
    }

    /// Up to the delimiter that ends plain text.
    fn text(&mut self, delimiter: char) -> Option<()> {
        loop {
            match self.next()? {
                '\\' => self.escape()?,
                '\n' => return None,
                c if c == delimiter => return Some(()),
                _ => (),
            }
        }
    }

    /// After a backslash. `\c` takes another character in some versions; a line end continues the text.
    fn escape(&mut self) -> Option<()> {
        (!matches!(self.next()?, '\n' | 'c')).then_some(())
    }

    fn digits(&mut self) {
        self.rest = self.rest.trim_start_matches(|c: char| c.is_ascii_digit());
    }

    /// Consumes an address, if there is one.
    fn address(&mut self) -> Option<bool> {
        let first = self.rest.chars().next()?;
        match first {
            '0'..='9' => {
                self.digits();
                if self.rest.starts_with('~') {
                    self.next();
                    self.digits();
                }
            }
            '$' => drop(self.next()),
            '/' | '\\' => {
                if first == '\\' {
                    self.next();
                }
                let delimiter = self.delimiter()?;
                self.pattern(delimiter)?;
                self.skip(&['I', 'M']);
            }
            _ => return Some(false),
        }
        Some(true)
    }

    /// The second of two addresses.
    fn address_end(&mut self) -> Option<bool> {
        if self.rest.starts_with(['+', '~']) {
            self.next();
            let before = self.rest.len();
            self.digits();
            return Some(self.rest.len() < before);
        }
        self.address()
    }

    /// The command must end here.
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
    fn sed_script_that_only_prints_is_accepted() {
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
            assert!(SedScript::read(script).is_some(), "{script}");
        }
    }

    #[test]
    fn sed_script_that_writes_or_runs_is_rejected() {
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
            "s/^.*][/x/;s/a/touch y/e",
            "s/^.*][/x/;1e touch y #/CMD/e",
            "s/[[:alpha:]/]x/;w f/;",
            "s/[\\]/x/;w f/;#]/",
            "/[/p;w f",
            "\\,[,],w f",
            "bx w f",
            "b x w f",
            ":a w f",
            "tx w f",
            "s/a/b/ e",
            "s/a/b/g p w f",
            "a",
            "a\\",
            "i\\\nw f",
            "c\\\ntext\nw f",
            "a x\\",
            "q5 w f",
            "l 5 w f",
            "1,+w f",
            "1~w f",
            "s/a/\\\nb/w f",
            "s/a\\cb/x/",
            "y/a\\/b/;w f/c/",
            "s[a[b[w f",
            "s]a]b]e",
            "sxaxbxe",
            "1!{e touch y",
            "p}w f",
            ":x#;w f",
            ": x #;w f",
            "b#;w f",
            "tx #;w f",
            "T#;e touch x",
            "}}w f",
            "r",
        ] {
            assert!(SedScript::read(script).is_none(), "{script}");
        }
        assert_eq!(SedScript::read("r .env"), Some(vec![".env".to_owned()]));
        assert_eq!(SedScript::read("1r  a b \np"), Some(vec!["a b ".to_owned()]));
    }
}
