//! Chooses the sandbox of each command: the settings decide whether there is one, the rules and the mode
//! of the call decide what it blocks.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use haft_builtin_tools::bash::{CommandConfiner, ConfinedCommand, ConfinementChoice, OutsideSandbox};
use haft_config::{SandboxSettings as Wishes, SettingsStore, Sourced};
use haft_permission::{Behavior, Destination, Policy as Rules, RuleSource};
use haft_sandbox::{
    Confinement, Domains, Hidden, Network, Sandbox, SandboxConfig, SandboxPolicy, SandboxReport,
    SandboxStrictness, UnixSockets, WorkspacePolicy,
};
use haft_shell::run::BaselineGuard;
use haft_tool::{AllowReason, PathRestrictions, RestrictedPath};
use haft_types::{AgentId, PermissionMode};

use super::{
    SessionRoots,
    baseline_guard::StateGuard,
    read_only_guard::{ReadOnlyGuard, ReadOnlyKey},
    scratch_dir::ScratchDir,
    state_dir,
};
use crate::{EventSender, permission_dry_run::rules_cover};

/// Builds the sandboxes of one session.
pub struct CommandSandbox {
    store: Arc<SettingsStore>,
    session: String,
    state: PathBuf,
    roots: Arc<SessionRoots>,
    home: Option<PathBuf>,
    sandbox: OnceLock<Result<Arc<Sandbox>, String>>,
    scratch: OnceLock<Result<ScratchDir, String>>,
    warned: AtomicBool,
    events: EventSender,
    /// The sandbox of the previous call; most calls use the same.
    last: Mutex<Option<(SandboxStrictness, Arc<Confinement>)>>,
    /// Sandbox of commands that are allowed because they only read.
    reading: ReadOnlyGuard,
    /// Baseline protection of all other commands.
    keeper: Arc<StateGuard>,
    /// Restrictions of agents that work in a worktree of their own.
    fenced: Mutex<HashMap<AgentId, WorktreeRestriction>>,
}

/// Restricts where the commands of an agent may write: inside its worktree, but not in the checkout it
/// was created from.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct WorktreeRestriction {
    pub(crate) worktree: PathBuf,
    pub(crate) checkout: PathBuf,
}

/// Who requests that a command is confined.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SandboxDemand {
    /// The settings, if they enable the sandbox. Rules and plan mode are always enforced, but without
    /// the setting the network stays open.
    BySettings,
    /// The user, explicitly (`haft sandbox`).
    ByName,
}

/// Restrictions of a call, from rules and mode.
pub struct CallLimits<'a> {
    /// Who requests the sandbox.
    pub wanted: SandboxDemand,
    /// The reason why the call must not change anything; `None` if it may.
    pub read_only: Option<String>,
    /// Returns the paths that deny rules name.
    pub fence: &'a dyn Fn() -> PathRestrictions,
}

impl CommandSandbox {
    pub(super) fn new(
        store: Arc<SettingsStore>,
        session: &str,
        state: PathBuf,
        roots: Arc<SessionRoots>,
        home: Option<PathBuf>,
        events: EventSender,
    ) -> Self {
        let journal = super::journal_state_dir(state.clone());
        let keeper = StateGuard::new(Arc::clone(&store), journal, Arc::clone(&roots), home.clone());
        Self {
            store,
            keeper: Arc::new(keeper),
            session: session.to_owned(),
            state,
            roots,
            home,
            sandbox: OnceLock::new(),
            scratch: OnceLock::new(),
            warned: AtomicBool::new(false),
            events,
            last: Mutex::default(),
            reading: ReadOnlyGuard::default(),
            fenced: Mutex::default(),
        }
    }

    fn fenced(&self) -> MutexGuard<'_, HashMap<AgentId, WorktreeRestriction>> {
        self.fenced.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Restricts the commands of an agent to its worktree.
    pub(crate) fn fence_in(&self, agent: AgentId, fence: WorktreeRestriction) {
        self.fenced().insert(agent, fence);
    }

