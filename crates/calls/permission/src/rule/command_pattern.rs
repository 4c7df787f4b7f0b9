use crate::{RuleForm, rule::wildcard::Wildcard};

/// The text in `Bash(...)`: words, `*` for any text, and a final ` *` or `:*` for any further words.
#[derive(Clone, Debug)]
pub(crate) struct CommandPattern {
    exact: Wildcard,
    /// Set if further words may follow: the pattern plus a space and any text.
    longer: Option<Wildcard>,
    /// The words if there is no `*` among them: compared one by one, so that a space in a quoted word is
    /// not taken for a separator.
    words: Option<Vec<Box<str>>>,
}

/// Purpose of a comparison. Ambiguous cases match for a deny rule and not for an allow rule.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum PatternReading {
    Cautious,
    Eager,
}

impl CommandPattern {
    pub(crate) fn parse(spec: &str) -> Result<Self, &'static str> {
        let spec = spec.trim();
        let (text, more) = match spec.strip_suffix(":*").or_else(|| spec.strip_suffix(" *")) {
            Some(text) => (text.trim_end(), true),
            None => (spec, false),
        };
        if text.is_empty() {
            return Err("nothing stands before the `*`; write the bare tool name to mean every command");
        }
        let exact = Wildcard::new(text);
        let words = exact.literal().map(|it| it.split_whitespace().map(Box::from).collect());
        Ok(Self { longer: more.then(|| exact.with_suffix(" ")), exact, words })
    }

    /// The first word, if every matching command starts with it.
    pub(crate) fn first_word(&self) -> Option<&str> {
        match &self.words {
            Some(words) => words.first().map(|word| &**word),
            None => self.exact.prefix().split_once(char::is_whitespace).map(|(word, _)| word),
        }
    }

    /// Whether further words are covered too.
    pub(crate) fn is_prefix(&self) -> bool {
        self.longer.is_some() || self.words.is_none()
    }

    pub(crate) fn matches(&self, face: &RuleForm, reading: PatternReading) -> bool {
        if let Some(words) = &self.words
            && self.words_match(words, &face.words)
        {
            return true;
        }
        match reading {
            PatternReading::Eager => self.matches_text(&face.text),
            PatternReading::Cautious => {
                let one_word = face.words.first().is_some_and(|word| !word.contains(char::is_whitespace));
                self.words.is_none() && one_word && self.matches_text(&face.text)
            }
        }
    }

    /// Compares with plain text.
    pub(crate) fn matches_text(&self, text: &str) -> bool {
        self.exact.matches(text) || self.longer.as_ref().is_some_and(|longer| longer.matches(text))
    }

    fn words_match(&self, words: &[Box<str>], given: &[String]) -> bool {
        let enough = match self.longer {
            Some(_) => words.len() <= given.len(),
            None => words.len() == given.len(),
        };
        enough && words.iter().zip(given).all(|(a, b)| **a == **b)
    }

    /// For a command that shares at least the first word with this pattern: the index of the first
    /// difference and the word there, or `None` if the command is shorter.
    pub(crate) fn differs_at<'a>(&self, face: &'a RuleForm) -> Option<(usize, Option<&'a str>)> {
        let words = self.words.as_ref()?;
        let same = words.iter().zip(&face.words).take_while(|(a, b)| ***a == ***b).count();
        (0 < same).then(|| (same, face.words.get(same).map(String::as_str)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(spec: &str, words: &[&str], reading: PatternReading, want: bool) {
        let face = RuleForm::new(words.iter().map(ToString::to_string).collect());
        let pattern = CommandPattern::parse(spec).unwrap();
        assert_eq!(pattern.matches(&face, reading), want, "{spec} {words:?} {reading:?}");
    }

    #[test]
    fn command_prefix_ends_at_word_boundary() {
        for reading in [PatternReading::Cautious, PatternReading::Eager] {
            for spec in ["npm run test:*", "npm run test *"] {
                check(spec, &["npm", "run", "test"], reading, true);
                check(spec, &["npm", "run", "test", "-x"], reading, true);
                check(spec, &["npm", "run", "testing"], reading, false);
                check(spec, &["npm", "run"], reading, false);
                check(spec, &["npm", "--prefix", "evil", "run", "test"], reading, false);
            }
            check("ls*", &["lsof"], reading, true);
            check("ls *", &["lsof", "-i"], reading, false);
            check("npm run build", &["npm", "run", "build"], reading, true);
            check("npm run build", &["npm", "run", "build", "x"], reading, false);
            check("git * main", &["git", "checkout", "main"], reading, true);
            check("git * main", &["git", "checkout", "dev"], reading, false);
            check("* --version", &["node", "--version"], reading, true);
            check("git:status", &["git", "status"], reading, false);
            check("git * main *", &["git", "push", "main", "-f"], reading, true);
            check("git * main *", &["git", "push", "mainx"], reading, false);
        }
    }

    #[test]
    fn allow_rule_does_not_treat_space_in_word_as_separator() {
        check("git log:*", &["git log"], PatternReading::Cautious, false);
        check("git log:*", &["git log"], PatternReading::Eager, true);
        check("git * main", &["git x main"], PatternReading::Cautious, false);
        check("git commit -m *", &["git", "commit", "-m", "a b"], PatternReading::Cautious, true);
    }

    #[test]
    fn command_pattern_first_word_is_literal_or_none() {
        for (spec, want) in [
            ("git log:*", Some("git")),
            ("git * x", Some("git")),
            ("g*", None),
            ("* x", None),
            ("ls", Some("ls")),
        ] {
            assert_eq!(CommandPattern::parse(spec).unwrap().first_word(), want, "{spec}");
        }
        assert!(CommandPattern::parse(":*").is_err());
    }
}
