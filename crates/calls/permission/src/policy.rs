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

/// Everything that decides, as one value. Immutable but for the mode: a change
/// of rules makes a new one ([`Policy::to_builder`]). Cloning is cheap.
#[derive(Clone)]
pub struct Policy {
    /// What happens to calls no rule speaks about.
    pub mode: PermissionMode,
    pub(crate) inner: Arc<PolicyInner>,
}

pub(crate) struct PolicyInner {
    pub(crate) blueprint: PolicyBuilder,
    pub(crate) rules: RuleSet,
    pub(crate) warnings: Vec<RuleWarning>,
    /// Rights that may be passed on but not used, as denies.
    pub(crate) held_back: Option<RuleSet>,
    pub(crate) agent: Option<AgentLevel>,
    /// Commands that no sandbox holds.
    outside: RuleSet,
    anchors: ArcSwapOption<ResolvedDirs>,
}

/// What happens outside the workspace where no rule speaks.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum OutsideWorkspace {
    /// It asks.
    #[default]
    Ask,
    /// It is denied.
    Deny,
}

/// Whether path rules bind commands, too.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum PathRuleReach {
    /// As far as paths are visible in the command line; a program can read
    /// what it likes.
    #[default]
    Advisory,
    /// A sandbox keeps every process from what the rules deny.
    Sandboxed,
}

/// Whether walls hold commands to the belief that they only read.
#[derive(Clone, Copy, Debug, Default)]
pub enum ReadOnlyEnforced {
    /// Nothing does: where the belief rests on a program inside the command, or
    /// on files it obeys, it asks.
    #[default]
    No,
    /// They cannot write, connect, or run what nobody installed.
    Yes,
    /// As this says, which is asked when a command depends on it: many sessions
    /// run none, and walls take a while to try.
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

/// What becomes of questions about commands that a sandbox holds.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum SandboxedAskPolicy {
    /// They are asked.
    #[default]
    Ask,
    /// What no rule speaks about runs. Deny and ask rules, doubts, files outside
    /// the workspace and protected paths count as always.
    Run,
}

impl Default for Policy {
    /// No rules, and the directory of each call is its workspace. For tests and
    /// programs whose calls stay in one directory; everything else names its
    /// workspace with [`Policy::builder`].
    fn default() -> Self {
        PolicyBuilder::default().build()
    }
}

impl Policy {
    /// Starts a policy for a session that works in this directory.
    pub fn builder(workspace: impl AsRef<Path>) -> PolicyBuilder {
        PolicyBuilder::default().workspace(workspace)
    }

    /// What this policy was made of, to be changed and built again. The rights
    /// of agents above are not part of it.
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

    /// Whether a call may run, and why.
    ///
    /// The order is hook deny, deny rules, ask rules, safety checks, mode, allow
    /// rules; what is left asks. Nothing is executed, and nothing but the names
    /// of files on the way of declared paths is looked up.
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

    /// Whether the classifier of auto mode may answer: never about what a rule
    /// speaks about, never about what is protected, and never about what cannot be
    /// compared with rules that forbid something.
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

    /// What is wrong with the rules.
    pub fn warnings(&self) -> &[RuleWarning] {
        &self.inner.warnings
    }

    /// The rules, those of agents above aside.
    pub fn rules_as_written(&self) -> &[RuleEntry] {
        &self.inner.blueprint.rules
    }

    /// The rule that takes a tool away altogether, so that the model is not
    /// even told of it.
    pub fn removes(&self, tool: &str) -> Option<&RuleEntry> {
        let tool = self.inner.blueprint.names.canonical(tool);
        let own = || {
            let rules = &self.inner.rules;
            rules.bare(&rules.view(tool), Behavior::Deny).map(|rule| &rule.entry)
        };
        let above = || {
            let agent = self.inner.agent.as_ref()?;
            let handed = agent.parent.is_agent() && agent.received.speaks_about(tool);
            if handed { agent.parent.parent()?.removes(tool) } else { agent.parent.removes(tool) }
        };
        own().or_else(above)
    }

    /// Whether a sandbox keeps the path rules, whatever command runs.
    pub(crate) fn is_enforced(&self) -> bool {
        self.inner.blueprint.enforcement == PathRuleReach::Sandboxed && self.inner.outside.rules().is_empty()
    }

    /// Whether a command needs no question because a sandbox holds it.
    pub(crate) fn is_held(&self, part: &CommandPart) -> bool {
        self.inner.blueprint.enforcement == PathRuleReach::Sandboxed
            && self.inner.blueprint.sandboxed == SandboxedAskPolicy::Run
            && self.inner.outside.command(Behavior::Ask, part).is_none()
    }

    /// Whether walls hold commands that are let run because they only read.
    pub(crate) fn holds_reading(&self) -> bool {
        self.inner.blueprint.reading.is_held()
    }

    /// Whether path rules exist that a command could get around.
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

    /// Whether a classifier answers what would ask.
    pub(crate) fn is_classified(&self) -> bool {
        self.mode == PermissionMode::Auto && self.classifier().is_some()
    }

    /// Whether an allow rule counts: a classifier is pointless next to rules
    /// that approve anything.
    pub(crate) fn counts(&self, rule: &Rule) -> bool {
        !(self.is_classified() && classifier::is_sweeping(rule))
    }

    /// The directories as they are now, kept from call to call.
    pub(crate) fn anchors(&self, cx: &CallContext) -> Arc<ResolvedDirs> {
        self.anchors_at(&cx.cwd, cx.home.as_deref())
    }

    pub(crate) fn anchors_at(&self, cwd: &Path, home: Option<&Path>) -> Arc<ResolvedDirs> {
        let places = &self.inner.blueprint.places;
        let cwd = places.workspace.as_deref().unwrap_or(cwd);
        let home = places.home.as_deref().or(home);
        let known = self.inner.anchors.load_full().filter(|it| it.fit(cwd, home));
        // Worktrees come and go while a session runs.
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

    /// Where path rules that forbid something hold besides the workspace; looked
    /// up only if there are such rules.
    fn checkouts(&self, anchors: &ResolvedDirs) -> Checkouts {
        let sets = || std::iter::once(&self.inner.rules).chain(&self.inner.held_back);
        if !sets().any(RuleSet::forbids_some_path) {
            return Checkouts::default();
        }
        anchors.checkouts_now(sets().flat_map(RuleSet::forbidding_roots))
    }

    pub(crate) fn held_back(&self) -> Option<&RuleSet> {
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

/// The honest label for path rules next to a shell without a sandbox.
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
