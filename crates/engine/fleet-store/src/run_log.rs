//! Log lines of a run, and control entries sent to it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// Number, from 0 without gaps.
    pub number: u64,
    /// Epoch of its writer.
    pub epoch: u64,
    /// Content without line break.
    pub text: String,
}

/// The end of a log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LogEnd {
    /// Number of lines.
    pub lines: u64,
    /// Epoch that may write; 0 before the first owner.
    pub epoch: u64,
    /// Consecutive takeovers during which no line was written.
    pub stalled: u32,
}

/// A control entry to be sent to a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewControl {
    /// Idempotency key: a second entry with the same id is not stored.
    pub id: String,
    pub body: Value,
}

/// A control entry sent to a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ControlEntry {
    /// Number, from 0 without gaps.
    pub number: u64,
    /// Idempotency key.
    pub id: String,
    pub body: Value,
}
