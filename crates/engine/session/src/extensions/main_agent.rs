//! A session that is one of the agents (`--agent`): its prompt, tools and model.

use haft_agent::{Agent, Base};
use haft_model::Catalog;
use serde_json::Value;

use crate::AgentKind;

/// An agent as a host or a file describes it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct HostAgent {
    /// What it is for.
    pub description: String,
    /// Its system prompt.
    pub prompt: String,
    /// Only these tools, if it says so.
    pub tools: Option<Vec<String>>,
    /// Its model.
    pub model: Option<String>,
    /// Everything else it says, as the host or the file wrote it.
    pub definition: Value,
}

impl From<&AgentKind> for HostAgent {
    fn from(kind: &AgentKind) -> Self {
        Self {
            description: kind.description.clone(),
            prompt: kind.prompt.clone(),
            tools: kind.tools.clone(),
            model: kind.model.clone(),
            definition: serde_json::json!({
                "effort": kind.effort, "maxTurns": kind.max_turns, "disallowedTools": kind.disallowed,
            }),
        }
    }
}

/// Which model an agent's own model means for a session.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ModelIs {
    /// Somebody chose the model of the session: the agent's does not count.
    Named,
    /// Nobody did.
    Open,
}

impl HostAgent {
    /// Makes the main agent of a session this one.
    pub(crate) fn become_main(self, agent: &mut Agent, catalog: &Catalog, model: ModelIs) {
        if !self.prompt.is_empty() {
            agent.prompt.base = Base::Replaced(self.prompt);
        }
        if let Some(tools) = self.tools {
            let pool = agent.tools.pool.get();
            let is_extra = |name: &&str| !name.starts_with("mcp__") && !tools.iter().any(|it| it == name);
            let extra: Vec<String> = pool.names().filter(is_extra).map(str::to_owned).collect();
            let without = extra.iter().fold((*pool).clone(), |pool, name| pool.with_builtin(name, None));
            agent.tools.pool.set(without);
        }
        let gone = self.definition["disallowedTools"].as_array().into_iter().flatten();
        let gone = gone.filter_map(Value::as_str).filter(|it| !it.contains('('));
        let pool = agent.tools.pool.get();
        let without = gone.fold((*pool).clone(), |pool, name| pool.with_builtin(name, None));
        agent.tools.pool.set(without);
        let effort = self.definition["effort"].as_str().and_then(crate::agents::effort_of);
        agent.settings.effort = effort.or(agent.settings.effort);
        if let Some(most) = self.definition["maxTurns"].as_u64().and_then(|it| u32::try_from(it).ok()) {
            agent.settings.limits.max_turns.get_or_insert(most);
        }
        if let (Some(named), ModelIs::Open) = (self.model.filter(|it| it != "inherit"), model) {
            agent.settings.model = catalog.resolve(&named).to_owned();
        }
    }
}
