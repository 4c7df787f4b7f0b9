use std::{pin::Pin, time::Duration};

use futures_util::Stream;
use haft_types::{CallId, MessageBlock, ToolUse, Usage};
use serde::{Deserialize, Serialize};

use crate::{ModelError, Repair};

/// The events of one request. Nothing is sent before the stream is polled; dropping it cancels the
/// request.
pub type ModelStream = Pin<Box<dyn Stream<Item = Result<ModelEvent, ModelError>> + Send>>;

/// An event of a streamed answer.
///
/// Deltas are for display. The content of the conversation arrives complete and in order as
/// [`ModelEvent::Block`] and [`ModelEvent::BadCall`].
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelEvent {
    /// The answer has started.
    Started {
        /// The provider's response id.
        id: String,
        /// Name of the model that answers, as reported by the provider.
        model: String,
    },
    /// Text delta.
    Text(String),
    /// Thinking delta.
    Thinking(String),
    /// A tool call has started; its input follows.
    ToolStarted {
        /// Call id, repeated in the result.
        id: CallId,
        /// The tool's name on the wire.
        name: String,
    },
    /// Delta of a call's input.
    ToolInput {
        /// The call this delta belongs to.
        id: CallId,
        /// Fragment of JSON text; valid JSON only once all fragments are concatenated.
        json: String,
    },
    /// A call's input appears to be complete, but the answer is still in progress. The call arrives
    /// again as [`ModelEvent::Block`] or [`ModelEvent::BadCall`], or is discarded by a retry. Until then
    /// consumers may only do work without side effects.
    CallWritten(ToolUse),
    /// Citations of the text block that has just ended, as sent by the provider. The text block itself
    /// follows.
    Cited(Vec<serde_json::Value>),
    /// A complete block. A [`MessageBlock::ToolUse`] may be executed immediately and is never emitted
    /// twice.
    Block(MessageBlock),
    /// A tool call that must not be executed, with the error to report to the model.
    BadCall(InvalidCall),
    /// Usage of this answer so far; replaces earlier values.
    Usage(Usage),
    /// The linter changed something in the request before it was sent.
    Repaired(Repair),
    /// The answer failed and is requested again: discard everything received so far. No tool call was
    /// emitted before.
    Retrying(Retry),
    /// The last event of the stream.
    Stopped(StopReason),
}

/// A tool call of the model that cannot be executed.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct InvalidCall {
    /// The call as it goes into the conversation; its input contains only what could be parsed with
    /// certainty.
    pub call: ToolUse,
    /// Why the call cannot be executed.
    pub problem: CallProblem,
}

impl InvalidCall {
    /// Returns the error text the model gets as the call's result.
    pub fn message(&self) -> String {
        let name = &self.call.name;
        match &self.problem {
            CallProblem::Truncated { output_tokens } => {
                let at = output_tokens.map(|count| format!(" at {count} tokens")).unwrap_or_default();
                format!(
                    "{name} was not run: the call was cut by the output limit{at}. Make it smaller, for example by writing a large file in several parts."
                )
            }
            CallProblem::Malformed { error } => {
                format!(
                    "{name} was not run: its input is not a JSON object ({error}). Send the call again with valid JSON."
                )
            }
        }
    }
}

/// Why a tool call cannot be executed.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum CallProblem {
    /// The answer ended inside the call, or may have.
    Truncated {
        /// Output tokens of the answer, if known.
        output_tokens: Option<u64>,
    },
    /// The input is invalid and cannot be repaired unambiguously.
    Malformed {
        /// The error, worded for the model.
        error: String,
    },
}

/// A request that is about to be sent again.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Retry {
    /// Number of the retry, from 1.
    pub attempt: u32,
    /// Maximum number of retries.
    pub most: u32,
    /// Delay before the request is sent.
    pub wait: Duration,
    /// Error of the previous attempt.
    pub reason: String,
}

/// Why an answer ended.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The model finished its answer.
    EndTurn,
    /// The model waits for tool results.
    ToolUse,
    /// The output token limit was reached.
    MaxTokens,
    /// A stop sequence was generated.
    StopSequence,
    /// The provider paused a long answer: send it back to continue.
    Pause,
    /// The model or the provider refused to answer.
    Refusal,
    /// The context window is full.
    ContextFull,
    /// The stream broke after tool calls were emitted. Blocks already emitted are valid, the rest of the
    /// answer is lost. Continue with the results of those calls.
    Interrupted,
    /// A stop reason this version does not know.
    #[serde(untagged)]
    Other(String),
}

impl StopReason {
    /// Whether the answer may have ended in the middle of a block.
    pub fn may_cut_a_block(&self) -> bool {
        matches!(self, Self::MaxTokens | Self::ContextFull | Self::Refusal)
    }
}
