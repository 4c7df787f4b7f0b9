//! Who an agent comes from, and what that leaves it.

use std::sync::Arc;

use haft_types::AgentId;

use super::{AgentDesk, AgentKind, AgentModels, ChildFacts, ParentCalls};

impl AgentDesk {
    /// An agent and those above it, itself first; nothing for the main agent.
    pub(crate) fn line_above(&self, id: &AgentId) -> Vec<Arc<ChildFacts>> {
        let tree = self.tree();
        let mut line = Vec::new();
        let mut at = id.clone();
        while let Some(node) = tree.nodes.get(&at) {
            line.push(Arc::clone(&node.facts));
            at = node.facts.parent.clone();
        }
        line
    }

    /// What the calls of an agent that works pass through.
    pub(crate) fn calls_of(&self, id: &AgentId) -> Option<ParentCalls> {
        self.tree().nodes.get(id)?.calls.clone()
    }

    /// The window of a model, where models are known.
    pub(super) fn window_of(&self, model: &str) -> Option<u64> {
        match &self.models {
            AgentModels::Known { catalog, .. } => Some(catalog.get(model).window),
            AgentModels::None => None,
        }
    }

    /// The skills that a kind leaves its agents, if its tools name some.
    pub(crate) fn skills_of_kind(&self, kind: &str) -> Option<Vec<String>> {
        self.shelf().find(kind)?.may_use_skills()
    }
}

impl AgentKind {
    /// Only these skills may be used by it, if its tools say so (`Skill(a, b)`).
    fn may_use_skills(&self) -> Option<Vec<String>> {
        let listed = self.tools.as_ref()?.iter().filter_map(|tool| {
            let (name, rest) = tool.split_once('(')?;
            (name.trim() == crate::extensions::SKILL_TOOL).then(|| rest.trim_end_matches(')').to_owned())
        });
        let names = listed.flat_map(|it| it.split(',').map(|it| it.trim().to_owned()).collect::<Vec<_>>());
        let names: Vec<String> = names.filter(|it| !it.is_empty()).collect();
        (!names.is_empty()).then_some(names)
    }

    /// The same kind without these tools.
    pub(super) fn narrowed_by(self: Arc<Self>, disallowed: &[String]) -> Arc<Self> {
        if disallowed.is_empty() {
            return self;
        }
        let all = self.disallowed.iter().chain(disallowed).cloned().collect();
        Arc::new(Self { disallowed: all, ..(*self).clone() })
    }
}
