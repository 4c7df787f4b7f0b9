//! Errors in job files, with their location.

use std::{fmt, path::PathBuf};

/// A location in a job file, from 1; the default is "none".
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct FileLocation {
    pub row: usize,
    /// Column in characters.
    pub column: usize,
}

/// An error in a job file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FileProblem {
    pub file: PathBuf,
    pub place: FileLocation,
    /// What is wrong, and what to write instead.
    pub reason: String,
}

/// A rejected file with all its errors.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub struct FileRefused(pub Vec<FileProblem>);

/// Maximum errors shown; more usually have a common cause.
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
