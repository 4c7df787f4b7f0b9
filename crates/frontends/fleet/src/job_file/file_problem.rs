//! What is wrong with a job file, and where.

use std::{fmt, path::PathBuf};

/// A place in a job file, counted from 1; the default is none in particular.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct FileLocation {
    /// The line.
    pub row: usize,
    /// The character in it.
    pub column: usize,
}

/// One thing that is wrong.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FileProblem {
    /// The file.
    pub file: PathBuf,
    /// Where.
    pub place: FileLocation,
    /// What, and what to write instead.
    pub reason: String,
}

/// A file that is refused, with everything that is wrong with it.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub struct FileRefused(pub Vec<FileProblem>);

/// So many problems are shown; who made more has one cause for them.
const MAX_SHOWN: usize = 20;

impl fmt::Display for FileProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FileLocation { row, column } = self.place;
        if self.place == FileLocation::default() {
            write!(f, "{}: {}", self.file.display(), self.reason)
        } else {
            write!(f, "{}: row {row}, column {column}: {}", self.file.display(), self.reason)
        }
    }
}

impl fmt::Display for FileRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for problem in self.0.iter().take(MAX_SHOWN) {
            writeln!(f, "{problem}")?;
        }
        if MAX_SHOWN < self.0.len() {
            writeln!(f, "and {} more", self.0.len() - MAX_SHOWN)?;
        }
        write!(f, "nothing was queued")
    }
}
