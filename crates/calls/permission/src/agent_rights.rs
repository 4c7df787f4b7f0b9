use std::{
    fmt::Write,
    path::{Path, PathBuf},
    sync::Arc,
};

use haft_types::{AgentId, PermissionMode};

use crate::{
    Behavior, Destination, PermissionUpdate, Policy, RuleEntry, RuleList, RuleSource, RuleText,
    policy::ADVISORY, rule::NamePattern, ruleset::RuleSet,
};

/// Rights of a sub-agent, mostly from its definition. Except for `lifted` and `granted` they can only
/// restrict: every parent agent must allow a call too.
#[derive(Clone, Debug, Default)]
pub struct AgentRights {
    /// Type of the agent, as used in delegations.
    pub name: Arc<str>,
    /// Its permission mode; `None` for the parent's.
    pub mode: Option<PermissionMode>,
    /// Mode that its direct parent is treated as having for this agent's calls, if the embedding program
    /// defined the agent that way. Does not override a parent in plan or `dontAsk` mode.
    pub lifted: Option<PermissionMode>,
    /// Rules of the definition.
    pub rules: Vec<(Behavior, Arc<str>)>,
    /// Allow rules that the user granted to this agent only. While it calls, all parents are treated as
    /// having them; deny rules still apply.
    pub granted: Vec<RuleEntry>,
    /// Tools the agent has; `None` for all.
    pub tools: Option<Vec<String>>,
    /// Rights it may delegate but not use.
    pub delegations: Vec<DelegatedRight>,
    /// Files it must not change, whatever rules allow.
    pub kept_out: Option<ExcludedDir>,
    /// Where it is defined.
    pub origin: RuleSource,
}

impl AgentRights {
    /// Applies an update for this agent only. Directories belong to the whole session and are ignored
    /// here.
    pub(crate) fn take(&mut self, update: &PermissionUpdate) {
        let label = format!("allowed to the agent {} alone", self.name);
        let origin = RuleSource::new(label.as_str(), Destination::Agent);
        let texts = |list: &RuleList| list.rules.iter().map(RuleText::text).collect::<Vec<_>>();
        match update {
            PermissionUpdate::AddRules(list) | PermissionUpdate::ReplaceRules(list) => {
                let replaces = matches!(update, PermissionUpdate::ReplaceRules(_));
                if replaces && list.behavior == Behavior::Allow {
                    self.granted.clear();
                }
                for text in texts(list) {
                    let text: Arc<str> = Arc::from(text.as_str());
                    match list.behavior {
                        Behavior::Allow => {
                            let (behavior, origin) = (Behavior::Allow, origin.clone());
                            self.granted.push(RuleEntry { behavior, text, origin });
                        }
                        other => self.rules.push((other, text)),
                    }
                }
            }
            PermissionUpdate::RemoveRules(list) if list.behavior == Behavior::Allow => {
                let gone = texts(list);
                self.granted.retain(|it| !gone.iter().any(|text| **text == *it.text));
            }
            _ => (),
        }
    }
}

/// A directory whose files an agent must not change, except in a subdirectory: the checkout, for an
/// agent that works in a worktree.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ExcludedDir {
    /// The directory.
    pub of: PathBuf,
    /// The excepted subdirectory.
    pub but: PathBuf,
}

impl ExcludedDir {
    pub(crate) fn covers(&self, path: &Path) -> bool {
        path.starts_with(&self.of) && !path.starts_with(&self.but)
    }
}

/// A right that an agent may delegate but not use.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DelegatedRight {
    /// The right, in rule syntax.
    pub rule: Arc<str>,
    /// Type of agent that may get it; `*` for any.
    pub to: Arc<str>,
    /// Where it is defined.
    pub origin: RuleSource,
}

impl DelegatedRight {
    pub(crate) fn entry(&self, behavior: Behavior) -> RuleEntry {
        RuleEntry { behavior, text: Arc::clone(&self.rule), origin: self.origin.clone() }
    }
}

/// Makes a policy that of a sub-agent.
pub(crate) struct AgentLevel {
    pub(crate) name: Arc<str>,
    pub(crate) parent: Policy,
    /// Rights that the parent delegates without having them.
    pub(crate) received: Arc<RuleSet>,
    /// Tools listed in the definition, if any.
    only: Option<Arc<[NamePattern]>>,
    /// Files it must not change.
    pub(crate) kept_out: Option<ExcludedDir>,
}

impl Policy {
    /// The policy of a sub-agent: its own rights plus all restrictions of its parents. Allow rules are
    /// inherited, so that a child with its own mode keeps them; deny and ask rules need not be, because
    /// each parent is evaluated too.
    pub fn child(&self, rights: &AgentRights) -> Self {
        match rights.granted.as_slice() {
            [] => self.narrowed(rights),
            granted => self.granting(granted).narrowed(rights),
        }
    }

    /// This policy with additional allow rules at every level.
    fn granting(&self, granted: &[RuleEntry]) -> Self {
        let mut blueprint = self.inner.blueprint.clone();
        blueprint.mode = self.mode;
        blueprint.rules.extend(granted.iter().cloned());
        let level = self.inner.agent.as_ref().map(|agent| AgentLevel {
            name: Arc::clone(&agent.name),
            parent: agent.parent.granting(granted),
            received: Arc::clone(&agent.received),
            only: agent.only.clone(),
            kept_out: agent.kept_out.clone(),
        });
        Self::assemble(blueprint, level)
    }

