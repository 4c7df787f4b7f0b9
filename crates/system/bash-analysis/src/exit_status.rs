//! Interprets non-zero exit statuses.

use super::{
    AnalysisContext, LineAnalysis, analyse,
    analysis::{AnalyzedCommand, Word},
};

/// Meaning of an exit status.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ExitMeaning {
    Success,
    /// Succeeded with a negative answer: nothing found, the files differ, the condition is false.
    Answer(&'static str),
    Failure,
}

/// Interprets `code` for a command line. As in the shell, it is the status of the last command of the
/// last pipeline.
pub fn exit_meaning(command: &str, code: i32) -> ExitMeaning {
    exit_meaning_of(&analyse(command, AnalysisContext { cwd: "/".as_ref(), home: None, roots: &[] }), code)
}

/// Like [`exit_meaning`], for a line that was analysed before.
pub fn exit_meaning_of(analysis: &LineAnalysis, code: i32) -> ExitMeaning {
    if code == 0 {
        return ExitMeaning::Success;
    }
    if code != 1 {
        return ExitMeaning::Failure;
    }
    let Some(last) = analysis.parts.last().filter(|_| analysis.doubts.is_empty()) else {
        return ExitMeaning::Failure;
    };
    let inside =
        |part: &AnalyzedCommand| last.span.start < part.span.end && part.span.start < last.span.start;
    if analysis.parts.iter().any(inside) {
        // The last part in the source is nested in another one.
        return ExitMeaning::Failure;
    }
    answer(&words(last)).map_or(ExitMeaning::Failure, ExitMeaning::Answer)
}

/// Words of the command after transparent wrappers (`timeout`, `nice`, …).
fn words(part: &AnalyzedCommand) -> Vec<&str> {
    let known: Vec<Option<&str>> = part
        .words
        .iter()
        .map(|word| match word {
            Word::Literal(text) => Some(text.as_str()),
            Word::Pattern(_) | Word::Unknown(_) => None,
        })
        .collect();
    let inner = super::wrapper_commands::transparent_words(&known);
    if part.words.is_empty() && part.text.starts_with("[[") {
        return vec!["[["];
    }
    known[inner..].iter().map(|word| word.unwrap_or_default()).collect()
}

fn answer(words: &[&str]) -> Option<&'static str> {
    let name = words.first()?.rsplit('/').next()?;
    match (name, words.get(1)) {
        ("grep" | "egrep" | "fgrep" | "zgrep" | "rg" | "ag" | "ack" | "pgrep" | "pidof", _) => {
            Some("no matches")
        }
        ("find", _) => Some("some directories could not be searched"),
        ("diff" | "cmp" | "sdiff" | "diff3", _) => Some("the files differ"),
        ("test" | "[" | "[[", _) => Some("the condition is false"),
        ("which" | "type" | "command", _) => Some("not found"),
        ("git", Some(&"diff")) => Some("there are differences"),
        ("git", Some(&"grep")) => Some("no matches"),
        ("git", Some(&"check-ignore")) => Some("not ignored"),
        ("git", Some(&"merge-base")) => Some("not an ancestor"),
        ("git", Some(&"config")) => Some("not set"),
        ("false", _) => Some("the condition is false"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_status_one_of_search_and_test_is_an_answer() {
        let answers = [
            "grep foo a.txt",
            "cat a | grep -c foo",
            "rg foo",
            "cd src && rg foo",
            "find . -name x",
            "diff a b",
            "cmp a b",
            "test -f x",
            "[ -f x ]",
            "[[ -f x ]]",
            "git diff --exit-code",
            "git grep foo",
            "timeout 5 grep foo a",
            "/usr/bin/grep x y",
            "ls; grep x y",
            "git diff --quiet || git grep x",
            "(grep x y)",
            "! false",
        ];
        for command in answers {
            assert!(matches!(exit_meaning(command, 1), ExitMeaning::Answer(_)), "{command}");
            assert_eq!(exit_meaning(command, 0), ExitMeaning::Success);
            assert_eq!(exit_meaning(command, 2), ExitMeaning::Failure, "{command}");
        }
    }

    #[test]
    fn exit_status_one_of_other_commands_is_a_failure() {
        for command in [
            "ls x",
            "grep foo a | sort",
            "cat $(grep x y)",
            "make",
            "echo 'grep",
            "git log",
            "",
            "grep x y; ls z",
            "$x",
        ] {
            assert_eq!(exit_meaning(command, 1), ExitMeaning::Failure, "{command}");
        }
    }
}
