/// Text in which `*` matches any characters, including none.
///
/// Own code, because glob libraries give `/`, `?`, `[` and `{` a special meaning, and command lines,
/// tool names and values are full of them.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Wildcard {
    /// The text between the stars; a single piece means no star.
    pieces: Vec<Box<str>>,
}

impl Wildcard {
    /// Parses a text. `\*`, `\(` and `\)` are literal; any other backslash is a backslash.
    pub(crate) fn new(text: &str) -> Self {
        let mut pieces = Vec::new();
        let mut piece = String::new();
        let mut characters = text.chars().peekable();
        while let Some(it) = characters.next() {
            match it {
                '*' => pieces.push(std::mem::take(&mut piece).into()),
                '\\' if matches!(characters.peek(), Some('*' | '(' | ')')) => {
                    piece.extend(characters.next());
                }
                _ => piece.push(it),
            }
        }
        pieces.push(piece.into());
        Self { pieces }
    }

    /// The whole text, if it has no star.
    pub(crate) fn literal(&self) -> Option<&str> {
        match &*self.pieces {
            [only] => Some(only),
            _ => None,
        }
    }

    /// Common prefix of all matching texts.
    pub(crate) fn prefix(&self) -> &str {
        self.pieces.first().map_or("", |piece| piece)
    }

    /// This wildcard followed by `more` and any text.
    pub(crate) fn with_suffix(&self, more: &str) -> Self {
        let mut pieces = self.pieces.clone();
        if let Some(last) = pieces.last_mut() {
            *last = format!("{last}{more}").into();
        }
        pieces.push("".into());
        Self { pieces }
    }

    pub(crate) fn matches(&self, text: &str) -> bool {
        let [first, middle @ .., last] = &*self.pieces else {
            return self.literal() == Some(text);
        };
        let Some(mut rest) = text.strip_prefix(&**first) else { return false };
        for piece in middle {
            match rest.find(&**piece) {
                Some(found) => rest = &rest[found + piece.len()..],
                None => return false,
            }
        }
        rest.ends_with(&**last)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn wildcard_star_matches_any_text() {
        for (pattern, text, want) in [
            ("abc", "abc", true),
            ("abc", "abcd", false),
            ("", "", true),
            ("*", "", true),
            ("*", "any thing/at [all]", true),
            ("a*", "a", true),
            ("a*a", "a", false),
            ("a*a", "aa", true),
            ("git * main", "git push origin main", true),
            ("git * main", "git push main x", false),
            ("*a*b*", "xxaxxbxx", true),
            ("*ab*ba*", "aba", false),
            ("a\\*b", "a*b", true),
            ("a\\*b", "axb", false),
            ("f\\(x\\)", "f(x)", true),
            ("a\\b", "a\\b", true),
            ("a\\", "a\\", true),
        ] {
            assert_eq!(Wildcard::new(pattern).matches(text), want, "{pattern} {text}");
        }
    }

    /// Reference implementation: exponential but obviously correct.
    fn by_definition(pattern: &[char], text: &[char]) -> bool {
        match (pattern, text) {
            ([], _) => text.is_empty(),
            (['*', rest @ ..], _) => (0..=text.len()).any(|from| by_definition(rest, &text[from..])),
            ([a, rest @ ..], [b, more @ ..]) => a == b && by_definition(rest, more),
            (_, []) => false,
        }
    }

    proptest! {
        #[test]
        fn wildcard_equals_reference_definition(pattern in "[ab*]{0,7}", text in "[ab]{0,8}") {
            let (p, t): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
            prop_assert_eq!(Wildcard::new(&pattern).matches(&text), by_definition(&p, &t));
        }
    }
}
