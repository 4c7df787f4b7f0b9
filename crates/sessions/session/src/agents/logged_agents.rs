//! Sub-agents as read from the logs of a session.

use std::path::{Path, PathBuf};

use haft_agent::log::session_cost::{self, SessionCost};
use haft_permission::Policy;
use haft_tool_runtime::Pool;
use haft_types::{SessionId, Usage};
use serde_json::{Map, Value, json};

use super::{AgentLogs, rights::MayStart};
use crate::{OpenError, environment::SessionEnvironment};

/// A sub-agent, as described by its log.
#[derive(Clone, Debug)]
pub struct LoggedAgent {
    /// Id of the agent.
    pub id: String,
    /// Id of the agent that started it; `None` for the main agent.
    pub parent: Option<String>,
    /// Name it is addressed by, if any.
    pub name: Option<String>,
    /// Its kind.
    pub kind: String,
    /// A few words about its task.
    pub description: String,
    /// Status of its last run; `unfinished` if it has not ended.
    pub status: String,
    /// Its model.
    pub model: String,
    /// Where the model was chosen, as text; empty if the log does not say.
    pub model_from: String,
    /// Depth below the main agent.
    pub depth: u32,
    /// Path of its own worktree, if any.
    pub worktree: Option<PathBuf>,
    /// Path of its log.
    pub log: PathBuf,
    /// Cost according to its log, if recorded.
    pub cost: Option<SessionCost>,
}

impl LoggedAgent {
    /// Converts the entry to JSON for scripts.
    pub fn to_json(&self) -> Value {
        let cost = self.cost.as_ref();
        json!({
            "id": self.id, "parent": self.parent, "name": self.name, "kind": self.kind,
            "description": self.description, "status": self.status, "model": self.model, "modelFrom": self.model_from,
            "depth": self.depth, "worktree": self.worktree.as_deref().map(Path::to_string_lossy), "log": self.log.to_string_lossy(),
            "requests": cost.map(|it| it.requests), "usage": cost.map(|it| it.usage),
            "usd": cost.map(|it| it.usd), "priced": cost.map(|it| it.priced),
            "estimated": cost.map(|it| it.estimated),
        })
    }
}

/// The sub-agents of the session with this log, each directly before those it started.
pub fn logged_agents(log: &Path) -> Vec<LoggedAgent> {
    let logs = AgentLogs::beside(log, SessionId::from(String::new()), Map::new(), false);
    let mut all: Vec<LoggedAgent> = logs
        .left()
        .into_iter()
        .map(|(id, meta, report)| {
            let log = logs.path(&id);
            let has_ended = meta.finished || report.turns != 0;
            LoggedAgent {
                id: id.to_string(),
                parent: meta.parent_agent_id,
                name: meta.name,
                kind: meta.agent_type,
                description: meta.description,
                status: if has_ended {
                    report.status.public().to_owned()
                } else {
                    String::from("unfinished")
                },
                model: meta.model,
                model_from: meta.model_from,
                depth: meta.spawn_depth,
                worktree: meta.worktree_path,
                cost: session_cost::of_log(&log).ok(),
                log,
            }
        })
        .collect();
    let mut ordered = Vec::new();
    put_below(None, &mut all, &mut ordered);
    // Agents whose parent has no log.
    ordered.append(&mut all);
    ordered
}

/// Usage and cost of a session and its sub-agents, summed from their logs; `None` without sub-agents.
/// The session's own sum lacks sub-agent usage since the last completed turn if the process was killed.
pub(crate) fn logged_spending(log: &Path) -> Option<(Usage, f64)> {
    let of_agents = costs_of_agents(log);
    if of_agents.is_empty() {
        return None;
    }
    let (mut usage, mut usd) = (Usage::default(), 0.0);
    for cost in of_agents.iter().chain(&session_cost::of_log(log).ok()) {
        usage += cost.usage;
        usd += cost.usd;
    }
    Some((usage, usd))
}

/// Number of answered model requests of a session and its sub-agents, and their cost in US dollars,
/// according to their logs.
pub fn logged_requests(log: &Path) -> (u64, f64) {
    let costs = costs_of_agents(log).into_iter().chain(session_cost::of_log(log).ok());
    costs.fold((0, 0.0), |(requests, usd), cost| (requests + cost.requests, usd + cost.usd))
}

fn costs_of_agents(log: &Path) -> Vec<SessionCost> {
    let logs = AgentLogs::beside(log, SessionId::from(String::new()), Map::new(), false);
    let entries = std::fs::read_dir(&logs.dir).into_iter().flatten().flatten();
    let is_log = |path: &PathBuf| {
        let name = path.file_name().map(|it| it.to_string_lossy().into_owned()).unwrap_or_default();
        name.starts_with("agent-") && name.ends_with(".jsonl")
    };
    entries.map(|it| it.path()).filter(is_log).filter_map(|it| session_cost::of_log(&it).ok()).collect()
}

fn put_below(parent: Option<&str>, all: &mut Vec<LoggedAgent>, ordered: &mut Vec<LoggedAgent>) {
    let (own, others): (Vec<_>, Vec<_>) =
        std::mem::take(all).into_iter().partition(|it| it.parent.as_deref() == parent);
    *all = others;
    for agent in own {
        let id = agent.id.clone();
        ordered.push(agent);
        put_below(Some(&id), all, ordered);
    }
}

impl SessionEnvironment {
    /// Permissions and tools of a sub-agent of this kind started by the main agent. Fails for an unknown
    /// kind.
    pub fn agent_rights(self: &std::sync::Arc<Self>, name: &str) -> Result<(Policy, Pool), OpenError> {
        let (kinds, _) = self.agents();
        let flat = |text: &str| text.to_ascii_lowercase().replace(['-', '_', ' '], "");
        let exact = kinds.iter().find(|it| it.name == name);
        let Some(kind) = exact.or_else(|| kinds.iter().find(|it| flat(&it.name) == flat(name))) else {
            let known: Vec<&str> = kinds.iter().map(|it| it.name.as_str()).collect();
            return Err(OpenError::Start(format!(
                "there is no kind of agent {name}; there are: {}",
                known.join(", ")
            )));
        };
        let policy = self.policy()?;
        let (pool, _) = kind.pool(&self.pool()?, MayStart::Yes);
        let rights = kind.rights(&pool.get(), policy.mode, self.may_bypass());
        let pool = pool.get().narrowed(|_, _| haft_tool_runtime::PoolFilter::Yes);
        Ok((policy.child(&rights), pool))
    }
}
