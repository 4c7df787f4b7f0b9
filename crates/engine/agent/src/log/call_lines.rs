//! Lines about calls, and about who writes them.

use haft_tool::ErrorKind;
use haft_tool_runtime::{CallDecision, CallReport, CallTiming};
use haft_types::{AgentId, CallId, ToolUse};
use serde::{Deserialize, Serialize};

use super::RemoteLogOwner;

/// The process that writes what follows.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub struct WriterLine {
    /// The process.
    pub pid: u32,
    /// The boot of the machine: a line that was written survives the process,
    /// but not a power cut.
    pub boot: String,
    /// The session. A copy of the log under another id keeps this one.
    pub session: String,
    /// Who it is to the store that lines go to as well, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<RemoteLogOwner>,
}

/// A call that may act is about to run. It was allowed to.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct CallStartedLine {
    /// Which call.
    pub call: CallId,
    /// The tool.
    pub tool: String,
    /// The agent that made the call.
    pub agent: AgentId,
    /// When, as ISO 8601.
    #[serde(default)]
    pub timestamp: String,
    /// The first 16 digits of the BLAKE3 hash of the input the tool gets.
    #[serde(default)]
    pub input: String,
    /// Why it may run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<CallDecision>,
}

/// A call is done, whatever came of it.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct CallFinishedLine {
    /// Which call.
    pub call: CallId,
    /// The tool.
    pub tool: String,
    /// The agent that made the call.
    pub agent: AgentId,
    /// When, as ISO 8601.
    #[serde(default)]
    pub timestamp: String,
    /// Microseconds by stage.
    #[serde(default)]
    pub micros: StageMicros,
    /// Set when the call failed at any stage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorKind>,
    /// What permission said, where the call came that far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<CallDecision>,
    /// Who said no, in one word, where somebody did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub denied_by: Option<String>,
    /// The entry of the journal, where one was made: what `haft undo` takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub journal: Option<String>,
    /// The run of an agent that this call heard the end of, where the result is an error: the
    /// results of others say so themselves.
    #[serde(default, rename = "runId", skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// Whether it was not run because somebody wants to decide about it later.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub left_for_later: bool,
}

/// How long a call spent where, in microseconds.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub struct StageMicros {
    /// Waiting for calls it must not overlap with.
    pub queue: u64,
    /// In hooks before it.
    pub hooks: u64,
    /// Until it was allowed or denied, questions included.
    pub permission: u64,
    /// In the tool itself.
    pub run: u64,
    /// In what follows: a large result is stored, hooks look at it.
    pub after: u64,
}

/// Where a tool names the journal entry it made, in its structured result.
const JOURNAL_KEY: &str = "undoId";

/// Where a tool names the run of an agent, in its structured result.
const RUN_KEY: &str = "runId";

impl WriterLine {
    pub(crate) fn of_this_process(session: &str, owner: Option<RemoteLogOwner>) -> Self {
        Self { pid: std::process::id(), boot: boot_id(), session: session.to_owned(), owner }
    }

    /// Whether what this writer did not tell the store before it lost the log, it
    /// did not do. `epoch` is that of the owner who reads.
    pub(crate) fn was_fenced(&self, epoch: Option<u64>) -> bool {
        self.owner.as_ref().zip(epoch).is_some_and(|(owner, epoch)| owner.epoch < epoch)
    }

    /// Whether what this process did not write before it ended, it did not do: it
    /// has ended, and nothing it wrote can be lost. `session` is the session of
    /// the log that is read.
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
    /// A call that did not begin, and is taken up again.
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
