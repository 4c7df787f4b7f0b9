use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use haft_types::PermissionMode;

use crate::{
    Behavior, Classifier, CommandJudge, DelegatedRight, Destination, Names, OutsideWorkspace, PathRuleReach,
    PlainWordsJudge, Policy, ReadOnlyEnforced, RuleEntry, RuleSource, SandboxedAskPolicy,
    policy_dirs::PolicyDirs,
};

/// Builds a [`Policy`].
#[derive(Clone)]
pub struct PolicyBuilder {
    pub(crate) mode: PermissionMode,
    pub(crate) rules: Vec<RuleEntry>,
    pub(crate) places: PolicyDirs,
    pub(crate) names: Arc<Names>,
    pub(crate) commands: Arc<dyn CommandJudge>,
    pub(crate) classifier: Option<Arc<dyn Classifier>>,
    pub(crate) enforcement: PathRuleReach,
    pub(crate) sandboxed: SandboxedAskPolicy,
    pub(crate) reading: ReadOnlyEnforced,
    pub(crate) outside: Vec<RuleEntry>,
    pub(crate) reads_outside: OutsideWorkspace,
    pub(crate) writes_outside: OutsideWorkspace,
    pub(crate) delegations: Vec<DelegatedRight>,
    pub(crate) origins: Vec<RuleSource>,
}

impl Default for PolicyBuilder {
    fn default() -> Self {
        Self {
            mode: PermissionMode::Default,
            rules: Vec::new(),
            places: PolicyDirs::default(),
            names: Arc::new(Names::built_in()),
            commands: Arc::new(PlainWordsJudge),
            classifier: None,
            enforcement: PathRuleReach::default(),
            sandboxed: SandboxedAskPolicy::default(),
            reading: ReadOnlyEnforced::default(),
            outside: Vec::new(),
            reads_outside: OutsideWorkspace::default(),
            writes_outside: OutsideWorkspace::default(),
            delegations: Vec::new(),
            origins: Vec::new(),
        }
    }
}

impl PolicyBuilder {
    /// Sets the workspace: the readable directory, and the base of `./` in rules. Independent of a
    /// command's current directory.
    pub fn workspace(mut self, dir: impl AsRef<Path>) -> Self {
        self.places.workspace = Some(dir.as_ref().to_owned());
        self
    }

    /// Sets what happens to calls without a matching rule.
    pub fn mode(mut self, mode: PermissionMode) -> Self {
        self.mode = mode;
        self
    }

    /// Adds rules. Their order does not matter.
    pub fn rules<I>(mut self, origin: &RuleSource, behavior: Behavior, texts: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<Arc<str>>,
    {
        self.remember(origin);
        let entries =
            texts.into_iter().map(|text| RuleEntry { behavior, text: text.into(), origin: origin.clone() });
        self.rules.extend(entries);
        self
    }

    /// Registers a source of rules and the base of its `/` before it has rules.
    pub fn origin(mut self, origin: &RuleSource) -> Self {
        self.remember(origin);
        self
    }

    /// Adds a directory to the workspace.
    pub fn additional_dir(mut self, dir: impl AsRef<Path>, destination: Option<Destination>) -> Self {
        self.add_directory(dir.as_ref(), destination);
        self
    }

    /// Adds a directory that can be read, but not edited, without asking.
    pub fn readable_dir(mut self, dir: impl AsRef<Path>) -> Self {
        self.places.readable.push(dir.as_ref().to_owned());
        self
    }

    /// Adds a directory with Haft's own state, which no rule lets tools change.
    pub fn protect(mut self, dir: impl AsRef<Path>) -> Self {
        self.places.own.push(dir.as_ref().to_owned());
        self
    }

    /// Sets the home directory for `~` in rules; by default that of each call.
    pub fn home(mut self, dir: impl AsRef<Path>) -> Self {
        self.places.home = Some(dir.as_ref().to_owned());
        self
    }

    /// Sets the tool names.
    pub fn names(mut self, names: Arc<Names>) -> Self {
        self.names = names;
        self
    }

    /// Sets the analyser for command lines.
    pub fn commands(mut self, commands: Arc<dyn CommandJudge>) -> Self {
        self.commands = commands;
        self
    }

    /// Sets the classifier of auto mode. Without one, auto mode asks like the default mode.
    pub fn classifier(mut self, classifier: Arc<dyn Classifier>) -> Self {
        self.classifier = Some(classifier);
        self
    }

    /// Sets whether read-only commands run in the read-only sandbox.
    pub fn reading(mut self, held: ReadOnlyEnforced) -> Self {
        self.reading = held;
        self
    }

    /// Sets whether a sandbox enforces path rules.
    pub fn enforcement(mut self, enforcement: PathRuleReach) -> Self {
        self.enforcement = enforcement;
        self
    }

    /// Sets whether sandboxed commands run without asking. No effect without
    /// [`PathRuleReach::Sandboxed`].
    pub fn sandboxed_commands(mut self, commands: SandboxedAskPolicy) -> Self {
        self.sandboxed = commands;
        self
    }

    /// Sets commands that run outside the sandbox, in the syntax inside `Bash(...)`.
    pub fn runs_outside(mut self, patterns: impl IntoIterator<Item = String>) -> Self {
        let origin = RuleSource::fixed("sandbox.excludedCommands");
        let entry = |pattern: String| RuleEntry {
            behavior: Behavior::Ask,
            text: format!("Bash({pattern})").into(),
            origin: origin.clone(),
        };
        self.outside.extend(patterns.into_iter().map(entry));
        self
    }

    /// Sets what happens to reads outside the workspace.
    pub fn reads_outside(mut self, boundary: OutsideWorkspace) -> Self {
        self.reads_outside = boundary;
        self
    }

    /// Sets what happens to writes outside the workspace.
    pub fn writes_outside(mut self, boundary: OutsideWorkspace) -> Self {
        self.writes_outside = boundary;
        self
    }

    /// Adds a right that may be delegated but not used.
    pub fn delegation(mut self, delegation: DelegatedRight) -> Self {
        self.delegations.push(delegation);
        self
    }

    /// Builds the policy. Never fails: an invalid rule becomes a warning and is interpreted strictly.
    pub fn build(self) -> Policy {
        Policy::assemble(self, None)
    }

    pub(crate) fn add_directory(&mut self, dir: &Path, destination: Option<Destination>) {
        let known = self.places.additional.iter().any(|(path, _)| path == dir);
        if !known {
            self.places.additional.push((dir.to_owned(), destination));
        }
    }

    pub(crate) fn remove_directories(&mut self, dirs: &[PathBuf], destination: Destination) {
        self.places.additional.retain(|(path, at)| *at != Some(destination) || !dirs.contains(path));
    }

    /// The source for rules of a destination.
    pub(crate) fn origin_of(&self, destination: Destination) -> RuleSource {
        let known = self.origins.iter().find(|origin| origin.destination == Some(destination));
        known.cloned().unwrap_or_else(|| RuleSource::new(destination.label(), destination))
    }

    fn remember(&mut self, origin: &RuleSource) {
        let known = self.origins.iter().any(|it| it.destination == origin.destination);
        if origin.destination.is_some() && !known {
            self.origins.push(origin.clone());
        }
    }
}

impl fmt::Debug for PolicyBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PolicyBuilder")
            .field("mode", &self.mode)
            .field("rules", &self.rules)
            .field("places", &self.places)
            .finish_non_exhaustive()
    }
}
