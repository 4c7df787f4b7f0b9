//! What starting agents needs from above.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use haft_tool::{BoxFuture, CallContext};
use haft_types::Usage;

use super::ChildIdentity;

/// Starts agents in the name of a call. Whoever runs agents implements this.
pub trait SubagentSpawner: Send + Sync {
    /// Whether there is a model that agents could ask.
    fn is_available(&self) -> bool;

    /// The kinds of agents, as the model is told about them.
    fn kinds(&self) -> Vec<AgentKindSummary>;

    /// The name of the kind that is meant by a text, if there is one: case and
    /// separators do not matter.
    fn canonical(&self, written: &str) -> Option<String>;

    /// Starts one. Comes back with its report, or as soon as nobody waits for
    /// that; a refusal says why, in words for the model. Dropping the future
    /// stops an agent that is waited for.
    fn spawn<'a>(
        &'a self,
        order: SubagentRequest,
        cx: &'a CallContext,
    ) -> BoxFuture<'a, Result<SubagentOutcome, String>>;
}

/// A kind of agent, as the model is told about it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AgentKindSummary {
    /// Its name.
    pub name: String,
    /// When to use it.
    pub description: String,
    /// Its tools, in words.
    pub tools: String,
}

/// What is to be started.
#[derive(Clone, Debug, Default)]
pub struct SubagentRequest {
    /// Which kind.
    pub kind: String,
    /// What it does, in a few words.
    pub description: String,
    /// The task.
    pub prompt: String,
    /// Another model.
    pub model: Option<String>,
    /// How hard it tries.
    pub effort: Option<String>,
    /// Whether the call goes on meanwhile; its kind and its caller decide when
    /// nothing is said.
    pub background: Option<bool>,
    /// A name to reach it by.
    pub name: Option<String>,
    /// Whether it works in a worktree of its own.
    pub worktree: bool,
    /// The skill it carries out, if one started it.
    pub skill: Option<String>,
    /// What it may not use, beside what its kind says.
    pub disallowed: Vec<String>,
}

/// What came of a start.
#[derive(Clone, Debug)]
pub enum SubagentOutcome {
    /// It has ended.
    Ended(Arc<AgentReport>),
    /// It goes on in the background.
    Launched(Arc<ChildIdentity>),
}

/// How a run of an agent ended.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentStatus {
    /// It was done, and said so.
    #[default]
    Completed,
    /// It was done, but said nothing, also when it was asked to.
    NoFinalText,
    /// It used all of its turns.
    MaxTurns,
    /// The session's money or tokens were used up.
    TruncatedByBudget,
    /// Somebody stopped it.
    Interrupted,
    /// A hook, or whoever was asked, ended it.
    Stopped,
    /// It went round in circles, declined, or its answers were cut.
    Incomplete,
    /// The provider could not answer, or Haft could not go on.
    Failed,
}

impl AgentStatus {
    /// In words for the model, behind the agent's name.
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

    /// The public word: `completed`, `failed` or `killed`.
    pub fn public(self) -> &'static str {
        match self {
            Self::Completed | Self::NoFinalText => "completed",
            Self::Interrupted => "killed",
            _ => "failed",
        }
    }
}

/// Who ended an agent that was not done.
#[derive(Clone, Copy, Debug, Eq, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KilledBy {
    /// The agent that started it.
    Parent,
    /// The person: by stopping it, or the turn that waited for it.
    User,
    /// The end of the session.
    System,
}

/// A call of an agent that was not allowed.
#[derive(Clone, Debug, Eq, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct SubagentDenial {
    /// The tool.
    pub tool: String,
    /// Why.
    pub reason: String,
}

/// What an agent comes back with.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct AgentReport {
    /// The agent.
    pub agent_id: String,
    /// This run of it.
    pub run_id: String,
    /// Its kind.
    pub kind: String,
    /// The name it is reached by, if it has one.
    pub name: Option<String>,
    /// What it does, in a few words.
    pub description: String,
    /// The task.
    pub prompt: String,
    /// How it ended.
    pub status: AgentStatus,
    /// More about a bad end, in words.
    pub why: Option<String>,
    /// Who ended it, if it was not done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub killed_by: Option<KilledBy>,
    /// The last thing it said.
    pub text: String,
    /// What it handed over, where its kind says what that must follow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub structured: Option<serde_json::Value>,
    /// Tokens of all of its requests.
    pub usage: Usage,
    /// Money, where prices are known.
    pub usd: f64,
    /// Requests whose use the provider did not tell: the sums hold an estimate.
    #[serde(skip_serializing_if = "is_zero")]
    pub untold: u32,
    /// Requests.
    pub turns: u32,
    /// Its model.
    pub model: String,
    /// Who chose it, in words.
    pub model_from: String,
    /// How long it took.
    pub duration_ms: u64,
    /// Calls by tool.
    pub tools_used: BTreeMap<String, u64>,
    /// Files it changed.
    pub files_changed: Vec<PathBuf>,
    /// Those of them that the one it works for had read before.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub outdated_reads: Vec<PathBuf>,
    /// Calls that were not allowed.
    pub denials: Vec<SubagentDenial>,
    /// Commands it left running in the background.
    pub left_running: Vec<String>,
    /// Its log, if there is one.
    pub log: Option<PathBuf>,
    /// Its worktree, where one is left, and the branch.
    pub worktree: Option<(PathBuf, String)>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// There are no agents.
#[derive(Clone, Debug, Default)]
pub struct NoSubagents {
    /// Kinds that are listed all the same, for descriptions.
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
