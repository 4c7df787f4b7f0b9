//! What an index knows of rows, calls and requests.

use haft_agent::{
    CacheMiss,
    log::{CallFinishedLine, RequestPurpose},
};
use haft_types::Usage;
use serde::{Deserialize, Serialize};

/// Where a part of a log is.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct LogRange {
    pub(crate) offset: u64,
    pub(crate) length: u32,
    /// Which block of the message.
    pub(crate) block: u16,
}

/// What a row is.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) enum RowKind {
    /// The person said something.
    Person,
    /// The program said something in their place.
    Ours,
    /// What a prompt named.
    Attachment,
    /// The model said something.
    Model,
    /// The model thought something.
    Thought,
    /// A call: which of them.
    Call(u32),
    /// The conversation was summed up.
    Compacted,
}

/// A row of the conversation.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(crate) struct IndexedRow {
    pub(crate) spot: LogRange,
    pub(crate) kind: RowKind,
    /// Milliseconds since 1970, where the line says when.
    pub(crate) time: Option<i64>,
    /// Bytes of what it says.
    pub(crate) weight: u32,
    pub(crate) of_child: bool,
}

/// What is known of a call.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct IndexedCall {
    pub(crate) id: String,
    pub(crate) tool: String,
    /// Its row.
    pub(crate) row: usize,
    pub(crate) began: Option<i64>,
    pub(crate) ended: Option<i64>,
    /// Where its result is.
    pub(crate) result: Option<LogRange>,
    pub(crate) result_weight: u32,
    pub(crate) failed: bool,
    pub(crate) of_child: bool,
    /// How it went, where the log says so.
    pub(crate) line: Option<Box<CallFinishedLine>>,
}

impl IndexedCall {
    /// Who said no, where somebody did.
    pub(crate) fn denied_by(&self) -> Option<&str> {
        let line = self.line.as_ref()?;
        let asked = line.decision.as_ref().and_then(|it| it.asked);
        match line.denied_by.as_deref()? {
            "asked" if asked.is_some_and(|it| !it.reached_somebody()) => Some("nobody being there to ask"),
            "asked" => Some("the answer to a question"),
            other => Some(other),
        }
    }

    /// How long it took in all, in microseconds; the tool's own time where the log
    /// has it, else from the call to its result.
    pub(crate) fn micros(&self) -> Option<u64> {
        match &self.line {
            Some(line) => Some(line.micros.run),
            None => u64::try_from(self.ended?.checked_sub(self.began?)?).ok()?.checked_mul(1000),
        }
    }
}

/// A request to a model.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct IndexedRequest {
    /// Which of the session, from 1.
    pub(crate) number: u64,
    pub(crate) model: String,
    pub(crate) time: Option<i64>,
    pub(crate) purpose: RequestPurpose,
    pub(crate) usage: Usage,
    pub(crate) usd: Option<f64>,
    pub(crate) bust: Option<CacheMiss>,
    /// Rows there were when it was answered.
    pub(crate) rows: usize,
    /// The provider's id of the answer, where nothing else names the request.
    pub(crate) answer: Option<String>,
}
