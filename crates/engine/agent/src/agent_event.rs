use std::{sync::Arc, time::Duration};

use haft_model::{ModelEvent, Repair, Retry, StopReason};
use haft_tool::{ErrorKind, ProgressEvent};
use haft_tool_runtime::{AnsweredCall, CallDisplay, DenialSource};
use haft_types::{CallId, Message, MessageBlock, Usage};
use serde_json::Value;

use crate::{CacheMiss, LimitReached};

/// What an agent tells while it works, in order. Who shows it decides what.
#[derive(Clone, Debug)]
pub enum AgentEvent {
    /// A prompt is being worked on.
    Started,
    /// A step of an answer, as the provider sends it.
    Model(ModelEvent),
    /// A block of an answer is complete and in the log.
    Block(BlockEvent),
    /// A call was taken up: what it does, in its tool's words. Calls their tools
    /// did not accept are only told with their results.
    Called(CallDisplay),
    /// A tool says how far it is.
    Progress(ProgressEvent),
    /// A call is done. Exactly once for every call, as soon as it is done: calls
    /// that run at the same time end in any order.
    CallFinished(Arc<AnsweredCall>),
    /// The result of a call is in the log. Exactly once for every call, after its
    /// [`AgentEvent::CallFinished`], in the order of the calls.
    ResultLogged {
        /// The result's name in the log.
        uuid: String,
        /// The call.
        answered: Arc<AnsweredCall>,
    },
    /// Something was said in the person's place.
    Said(InjectedMessage),
    /// Something was repaired before it was sent.
    Repaired(Repair),
    /// An answer broke off after something of it was told: all of that does not
    /// count, is in no log, and comes again in other words or not at all.
    Withdrawn(RetractedAnswer),
    /// A request is sent again.
    Retrying(Retry),
    /// The conversation was made shorter.
    Compacted(CompactedEvent),
    /// A request could not go on from what the provider had cached.
    Bust(CacheMiss),
    /// Something the person should know.
    Notice(String),
}

/// A block of an answer.
#[derive(Clone, Debug)]
pub struct BlockEvent {
    /// Its name in the log.
    pub uuid: String,
    /// The answer it belongs to.
    pub message_id: String,
    /// Who wrote it.
    pub model: String,
    /// The block.
    pub block: MessageBlock,
    /// What the answer has used so far.
    pub usage: Usage,
}

/// What was told of an answer that broke off.
#[derive(Clone, Debug, Default)]
pub struct RetractedAnswer {
    /// The answer.
    pub message_id: String,
    /// Names of its blocks that were told as complete.
    pub blocks: Vec<String>,
    /// Calls that were taken up early. They only looked.
    pub calls: Vec<CallId>,
}

/// A message of the program.
#[derive(Clone, Debug)]
pub struct InjectedMessage {
    /// Its name in the log.
    pub uuid: String,
    /// The message.
    pub message: Message,
    /// What for.
    pub why: InjectionReason,
}

/// Why something is said in the person's place.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum InjectionReason {
    /// Something the model should know beside what was said: context of hooks.
    Context,
    /// What a tool adds to its result.
    Addition,
    /// The model has to go on: output that is missing, an objection to stopping.
    Demand,
    /// The person interrupted.
    Interruption,
}

/// A conversation that became shorter.
#[derive(Clone, Debug)]
pub struct CompactedEvent {
    /// Tokens before, about.
    pub tokens_before: u64,
    /// Tokens after, about.
    pub tokens_after: u64,
    /// How.
    pub how: Compaction,
    /// At whose request.
    pub trigger: haft_hooks::CompactTrigger,
}

/// How a conversation became shorter.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Compaction {
    /// Old results were replaced by stubs.
    Stubs,
    /// The model summed up.
    Summary,
    /// We summed up, because the model could not.
    Mechanical,
}

/// How a prompt ended.
#[derive(Clone, Debug)]
pub struct TurnEnd {
    /// Why.
    pub reason: EndReason,
    /// The last thing the model said.
    pub text: String,
    /// What this prompt used.
    pub usage: Usage,
    /// Requests this prompt took.
    pub turns: u32,
    /// Messages added on the way, as the Agent SDKs count them.
    pub messages: u32,
    /// Calls that were not allowed.
    pub denials: Vec<DeniedToolCall>,
    /// Caches that were lost on the way.
    pub busts: Vec<CacheMiss>,
    /// The validated output, when one was asked for.
    pub structured_output: Option<Value>,
    /// Why the model stopped, if it did.
    pub stop_reason: Option<StopReason>,
    /// How long it took.
    pub duration: Duration,
    /// How long the model took of that.
    pub api_duration: Duration,
}

/// Why a prompt ended.
#[derive(Clone, Debug, PartialEq)]
pub enum EndReason {
    /// The model was done.
    Completed,
    /// A bound was reached.
    Exhausted(LimitReached),
    /// The person interrupted.
    Interrupted,
    /// A hook, or whoever was asked, ended it.
    Stopped(String),
    /// The same call led nowhere too often.
    NoProgress(String),
    /// The model gave no answer that could be used: why, and what to do.
    Incomplete(String),
    /// Answers were cut by their limit too often.
    OutputTruncated,
    /// The model did not deliver the output that was asked for.
    NoStructuredOutput(Vec<String>),
    /// The provider could not answer.
    Failed(haft_model::ModelError),
    /// The model declined.
    Refused,
}

impl EndReason {
    /// The reason in one word, for programs.
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

/// A call that was not allowed.
#[derive(Clone, Debug, PartialEq)]
pub struct DeniedToolCall {
    /// The tool.
    pub tool_name: String,
    /// The call.
    pub tool_use_id: CallId,
    /// Its input.
    pub tool_input: Value,
    /// Why, in the words the model read.
    pub reason: String,
    /// Why, and what a person can do so that it runs next time, where permission
    /// wanted a question.
    pub for_person: Option<String>,
    /// What denied it.
    pub by: Option<DenialSource>,
}

impl DeniedToolCall {
    /// The denial that a call ended with, if it did.
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
