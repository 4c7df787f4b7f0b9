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
            definition: Value::Null,
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
        if let (Some(named), ModelIs::Open) = (self.model.filter(|it| it != "inherit"), model) {
            agent.settings.model = catalog.resolve(&named).to_owned();
        }
    }
}
