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

/// What the definition of an agent says about its rights. It can only take
/// away: whatever it allows, every agent above has to allow as well.
#[derive(Clone, Debug, Default)]
pub struct AgentRights {
    /// The type of agent, as delegations name it.
    pub name: Arc<str>,
    /// The mode it works in; its parent's when not given.
    pub mode: Option<PermissionMode>,
    /// A mode that the agent right above counts as being in while this one
    /// calls, because whoever runs the session described the agent that way. It
    /// never lifts an agent out of planning, or out of denying what would ask.
    pub lifted: Option<PermissionMode>,
    /// Rules of the definition, by behaviour.
    pub rules: Vec<(Behavior, Arc<str>)>,
    /// What the person allowed to it and to nobody else. Every agent above counts as
    /// allowing it, too, while this one calls; what somebody denies stays denied.
    pub granted: Vec<RuleEntry>,
    /// The tools it was given; all when not said.
    pub tools: Option<Vec<String>>,
    /// What it may pass on but not use.
    pub delegations: Vec<DelegatedRight>,
    /// Files it may not change, whatever anybody allows.
    pub kept_out: Option<ExcludedDir>,
    /// Where the definition stands.
    pub origin: RuleSource,
}

impl AgentRights {
    /// Takes a change for this agent alone. Directories belong to the whole session,
    /// so that none is added here.
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

/// A place whose files an agent may not change, but for another place in it: a
/// checkout, for one that works in a worktree of its own.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ExcludedDir {
    /// The place.
    pub of: PathBuf,
    /// The place in it that is not meant.
    pub but: PathBuf,
}

impl ExcludedDir {
    pub(crate) fn covers(&self, path: &Path) -> bool {
        path.starts_with(&self.of) && !path.starts_with(&self.but)
    }
}

/// A right that may be passed on but not used.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DelegatedRight {
    /// What may be passed on, written like a rule.
    pub rule: Arc<str>,
    /// The type of agent that may get it; `*` for any.
    pub to: Arc<str>,
    /// Where this is said.
    pub origin: RuleSource,
}

impl DelegatedRight {
    pub(crate) fn entry(&self, behavior: Behavior) -> RuleEntry {
        RuleEntry { behavior, text: Arc::clone(&self.rule), origin: self.origin.clone() }
    }
}

/// What makes a policy that of an agent below another.
pub(crate) struct AgentLevel {
    pub(crate) name: Arc<str>,
    pub(crate) parent: Policy,
    /// What the parent passes on without using it.
    pub(crate) received: Arc<RuleSet>,
    /// The tools the definition lists, if it lists any.
    only: Option<Arc<[NamePattern]>>,
    /// Files it may not change.
    pub(crate) kept_out: Option<ExcludedDir>,
}

impl Policy {
    /// The rights of an agent this one starts: its own definition, and every
    /// limit of those above. Allow rules are inherited, because a child that
    /// names a mode must not lose what it was given; denies and asks need not
    /// be, because the parent is asked as well.
    pub fn child(&self, rights: &AgentRights) -> Self {
        match rights.granted.as_slice() {
            [] => self.narrowed(rights),
            granted => self.granting(granted).narrowed(rights),
        }
    }

    /// The same rights, with more that is allowed at every level.
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

    /// These rights as they count for an agent that may work in a looser mode.
    fn lifted(&self, rights: &AgentRights) -> Self {
        let holds = matches!(self.mode, PermissionMode::Plan | PermissionMode::DontAsk);
        match rights.lifted.filter(|_| !holds) {
            Some(mode) => Self { mode, inner: Arc::clone(&self.inner) },
            None => self.clone(),
        }
    }

    /// Whether these are the rights of an agent that another one started.
    pub fn is_agent(&self) -> bool {
        self.inner.agent.is_some()
    }

    /// Whether the agent, or one above it, plans: nothing can be changed.
    pub fn plans(&self) -> bool {
        let mut levels = std::iter::successors(Some(self), |level| level.parent());
        levels.any(|level| level.mode == PermissionMode::Plan)
    }

    /// Whose rights these are.
    pub fn agent_name(&self) -> &str {
        self.inner.agent.as_ref().map_or(AgentId::Main.as_str(), |agent| &agent.name)
    }

    /// Why files at a path are not the agent's to change, if they are not.
    pub(crate) fn keeps_out_of(&self, path: &Path) -> Option<String> {
        let kept_out = self.inner.agent.as_ref()?.kept_out.as_ref()?;
        kept_out.covers(path).then(|| {
            format!(
                "the agent works in a worktree of its own, {}: other files of {} are not its to change",
                kept_out.but.display(),
                kept_out.of.display()
            )
        })
    }

    /// The agent whose definition leaves a tool out.
    pub(crate) fn excludes(&self, tool: &str) -> Option<Arc<str>> {
        let agent = self.inner.agent.as_ref()?;
        let names = &self.inner.blueprint.names;
        let listed = agent.only.as_ref()?.iter().any(|it| it.matches(tool, Behavior::Allow, names));
        (!listed).then(|| Arc::clone(&agent.name))
    }

    /// The chain of agents and what each may do, for people.
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
            parent.rules_as_written().iter().filter(|rule| rule.behavior == Behavior::Allow).count()
        });
        for behavior in [Behavior::Deny, Behavior::Ask, Behavior::Allow] {
            let mut texts = self.rules_as_written().iter().filter(|rule| rule.behavior == behavior);
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
