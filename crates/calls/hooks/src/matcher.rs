use std::sync::Arc;

use fancy_regex::Regex;

/// Matches the subjects for which a hook runs: tool names, session sources, notification types.
#[derive(Clone, Debug)]
pub struct HookMatcher {
    text: Arc<str>,
    form: MatcherForm,
}

#[derive(Clone, Debug)]
enum MatcherForm {
    All,
    Names(Vec<String>),
    Regex(Arc<Regex>),
    Broken(String),
}

/// Result of a match.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum MatchResult {
    /// The hook runs.
    Yes,
    /// The hook does not run.
    No,
    /// Undecidable: the pattern is invalid or exceeded its backtracking limit.
    Unknown(String),
}

impl HookMatcher {
    /// Matches every subject.
    pub fn all() -> Self {
        Self { text: Arc::from(""), form: MatcherForm::All }
    }

    /// Parses a matcher. Empty and `*` match everything; words separated by `|` or `,` match whole
    /// names; anything else is an unanchored regular expression.
    pub fn parse(text: &str) -> Self {
        let trimmed = text.trim();
        let form = if trimmed.is_empty() || trimmed == "*" {
            MatcherForm::All
        } else if trimmed.chars().all(|it| it.is_ascii_alphanumeric() || "_-, |".contains(it)) {
            MatcherForm::Names(names(trimmed))
        } else {
            // The public syntax is JavaScript's, which has lookahead (`^(?!mcp__)`); the `regex` crate
            // alone would reject it and so block every call.
            match Regex::new(trimmed) {
                Ok(regex) => MatcherForm::Regex(Arc::new(regex)),
                Err(error) => MatcherForm::Broken(format!(
                    "the matcher {trimmed:?} is not a regular expression: {error}"
                )),
            }
        };
        Self { text: Arc::from(trimmed), form }
    }

    /// The source text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Why it is invalid, if so.
    pub fn problem(&self) -> Option<&str> {
        match &self.form {
            MatcherForm::Broken(problem) => Some(problem),
            _ => None,
        }
    }

    /// Whether it matches any of these names of one subject.
    pub fn matches<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> MatchResult {
        match &self.form {
            MatcherForm::All => MatchResult::Yes,
            MatcherForm::Broken(problem) => MatchResult::Unknown(problem.clone()),
            MatcherForm::Names(list) => {
                let found = names.into_iter().any(|name| list.iter().any(|it| it == name));
                if found { MatchResult::Yes } else { MatchResult::No }
            }
            MatcherForm::Regex(regex) => matches_regex(regex, names),
        }
    }
}

fn names(text: &str) -> Vec<String> {
    text.split(['|', ',']).map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

fn matches_regex<'a>(regex: &Regex, names: impl IntoIterator<Item = &'a str>) -> MatchResult {
    let mut answer = MatchResult::No;
    for name in names {
        match regex.is_match(name) {
            Ok(true) => return MatchResult::Yes,
            Ok(false) => (),
            Err(error) => answer = MatchResult::Unknown(format!("the matcher gave up on {name:?}: {error}")),
        }
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matcher_supports_all_names_and_regex_forms() {
        for (matcher, name, want) in [
            ("", "Bash", true),
            ("*", "Bash", true),
            (" ", "Bash", true),
            ("Bash", "Bash", true),
            ("bash", "Bash", false),
            ("ash", "Bash", false),
            (" Bash ", "Bash", true),
            ("Edit|Write", "Write", true),
            ("Edit, Write", "Write", true),
            ("Edit|Write", "MultiEdit", false),
            ("mcp__git-hub__x", "mcp__git-hub__x", true),
            ("e.d", "Read", true),
            ("^Re", "Read", true),
            ("^Re", "NotebookRead", false),
            ("mcp__.*", "mcp__a__b", true),
            ("^(?!mcp__).*", "Bash", true),
            ("^(?!mcp__).*", "mcp__a__b", false),
            ("(Edit|Write)$", "MultiEdit", true),
        ] {
            let want = if want { MatchResult::Yes } else { MatchResult::No };
            assert_eq!(HookMatcher::parse(matcher).matches([name]), want, "{matcher:?} {name}");
        }
    }

    #[test]
    fn invalid_matcher_is_unknown_never_no() {
        for text in ["(", "[a", "(?<x", "*foo"] {
            let matcher = HookMatcher::parse(text);
            assert!(matcher.problem().is_some(), "{text}");
            assert!(matches!(matcher.matches(["Bash"]), MatchResult::Unknown(_)), "{text}");
        }
        // A pattern with excessive backtracking gives up and reports it.
        let name = "a".repeat(60);
        assert!(matches!(
            HookMatcher::parse(r"^(?:(a+)(?!c))+b$").matches([&*name]),
            MatchResult::Unknown(_)
        ));
    }

    #[test]
    fn matcher_accepts_any_alias_of_the_subject() {
        assert_eq!(HookMatcher::parse("Task").matches(["Agent", "Task"]), MatchResult::Yes);
        assert_eq!(HookMatcher::parse("^Task$").matches(["Agent", "Task"]), MatchResult::Yes);
    }
}
