//! Queries about sub-agents: teams, tasks, summaries.

use haft_agent::DeniedToolCall;
use haft_tool_runtime::{AnsweredCall, DenialSource};
use haft_types::{AgentId, PermissionMode};

use super::{ChildIdentity, SubagentRegistry};

/// Callback for agents that start.
type SpawnListener = Box<dyn Fn(&ChildIdentity) + Send + Sync>;

/// State of sub-agents beside their tree.
#[derive(Default)]
pub(crate) struct AgentRoster {
    /// Name of the team the session leads.
    team: std::sync::Mutex<Option<String>>,
    when_begun: std::sync::OnceLock<SpawnListener>,
}

impl SubagentRegistry {
    /// Name of the team the session leads.
    pub(crate) fn team(&self) -> Option<String> {
        self.roster.team.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }

    /// Makes the session lead this team. `word` is the identifier of the team in the agent tree.
    pub(crate) fn set_led_team(&self, name: &str, word: String) {
        *self.roster.team.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(name.to_owned());
        self.tree().team = Some(word);
    }

    /// Ends the team: its agents lose their names and unread mail, permanently.
    pub(crate) fn end_team(&self) -> std::io::Result<()> {
        *self.roster.team.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = None;
        let gone = {
            let mut tree = self.tree();
            let Some(team) = tree.team.take() else { return Ok(()) };
            tree.end_team(&team)
        };
        match self.logs().filter(|_| !gone.is_empty()) {
            Some(logs) => logs.discard_messages(&gone),
            None => Ok(()),
        }
    }

    /// Sets the callback for agents that start. Only the first one is used.
    pub(crate) fn when_begun(&self, told: impl Fn(&ChildIdentity) + Send + Sync + 'static) {
        self.roster.when_begun.set(Box::new(told)).ok();
    }

    pub(super) fn tell_begun(&self, facts: &ChildIdentity) {
        if let Some(told) = self.roster.when_begun.get() {
            told(facts);
        }
    }

    /// The full name of a model given by alias or name.
    pub(crate) fn model_named(&self, name: &str) -> Option<String> {
        match &self.models {
            super::AgentModels::Known { catalog, .. } => Some(catalog.resolve(name).to_owned()),
            super::AgentModels::None => None,
        }
    }

    /// The name of an agent, or its id if it has none.
    pub(crate) fn address_of(&self, id: &AgentId) -> String {
        let tree = self.tree();
        let node = tree.nodes.get(id);
        node.and_then(|it| it.facts.name.clone()).unwrap_or_else(|| id.to_string())
    }

    /// Whether an agent is running.
    pub(crate) fn works(&self, id: &AgentId) -> bool {
        self.tree().nodes.get(id).is_some_and(super::agent_tree::AgentNode::is_live)
    }

    /// Whether a name or id belongs to an agent that has ended.
    pub(crate) fn is_known_and_ended(&self, id_or_name: &str) -> bool {
        let tree = self.tree();
        let node = tree.find(id_or_name).and_then(|id| tree.nodes.get(&id));
        node.is_some_and(|it| !it.is_live())
    }

    /// Adds the kinds of the agents to usage totals.
    pub(crate) fn name_kinds(&self, bill: &mut crate::UsageTotals) {
        let tree = self.tree();
        for (id, of_agent) in &mut bill.agents {
            of_agent.kind = tree.nodes.get(id).map(|it| it.facts.kind.clone());
        }
    }

    /// Records a denied call of an agent, reported when the main agent's turn ends. Denials of kinds
    /// that only read by design are not recorded.
    pub(super) fn count_denied(&self, facts: &ChildIdentity, answered: &AnsweredCall) {
        let Some(denial) = DeniedToolCall::from_answered(answered) else { return };
        let shelf = self.shelf();
        let plans = shelf.find(&facts.kind).is_some_and(|kind| kind.mode == Some(PermissionMode::Plan));
        if !plans || !matches!(denial.by, Some(DenialSource::Mode | DenialSource::Rule)) {
            self.tree().denied.push(denial);
        }
    }

    /// Takes the denied calls since the last time.
    pub(crate) fn take_denied(&self) -> Vec<DeniedToolCall> {
        std::mem::take(&mut self.tree().denied)
    }

    /// One line per agent, for users and models.
    pub(crate) fn listed(&self) -> Vec<String> {
        let tree = self.tree();
        let line = |node: &super::agent_tree::AgentNode| {
            let status = node.report.as_ref().map_or("works", |it| it.status.words());
            let name = node.facts.name.clone().unwrap_or_else(|| node.facts.id.to_string());
            format!("{name} ({}): {} – {status}", node.facts.kind, node.facts.description)
        };
        tree.nodes.values().map(line).collect()
    }
}
