//! Parses options like `getopt_long` against a closed list.
//!
//! A list is one line of text:
//!
//! | notation | meaning |
//! |---|---|
//! | `-abc` | three options without a value |
//! | `-n:` | a value follows, attached or as the next word |
//! | `-w?` | an attached optional value |
//! | `-#` | a number such as `-5` |
//! | `--name`, `--name:`, `--name?` | the same for long options |
//! | `:R` instead of `:` | the value is a file that is read |
//!
//! An option that is not in the list, also an abbreviation of one, makes the whole command unknown.

use crate::expansion::Field;

/// Parsed arguments.
#[derive(Debug, Default)]
pub(super) struct Parsed {
    /// Options by name without dashes, with their values.
    pub(super) options: Vec<(String, Option<Field>)>,
    /// Operands, in order.
    pub(super) operands: Vec<Field>,
    /// Files named by options.
    pub(super) reads: Vec<Field>,
}

impl Parsed {
    pub(super) fn has(&self, names: &[&str]) -> bool {
        self.options.iter().any(|(name, _)| names.contains(&name.as_str()))
    }

    pub(super) fn values<'a>(&'a self, names: &'a [&'a str]) -> impl Iterator<Item = &'a Field> {
        self.options
            .iter()
            .filter(|(name, _)| names.contains(&name.as_str()))
            .filter_map(|(_, value)| value.as_ref())
    }
}

/// How to treat a word that may turn out to be an option.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(super) enum UnknownWordRule {
    /// Accept: every option of this command is harmless.
    Fine,
    /// Accept only a glob: some options are harmful, but the caller checks later which files the glob
    /// matches.
    Pattern,
    /// Reject: some options are harmful.
    Refused,
}

#[derive(Clone, Copy, Eq, PartialEq)]
enum Value {
    None,
    Attached,
    Required,
    RequiredFile,
}

pub(super) fn parse(list: &str, args: &[Field], surprise: UnknownWordRule) -> Option<Parsed> {
    let mut parsed = Parsed::default();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg {
            Field::Literal(text) if text == "--" => {
                parsed.operands.extend(args.cloned());
                break;
            }
            Field::Literal(text) if text.starts_with("--") => {
                parsed.long(list, &text[2..], &mut args, surprise)?;
            }
            Field::Literal(text) if text.starts_with('-') && text.len() > 1 => {
                parsed.short(list, &text[1..], &mut args, surprise)?;
            }
            Field::Glob(_) if surprise == UnknownWordRule::Pattern => parsed.operands.push(arg.clone()),
            _ if arg.may_be_option() && surprise != UnknownWordRule::Fine => return None,
            _ => parsed.operands.push(arg.clone()),
        }
    }
    Some(parsed)
}

impl Parsed {
    fn long<'a>(
        &mut self,
        list: &str,
        text: &str,
        args: &mut impl Iterator<Item = &'a Field>,
        surprise: UnknownWordRule,
    ) -> Option<()> {
        let (name, attached) = match text.split_once('=') {
            Some((name, value)) => (name, Some(Field::Literal(value.to_owned()))),
            None => (text, None),
        };
        let kind = long_option(list, name)?;
        let value = match (kind, attached) {
            (Value::None, None) | (Value::Attached, None) => None,
            (Value::None, Some(_)) => return None,
            (_, Some(attached)) => Some(attached),
            (Value::Required | Value::RequiredFile, None) => Some(value(args.next()?, surprise)?),
        };
        self.push(name, value, kind);
        Some(())
    }

    fn short<'a>(
        &mut self,
        list: &str,
        cluster: &str,
        args: &mut impl Iterator<Item = &'a Field>,
        surprise: UnknownWordRule,
    ) -> Option<()> {
        if cluster.bytes().all(|b| b.is_ascii_digit()) && list.split(' ').any(|token| token == "-#") {
            self.options.push((cluster.to_owned(), None));
            return Some(());
        }
        for (idx, letter) in cluster.char_indices() {
            let rest = &cluster[idx + letter.len_utf8()..];
            let kind = short_option(list, letter)?;
            let name = letter.to_string();
            if kind == Value::None {
                self.options.push((name, None));
                continue;
            }
            let value = match (kind, rest) {
                (Value::Attached, "") => None,
                (_, "") => Some(value(args.next()?, surprise)?),
                (_, rest) => Some(Field::Literal(rest.to_owned())),
            };
            self.push(&name, value, kind);
            return Some(());
        }
        Some(())
    }

    fn push(&mut self, name: &str, value: Option<Field>, kind: Value) {
        if kind == Value::RequiredFile {
            self.reads.extend(value.clone());
        }
        self.options.push((name.to_owned(), value));
    }
}

