//! Lines of a run, and what others say to it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One line of a run's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// Its number, from 0, without gaps.
    pub number: u64,
    /// Who wrote it.
    pub epoch: u64,
    /// The line, without its end.
    pub text: String,
}

/// How far a log goes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LogEnd {
    /// So many lines it has.
    pub lines: u64,
    /// Who may write; 0 before the first owner.
    pub epoch: u64,
    /// Takeovers in a row that found no new line.
    pub stalled: u32,
}

/// What somebody says to a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewControl {
    /// A second entry with the same id is not stored.
    pub id: String,
    /// What is said.
    pub body: Value,
}

/// What somebody said to a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ControlEntry {
    /// Its number, from 0, without gaps.
    pub number: u64,
    /// What makes it one and the same.
    pub id: String,
    /// What is said.
    pub body: Value,
}
