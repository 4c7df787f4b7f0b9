//! Ancestors of an agent, and the restrictions it inherits from them.

use std::sync::{Arc, PoisonError};

use haft_builtin_tools::agent::SubagentRequest;
use haft_types::AgentId;

use super::{AgentDefinition, AgentModels, ChildIdentity, ParentCalls, SubagentRegistry};

impl SubagentRegistry {
    /// An agent and its ancestors, itself first; empty for the main agent.
    pub(crate) fn line_above(&self, id: &AgentId) -> Vec<Arc<ChildIdentity>> {
        let tree = self.tree();
        let mut line = Vec::new();
        let mut at = id.clone();
        while let Some(node) = tree.nodes.get(&at) {
            line.push(Arc::clone(&node.facts));
            at = node.facts.parent.clone();
        }
        line
    }

    /// Makes the main agent use this definition, whose limits on agent kinds and skills then apply to
    /// all agents.
    pub(crate) fn set_main_kind(&self, kind: &Arc<AgentDefinition>) {
        self.tree().kinds_of_main = kind.may_start();
        *self.kind_of_main.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(kind));
    }

    /// The definition the main agent uses, if any.
    pub(crate) fn kind_of_main(&self) -> Option<Arc<AgentDefinition>> {
        self.kind_of_main.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The call state of a running agent.
    pub(crate) fn calls_of(&self, id: &AgentId) -> Option<ParentCalls> {
        self.tree().nodes.get(id)?.calls.clone()
    }

    /// The model of a new agent and a text about its source. Order: the call, the definition, the
    /// default model of sub-agents, the parent.
    pub(super) fn model_for(
        &self,
        order: &SubagentRequest,
        kind: &AgentDefinition,
        parent: &AgentId,
    ) -> (String, String) {
        let of_parent = match self.tree().nodes.get(parent) {
            Some(node) => node.facts.model.clone(),
            None => self.main_settings().model,
        };
        let inherited = (of_parent, String::from(FROM_PARENT));
        let AgentModels::Known { catalog, usual, policy } = &self.models else { return inherited };
        if kind.is_fork() {
            return inherited;
        }
        let of_call = order.model.as_deref().map(|it| (it, String::from("the call")));
        let of_kind = kind.model_named(usual.as_deref());
        let named = [of_call, of_kind].into_iter().flatten().find(|(it, _)| *it != "inherit");
        let Some((name, from)) = named else { return inherited };
        let model = catalog.resolve(name).to_owned();
        // A model excluded by the settings is not used, whoever names it.
        match policy.refusal(catalog, &model) {
            None => (model, from),
            Some(_) => {
                let from = format!("{FROM_PARENT}: the settings do not offer {name}, which {from} wants");
                (inherited.0, from)
            }
        }
    }

    /// The context window of a model in tokens, if known.
    pub(super) fn window_of(&self, model: &str) -> Option<u64> {
        match &self.models {
            AgentModels::Known { catalog, .. } => Some(catalog.get(model).window),
            AgentModels::None => None,
        }
    }

    /// The skills that a kind's definition allows; `None` for all.
    pub(crate) fn skills_of_kind(&self, kind: &str) -> Option<Vec<String>> {
        self.shelf().find(kind)?.may_use_skills()
    }

    /// The skills that the main agent's definition allows; `None` for all.
    pub(crate) fn skills_of_main(&self) -> Option<Vec<String>> {
        self.kind_of_main()?.may_use_skills()
    }
}

/// Source text for a model inherited from the parent.
const FROM_PARENT: &str = "the agent that started it";

/// The environment variable with the default model of sub-agents.
pub(crate) const USUAL_MODEL: &str = "CLAUDE_CODE_SUBAGENT_MODEL";

impl AgentDefinition {
    /// The model the definition or the variable names, and a text about which of them; `None` if the
    /// agent inherits its parent's.
    pub fn model_named<'a>(&'a self, usual: Option<&'a str>) -> Option<(&'a str, String)> {
        let file = self.file.as_ref().map(|it| format!(" ({})", it.display())).unwrap_or_default();
        let own = self.model.as_deref().map(|it| (it, format!("its definition{file}")));
        let usual = usual.map(|it| (it, String::from(USUAL_MODEL)));
        own.or(usual).filter(|(it, _)| *it != "inherit")
    }

    /// The skills its tool list allows (`Skill(a, b)`); `None` for all.
    fn may_use_skills(&self) -> Option<Vec<String>> {
        let listed = self.tools.as_ref()?.iter().filter_map(|tool| {
            let (name, rest) = tool.split_once('(')?;
            (name.trim() == crate::extensions::SKILL_TOOL).then(|| rest.trim_end_matches(')').to_owned())
        });
        let names = listed.flat_map(|it| it.split(',').map(|it| it.trim().to_owned()).collect::<Vec<_>>());
        let names: Vec<String> = names.filter(|it| !it.is_empty()).collect();
        (!names.is_empty()).then_some(names)
    }

    /// The same definition, additionally without these tools.
    pub(super) fn narrowed_by(self: Arc<Self>, disallowed: &[String]) -> Arc<Self> {
        if disallowed.is_empty() {
            return self;
        }
        let all = self.disallowed.iter().chain(disallowed).cloned().collect();
        Arc::new(Self { disallowed: all, ..(*self).clone() })
    }
}