    /// The worktree restriction of an agent, if any.
    pub(crate) fn fence_of(&self, agent: &AgentId) -> Option<WorktreeRestriction> {
        self.fenced().get(agent).cloned()
    }

    /// Removes the restriction of an agent that has ended.
    pub(crate) fn unfence(&self, agent: &AgentId) {
        self.fenced().remove(agent);
    }

    /// The directories an agent's commands may write to.
    fn roots_of(&self, agent: &AgentId) -> Vec<PathBuf> {
        let Some(fence) = self.fence_of(agent) else { return self.roots.now() };
        let is_apart = |it: &&PathBuf| !it.starts_with(&fence.checkout) && !fence.checkout.starts_with(it);
        let roots = self.roots.now();
        let apart = roots.iter().filter(is_apart).cloned();
        std::iter::once(fence.worktree.clone()).chain(apart).collect()
    }

    fn wishes(&self) -> Wishes {
        self.store.current().settings.sandbox.clone()
    }

    /// Whether the settings enable the sandbox (`sandbox.enabled`).
    pub fn is_wanted(&self) -> bool {
        is_set(&self.wishes().enabled)
    }

    /// Whether sandboxed commands may run without a prompt: the sandbox is enabled and this machine
    /// enforces all of it.
    pub fn allows_without_asking(&self) -> bool {
        self.is_wanted()
            && self.sandbox().is_ok_and(|sandbox| {
                let policy = self.policy(&CallLimits {
                    wanted: SandboxDemand::BySettings,
                    read_only: None,
                    fence: &PathRestrictions::default,
                });
                policy.is_ok_and(|policy| sandbox.report(&policy).is_complete())
            })
    }

    /// Whether this machine can confine commands that run without a prompt because they only read, or
    /// why not. Tried once per process.
    pub fn restricts_read_only(&self) -> Result<(), String> {
        super::read_only_guard::is_supported()
    }

    /// Whether this machine can protect the data undo needs from commands in every mode, or why not.
    /// Tried once per process.
    pub fn guards_state(&self) -> Result<(), String> {
        super::baseline_guard::freezes()
    }

    /// The baseline protection of commands.
    pub(crate) fn keeper(&self) -> Arc<dyn BaselineGuard> {
        Arc::clone(&self.keeper) as Arc<dyn BaselineGuard>
    }

    /// Sets how to read the permission mode: modes without approval protect more files.
    pub(crate) fn follow_mode(&self, mode: impl Fn() -> PermissionMode + Send + Sync + 'static) {
        self.keeper.follow(mode);
    }

    /// The sandbox of a command that was allowed because it only reads; `None` for other commands.
    fn around_reading(&self, about: &ConfinedCommand<'_>) -> Option<ConfinementChoice> {
        let AllowReason::OnlyReads(talks) = about.permit.reason() else { return None };
        super::read_only_guard::is_supported().ok()?;
        let built = self.scratch().and_then(|scratch| {
            let place = ReadOnlyKey {
                roots: &self.roots.now(),
                home: self.home.as_deref(),
                scratch,
                keys: self.own_keys().collect(),
            };
            self.reading.walls(*talks, about.permit, &place)
        });
        Some(match built {
            Ok(walls) => ConfinementChoice::Reading(walls),
            Err(why) => {
                ConfinementChoice::Refused(format!("it only reads, and what holds it to that failed: {why}"))
            }
        })
    }

    fn own_keys(&self) -> impl Iterator<Item = PathBuf> {
        let places = self.store.places();
        let dirs: Vec<PathBuf> = places.protected().cloned().collect();
        dirs.into_iter().flat_map(|dir| OWN_KEYS.map(|name| dir.join(name))).filter(|path| path.exists())
    }

