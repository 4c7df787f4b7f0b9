//! A session that is one of the agents (`--agent`): its prompt, tools and model.

use haft_agent::{Agent, PromptBase};
use haft_model::Catalog;
use haft_tool::Tool as _;
use haft_tool_runtime::ToolSearch;
use serde_json::Value;

use crate::AgentDefinition;

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

/// Which model an agent's own model means for a session.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ModelIs {
    /// Somebody chose the model of the session: the agent's does not count.
    Named,
    /// Nobody did.
    Open,
}

impl AgentDefinition {
    /// Makes the main agent of a session one of this kind. What its definition
    /// denies, and which agents and skills it leaves, binds the session elsewhere.
    pub(crate) fn become_main(&self, agent: &mut Agent, catalog: &Catalog, model: ModelIs) {
        if !self.prompt.is_empty() {
            agent.prompt.base = PromptBase::Replaced(self.prompt.clone());
        }
        let pool = agent.tools.pool.get();
        let has_deferred = self.names_servers() || pool.deferred().any(|(name, _)| self.leaves(&pool, name));
        let keeps = |name: &str| self.leaves(&pool, name) || (has_deferred && name == ToolSearch::NAME);
        let gone: Vec<String> = pool.names().filter(|name| !keeps(name)).map(str::to_owned).collect();
        let without = gone.iter().fold((*pool).clone(), |pool, name| pool.with_builtin(name, None));
        agent.tools.pool.set(without);
        let effort = self.effort.as_deref().and_then(crate::agents::effort_of);
        agent.settings.effort = effort.or(agent.settings.effort);
        if let Some(most) = self.max_turns {
            agent.settings.limits.max_turns.get_or_insert(most);
        }
        if let (Some(named), ModelIs::Open) = (self.model.as_deref().filter(|it| *it != "inherit"), model) {
            agent.settings.model = catalog.resolve(named).to_owned();
        }
    }
}
