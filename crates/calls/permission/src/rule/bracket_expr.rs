//! Converts shell bracket expressions for the glob library, which supports neither classes nor escapes
//! in them.

use crate::spelling::fold_text;

/// Spelling of the names that a pattern is compared with.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Spelling {
    /// As written.
    Exact,
    /// Folded by [`crate::spelling::fold`].
    Folded,
}

/// The pattern with converted bracket expressions. `None` if one depends on the locale.
pub(super) fn respelled(glob: &str, spelling: Spelling) -> Option<String> {
    match spelling {
        Spelling::Exact => respelled_exactly(glob),
        Spelling::Folded => Some(fold_text(&folded_brackets(glob)?).collect()),
    }
}

/// Converts bracket expressions for folded names, which have lost distinctions the expression may make:
/// an expression that cannot be folded matches any character.
fn folded_brackets(glob: &str) -> Option<String> {
    let mut out = String::with_capacity(glob.len());
    let mut rest = glob;
    while let Some(c) = rest.chars().next() {
        let behind = &rest[c.len_utf8()..];
        let copied = match c {
            '\\' => c.len_utf8() + behind.chars().next().map_or(0, char::len_utf8),
            '[' => match CharSet::read(behind) {
                SetRead::Set(members, after) => {
                    out.push_str(&members.folded());
                    rest = after;
                    continue;
                }
                SetRead::Open => c.len_utf8(),
                SetRead::Unknown => return None,
            },
            _ => c.len_utf8(),
        };
        out.push_str(&rest[..copied]);
        rest = &rest[copied..];
    }
    Some(out)
}

fn respelled_exactly(glob: &str) -> Option<String> {
    let mut out = String::with_capacity(glob.len());
    let mut rest = glob;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        match c {
            '\\' => {
                out.push(c);
                if let Some(next) = rest.chars().next() {
                    out.push(next);
                    rest = &rest[next.len_utf8()..];
                }
            }
            '[' => match CharSet::read(rest) {
                SetRead::Set(members, behind) => {
                    out.push_str(&members.spelled()?);
                    rest = behind;
                }
                // The library reports the unclosed bracket.
                SetRead::Open => out.push('['),
                SetRead::Unknown => return None,
            },
            _ => out.push(c),
        }
    }
    Some(out)
}

/// A set as character ranges.
struct CharSet {
    negated: bool,
    ranges: Vec<(char, char)>,
}

enum SetRead<'a> {
    Set(CharSet, &'a str),
    Open,
    Unknown,
}

impl CharSet {
    fn read(text: &str) -> SetRead<'_> {
        let inner = text.strip_prefix(['!', '^']);
        let mut members = Self { negated: inner.is_some(), ranges: Vec::new() };
        let mut rest = inner.unwrap_or(text);
        let start = rest.len();
        loop {
            let Some(c) = rest.chars().next() else { return SetRead::Open };
            if c == ']' && rest.len() < start {
                return SetRead::Set(members, &rest[1..]);
            }
            if let Some(class) = rest.strip_prefix("[:") {
                let Some((name, behind)) = class.split_once(":]") else { return SetRead::Unknown };
                let Some(ranges) = class_ranges(name) else { return SetRead::Unknown };
                members.ranges.extend(ranges);
                rest = behind;
                continue;
            }
            if rest.starts_with("[=") {
                return SetRead::Unknown;
            }
            let Some((from, behind)) = member(rest) else { return SetRead::Unknown };
            rest = behind;
            let to = rest.strip_prefix('-').filter(|it| !it.starts_with(']') && !it.is_empty());
            match to.map(member) {
                None => members.ranges.push((from, from)),
                Some(None) => return SetRead::Unknown,
                Some(Some((to, behind))) => {
                    members.ranges.push((from, to));
                    rest = behind;
                }
            }
        }
    }

    /// The set for folded names: `*` or `?` if a range cannot be folded.
    fn folded(mut self) -> String {
        if self.ranges.iter().any(|(_, to)| !to.is_ascii()) {
            return String::from("*");
        }
        let of = |kind: (char, char)| self.ranges.iter().filter_map(move |it| overlap(*it, kind));
        let has_letters = of(('A', 'Z')).chain(of(('a', 'z'))).next().is_some();
        if self.negated && has_letters {
            return String::from("?");
        }
        let lower = of(('A', 'Z')).map(|(from, to)| (from.to_ascii_lowercase(), to.to_ascii_lowercase()));
        self.ranges = of(('\0', '@')).chain(of(('[', '\u{7f}'))).chain(lower).collect();
        self.spelled().unwrap_or_else(|| String::from("?"))
    }

    /// Ordered so that no character has a special meaning by its position.
    fn spelled(mut self) -> Option<String> {
        let special = |c: char| matches!(c, ']' | '-' | '!' | '^' | '[');
        let has = |ranges: &[(char, char)], c: char| ranges.contains(&(c, c));
        let (bracket, dash) = (has(&self.ranges, ']'), has(&self.ranges, '-'));
        let marks: Vec<char> = ['!', '^', '['].into_iter().filter(|c| has(&self.ranges, *c)).collect();
        self.ranges.retain(|(from, to)| from != to || !special(*from));
        if self.ranges.iter().any(|(from, to)| to < from || special(*from) || special(*to)) {
            return None;
        }
        let mut out = String::from(if self.negated { "[!" } else { "[" });
        if bracket {
            out.push(']');
        }
        for (from, to) in &self.ranges {
            out.push(*from);
            if from != to {
                out.push('-');
                out.push(*to);
            }
        }
        // `!` or `^` at the start would negate the set.
        if out.len() == 1 && !marks.is_empty() {
            out.push_str("\u{1}-\u{1}");
        }
        out.extend(marks);
        if dash {
            out.push('-');
        }
        out.push(']');
        Some(out)
    }
}

