use std::{fmt, path::Path, sync::Arc};

use arc_swap::ArcSwapOption;
use haft_tool::{AllowReason, CallContext, DynCall, ReadNetworkUse};
use haft_types::PermissionMode;

use crate::{
    Behavior, Classifier, CommandJudge, CommandPart, Decision, HookOpinion, LevelDecision, PolicyBuilder,
    RuleEntry, RuleWarning,
    agent_rights::AgentLevel,
    checkouts::Checkouts,
    classifier,
    evaluate::{CallSubject, DecisionStrength, DecisionTally, Level, LevelRole, PartialDecision},
    path_matcher::PathUse,
    policy_dirs::ResolvedDirs,
    read_scope::{CallReadScope, levels},
    reason::ReasonDetail,
    rule::Rule,
    ruleset::RuleSet,
    suggest_updates,
};

/// All inputs of a permission decision. Immutable except for the mode; a rule change creates a new
/// policy ([`Policy::to_builder`]). Cheap to clone.
#[derive(Clone)]
pub struct Policy {
    /// What happens to calls without a matching rule.
    pub mode: PermissionMode,
    pub(crate) inner: Arc<PolicyInner>,
}

pub(crate) struct PolicyInner {
    pub(crate) blueprint: PolicyBuilder,
    pub(crate) rules: RuleSet,
    pub(crate) warnings: Vec<RuleWarning>,
    /// Rights that may be delegated but not used, as deny rules.
    pub(crate) held_back: Option<RuleSet>,
    pub(crate) agent: Option<AgentLevel>,
    /// Commands that run outside the sandbox.
    outside: RuleSet,
    anchors: ArcSwapOption<ResolvedDirs>,
}

/// What happens outside the workspace without a matching rule.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum OutsideWorkspace {
    #[default]
    Ask,
    /// It is denied.
    Deny,
}

/// Whether path rules also apply to what commands do.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum PathRuleReach {
    /// Only to paths visible in the command line; a program can access any file.
    #[default]
    Advisory,
    /// A sandbox enforces deny rules for every process.
    Sandboxed,
}

/// Whether read-only commands run in the read-only sandbox.
#[derive(Clone, Copy, Debug, Default)]
pub enum ReadOnlyEnforced {
    /// No: a command classified as read-only only because of analysed code or configuration files asks.
    #[default]
    No,
    /// Yes: it cannot write, connect, or run programs that are not installed.
    Yes,
    /// Decided by this function, called when a command depends on it, because probing the sandbox takes
    /// time and many sessions do not need it.
    AsTried(fn() -> bool),
}

impl ReadOnlyEnforced {
    fn is_held(self) -> bool {
        match self {
            Self::No => false,
            Self::Yes => true,
            Self::AsTried(stand) => stand(),
        }
    }
}

/// What happens to prompts about sandboxed commands.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum SandboxedAskPolicy {
    /// The user is asked.
    #[default]
    Ask,
    /// Commands without a matching rule run. Deny and ask rules, doubts, files outside the workspace and
    /// protected paths still ask or deny.
    Run,
}

impl Default for Policy {
    /// No rules, and the working directory of each call as workspace. For tests and programs whose calls
    /// stay in one directory; others should set the workspace with [`Policy::builder`].
    fn default() -> Self {
        PolicyBuilder::default().build()
    }
}

impl Policy {
    /// A builder for a policy with this workspace.
    pub fn builder(workspace: impl AsRef<Path>) -> PolicyBuilder {
        PolicyBuilder::default().workspace(workspace)
    }

    /// A builder with this policy's inputs, without parent agents.
    pub fn to_builder(&self) -> PolicyBuilder {
        let mut builder = self.inner.blueprint.clone();
        builder.mode = self.mode;
        builder
    }

    pub(crate) fn assemble(blueprint: PolicyBuilder, agent: Option<AgentLevel>) -> Self {
        let entries = blueprint.rules.clone();
        let (rules, mut warnings) = RuleSet::new(entries, Arc::clone(&blueprint.names));
        let held_back = (!blueprint.delegations.is_empty()).then(|| {
            let entries = blueprint.delegations.iter().map(|it| it.entry(Behavior::Deny)).collect();
            let (rules, more) = RuleSet::new(entries, Arc::clone(&blueprint.names));
            warnings.extend(more);
            rules
        });
        let mode = blueprint.mode;
        let (outside, more) = RuleSet::new(blueprint.outside.clone(), Arc::clone(&blueprint.names));
        warnings.extend(more);
        let anchors = ArcSwapOption::empty();
        let inner = PolicyInner { blueprint, rules, warnings, held_back, agent, outside, anchors };
        Self { mode, inner: Arc::new(inner) }
    }

