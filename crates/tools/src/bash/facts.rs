use std::path::{Path, PathBuf};

use haft_shell::analysis::{self, Analysis, Class, Doubt, Part, Place, Word};

use super::ports::CommandFacts;

/// Facts from a full reading of the command line.
#[derive(Clone, Debug, Default)]
pub struct AnalysedFacts {
    /// The value of `$HOME`.
    pub home: Option<PathBuf>,
    /// The workspace and what was added to it.
    pub roots: Vec<PathBuf>,
}

impl AnalysedFacts {
    fn analyse(&self, command: &str, cwd: &Path) -> Analysis {
        analysis::analyse(command, Place { cwd, home: self.home.as_deref(), roots: &self.roots })
    }

    fn anywhere(&self, command: &str) -> Analysis {
        self.analyse(command, self.roots.first().map_or(Path::new("/"), PathBuf::as_path))
    }
}

impl CommandFacts for AnalysedFacts {
    fn is_read_only(&self, command: &str, cwd: &Path) -> bool {
        self.analyse(command, cwd).is_read_only()
    }

    fn exit_meaning(&self, command: &str, code: i32) -> Option<&'static str> {
        let analysis = self.anywhere(command);
        meaning(&words(last(&analysis)?), code)
    }

    fn may_go_on(&self, command: &str) -> bool {
        let analysis = self.anywhere(command);
        let unclear = |doubt: &Doubt| matches!(doubt, Doubt::Unparsed { .. } | Doubt::Disagreement);
        let starts_with_pause =
            analysis.parts.first().is_some_and(|part| words(part).first() == Some(&"sleep"));
        let uses_git = analysis.parts.iter().any(|part| words(part).contains(&"git"));
        !analysis.doubts.iter().any(unclear) && !starts_with_pause && !uses_git
    }

    fn is_silent(&self, command: &str) -> bool {
        let analysis = self.anywhere(command);
        !analysis.parts.is_empty() && analysis.parts.iter().all(|part| matches!(part.class, Class::Edit(_)))
    }
}

/// The command whose code the shell returns: what ends last, and not what is
/// nested in it.
fn last(analysis: &Analysis) -> Option<&Part> {
    analysis.parts.iter().max_by_key(|part| (part.span.end, std::cmp::Reverse(part.span.start)))
}

/// The words as far as they are known, else as they were written: only names
/// are looked for.
fn words(part: &Part) -> Vec<&str> {
    part.words.iter().map(text_of).collect()
}

fn text_of(word: &Word) -> &str {
    match word {
        Word::Literal(text) | Word::Pattern(text) | Word::Unknown(text) => text,
    }
}

/// Programs that answer with their code.
fn meaning(words: &[&str], code: i32) -> Option<&'static str> {
    let (program, rest) = words.split_first()?;
    let program = program.rsplit('/').next().unwrap_or(program);
    if code != 1 {
        return None;
    }
    match program {
        "grep" | "egrep" | "fgrep" | "zgrep" | "rg" | "ag" | "ack" | "pgrep" => Some("No matches found"),
        "diff" | "cmp" | "colordiff" => Some("The files differ"),
        "find" => Some("Some directories could not be read"),
        "test" | "[" | "[[" => Some("The condition is false"),
        "git" => match rest.iter().find(|word| !word.starts_with('-')) {
            Some(&"diff") => Some("There are differences"),
            Some(&"grep") => Some("No matches found"),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_code_means() {
        let facts = AnalysedFacts { home: None, roots: vec![PathBuf::from("/w")] };
        for (command, code, want) in [
            ("grep x f", 1, Some("No matches found")),
            ("cat f | grep -q x", 1, Some("No matches found")),
            ("cd a && rg x", 1, Some("No matches found")),
            ("grep \"$(date)\" f", 1, Some("No matches found")),
            ("grep x f", 2, None),
            ("grep x f | wc", 1, None),
            ("/usr/bin/diff a b", 1, Some("The files differ")),
            ("git --no-pager diff --exit-code", 1, Some("There are differences")),
            ("git commit", 1, None),
            ("[ -e x ]", 1, Some("The condition is false")),
            ("false", 1, None),
        ] {
            assert_eq!(facts.exit_meaning(command, code), want, "{command}");
        }
    }

    #[test]
    fn what_may_go_on() {
        let facts = AnalysedFacts { home: None, roots: vec![PathBuf::from("/w")] };
        for (command, want) in [
            ("npm run build", true),
            ("cargo test && echo ok", true),
            ("sleep 500", false),
            ("git fetch", false),
            ("cd a; git pull && make", false),
            ("echo 'unclosed", false),
        ] {
            assert_eq!(facts.may_go_on(command), want, "{command}");
        }
        assert!(facts.is_silent("mkdir -p a && touch a/b") && !facts.is_silent("ls"));
    }
}
