use std::{sync::Arc, time::Duration};

use haft_model::{ModelEvent, Repair, Retry, StopReason};
use haft_tool::{ErrorKind, ProgressEvent};
use haft_tool_runtime::{AnsweredCall, CallDisplay, DenialSource};
use haft_types::{CallId, Message, MessageBlock, Usage};
use serde_json::Value;

use crate::{CacheMiss, LimitReached};

/// An event of the agent loop. Events are emitted in order.
#[derive(Clone, Debug)]
pub enum AgentEvent {
    /// A prompt is being processed.
    Started,
    /// A streaming event of the model's answer.
    Model(ModelEvent),
    /// A content block is complete and logged.
    Block(BlockEvent),
    /// A call was started, with the tool's display text. Calls with an invalid input are only reported
    /// with their result.
    Called(CallDisplay),
    /// Progress of a running tool.
    Progress(ProgressEvent),
    /// A call has finished. Emitted exactly once per call, as soon as it is done; parallel calls finish
    /// in any order.
    CallFinished(Arc<AnsweredCall>),
    /// The result of a call was logged. Emitted exactly once per call, after its
    /// [`AgentEvent::CallFinished`], in the order of the calls.
    ResultLogged {
        /// Uuid of the log line.
        uuid: String,
        answered: Arc<AnsweredCall>,
    },
    /// The program added a message with the user role.
    Said(InjectedMessage),
    /// The conversation was repaired before it was sent.
    Repaired(Repair),
    /// A partly emitted answer broke off. All of it is void and not logged; the answer is requested
    /// again.
    Withdrawn(RetractedAnswer),
    /// A request is retried.
    Retrying(Retry),
    /// The conversation was compacted.
    Compacted(CompactedEvent),
    /// A request missed the provider's prompt cache.
    Bust(CacheMiss),
    /// A message for the user.
    Notice(String),
}

/// A complete content block.
#[derive(Clone, Debug)]
pub struct BlockEvent {
    /// Uuid of the log line.
    pub uuid: String,
    /// Provider id of the answer.
    pub message_id: String,
    /// Name of the model.
    pub model: String,
    pub block: MessageBlock,
    /// Usage of the answer so far.
    pub usage: Usage,
}

/// The part of a broken answer that was emitted.
#[derive(Clone, Debug, Default)]
pub struct RetractedAnswer {
    /// Provider id of the answer.
    pub message_id: String,
    /// Uuids of the blocks emitted as complete.
    pub blocks: Vec<String>,
    /// Read-only calls that were started early.
    pub calls: Vec<CallId>,
}

/// A message with the user role that the program wrote.
#[derive(Clone, Debug)]
pub struct InjectedMessage {
    /// Uuid of the log line.
    pub uuid: String,
    pub message: Message,
    pub why: InjectionReason,
}

/// Why the program added a message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum InjectionReason {
    /// Context from hooks.
    Context,
    /// Additional content of a tool result.
    Addition,
    /// The model has to continue: structured output is missing, or a hook objected to stopping.
    Demand,
    /// The user interrupted.
    Interruption,
}

/// A compacted conversation.
#[derive(Clone, Debug)]
pub struct CompactedEvent {
    /// Estimated number of tokens before.
    pub tokens_before: u64,
    /// Estimated number of tokens after.
    pub tokens_after: u64,
    pub how: Compaction,
    /// Whether the user or the program requested it.
    pub trigger: haft_hooks::CompactTrigger,
}

/// How a conversation was compacted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Compaction {
    /// Old tool results were replaced by stubs.
    Stubs,
    /// The model wrote a summary.
    Summary,
    /// A summary was generated without a model, because the model could not write one.
    Mechanical,
}

/// How a prompt ended.
#[derive(Clone, Debug)]
pub struct TurnEnd {
    pub reason: EndReason,
    /// The last text of the model.
    pub text: String,
    /// Tokens used by this prompt.
    pub usage: Usage,
    /// Number of model requests of this prompt.
    pub turns: u32,
    /// Number of messages added, counted like the Agent SDKs do.
    pub messages: u32,
    /// Calls that were denied.
    pub denials: Vec<DeniedToolCall>,
    /// Prompt cache misses.
    pub busts: Vec<CacheMiss>,
    /// The validated structured output, if one was required.
    pub structured_output: Option<Value>,
    /// Stop reason of the last answer, if there was one.
    pub stop_reason: Option<StopReason>,
    /// Duration of the prompt.
    pub duration: Duration,
    /// Duration of the model requests among that.
    pub api_duration: Duration,
}

/// Why a prompt ended.
#[derive(Clone, Debug, PartialEq)]
pub enum EndReason {
    /// The model finished.
    Completed,
    /// A limit was reached.
    Exhausted(LimitReached),
    /// The user interrupted.
    Interrupted,
    /// A hook or an approver ended the turn, for this reason.
    Stopped(String),
    /// A call was repeated in vain too often; the text describes it.
    NoProgress(String),
    /// The model gave no usable answer; the text says why and what to do.
    Incomplete(String),
    /// Too many answers in a row were truncated by the output limit.
    OutputTruncated,
    /// The model did not deliver valid structured output; the errors of its attempts.
    NoStructuredOutput(Vec<String>),
    /// The model request failed.
    Failed(haft_model::ModelError),
    /// The model refused to answer.
    Refused,
}

impl EndReason {
    /// The reason as one word, for programs.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Exhausted(LimitReached::Turns(_)) => "max_turns",
            Self::Exhausted(_) => "budget",
            Self::Interrupted => "interrupted",
            Self::Stopped(_) => "stopped",
            Self::NoProgress(_) => "no_progress",
            Self::Incomplete(_) => "incomplete",
            Self::OutputTruncated => "output_truncated",
            Self::NoStructuredOutput(_) => "no_structured_output",
            Self::Failed(_) => "failed",
            Self::Refused => "refused",
        }
    }
}

/// A denied tool call.
#[derive(Clone, Debug, PartialEq)]
pub struct DeniedToolCall {
    /// Name of the tool.
    pub tool_name: String,
    /// Id of the call.
    pub tool_use_id: CallId,
    /// Input of the call.
    pub tool_input: Value,
    /// The reason, as the model read it.
    pub reason: String,
    /// The reason for users, and how to allow the call next time, if it would have prompted.
    pub for_person: Option<String>,
    /// What denied the call, if known.
    pub by: Option<DenialSource>,
}

impl DeniedToolCall {
    /// The denial in an answered call; `None` if it was not denied.
    pub fn from_answered(AnsweredCall { call, report }: &AnsweredCall) -> Option<Self> {
        matches!(report.error?, ErrorKind::Denied | ErrorKind::GateFailed).then(|| Self {
            tool_name: report.name.clone(),
            tool_use_id: call.id.clone(),
            tool_input: call.input.clone(),
            reason: report.content.to_text(),
            for_person: report.decision.as_ref().and_then(|it| {
                let way_out = it.way_out.as_ref().filter(|_| !it.reason.is_empty())?;
                Some(format!("{} was not allowed to run: {}; {way_out}", report.name, it.reason))
            }),
            by: report.denied_by,
        })
    }
}