    /// Decides whether a call may run.
    ///
    /// The order is hook deny, deny rules, ask rules, safety checks, mode, allow rules; everything else
    /// asks. Executes nothing. Blocks: reads metadata of declared paths, directories that globs and
    /// trees name, and configuration files that commands depend on, but not the content of the user's
    /// files.
    pub fn judge(&self, tool: &str, call: &dyn DynCall, cx: &CallContext, hook: &HookOpinion) -> Decision {
        let tool = self.inner.blueprint.names.canonical(tool);
        let facts = CallSubject::gather(self, tool, call, cx, hook);
        let mut tally = Level::new(self, &facts, LevelRole::Acting).judge();
        let mut chain = Vec::new();
        let mut below = self;
        while let Some(agent) = &below.inner.agent {
            if chain.is_empty() {
                chain.push(below.link(&tally));
            }
            let above = Level::new(&agent.parent, &facts, LevelRole::Above(&agent.received)).judge();
            chain.push(agent.parent.link(&above));
            tally = tally.and(above);
            below = &agent.parent;
        }
        self.conclude(&facts, tally, chain)
    }

    fn conclude(&self, facts: &CallSubject<'_>, tally: DecisionTally, chain: Vec<LevelDecision>) -> Decision {
        let ruling = tally.verdict();
        let suggestions = match ruling.standing {
            DecisionStrength::Open => suggest_updates::suggest(self, &tally.wishes, facts.cx),
            _ => Vec::new(),
        };
        let mut notes = Vec::new();
        if facts.runs_commands() && self.is_advisory() {
            notes.push(String::from(ADVISORY));
        }
        let grants = facts.grants();
        let scope = CallReadScope::new(self, facts, &ruling, &grants);
        Decision {
            behavior: ruling.standing.behavior(),
            reason: ruling.why.to_string(),
            source: ruling.why.source(),
            allowed_by: if facts.is_one_line() && !tally.beyond_reading {
                AllowReason::OnlyReads(if tally.talks { ReadNetworkUse::Yes } else { ReadNetworkUse::No })
            } else {
                ruling.why.allow_reason()
            },
            standing: ruling.standing,
            was_open: false,
            is_elsewhere: false,
            classifiable: self.leaves_to_classifier(&ruling, &tally),
            parts: tally.parts,
            chain,
            notes,
            suggestions,
            grants,
            scope: Arc::new(scope),
        }
    }

    /// Whether the classifier of auto mode may answer: not about anything a rule covers, nor about
    /// protected files, nor about anything that cannot be compared with restricting rules.
    fn leaves_to_classifier(&self, ruling: &PartialDecision, tally: &DecisionTally) -> bool {
        let forbids = |level: &Self| {
            level.inner.rules.rules().iter().any(|rule| rule.entry.behavior != Behavior::Allow)
        };
        self.is_classified()
            && matches!(ruling.standing, DecisionStrength::Open | DecisionStrength::Guarded)
            && !tally.stakes.for_a_person
            && !(tally.stakes.in_doubt && levels(self).any(forbids))
    }

    fn link(&self, tally: &DecisionTally) -> LevelDecision {
        let ruling = tally.verdict();
        let (decision, reason) = (ruling.standing.behavior(), ruling.why.to_string());
        LevelDecision { agent: self.agent_name().to_owned(), decision, reason }
    }

    /// Warnings about invalid rules.
    pub fn warnings(&self) -> &[RuleWarning] {
        &self.inner.warnings
    }

    /// The rules, without those of parent agents.
    pub fn source_rules(&self) -> &[RuleEntry] {
        &self.inner.blueprint.rules
    }

    /// The deny rule that removes a tool from the request, if there is one.
    pub fn removes(&self, tool: &str) -> Option<&RuleEntry> {
        let tool = self.inner.blueprint.names.canonical(tool);
        let own = || {
            let rules = &self.inner.rules;
            rules.bare(&rules.view(tool), Behavior::Deny).map(|rule| &rule.entry)
        };
        let above = || {
            let agent = self.inner.agent.as_ref()?;
            let handed = agent.parent.is_agent() && agent.received.concerns_tool(tool);
            if handed { agent.parent.parent()?.removes(tool) } else { agent.parent.removes(tool) }
        };
        own().or_else(above)
    }

    /// Whether a sandbox enforces the path rules for all commands.
    pub(crate) fn is_enforced(&self) -> bool {
        self.inner.blueprint.enforcement == PathRuleReach::Sandboxed && self.inner.outside.rules().is_empty()
    }

