//! Bracket expressions of the shell, respelled for the library that compiles
//! patterns, which knows neither classes nor escapes in them.

/// The same pattern with its bracket expressions respelled. Nothing if one of
/// them means something that only a locale knows.
pub(super) fn respelled(glob: &str) -> Option<String> {
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
            '[' => match Members::read(rest) {
                SetRead::Set(members, behind) => {
                    out.push_str(&members.spelled()?);
                    rest = behind;
                }
                // The library says that it is not closed.
                SetRead::Open => out.push('['),
                SetRead::Unknown => return None,
            },
            _ => out.push(c),
        }
    }
    Some(out)
}

/// What a set contains, as ranges.
struct Members {
    negated: bool,
    ranges: Vec<(char, char)>,
}

enum SetRead<'a> {
    Set(Members, &'a str),
    Open,
    Unknown,
}

impl Members {
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

    /// Ordered so that no character means anything by where it stands.
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
        // A mark in front would turn the set around.
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

/// One character: as it is, escaped, or as a symbol.
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
    use super::respelled;
    use crate::rule::compile;

    #[test]
    fn sets_mean_what_they_mean_to_the_shell() {
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
            let glob = compile(pattern).unwrap_or_else(|why| panic!("{pattern}: {why}")).compile_matcher();
            assert_eq!(glob.is_match(name), want, "{pattern} {name}");
        }
        for unknown in ["[[=a=]]", "[[:nonsense:]]", "[[.aa.]]", "[[:alpha:"] {
            assert!(respelled(unknown).is_none(), "{unknown}");
        }
    }
}
