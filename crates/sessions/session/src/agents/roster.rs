//! Who is there, for others than the agents themselves: teams, tasks, summaries.

use haft_agent::DeniedToolCall;
use haft_tool_runtime::{AnsweredCall, DenialSource};
use haft_types::{AgentId, PermissionMode};

use super::{ChildIdentity, SubagentRegistry};

/// Is told about agents that begin.
type SpawnListener = Box<dyn Fn(&ChildIdentity) + Send + Sync>;

/// What is known of agents beside their tree.
#[derive(Default)]
pub(crate) struct AgentRoster {
    /// The team the session leads.
    team: std::sync::Mutex<Option<String>>,
    when_begun: std::sync::OnceLock<SpawnListener>,
}

impl SubagentRegistry {
    /// The team that the session leads.
    pub(crate) fn team(&self) -> Option<String> {
        self.roster.team.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }

    /// The session leads this team from now on, which has a word of its own.
    pub(crate) fn lead_team(&self, name: &str, word: String) {
        *self.roster.team.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(name.to_owned());
        self.tree().team = Some(word);
    }

    /// The session leads no team any more: its agents have no names, and no mail waits
    /// for them, now and in a process that comes after this one.
    pub(crate) fn end_team(&self) -> std::io::Result<()> {
        *self.roster.team.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = None;
        let gone = {
            let mut tree = self.tree();
            let Some(team) = tree.team.take() else { return Ok(()) };
            tree.end_team(&team)
        };
        match self.logs().filter(|_| !gone.is_empty()) {
            Some(logs) => logs.drop_letters(&gone),
            None => Ok(()),
        }
    }

    /// Somebody wants to hear of agents that begin. One is told; the first.
    pub(crate) fn when_begun(&self, told: impl Fn(&ChildIdentity) + Send + Sync + 'static) {
        self.roster.when_begun.set(Box::new(told)).ok();
    }

    pub(super) fn tell_begun(&self, facts: &ChildIdentity) {
        if let Some(told) = self.roster.when_begun.get() {
            told(facts);
        }
    }

    /// The model that a short or whole name means.
    pub(crate) fn model_named(&self, name: &str) -> Option<String> {
        match &self.models {
            super::AgentModels::Known { catalog, .. } => Some(catalog.resolve(name).to_owned()),
            super::AgentModels::None => None,
        }
    }

    /// What an agent is reached by: its name, or its id.
    pub(crate) fn address_of(&self, id: &AgentId) -> String {
        let tree = self.tree();
        let node = tree.nodes.get(id);
        node.and_then(|it| it.facts.name.clone()).unwrap_or_else(|| id.to_string())
    }

    /// Whether an agent works.
    pub(crate) fn works(&self, id: &AgentId) -> bool {
        self.tree().nodes.get(id).is_some_and(super::agent_tree::AgentNode::is_live)
    }

    /// Whether a name or id means an agent that has ended.
    pub(crate) fn is_known_and_ended(&self, id_or_name: &str) -> bool {
        let tree = self.tree();
        let node = tree.find(id_or_name).and_then(|id| tree.nodes.get(&id));
        node.is_some_and(|it| !it.is_live())
    }

    /// Says of which kind the agents of a bill are.
    pub(crate) fn name_kinds(&self, bill: &mut crate::UsageTotals) {
        let tree = self.tree();
        for (id, of_agent) in &mut bill.agents {
            of_agent.kind = tree.nodes.get(id).map(|it| it.facts.kind.clone());
        }
    }

    /// A call of an agent was not allowed: whoever reads how the turn ended is told. Kinds that
    /// plan only read, on purpose: what is refused for that is no news.
    pub(super) fn count_denied(&self, facts: &ChildIdentity, answered: &AnsweredCall) {
        let Some(denial) = DeniedToolCall::from_answered(answered) else { return };
        let shelf = self.shelf();
        let plans = shelf.find(&facts.kind).is_some_and(|kind| kind.mode == Some(PermissionMode::Plan));
        if !plans || !matches!(denial.by, Some(DenialSource::Mode | DenialSource::Rule)) {
            self.tree().denied.push(denial);
        }
    }

    /// Calls of agents that were not allowed since the last time.
    pub(crate) fn take_denied(&self) -> Vec<DeniedToolCall> {
        std::mem::take(&mut self.tree().denied)
    }

    /// All agents in a line each, for people and models.
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