    fn narrowed(&self, rights: &AgentRights) -> Self {
        let mut blueprint = self.inner.blueprint.clone();
        blueprint.mode = rights.mode.unwrap_or(self.mode);
        blueprint.rules.retain(|rule| rule.behavior == Behavior::Allow);
        let own = rights.rules.iter().map(|(behavior, text)| RuleEntry {
            behavior: *behavior,
            text: Arc::clone(text),
            origin: rights.origin.clone(),
        });
        blueprint.rules.extend(own);
        blueprint.delegations = rights.delegations.clone();
        let names = Arc::clone(&blueprint.names);
        let only = rights.tools.as_ref().map(|tools| {
            let names = tools.iter().map(|tool| tool.split('(').next().unwrap_or(tool).trim());
            names.filter_map(|tool| NamePattern::parse(tool, Behavior::Deny, &blueprint.names).ok()).collect()
        });
        let passed =
            self.inner.blueprint.delegations.iter().filter(|it| *it.to == *rights.name || &*it.to == "*");
        let (received, _) = RuleSet::new(passed.map(|it| it.entry(Behavior::Allow)).collect(), names);
        let level = AgentLevel {
            name: Arc::clone(&rights.name),
            parent: self.lifted(rights),
            received: Arc::new(received),
            only,
            kept_out: rights.kept_out.clone(),
        };
        Self::assemble(blueprint, Some(level))
    }

    /// This policy as it applies to a child that may work in a less strict mode.
    fn lifted(&self, rights: &AgentRights) -> Self {
        let holds = matches!(self.mode, PermissionMode::Plan | PermissionMode::DontAsk);
        match rights.lifted.filter(|_| !holds) {
            Some(mode) => Self { mode, inner: Arc::clone(&self.inner) },
            None => self.clone(),
        }
    }

    /// Whether this is the policy of a sub-agent.
    pub fn is_agent(&self) -> bool {
        self.inner.agent.is_some()
    }

    /// Whether the agent or one of its parents is in plan mode, so nothing may be changed.
    pub fn plans(&self) -> bool {
        let mut levels = std::iter::successors(Some(self), |level| level.parent());
        levels.any(|level| level.mode == PermissionMode::Plan)
    }

    /// Type of the agent; `main` for the main agent.
    pub fn agent_name(&self) -> &str {
        self.inner.agent.as_ref().map_or(AgentId::Main.as_str(), |agent| &agent.name)
    }

    /// Why the agent must not change files at this path; `None` if it may.
    pub(crate) fn exclusion_reason(&self, path: &Path) -> Option<String> {
        let kept_out = self.inner.agent.as_ref()?.kept_out.as_ref()?;
        kept_out.covers(path).then(|| {
            format!(
                "the agent works in a worktree of its own, {}: other files of {} are not its to change",
                kept_out.but.display(),
                kept_out.of.display()
            )
        })
    }

    /// Type of the agent whose definition excludes a tool.
    pub(crate) fn excludes(&self, tool: &str) -> Option<Arc<str>> {
        let agent = self.inner.agent.as_ref()?;
        let names = &self.inner.blueprint.names;
        let listed = agent.only.as_ref()?.iter().any(|it| it.matches(tool, Behavior::Allow, names));
        (!listed).then(|| Arc::clone(&agent.name))
    }

    /// Describes the chain of agents and their rights for display.
    pub fn lattice(&self) -> String {
        let mut levels: Vec<&Self> = std::iter::successors(Some(self), |level| level.parent()).collect();
        levels.reverse();
        let mut out = String::new();
        for (depth, level) in levels.iter().enumerate() {
            let indent = "   ".repeat(depth.saturating_sub(1));
            let branch = if depth == 0 { "" } else { "└─ " };
            let _ = writeln!(out, "{indent}{branch}{}", level.summary());
        }
        if 1 < levels.len() {
            out.push_str("A call has to pass every level; the strictest answer counts.\n");
        }
        if self.is_advisory() {
            let _ = writeln!(out, "{ADVISORY}.");
        }
        out
    }

    fn summary(&self) -> String {
        let mut out = format!("{}: mode {}", self.agent_name(), self.mode);
        let inherited = self.parent().map_or(0, |parent| {
            parent.source_rules().iter().filter(|rule| rule.behavior == Behavior::Allow).count()
        });
        for behavior in [Behavior::Deny, Behavior::Ask, Behavior::Allow] {
            let mut texts = self.source_rules().iter().filter(|rule| rule.behavior == behavior);
            if behavior == Behavior::Allow && 0 < inherited {
                texts.nth(inherited - 1);
            }
            let texts: Vec<&str> = texts.map(|rule| &*rule.text).collect();
            if !texts.is_empty() {
                let _ = write!(out, "; {behavior} {}", texts.join(", "));
            }
        }
        for delegation in &self.inner.blueprint.delegations {
            let _ = write!(out, "; may delegate {} to {} but not use it", delegation.rule, delegation.to);
        }
        out
    }
}