    /// The sandbox of this machine, created on first use, or why there is none.
    pub fn sandbox(&self) -> Result<&Arc<Sandbox>, String> {
        let opened = self.sandbox.get_or_init(|| {
            // A state directory that is not writable must not disable the sandbox: it uses a temporary
            // one.
            let state = if state_dir::can_be_written(&self.state) {
                self.state.clone()
            } else {
                state_dir::temporary_state()
            };
            let config = SandboxConfig::new(self.session.as_str(), state.join("sandbox"));
            config.and_then(Sandbox::open).map_err(|err| format!("the sandbox cannot be used: {err}"))
        });
        opened.as_ref().map_err(Clone::clone)
    }

    fn scratch(&self) -> Result<&Path, String> {
        let made = self.scratch.get_or_init(|| ScratchDir::new().map_err(|err| err.to_string()));
        made.as_ref().map(ScratchDir::path).map_err(|err| format!("there is no temporary directory: {err}"))
    }

    /// The sandbox policy of a call.
    pub fn policy(&self, limits: &CallLimits<'_>) -> Result<SandboxPolicy, String> {
        self.policy_within(limits, &self.roots.now())
    }

    fn policy_within(&self, limits: &CallLimits<'_>, roots: &[PathBuf]) -> Result<SandboxPolicy, String> {
        let wishes = self.wishes();
        let enabled = limits.wanted == SandboxDemand::ByName || is_set(&wishes.enabled);
        let fence = (limits.fence)();
        let hide = self.hidden(&wishes, &fence);
        let scratch = self.scratch()?;
        let network = if enabled { network(&wishes) } else { Network::Open };
        let mut policy = match &limits.read_only {
            Some(why) => SandboxPolicy { hide, network, ..SandboxPolicy::read_only(scratch, why.as_str()) },
            None => {
                let write = self.paths(&wishes.filesystem.allow_write);
                let mut protect = self.paths(&wishes.filesystem.deny_write);
                protect.extend(fence.unchangeable.iter().map(|it| it.path.clone()));
                let places = self.store.places();
                protect.extend(places.protected().cloned());
                WorkspacePolicy {
                    roots,
                    scratch,
                    home: self.home.as_deref(),
                    write: &write,
                    protect: &protect,
                    hide: &hide,
                }
                .policy(network)
            }
        };
        let sockets = &wishes.network;
        policy.sockets = if !enabled || is_set(&sockets.allow_all_unix_sockets) {
            UnixSockets::All
        } else if sockets.allow_unix_sockets.is_empty() {
            UnixSockets::Own
        } else {
            UnixSockets::Listed(self.paths(&sockets.allow_unix_sockets))
        };
        Ok(policy)
    }

    /// Paths that are not readable: those of deny rules, of the settings, and Haft's own credentials.
    fn hidden(&self, wishes: &Wishes, fence: &PathRestrictions) -> Vec<Hidden> {
        let by_rule = fence.unreadable.iter().map(|RestrictedPath { path, rule }| Hidden {
            path: path.clone(),
            rule: format!("deny rule {rule}"),
        });
        let readable = self.paths(&wishes.filesystem.allow_read);
        let denied = self.paths(&wishes.filesystem.deny_read).into_iter();
        let by_setting = denied.flat_map(|path| except(path, &readable)).map(|path| {
            let rule = String::from("sandbox.filesystem.denyRead");
            Hidden { path, rule }
        });
        let keys = self.own_keys().map(|path| Hidden { path, rule: OWN_KEYS_RULE.to_owned() });
        by_rule.chain(by_setting).chain(keys).collect()
    }

    fn paths(&self, texts: &[Sourced<String>]) -> Vec<PathBuf> {
        texts.iter().flat_map(|text| self.named(text)).collect()
    }

