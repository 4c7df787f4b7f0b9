//! Shell glob matching for one file name, like bash.
//!
//! Own code, because glob libraries support neither classes (`[[:alpha:]]`) nor collating symbols
//! (`[[.l.]]`) nor escapes in brackets. Where the result depends on the locale, more names match rather
//! than fewer: a caller that asks what a glob could match must not miss anything.

/// A glob for one path component (no slash).
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FileNamePattern {
    parts: Vec<ShellPatternPart>,
}

#[derive(Clone, Debug, Eq, PartialEq)]
enum ShellPatternPart {
    Any,
    One,
    Char(char),
    Set { negated: bool, items: Vec<SetItem> },
}

#[derive(Clone, Debug, Eq, PartialEq)]
enum SetItem {
    Char(char),
    Range(char, char),
    Class(String),
    /// Depends on the locale; matches any character.
    Anything,
}

impl FileNamePattern {
    /// Parses a glob; text that is not a glob is literal.
    pub fn new(text: &str) -> Self {
        let chars: Vec<char> = text.chars().collect();
        let mut parts = Vec::new();
        let mut at = 0;
        while let Some(&c) = chars.get(at) {
            at += 1;
            match c {
                '*' if parts.last() == Some(&ShellPatternPart::Any) => {}
                '*' => parts.push(ShellPatternPart::Any),
                '?' => parts.push(ShellPatternPart::One),
                '\\' => {
                    parts.push(ShellPatternPart::Char(chars.get(at).copied().unwrap_or('\\')));
                    at += 1;
                }
                '[' => match set(&chars[at..]) {
                    // Versions of bash disagree where such a set ends.
                    Some((ShellPatternPart::Set { items, .. }, _)) if items.contains(&SetItem::Anything) => {
                        parts.push(ShellPatternPart::Any);
                        break;
                    }
                    Some((part, len)) => {
                        parts.push(part);
                        at += len;
                    }
                    None => parts.push(ShellPatternPart::Char('[')),
                },
                _ => parts.push(ShellPatternPart::Char(c)),
            }
        }
        Self { parts }
    }

    /// Whether `name` matches.
    pub fn matches(&self, name: &str) -> bool {
        let name: Vec<char> = name.chars().collect();
        // Backtracking position at the last `*`; only that one needs to be retried.
        let (mut part, mut at) = (0, 0);
        let mut star: Option<(usize, usize)> = None;
        loop {
            match self.parts.get(part) {
                Some(ShellPatternPart::Any) => {
                    star = Some((part, at));
                    part += 1;
                    continue;
                }
                Some(wanted) if name.get(at).is_some_and(|c| wanted.fits(*c)) => {
                    (part, at) = (part + 1, at + 1);
                    continue;
                }
                None if at == name.len() => return true,
                _ => {}
            }
            let Some((before, from)) = star.filter(|it| it.1 < name.len()) else { return false };
            star = Some((before, from + 1));
            (part, at) = (before + 1, from + 1);
        }
    }
}

impl ShellPatternPart {
    fn fits(&self, c: char) -> bool {
        match self {
            Self::Any | Self::One => true,
            Self::Char(wanted) => *wanted == c,
            Self::Set { negated, items } => {
                let unsure = items.contains(&SetItem::Anything);
                unsure
                    || items.iter().any(|item| item.fits(c)) != *negated
                    || *negated && unsure_case(items, c)
            }
        }
    }
}

/// Whether a range contains a letter only in the other case, which depends on the locale.
fn unsure_case(items: &[SetItem], c: char) -> bool {
    let exact = |item: &SetItem| match item {
        SetItem::Range(from, to) => *from <= c && c <= *to,
        other => other.fits(c),
    };
    !items.iter().any(exact)
}

