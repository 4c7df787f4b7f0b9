use std::path::PathBuf;

use super::LineProblem;

/// A problem in the file of a skill, command, output style, plugin or marketplace.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ExtensionProblem {
    /// What the file defines: a skill, a command, …
    pub what: &'static str,
    /// Path of the file.
    pub file: PathBuf,
    /// Line number, starting at 1.
    pub line: usize,
    /// What is wrong, and its consequence.
    pub reason: String,
    /// Whether the extension is ignored because of it.
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