    /// The paths an entry of the settings names: a path, or the matches of a pattern now, found as a
    /// path rule would.
    fn named(&self, text: &Sourced<String>) -> Vec<PathBuf> {
        let plain = text.value.strip_suffix("/**").unwrap_or(&text.value);
        if !plain.contains(['*', '?', '[', '{']) {
            return vec![self.path(text)];
        }
        let base = &text.origin.source.base;
        let origin = RuleSource::new("sandbox.filesystem", Destination::Session).rooted(base.as_path());
        let rule = format!("Read({})", text.value);
        let policy = Rules::builder(base).rules(&origin, Behavior::Deny, [rule]).build();
        let found = policy.fence(base, self.home.as_deref());
        if !found.missed.is_empty() {
            self.warn_once(&format!("sandbox.filesystem: {}", found.missed.join("; ")));
        }
        found.unreadable.into_iter().map(|it| it.path).collect()
    }

    /// Resolves a path of the settings: `//x` is absolute as in rules, `~` is the home directory,
    /// anything else is relative to the settings file's base directory.
    fn path(&self, text: &Sourced<String>) -> PathBuf {
        let written = text.value.strip_suffix("/**").unwrap_or(&text.value);
        let written = written.strip_prefix('/').filter(|rest| rest.starts_with('/')).unwrap_or(written);
        let base = &text.origin.source.base;
        let expanded = haft_paths::expand(Path::new(written), base, self.home.as_deref());
        haft_paths::lexical(&expanded.unwrap_or_else(|_| base.join(written)))
    }

    /// Builds the sandbox for a policy, or returns why it is not possible. Reuses the previous sandbox
    /// if the policy is equal, whatever its strictness was.
    pub fn build(
        &self,
        policy: SandboxPolicy,
        strictness: SandboxStrictness,
    ) -> Result<Arc<Confinement>, String> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        // A sandbox built with best effort may enforce less than a complete one of the same policy.
        if let Some((_, built)) = last.as_ref().filter(|it| it.0 == strictness && *it.1.policy() == policy) {
            return Ok(Arc::clone(built));
        }
        let built = self.sandbox()?.confine(policy, strictness)?;
        *last = Some((strictness, Arc::clone(&built)));
        Ok(built)
    }

    /// Describes a policy in plain words, and what this machine enforces of it.
    pub fn report(&self, policy: &SandboxPolicy) -> Result<SandboxReport, String> {
        Ok(self.sandbox()?.report(policy))
    }

    fn warn_once(&self, why: &str) {
        if !self.warned.swap(true, Ordering::Relaxed) {
            self.events.notice(why);
        }
    }

    fn is_excluded(&self, wishes: &Wishes, about: &ConfinedCommand<'_>) -> bool {
        let patterns: Vec<String> = wishes.excluded_commands.iter().map(|it| it.value.clone()).collect();
        !patterns.is_empty() && rules_cover(&patterns, about.command, about.cwd, self.home.as_deref())
    }

    /// Confines a command that must be confined. What this machine cannot enforce is rejected or
    /// reported, as `demand` says.
    fn held(
        &self,
        limits: &CallLimits<'_>,
        demand: RequiredConfinement,
        roots: &[PathBuf],
    ) -> ConfinementChoice {
        let built = self.policy_within(limits, roots).and_then(|policy| {
            let complete = demand == RequiredConfinement::Complete;
            let strictness =
                if complete { SandboxStrictness::Complete } else { SandboxStrictness::BestEffort };
            let gaps = self.report(&policy)?.gaps;
            let walls = self.build(policy, strictness)?;
            if !gaps.is_empty() {
                self.warn_once(&format!("the sandbox does not enforce everything here: {}", gaps.join("; ")));
            }
            Ok(walls)
        });
        match (built, demand) {
            (Ok(walls), _) => ConfinementChoice::Walls(walls),
            (Err(why), RequiredConfinement::IfPossible) => {
                self.warn_once(&format!("commands run without a sandbox: {why}"));
                ConfinementChoice::Free
            }
            (Err(why), RequiredConfinement::Complete | RequiredConfinement::SomeWalls) => {
                ConfinementChoice::Refused(format!(
                    "{why}. `haft sandbox check` says more; sandbox.failIfUnavailable: false lets commands run without"
                ))
            }
        }
    }
}