    /// Whether a command may run without asking because it is sandboxed.
    pub(crate) fn is_held(&self, part: &CommandPart) -> bool {
        self.inner.blueprint.enforcement == PathRuleReach::Sandboxed
            && self.inner.blueprint.sandboxed == SandboxedAskPolicy::Run
            && self.inner.outside.command(Behavior::Ask, part).is_none()
    }

    /// Whether read-only commands run in the read-only sandbox.
    pub(crate) fn holds_reading(&self) -> bool {
        self.inner.blueprint.reading.is_held()
    }

    /// Whether there are path rules that a command could circumvent.
    pub(crate) fn is_advisory(&self) -> bool {
        let own = !self.is_enforced() && self.inner.rules.forbids_paths();
        own || self.parent().is_some_and(Self::is_advisory)
    }

    pub(crate) fn parent(&self) -> Option<&Self> {
        self.inner.agent.as_ref().map(|agent| &agent.parent)
    }

    pub(crate) fn rules(&self) -> &RuleSet {
        &self.inner.rules
    }

    pub(crate) fn commands(&self) -> &dyn CommandJudge {
        &*self.inner.blueprint.commands
    }

    pub(crate) fn classifier(&self) -> Option<&Arc<dyn Classifier>> {
        self.inner.blueprint.classifier.as_ref()
    }

    pub(crate) fn home(&self) -> Option<&Path> {
        self.inner.blueprint.places.home.as_deref()
    }

    pub(crate) fn boundary(&self, using: PathUse) -> OutsideWorkspace {
        match using {
            PathUse::Read => self.inner.blueprint.reads_outside,
            PathUse::Write => self.inner.blueprint.writes_outside,
        }
    }

    /// Whether edits in the workspace run without asking.
    pub(crate) fn accepts_edits(&self) -> bool {
        self.mode == PermissionMode::AcceptEdits || self.is_classified()
    }

    /// Whether a classifier answers prompts.
    pub(crate) fn is_classified(&self) -> bool {
        self.mode == PermissionMode::Auto && self.classifier().is_some()
    }

    /// Whether an allow rule applies: in auto mode, overly broad rules are ignored.
    pub(crate) fn counts(&self, rule: &Rule) -> bool {
        !(self.is_classified() && classifier::is_sweeping(rule))
    }

    /// The resolved directories, cached between calls.
    pub(crate) fn anchors(&self, cx: &CallContext) -> Arc<ResolvedDirs> {
        self.resolved_at(&cx.cwd, cx.home.as_deref())
    }

    pub(crate) fn resolved_at(&self, cwd: &Path, home: Option<&Path>) -> Arc<ResolvedDirs> {
        let places = &self.inner.blueprint.places;
        let cwd = places.workspace.as_deref().unwrap_or(cwd);
        let home = places.home.as_deref().or(home);
        let known = self.inner.anchors.load_full().filter(|it| it.fit(cwd, home));
        // Worktrees may be created or removed during a session.
        if let Some(anchors) = known
            && anchors.checkouts == self.checkouts(&anchors)
        {
            return anchors;
        }
        let mut anchors = ResolvedDirs::new(places, cwd, home);
        anchors.checkouts = self.checkouts(&anchors);
        let anchors = Arc::new(anchors);
        self.inner.anchors.store(Some(Arc::clone(&anchors)));
        anchors
    }

    /// Other checkouts in which restricting path rules apply; looked up only if there are such rules.
    fn checkouts(&self, anchors: &ResolvedDirs) -> Checkouts {
        let sets = || std::iter::once(&self.inner.rules).chain(&self.inner.held_back);
        if !sets().any(RuleSet::forbids_some_path) {
            return Checkouts::default();
        }
        anchors.checkouts_now(sets().flat_map(RuleSet::forbidding_roots))
    }

    pub(crate) fn delegated_rules(&self) -> Option<&RuleSet> {
        self.inner.held_back.as_ref()
    }

    pub(crate) fn delegate_only(&self, rule: &Rule) -> ReasonDetail {
        let mut delegations = self.inner.blueprint.delegations.iter();
        let to = delegations.find(|it| it.rule == rule.entry.text).map(|it| Arc::clone(&it.to));
        ReasonDetail::DelegateOnly {
            rule: rule.entry.clone(),
            to: to.unwrap_or_else(|| Arc::from("other agents")),
        }
    }
}

/// Note for path rules when no sandbox enforces them on the shell.
pub(crate) const ADVISORY: &str = "advisory: shell can bypass Read and Edit rules, because no sandbox is on";

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Policy")
            .field("mode", &self.mode)
            .field("agent", &self.agent_name())
            .field("rules", &self.inner.blueprint.rules)
            .finish_non_exhaustive()
    }
}