impl SetItem {
    fn fits(&self, c: char) -> bool {
        match self {
            Self::Anything => true,
            Self::Char(wanted) => *wanted == c,
            Self::Range(from, to) => {
                let inside = |c: char| *from <= c && c <= *to;
                inside(c)
                    || c.to_lowercase().any(inside)
                    || c.to_uppercase().any(inside)
                    || !c.is_ascii() && c.is_alphabetic()
            }
            Self::Class(name) => match name.as_str() {
                "alnum" => c.is_alphanumeric(),
                "alpha" => c.is_alphabetic(),
                "ascii" => c.is_ascii(),
                "blank" => c == ' ' || c == '\t' || !c.is_ascii() && c.is_whitespace(),
                "cntrl" => c.is_control(),
                "digit" => c.is_ascii_digit(),
                "graph" => !c.is_control() && !c.is_whitespace(),
                "lower" => c.is_lowercase(),
                "print" => !c.is_control(),
                "punct" => c.is_ascii_punctuation() || !c.is_ascii() && !c.is_alphanumeric(),
                "space" => c.is_whitespace() || c == '\u{b}',
                "upper" => c.is_uppercase(),
                "word" => c.is_alphanumeric() || c == '_',
                "xdigit" => c.is_ascii_hexdigit(),
                _ => true,
            },
        }
    }
}

/// Parses a bracket set after `[`; also returns the number of characters it takes.
fn set(chars: &[char]) -> Option<(ShellPatternPart, usize)> {
    let negated = matches!(chars.first(), Some('!' | '^'));
    let mut at = usize::from(negated);
    let first = at;
    let mut items = Vec::new();
    loop {
        let c = *chars.get(at)?;
        if c == ']' && first < at {
            return Some((ShellPatternPart::Set { negated, items }, at + 1));
        }
        let (item, len) = element(&chars[at..])?;
        at += len;
        let SetItem::Char(from) = item else {
            items.push(item);
            continue;
        };
        let ranged = chars.get(at) == Some(&'-') && chars.get(at + 1).is_some_and(|c| *c != ']');
        if !ranged {
            items.push(SetItem::Char(from));
            continue;
        }
        let (end, len) = element(&chars[at + 1..])?;
        at += 1 + len;
        items.push(match end {
            SetItem::Char(to) => SetItem::Range(from, to),
            _ => SetItem::Anything,
        });
    }
}

/// Parses one element of a set: a character, an escaped one, a class or a symbol.
fn element(chars: &[char]) -> Option<(SetItem, usize)> {
    match (*chars.first()?, chars.get(1)) {
        ('\\', Some(c)) => Some((SetItem::Char(*c), 2)),
        ('[', Some(mark @ (':' | '.' | '='))) => {
            let body = &chars[2..];
            let end = body.windows(2).position(|pair| pair[0] == *mark && pair[1] == ']');
            let Some(end) = end else { return Some((SetItem::Char('['), 1)) };
            let name: String = body[..end].iter().collect();
            let item = match (mark, &body[..end]) {
                (':', _) => SetItem::Class(name),
                ('.', [c]) => SetItem::Char(*c),
                _ => SetItem::Anything,
            };
            Some((item, end + 4))
        }
        (c, _) => Some((SetItem::Char(c), 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::FileNamePattern;

    #[test]
    fn file_name_pattern_matches_like_bash() {
        for (pattern, name, want) in [
            ("*", "abc", true),
            ("a*c", "abbc", true),
            ("a*c", "abbd", false),
            ("*.e*v", ".env", true),
            ("?", "ab", false),
            (".en[[:alpha:]]", ".env", true),
            (".en[[:digit:]]", ".env", false),
            (".en[[.v.]]", ".env", true),
            (".en[[=v=]]", ".env", true),
            ("[!\\]]env", ".env", true),
            ("[!]]env", ".env", true),
            ("[^]]env", ".env", true),
            ("[]x]env", "]env", true),
            ("[a-c]x", "bx", true),
            ("[a-c]x", "dx", false),
            ("[!a-c]x", "dx", true),
            ("[!a-c]x", "bx", false),
            ("[[:alpha:]-z]x", "-x", true),
            ("[\\a-c]x", "bx", true),
            ("[a-]x", "-x", true),
            ("[abc", "[abc", true),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("a**b", "ab", true),
            ("[[:upper:][:digit:]]*", "9x", true),
            ("[^x][[:lower:]][^x][[=l=]][[:graph:]]", "link", true),
            ("[[:nonsense:]]", "x", true),
            ("*a*b*c*", "xxaxxbxxc", true),
            ("*a*b*c*", "xxaxxcxxb", false),
        ] {
            assert_eq!(FileNamePattern::new(pattern).matches(name), want, "{pattern} {name}");
        }
    }
}