/// How much of the sandbox must be enforced before a command runs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum RequiredConfinement {
    /// All of it; otherwise the command is rejected.
    Complete,
    /// At least a part; gaps are reported once.
    SomeWalls,
    /// As much as possible; a missing sandbox is reported once.
    IfPossible,
}

/// Files with credentials of Haft, relative to the settings directories.
const OWN_KEYS: [&str; 4] = [".credentials.json", "credentials.json", "mcp-tokens.json", "mcp-auth"];
const OWN_KEYS_RULE: &str = "Haft's own keys";

impl CommandConfiner for CommandSandbox {
    fn choose(&self, about: &ConfinedCommand<'_>) -> ConfinementChoice {
        let wishes = self.wishes();
        let read_only = about.permit.forbids_changes();
        let limits =
            CallLimits { wanted: SandboxDemand::BySettings, read_only, fence: &|| about.permit.fence() };
        let required = wishes.fail_if_unavailable.as_ref().map(|it| it.value);
        let roots = self.roots_of(about.agent);
        if !is_set(&wishes.enabled) {
            if let Some(choice) = self.around_reading(about) {
                return choice;
            }
            // Plan mode has already judged the command harmless; the sandbox covers misjudgements.
            let is_fenced = self.fence_of(about.agent).is_some();
            return match (&limits.read_only, is_fenced, required) {
                (Some(_), _, _) | (None, true, Some(false)) => {
                    self.held(&limits, RequiredConfinement::IfPossible, &roots)
                }
                (None, true, _) => self.held(&limits, RequiredConfinement::SomeWalls, &roots),
                (None, false, _) => ConfinementChoice::Free,
            };
        }
        if limits.read_only.is_none() {
            if about.outside == OutsideSandbox::Agreed {
                return match wishes.allow_unsandboxed_commands.as_ref().map(|it| it.value) {
                    Some(false) => ConfinementChoice::Refused(String::from(
                        "the settings let no command run outside (sandbox.allowUnsandboxedCommands)",
                    )),
                    _ => ConfinementChoice::Free,
                };
            }
            if self.is_excluded(&wishes, about) {
                return ConfinementChoice::Free;
            }
        }
        let limits = match about.permit.reason() {
            AllowReason::OnlyReads(_) if limits.read_only.is_none() => {
                CallLimits { read_only: Some(String::from("it was let run because it only reads")), ..limits }
            }
            _ => limits,
        };
        self.held(
            &limits,
            match required {
                Some(true) => RequiredConfinement::Complete,
                None => RequiredConfinement::SomeWalls,
                Some(false) => RequiredConfinement::IfPossible,
            },
            &roots,
        )
    }
}

/// Splits a denied directory so that the readable paths in it stay readable: all entries beside them and
/// beside the directories above them.
fn except(denied: PathBuf, readable: &[PathBuf]) -> Vec<PathBuf> {
    if readable.contains(&denied) {
        return Vec::new();
    }
    if !readable.iter().any(|it| it.starts_with(&denied)) {
        return vec![denied];
    }
    let entries = std::fs::read_dir(&denied).into_iter().flatten().flatten().map(|it| it.path());
    entries.flat_map(|path| except(path, readable)).collect()
}

fn is_set(flag: &Option<Sourced<bool>>) -> bool {
    flag.as_ref().is_some_and(|it| it.value)
}

/// Allowed network access: none, unless the settings name domains; `*` allows all.
fn network(wishes: &Wishes) -> Network {
    let texts = |list: &[Sourced<String>]| list.iter().map(|it| it.value.clone()).collect::<Vec<_>>();
    let (allow, deny) = (texts(&wishes.network.allowed_domains), texts(&wishes.network.denied_domains));
    match (allow.iter().any(|it| it == "*"), allow.is_empty()) {
        (true, _) if deny.is_empty() => Network::Open,
        (_, true) => Network::Off,
        _ => Network::Domains(Domains { allow, deny }),
    }
}
