//! What faces are told about agents that others started.

use std::path::PathBuf;

use haft_builtin_tools::agent::LaunchedAgent;
use haft_types::{AgentId, CallId};

/// An agent that another one started.
#[derive(Clone, Debug, PartialEq)]
pub struct ChildIdentity {
    /// The agent.
    pub id: AgentId,
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
    /// The call that started it.
    pub call: CallId,
    /// Who started it.
    pub parent: AgentId,
    /// How far below the main agent it is.
    pub depth: u32,
    /// Whether nobody waits for it.
    pub in_background: bool,
    /// What the call that started it said about that, if it said something.
    pub wanted_background: Option<bool>,
    /// Its model.
    pub model: String,
    /// Who chose its model, in words.
    pub model_from: String,
    /// Its log, if there is one.
    pub log: Option<PathBuf>,
    /// The skill it carries out, if one started it.
    pub skill: Option<String>,
    /// The team it belongs to, if it belongs to one: no other team has this word.
    pub team: Option<String>,
}

impl ChildIdentity {
    /// What the one who started it in the background is told.
    pub(super) fn launched(&self) -> LaunchedAgent {
        LaunchedAgent {
            agent_id: self.id.to_string(),
            run_id: self.run_id.clone(),
            kind: self.kind.clone(),
            name: self.name.clone(),
            description: self.description.clone(),
            prompt: self.prompt.clone(),
            model: self.model.clone(),
            model_from: self.model_from.clone(),
            log: self.log.clone(),
        }
    }
}

/// How far an agent is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChildProgress {
    /// What it does right now, in words.
    pub doing: String,
    /// The tool it called last.
    pub last_tool: String,
    /// Calls so far.
    pub tool_uses: u64,
    /// Tokens so far.
    pub tokens: u64,
    /// How long it works.
    pub duration_ms: u64,
    /// What it does in words of its model, where a host wanted that.
    pub summary: Option<String>,
}
