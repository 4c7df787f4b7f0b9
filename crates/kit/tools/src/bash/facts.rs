use std::path::{Path, PathBuf};

use haft_command::{self as analysis, Analysis, Class, Doubt, ExitMeaning, Part, Place, Word};

use super::{
    ports::{CommandFacts, Unattended},
    unattended,
};

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

    /// Whether the command whose code the shell returns is this program.
    fn ends_with(&self, command: &str, program: &str) -> bool {
        let analysis = self.anywhere(command);
        analysis.parts.last().is_some_and(|part| words(part).first() == Some(&program))
    }

    fn anywhere(&self, command: &str) -> Analysis {
        self.analyse(command, self.roots.first().map_or(Path::new("/"), PathBuf::as_path))
    }
}

impl CommandFacts for AnalysedFacts {
    fn is_read_only(&self, command: &str, cwd: &Path) -> bool {
        self.analyse(command, cwd).is_read_only()
    }

    fn refused_removal(&self, command: &str, cwd: &Path) -> Option<PathBuf> {
        let place = Place { cwd, home: self.home.as_deref(), roots: &self.roots };
        let real = |path: &Path| haft_paths::real(path).unwrap_or_else(|_| haft_paths::lexical(path));
        analysis::refused_removal(&self.analyse(command, cwd), place, &real)
    }

    fn precious(&self, command: &str, cwd: &Path) -> Vec<PathBuf> {
        match analysis::removes_unknown(&self.analyse(command, cwd)) {
            true => self.roots.iter().chain(&self.home).cloned().collect(),
            false => Vec::new(),
        }
    }

    fn preview(&self, command: &str, cwd: &Path) -> Option<String> {
        super::preview::preview(&self.analyse(command, cwd))
    }

    fn exit_meaning(&self, command: &str, code: i32) -> Option<&'static str> {
        match analysis::exit_meaning(command, code) {
            // `false` answers nothing: it is how scripts fail.
            ExitMeaning::Answer(_) if self.ends_with(command, "false") => None,
            ExitMeaning::Answer(words) => Some(words),
            ExitMeaning::Success | ExitMeaning::Failure => None,
        }
    }

    fn may_go_on(&self, command: &str) -> bool {
        let analysis = self.anywhere(command);
        let unclear = |doubt: &Doubt| matches!(doubt, Doubt::Unparsed { .. } | Doubt::Disagreement);
        let starts_with_pause =
            analysis.parts.first().is_some_and(|part| words(part).first() == Some(&"sleep"));
        let uses_git = analysis.parts.iter().any(|part| words(part).contains(&"git"));
        !analysis.doubts.iter().any(unclear) && !starts_with_pause && !uses_git
    }

    fn without_person(&self, command: &str) -> Option<Unattended> {
        let analysis = self.anywhere(command);
        // The last one is most likely the one that matters.
        analysis.parts.iter().rev().find_map(|part| unattended::of(&words(part)))
    }

    fn is_silent(&self, command: &str) -> bool {
        let analysis = self.anywhere(command);
        !analysis.parts.is_empty() && analysis.parts.iter().all(|part| matches!(part.class, Class::Edit(_)))
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_code_means() {
        let facts = AnalysedFacts { home: None, roots: vec![PathBuf::from("/w")] };
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