/// A value must be exactly one word. Where options can do harm it must not look like an option unless it
/// is a number, because not every version takes the next word as the value.
fn value(field: &Field, surprise: UnknownWordRule) -> Option<Field> {
    let is_option = |text: &str| {
        text.strip_prefix('-')
            .is_some_and(|rest| !rest.is_empty() && !rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    let odd = surprise != UnknownWordRule::Fine && field.literal().is_some_and(is_option);
    (field.is_single() && !odd).then(|| field.clone())
}

fn long_option(list: &str, name: &str) -> Option<Value> {
    if name.is_empty() || !name.bytes().all(|b| b == b'-' || b.is_ascii_alphanumeric()) {
        return None;
    }
    list.match_indices(name).find_map(|(at, _)| {
        let starts = list[..at].ends_with("--") && !list[..at].ends_with("---");
        let token = list[at..].split(' ').next()?;
        let (option, kind) = kind_of(token);
        (starts && option == name && list[..at - 2].chars().next_back().is_none_or(|c| c == ' '))
            .then_some(kind)
    })
}

fn short_option(list: &str, letter: char) -> Option<Value> {
    list.split(' ').find_map(|token| {
        let text = token.strip_prefix('-').filter(|text| !text.starts_with('-') && *text != "#")?;
        let (letters, kind) = kind_of(text);
        letters.contains(letter).then_some(kind)
    })
}

fn kind_of(token: &str) -> (&str, Value) {
    for (suffix, kind) in [(":R", Value::RequiredFile), (":", Value::Required), ("?", Value::Attached)] {
        if let Some(name) = token.strip_suffix(suffix) {
            return (name, kind);
        }
    }
    (token, Value::None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn literals(text: &str) -> Vec<Field> {
        text.split_whitespace().map(|word| Field::Literal(word.to_owned())).collect()
    }

    #[test]
    fn options_parse_like_getopt() {
        let list = "-ab -n: -w? -# -f:R --all --lines: --color? --file:R";
        for (args, options, operands) in [
            ("-ab x", "a b", "x"),
            ("x -a -- -b", "a", "x -b"),
            ("-n 5 x", "n=5", "x"),
            ("-an5 x", "a n=5", "x"),
            ("-w3 -w x", "w=3 w", "x"),
            ("-12 - x", "12", "- x"),
            ("--all --lines 3 --lines=4 --color --color=x y", "all lines=3 lines=4 color color=x", "y"),
            ("-ff1 -f f2 --file=f3", "f=f1 f=f2 file=f3", ""),
            ("-n -5 --lines - --file=-a", "n=-5 lines=- file=-a", ""),
        ] {
            let parsed = parse(list, &literals(args), UnknownWordRule::Refused).unwrap();
            let got: Vec<String> = parsed
                .options
                .iter()
                .map(|(name, value)| match value.as_ref().and_then(Field::literal) {
                    Some(value) => format!("{name}={value}"),
                    None => name.clone(),
                })
                .collect();
            assert_eq!(got.join(" "), options, "{args}");
            assert_eq!(parsed.operands, literals(operands), "{args}");
        }
    }

    #[test]
    fn unlisted_option_is_rejected() {
        for args in [
            "-c",
            "-ac",
            "--al",
            "--all=1",
            "--lines",
            "-n",
            "--output=x",
            "-12x",
            "-aZ",
            "-n -a",
            "--lines --all",
        ] {
            assert!(
                parse("-ab -n: -# --all --lines:", &literals(args), UnknownWordRule::Refused).is_none(),
                "{args}"
            );
        }
        let glob = [Field::Glob("*".to_owned())];
        assert!(parse("-a", &glob, UnknownWordRule::Refused).is_none());
        assert!(parse("-a", &glob, UnknownWordRule::Fine).is_some());
        assert!(parse("-a", &[Field::Glob("src/*".to_owned())], UnknownWordRule::Refused).is_some());
    }
}