fn overlap(a: (char, char), b: (char, char)) -> Option<(char, char)> {
    let both = (a.0.max(b.0), a.1.min(b.1));
    (both.0 <= both.1).then_some(both)
}

/// Parses one character: plain, escaped, or a collating symbol.
fn member(text: &str) -> Option<(char, &str)> {
    let mut chars = text.chars();
    match chars.next()? {
        '\\' => Some((chars.next()?, chars.as_str())),
        '[' if text.starts_with("[.") => {
            let (name, behind) = text[2..].split_once(".]")?;
            let mut name = name.chars();
            Some((name.next().filter(|_| name.next().is_none())?, behind))
        }
        c => Some((c, chars.as_str())),
    }
}

fn class_ranges(name: &str) -> Option<Vec<(char, char)>> {
    let (lower, upper, digit) = (('a', 'z'), ('A', 'Z'), ('0', '9'));
    Some(match name {
        "alnum" => vec![lower, upper, digit],
        "alpha" => vec![lower, upper],
        "blank" => vec![(' ', ' '), ('\t', '\t')],
        "digit" => vec![digit],
        "graph" | "print" => vec![
            ('"', ','),
            ('.', 'Z'),
            ('\\', '\\'),
            ('_', '~'),
            ('!', '!'),
            ('-', '-'),
            ('[', '['),
            (']', ']'),
            ('^', '^'),
        ],
        "lower" => vec![lower],
        "punct" => vec![
            ('"', ','),
            ('.', '/'),
            (':', '@'),
            ('\\', '\\'),
            ('_', '`'),
            ('{', '~'),
            ('!', '!'),
            ('-', '-'),
            ('[', '['),
            (']', ']'),
            ('^', '^'),
        ],
        "space" => vec![(' ', ' '), ('\t', '\r')],
        "upper" => vec![upper],
        "word" => vec![lower, upper, digit, ('_', '_')],
        "xdigit" => vec![('a', 'f'), ('A', 'F'), digit],
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::{Spelling, respelled};
    use crate::{rule::compile, spelling::fold};

    #[test]
    fn bracket_expressions_match_like_the_shell() {
        for (pattern, name, want) in [
            ("[[:alpha:]]x", "ax", true),
            ("[[:alpha:]]x", "1x", false),
            ("[![:alpha:]]x", "1x", true),
            ("[[:alpha:][:digit:]_]x", "_x", true),
            ("[!\\]]x", "ax", true),
            ("[!\\]]x", "]x", false),
            ("[]a]x", "]x", true),
            ("[^]a]x", "bx", true),
            ("[[.l.]]x", "lx", true),
            ("[a-c]x", "bx", true),
            ("[a\\-c]x", "bx", false),
            ("[a\\-c]x", "-x", true),
            ("[a-]x", "-x", true),
            ("[\\!a]x", "!x", true),
            ("[\\!]x", "!x", true),
            ("[\\!]x", "ax", false),
            ("[[:punct:]]x", "]x", true),
            ("[[:punct:]]x", "ax", false),
            ("\\[a]x", "[a]x", true),
            ("{a,[[:digit:]]}x", "7x", true),
        ] {
            let glob = compile(pattern, Spelling::Exact)
                .unwrap_or_else(|why| panic!("{pattern}: {why}"))
                .compile_matcher();
            assert_eq!(glob.is_match(name), want, "{pattern} {name}");
        }
        for unknown in ["[[=a=]]", "[[:nonsense:]]", "[[.aa.]]", "[[:alpha:"] {
            assert!(respelled(unknown, Spelling::Exact).is_none(), "{unknown}");
            assert!(respelled(unknown, Spelling::Folded).is_none(), "{unknown}");
        }
    }
    #[test]
    fn folded_patterns_match_every_spelling_of_a_name() {
        for (pattern, name, want) in [
            ("*.PEM", "key.pem", true),
            ("*.pem", "KEY.Pem", true),
            ("[A-C]x", "bX", true),
            ("[A-C]x", "dX", false),
            ("[Z-a]x", "zx", true),
            ("[!A-C]x", "bx", true),
            ("[!0-9]x", "1X", false),
            ("[[:upper:]]x", "ax", true),
            ("[[:upper:]]x", "1x", false),
            ("\\[A]X", "[a]x", true),
            ("caf[\u{e9}]", "CAFE\u{301}", true),
            ("{A,B}/x", "b/x", true),
        ] {
            let glob = compile(pattern, Spelling::Folded).unwrap().compile_matcher();
            let name: Vec<String> = name.split('/').map(fold).collect();
            assert_eq!(glob.is_match(name.join("/")), want, "{pattern} {name:?}");
        }
    }
}
