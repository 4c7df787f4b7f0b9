use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use haft_bash_analysis::{
    self as analysis, AnalysisContext, AnalyzedCommand, CommandClass, ExitMeaning, Risk, SharedAnalysis, Word,
};

use super::{
    interactive_programs,
    ports::{CommandInspector, InteractiveHint},
};

/// Analyses command lines in full, with `haft_bash_analysis`.
#[derive(Clone, Debug, Default)]
pub struct BashInspector {
    /// The value of `$HOME`.
    pub home: Option<PathBuf>,
    /// The workspace and additional directories.
    pub roots: Vec<PathBuf>,
}

impl CommandInspector for BashInspector {
    fn read(&self, command: &str, cwd: &Path) -> Arc<SharedAnalysis> {
        let place = AnalysisContext { cwd, home: self.home.as_deref(), roots: &self.roots };
        Arc::new(SharedAnalysis::new(command, place))
    }

    fn is_read_only(&self, reading: &SharedAnalysis) -> bool {
        reading.analysis.is_read_only()
    }

    fn stays(&self, reading: &SharedAnalysis) -> bool {
        reading.analysis.end.single() == Some(reading.place().cwd)
    }

    fn refused_removal(&self, reading: &SharedAnalysis) -> Option<PathBuf> {
        let real = |path: &Path| haft_paths::real(path).unwrap_or_else(|_| haft_paths::lexical(path));
        analysis::refused_removal(&reading.analysis, reading.place(), &real)
    }

    fn precious(&self, reading: &SharedAnalysis) -> Vec<PathBuf> {
        if analysis::removes_unknown(&reading.analysis) {
            self.roots.iter().chain(&self.home).cloned().collect()
        } else {
            Vec::new()
        }
    }

    fn preview(&self, reading: &SharedAnalysis) -> Option<String> {
        super::preview::preview(&reading.analysis)
    }

    fn exit_meaning(&self, reading: &SharedAnalysis, code: i32) -> Option<&'static str> {
        let last = reading.analysis.parts.last();
        match analysis::exit_meaning_of(&reading.analysis, code) {
            // The exit code of `false` is no answer; scripts use it to fail.
            ExitMeaning::Answer(_) if last.is_some_and(|part| words(part).first() == Some(&"false")) => None,
            ExitMeaning::Answer(words) => Some(words),
            ExitMeaning::Success | ExitMeaning::Failure => None,
        }
    }

    fn may_go_on(&self, reading: &SharedAnalysis) -> bool {
        let analysis = &reading.analysis;
        let unclear = |doubt: &Risk| matches!(doubt, Risk::Unparsed { .. } | Risk::Disagreement);
        let starts_with_pause =
            analysis.parts.first().is_some_and(|part| words(part).first() == Some(&"sleep"));
        let uses_git = analysis.parts.iter().any(|part| words(part).contains(&"git"));
        !analysis.doubts.iter().any(unclear) && !starts_with_pause && !uses_git
    }

    fn without_person(&self, reading: &SharedAnalysis) -> Option<InteractiveHint> {
        // The last program most likely determines the outcome.
        reading.analysis.parts.iter().rev().find_map(|part| interactive_programs::of(&words(part)))
    }

    fn is_silent(&self, reading: &SharedAnalysis) -> bool {
        let parts = &reading.analysis.parts;
        !parts.is_empty() && parts.iter().all(|part| matches!(part.class, CommandClass::Edit(_)))
    }
}

/// Returns the words as far as they are known, else as written; only program names are matched.
fn words(part: &AnalyzedCommand) -> Vec<&str> {
    part.words.iter().map(text_of).collect()
}

fn text_of(word: &Word) -> &str {
    match word {
        Word::Literal(text) | Word::Pattern(text) | Word::Unknown(text) => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_meaning_depends_on_the_program() {
        let facts = BashInspector { home: None, roots: vec![PathBuf::from("/w")] };
        for (command, code, want) in [
            ("grep x f", 1, Some("no matches")),
            ("cat f | grep -q x", 1, Some("no matches")),
            ("grep x f", 2, None),
            ("grep x f | wc", 1, None),
            ("git commit", 1, None),
            ("[ -e x ]", 1, Some("the condition is false")),
            ("false", 1, None),
            ("make; false", 1, None),
        ] {
            assert_eq!(facts.exit_meaning(&facts.read(command, Path::new("/w")), code), want, "{command}");
        }
    }

    #[test]
    fn background_is_refused_for_sleep_git_and_unparsed_lines() {
        let facts = BashInspector { home: None, roots: vec![PathBuf::from("/w")] };
        for (command, want) in [
            ("npm run build", true),
            ("cargo test && echo ok", true),
            ("sleep 500", false),
            ("git fetch", false),
            ("cd a; git pull && make", false),
            ("echo 'unclosed", false),
        ] {
            assert_eq!(facts.may_go_on(&facts.read(command, Path::new("/w"))), want, "{command}");
        }
        for (command, want) in [
            ("ls", true),
            ("pwd", true),
            ("(cd a && ls)", true),
            ("cd a", false),
            ("cd a && ls", false),
            ("ls; cd ..", false),
            ("cd a; cd ..", false),
            ("if true; then cd a; fi", false),
            ("cd a | cat", true),
            ("pushd a", false),
        ] {
            assert_eq!(facts.stays(&facts.read(command, Path::new("/w"))), want, "{command}");
        }
        let is_silent = |command: &str| facts.is_silent(&facts.read(command, Path::new("/w")));
        assert!(is_silent("mkdir -p a && touch a/b") && !is_silent("ls"));
    }
}
