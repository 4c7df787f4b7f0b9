//! The interface through which tools start agents.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use haft_tool::{BoxFuture, CallContext};
use haft_types::Usage;

use super::ChildIdentity;

/// Starts agents on behalf of a call. Implemented by the session.
pub trait SubagentSpawner: Send + Sync {
    /// Whether a model for agents is configured.
    fn is_available(&self) -> bool;

    /// Returns the kinds of agents that the model may choose from.
    fn kinds(&self) -> Vec<AgentKindSummary>;

    /// Returns the name of the agent kind meant by `written`, ignoring case and separators.
    fn canonical(&self, written: &str) -> Option<String>;

    /// Starts an agent. Resolves with its report, or at once if it runs in the background. An error is a
    /// text for the model that says why the agent was not started. Dropping the future stops an agent in
    /// the foreground.
    fn spawn<'a>(
        &'a self,
        order: SubagentRequest,
        cx: &'a CallContext,
    ) -> BoxFuture<'a, Result<SubagentOutcome, String>>;
}

/// An agent kind as described to the model.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AgentKindSummary {
    pub name: String,
    /// When to use this kind.
    pub description: String,
    /// Its tools, as text.
    pub tools: String,
}

/// Parameters for starting an agent.
#[derive(Clone, Debug, Default)]
pub struct SubagentRequest {
    /// Name of the agent kind.
    pub kind: String,
    /// Short description of the task, a few words.
    pub description: String,
    /// The task, as the agent's first prompt.
    pub prompt: String,
    /// Overrides the model.
    pub model: Option<String>,
    /// Overrides the reasoning effort.
    pub effort: Option<String>,
    /// Whether to run in the background. `None`: the agent kind and the caller decide.
    pub background: Option<bool>,
    /// Name under which other agents can send it messages.
    pub name: Option<String>,
    /// Whether it works in its own git worktree.
    pub worktree: bool,
    /// The skill that starts the agent, if any.
    pub skill: Option<String>,
    /// Tools it may not use, in addition to those its kind excludes.
    pub disallowed: Vec<String>,
}

/// The result of starting an agent.
#[derive(Clone, Debug)]
pub enum SubagentOutcome {
    /// The agent has ended; its report.
    Ended(Arc<AgentReport>),
    /// The agent is running in the background.
    Launched(Arc<ChildIdentity>),
}

/// How a run of an agent ended.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentStatus {
    /// It finished and returned a final text.
    #[default]
    Completed,
    /// It finished without a final text, although it was asked for one.
    NoFinalText,
    /// It reached its maximum number of turns.
    MaxTurns,
    /// The session's budget of money or tokens was exhausted.
    TruncatedByBudget,
    /// The user, its parent or the session stopped it.
    Interrupted,
    /// A hook or an approver ended it.
    Stopped,
    /// It repeated itself, refused the task, or its answers were truncated.
    Incomplete,
    /// The provider failed, or Haft hit an internal error.
    Failed,
}

impl AgentStatus {
    /// Returns text for the model, to follow the agent's name.
    pub fn words(self) -> &'static str {
        match self {
            Self::Completed => "is done",
            Self::NoFinalText => "ended without a report",
            Self::MaxTurns => "was stopped at its turn limit; the report is what it had until then",
            Self::TruncatedByBudget => "was stopped because the budget is used up",
            Self::Interrupted => "was stopped before it was done",
            Self::Stopped => "was ended by a hook or a refusal",
            Self::Incomplete => "did not get to the end",
            Self::Failed => "failed",
        }
    }

    /// Returns the public status: `completed`, `failed` or `killed`.
    pub fn public(self) -> &'static str {
        match self {
            Self::Completed | Self::NoFinalText => "completed",
            Self::Interrupted => "killed",
            _ => "failed",
        }
    }
}

/// Who stopped an agent before it finished.
#[derive(Clone, Copy, Debug, Eq, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KilledBy {
    /// The agent that started it.
    Parent,
    /// The user, by stopping the agent or the turn that waited for it.
    User,
    /// The end of the session.
    System,
}

/// A denied tool call of an agent.
#[derive(Clone, Debug, Eq, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct SubagentDenial {
    pub tool: String,
    pub reason: String,
}

/// The result of an agent's run.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct AgentReport {
    pub agent_id: String,
    /// Id of this run; an agent that is resumed has several.
    pub run_id: String,
    /// Name of the agent kind.
    pub kind: String,
    /// Name under which it receives messages, if it has one.
    pub name: Option<String>,
    /// Short description of the task.
    pub description: String,
    /// The task.
    pub prompt: String,
    pub status: AgentStatus,
    /// Details of an unsuccessful ending.
    pub why: Option<String>,
    /// Who stopped it; `None` if it was not stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub killed_by: Option<KilledBy>,
    /// Its last text.
    pub text: String,
    /// Structured output, if its kind requires one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub structured: Option<serde_json::Value>,
    /// Tokens of all its requests.
    pub usage: Usage,
    /// Cost in US dollars, as far as prices are known.
    pub usd: f64,
    /// Number of requests whose token usage the provider did not report; the sums contain estimates for
    /// them.
    #[serde(skip_serializing_if = "is_zero")]
    pub untold: u32,
    /// Number of model requests.
    pub turns: u32,
    pub model: String,
    /// Where the choice of the model comes from, as text.
    pub model_from: String,
    pub duration_ms: u64,
    /// Number of calls per tool.
    pub tools_used: BTreeMap<String, u64>,
    pub files_changed: Vec<PathBuf>,
    /// Changed files that its parent had read before, so the parent's knowledge is outdated.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub outdated_reads: Vec<PathBuf>,
    /// Its denied tool calls.
    pub denials: Vec<SubagentDenial>,
    /// Background commands it left running.
    pub left_running: Vec<String>,
    /// Its session log, if it has one.
    pub log: Option<PathBuf>,
    /// Path and branch of its worktree, if it was kept.
    pub worktree: Option<(PathBuf, String)>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// No agents: starting one fails.
#[derive(Clone, Debug, Default)]
pub struct NoSubagents {
    /// Agent kinds to list nevertheless, for tool descriptions.
    pub listed: Vec<AgentKindSummary>,
}

impl SubagentSpawner for NoSubagents {
    fn is_available(&self) -> bool {
        !self.listed.is_empty()
    }

    fn kinds(&self) -> Vec<AgentKindSummary> {
        self.listed.clone()
    }

    fn canonical(&self, _written: &str) -> Option<String> {
        None
    }

    fn spawn<'a>(
        &'a self,
        _order: SubagentRequest,
        _cx: &'a CallContext,
    ) -> BoxFuture<'a, Result<SubagentOutcome, String>> {
        Box::pin(async { Err(String::from("no agents can be started here: there is no model")) })
    }
}
