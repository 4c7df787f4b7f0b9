//! Entries of an index: rows, calls, requests.

use haft_agent::{
    CacheMiss,
    log::{CallFinishedLine, RequestPurpose},
};
use haft_types::Usage;
use serde::{Deserialize, Serialize};

/// Byte range of a part of a log.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct LogRange {
    pub(crate) offset: u64,
    pub(crate) length: u32,
    /// Index of the block within the message.
    pub(crate) block: u16,
}

/// Kind of a row.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) enum RowKind {
    /// User message.
    Person,
    /// Message inserted by the program in the user's role.
    Ours,
    /// Attachment of a prompt.
    Attachment,
    /// Text of the model.
    Model,
    /// Thinking of the model.
    Thought,
    /// Tool call, by its index.
    Call(u32),
    /// Compaction of the conversation.
    Compacted,
}

/// A row of the conversation.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(crate) struct IndexedRow {
    pub(crate) spot: LogRange,
    pub(crate) kind: RowKind,
    /// Milliseconds since 1970, if the line has a timestamp.
    pub(crate) time: Option<i64>,
    /// Estimated size in bytes of text.
    pub(crate) weight: u32,
    pub(crate) of_child: bool,
}

/// A tool call.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct IndexedCall {
    pub(crate) id: String,
    pub(crate) tool: String,
    /// Index of its row.
    pub(crate) row: usize,
    pub(crate) began: Option<i64>,
    pub(crate) ended: Option<i64>,
    /// Position of its result.
    pub(crate) result: Option<LogRange>,
    pub(crate) result_weight: u32,
    pub(crate) failed: bool,
    pub(crate) of_child: bool,
    /// The log line about its execution, if there is one.
    pub(crate) line: Option<Box<CallFinishedLine>>,
}

impl IndexedCall {
    /// Returns who denied it, if it was denied.
    pub(crate) fn denied_by(&self) -> Option<&str> {
        let line = self.line.as_ref()?;
        let asked = line.decision.as_ref().and_then(|it| it.asked);
        match line.denied_by.as_deref()? {
            "asked" if asked.is_some_and(|it| !it.was_answered()) => Some("nobody being there to ask"),
            "asked" => Some("the answer to a question"),
            other => Some(other),
        }
    }

    /// Returns its duration in microseconds: the tool's time from the log, else the time between call
    /// and result.
    pub(crate) fn micros(&self) -> Option<u64> {
        match &self.line {
            Some(line) => Some(line.micros.run),
            None => u64::try_from(self.ended?.checked_sub(self.began?)?).ok()?.checked_mul(1000),
        }
    }
}

/// A model request.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct IndexedRequest {
    /// Number within the session, from 1.
    pub(crate) number: u64,
    pub(crate) model: String,
    pub(crate) time: Option<i64>,
    pub(crate) purpose: RequestPurpose,
    pub(crate) usage: Usage,
    pub(crate) usd: Option<f64>,
    pub(crate) bust: Option<CacheMiss>,
    /// Number of rows when it was answered.
    pub(crate) rows: usize,
    /// The provider's response id, if nothing else identifies the request.
    pub(crate) answer: Option<String>,
}
