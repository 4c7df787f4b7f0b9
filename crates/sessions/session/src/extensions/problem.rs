use std::path::PathBuf;

use super::LineProblem;

/// Something that is wrong with a file of a skill, a command, an output style, a
/// plugin or a list of plugins.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ExtensionProblem {
    /// What the file describes: a skill, a command, …
    pub what: &'static str,
    /// The file.
    pub file: PathBuf,
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong, and what follows.
    pub reason: String,
    /// Whether what it describes is not there because of it.
    pub is_lost: bool,
}

impl ExtensionProblem {
    pub(super) fn of_lines(
        what: &'static str,
        file: &std::path::Path,
        problems: Vec<LineProblem>,
    ) -> impl Iterator<Item = Self> {
        let file = file.to_owned();
        problems.into_iter().map(move |LineProblem { line, reason }| Self {
            what,
            file: file.clone(),
            line,
            reason,
            is_lost: false,
        })
    }
}

impl std::fmt::Display for ExtensionProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let lost = if self.is_lost { "is not there" } else { "works all the same" };
        write!(f, "{}:{}: {} (the {} {lost})", self.file.display(), self.line, self.reason, self.what)
    }
}
