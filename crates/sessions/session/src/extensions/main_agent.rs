//! Sessions whose main agent uses an agent definition (`--agent`).

use haft_agent::{Agent, PromptBase};
use haft_model::Catalog;
use haft_tool::Tool as _;
use haft_tool_runtime::ToolSearch;
use serde_json::Value;

use crate::AgentDefinition;

/// An agent definition from a host or a file.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct HostAgent {
    /// When to use the agent.
    pub description: String,
    /// Its system prompt.
    pub prompt: String,
    /// Names of the only tools it may use; `None` for all.
    pub tools: Option<Vec<String>>,
    /// Model name or alias, if set.
    pub model: Option<String>,
    /// The complete definition, as the host or the file wrote it.
    pub definition: Value,
}

/// Whether an agent definition may set the session's model.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ModelIs {
    /// No: the spec names the model.
    Named,
    /// Yes.
    Open,
}

impl AgentDefinition {
    /// Makes the main agent use this definition: prompt, tools, model. Its denials and its limits on
    /// agents and skills are applied elsewhere.
    pub(crate) fn apply_to_main(&self, agent: &mut Agent, catalog: &Catalog, model: ModelIs) {
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
