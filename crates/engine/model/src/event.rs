use std::{pin::Pin, time::Duration};

use futures_util::Stream;
use haft_types::{CallId, MessageBlock, ToolUse, Usage};
use serde::{Deserialize, Serialize};

use crate::{ModelError, Repair};

/// What a provider hands out for a request. Dropping it cancels the request.
pub type ModelStream = Pin<Box<dyn Stream<Item = Result<ModelEvent, ModelError>> + Send>>;

/// One step of an answer.
///
/// Deltas are for eyes; what belongs into the conversation comes as
/// [`ModelEvent::Block`] and [`ModelEvent::BadCall`], complete and in order.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelEvent {
    /// The answer begins.
    Started {
        /// The provider's id of the answer.
        id: String,
        /// The model that answers.
        model: String,
    },
    /// A piece of text.
    Text(String),
    /// A piece of reasoning.
    Thinking(String),
    /// A call begins; its input is still to come.
    ToolStarted {
        /// The id under which the result goes back.
        id: CallId,
        /// The tool's name on the wire.
        name: String,
    },
    /// A piece of a call's input, as JSON text.
    ToolInput {
        /// The call whose input this is a piece of.
        id: CallId,
        /// Some more of the input's text; JSON only when all pieces are together.
        json: String,
    },
    /// The input of a call is written, and whole as far as anybody can tell. It
    /// comes again as [`ModelEvent::Block`] or [`ModelEvent::BadCall`], or is taken back with
    /// the answer: until then it may be looked into, and nothing may be done for it
    /// that changes anything.
    CallWritten(ToolUse),
    /// Where the text comes from that is complete now, in the provider's words. The
    /// text itself follows.
    Cited(Vec<serde_json::Value>),
    /// A block is complete. A [`MessageBlock::ToolUse`] among them may run at
    /// once, and is never handed out a second time.
    Block(MessageBlock),
    /// A call that must not run, with what to tell the model.
    BadCall(InvalidCall),
    /// What this answer has used so far; replaces what was said before.
    Usage(Usage),
    /// Something in the request was repaired before it was sent.
    Repaired(Repair),
    /// The answer broke and is asked for again: forget everything since the
    /// beginning. No call was handed out by then.
    Retrying(Retry),
    /// The last event.
    Stopped(StopReason),
}

/// A call the model made that cannot run.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct InvalidCall {
    /// The call for the conversation; its input is what could be read for sure.
    pub call: ToolUse,
    /// What is wrong with it.
    pub problem: CallProblem,
}

impl InvalidCall {
    /// What to tell the model as the call's result.
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

/// What is wrong with a call.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum CallProblem {
    /// The answer ended inside it, or may have.
    Truncated {
        /// How long the answer was.
        output_tokens: Option<u64>,
    },
    /// Its input is not what it should be, and cannot be repaired for sure.
    Malformed {
        /// What is wrong with the input, for the model.
        error: String,
    },
}

/// A request that is sent again.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Retry {
    /// Which retry, from 1.
    pub attempt: u32,
    /// How many there are at most.
    pub most: u32,
    /// How long until it is sent.
    pub wait: Duration,
    /// What went wrong with the attempt before.
    pub reason: String,
}

/// Why an answer ended.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The model was done.
    EndTurn,
    /// The model waits for results.
    ToolUse,
    /// The limit of the answer was reached.
    MaxTokens,
    /// A stop sequence came.
    StopSequence,
    /// The provider paused a long answer: send it back to go on.
    Pause,
    /// The model or the provider declined.
    Refusal,
    /// The window was full.
    ContextFull,
    /// The stream broke after calls were handed out: what came complete stands,
    /// the rest is gone. Go on with the results of those calls.
    Interrupted,
    /// Something newer than this version.
    #[serde(untagged)]
    Other(String),
}

impl StopReason {
    /// Whether the answer may have ended in the middle of a block.
    pub fn may_cut_a_block(&self) -> bool {
        matches!(self, Self::MaxTokens | Self::ContextFull | Self::Refusal)
    }
}
