//! Log lines about calls, and about the process that writes the log.

use haft_tool::ErrorKind;
use haft_tool_runtime::{CallDecision, CallReport, CallTiming};
use haft_types::{AgentId, CallId, ToolUse};
use serde::{Deserialize, Serialize};

use super::RemoteLogOwner;

/// Identifies the process that writes the following lines.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub struct WriterLine {
    /// Process id.
    pub pid: u32,
    /// Boot id of the machine. A written line survives the process, but not a power failure.
    pub boot: String,
    /// Id of the session. Copies of the log under another id keep it.
    pub session: String,
    /// Owner of the log in the remote store, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<RemoteLogOwner>,
}

/// A permitted call with side effects is about to run.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct CallStartedLine {
    /// Id of the call.
    pub call: CallId,
    /// Name of the tool.
    pub tool: String,
    /// The agent that made the call.
    pub agent: AgentId,
    /// Time, as ISO 8601.
    #[serde(default)]
    pub timestamp: String,
    /// The first 16 digits of the BLAKE3 hash of the input the tool gets.
    #[serde(default)]
    pub input: String,
    /// The permission decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<CallDecision>,
}

/// A call is done, with any outcome.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct CallFinishedLine {
    /// Id of the call.
    pub call: CallId,
    /// Name of the tool.
    pub tool: String,
    /// The agent that made the call.
    pub agent: AgentId,
    /// Time, as ISO 8601.
    #[serde(default)]
    pub timestamp: String,
    /// Duration of each stage.
    #[serde(default)]
    pub micros: StageMicros,
    /// Set when the call failed at any stage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorKind>,
    /// The permission decision, if the call reached that stage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<CallDecision>,
    /// Who denied the call, as one word, if it was denied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub denied_by: Option<String>,
    /// Id of the undo journal entry, for `haft undo`, if one was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub journal: Option<String>,
    /// Id of the agent run whose failure this call reported. Successful results name the run themselves.
    #[serde(default, rename = "runId", skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// Whether the call was deferred and not run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub left_for_later: bool,
}

/// Duration of the stages of a call, in microseconds.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub struct StageMicros {
    /// Waiting for calls it must not run in parallel with.
    pub queue: u64,
    /// PreToolUse hooks.
    pub hooks: u64,
    /// Permission decision, including prompts.
    pub permission: u64,
    /// The tool itself.
    pub run: u64,
    /// Afterwards: storing a large result, PostToolUse hooks.
    pub after: u64,
}

/// Key of the journal entry's id in a tool's structured result.
const JOURNAL_KEY: &str = "undoId";

/// Key of the agent run's id in a tool's structured result.
const RUN_KEY: &str = "runId";

impl WriterLine {
    pub(crate) fn of_this_process(session: &str, owner: Option<RemoteLogOwner>) -> Self {
        Self { pid: std::process::id(), boot: boot_id(), session: session.to_owned(), owner }
    }

    /// Whether lines this writer did not send to the remote store before losing ownership cannot have
    /// taken effect. `epoch` is that of the current owner.
    pub(crate) fn was_fenced(&self, epoch: Option<u64>) -> bool {
        self.owner.as_ref().zip(epoch).is_some_and(|(owner, epoch)| owner.epoch < epoch)
    }

    /// Whether everything this process did is in the log: it has ended, and no written line can be lost.
    /// `session` is the session of the log.
    pub(crate) fn has_told_all(&self, session: &str) -> bool {
        let is_ours = self.pid == std::process::id();
        let has_ended = if is_ours {
            self.session == session
        } else {
            !std::path::Path::new("/proc").join(self.pid.to_string()).exists()
        };
        !self.boot.is_empty() && self.boot == boot_id() && has_ended
    }
}

fn boot_id() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().to_owned()
}

impl CallFinishedLine {
    /// The line of a deferred call.
    pub(crate) fn left(call: &ToolUse, agent: &AgentId) -> Self {
        Self {
            call: call.id.clone(),
            tool: call.name.clone(),
            agent: agent.clone(),
            timestamp: super::now(),
            micros: StageMicros::default(),
            error: Some(ErrorKind::NotStarted),
            decision: None,
            denied_by: None,
            journal: None,
            run_id: None,
            left_for_later: true,
        }
    }

    pub(crate) fn from_report(report: &CallReport, agent: &AgentId) -> Self {
        let named = |key: &str| report.data.as_ref()?.get(key)?.as_str().map(str::to_owned);
        Self {
            call: report.id.clone(),
            tool: report.name.clone(),
            agent: agent.clone(),
            timestamp: super::now(),
            micros: StageMicros::from_timing(&report.timing),
            error: report.error,
            decision: report.decision.as_deref().cloned(),
            denied_by: report.denied_by.map(|by| by.word().to_owned()),
            journal: named(JOURNAL_KEY),
            run_id: report.error.and_then(|_| named(RUN_KEY)),
            left_for_later: report.left_for_later,
        }
    }
}

impl StageMicros {
    fn from_timing(timing: &CallTiming) -> Self {
        let micros = |time: std::time::Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        Self {
            queue: micros(timing.queue),
            hooks: micros(timing.hooks),
            permission: micros(timing.permission),
            run: micros(timing.run),
            after: micros(timing.after),
        }
    }
}
