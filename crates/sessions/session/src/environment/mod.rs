//! The environment of a session, known before anything runs: directories, settings, rules, sandbox.
//! Reading it starts nothing and asks no question.

mod baseline_guard;
mod build_policy;
mod command_sandbox;
mod journalled_changes;
mod login_path;
mod read_only_guard;
mod scratch_dir;
mod session_roots;

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, OnceLock, PoisonError, Weak},
};

use haft_agent::{MaskedResults, Masker, recording::RecordingDirs};
use haft_builtin_tools::git::Git;
use haft_config::{
    FeatureSwitch, FlagContent, FlagSettings, ItemKind, LoadOptions, LoadedSettings, SettingsLayer,
    SettingsPaths, SettingsSourceKind, SettingsStore, TrustMode,
};
use haft_model::{Catalog, StoredKeys};
use haft_permission::{Classifier, Policy};
use haft_process::LiveProcesses;
use haft_shell::run::{Shell, TaskRegistry};
use haft_tool::{DynTool, Tool as _};
use haft_tool_runtime::PoolFeatures;
use haft_types::{EnvVars, SessionId};
use haft_workspace::{Journal, JournalLimits, Workspace, WorkspaceConfig};

use self::build_policy::directories;
pub use self::{
    build_policy::policy_of_rules,
    command_sandbox::{CallLimits, CommandSandbox, SandboxDemand},
};
pub(crate) use self::{
    command_sandbox::WorktreeRestriction, login_path::LoginShellPath, session_roots::SessionRoots,
};
use crate::{
    EventSender, OpenError, PermissionSpec, SessionSpec, SettingsSpec, mcp_servers::ToolPolicies,
    telemetry::TraceDesk,
};
pub(crate) use haft_config::state_dir;
pub use haft_settings_rules::split_rules;

/// Subdirectory of a session's directory for large results of calls.
pub(crate) const TOOL_RESULTS: &str = "tool-results";
/// Subdirectory of a session's directory for large results of MCP servers.
pub(crate) const MCP_RESULTS: &str = "tool-results/mcp";

/// Directories, settings, rules and sandbox of one session.
pub struct SessionEnvironment {
    /// The working directory.
    pub cwd: PathBuf,
    /// The user's home directory, if known.
    pub home: Option<PathBuf>,
    /// Environment variables of the session.
    pub variables: EnvVars,
    /// The settings, which can be reloaded.
    pub store: Arc<SettingsStore>,
    /// Id after which the session's directories are named.
    pub session_id: SessionId,
    /// Further workspace directories named by the spec.
    pub extra_dirs: Vec<PathBuf>,
    /// All workspace directories, including those added later.
    pub(crate) roots: Arc<SessionRoots>,
    /// Chooses the sandbox of commands.
    pub walls: Arc<CommandSandbox>,
    /// Path of the `haft` executable, if known.
    pub program: Option<PathBuf>,
    /// Receives messages for the user.
    pub events: EventSender,
    pub(crate) permissions: PermissionSpec,
    has_several_clients: bool,
    settings_spec: Mutex<SettingsSpec>,
    /// Masks secrets: values of variables, and secrets that calls come across.
    pub(crate) masker: Masker,
    /// Tool hosts, once they are connected.
    pub(crate) hosts: OnceLock<Arc<haft_tool_host::HostSet>>,
    /// The classifier of auto mode, once it is created.
    pub(crate) classifier: OnceLock<Arc<dyn Classifier>>,
    /// The registry of running commands, once it is created.
    pub(crate) tasks: OnceLock<Weak<TaskRegistry>>,
    /// Telemetry of the session.
    pub(crate) traces: Arc<TraceDesk>,
    /// Tool policies of the embedding program for its MCP servers.
    pub(crate) tool_policies: ToolPolicies,
    /// The `PATH` of the login shell.
    pub(crate) login_path: Arc<LoginShellPath>,
}

impl SessionEnvironment {
    /// Reads the settings and reports problems in them. Blocks on file access. Fails if the working
    /// directory does not exist, or if settings given by flags are invalid.
    pub fn read(spec: &SessionSpec, session_id: SessionId, events: EventSender) -> Result<Self, OpenError> {
        let cwd = directory(&spec.place.cwd)?;
        let variables = spec.place.variables.clone();
        let home = spec.place.home();
        let mut places = SettingsPaths::detect(&cwd, &|name| variables.os_text(name));
        if let Some(state) = &spec.place.state_dir {
            places.state = Some(state.clone());
            places.further_keys = None;
        }
        let load = load_options(&spec.settings, &cwd);
        let store = Arc::new(SettingsStore::open(places, load));
        let loaded = store.current();
        refuse_broken_flags(&spec.settings, &loaded, &cwd)?;
        for notice in loaded.problems.iter().chain(&loaded.warnings) {
            events.notice(notice.to_string());
        }
        let state = state_dir(&store);
        let extra_dirs: Vec<PathBuf> = spec.place.extra_dirs.iter().map(|dir| absolute(dir, &cwd)).collect();
        for dir in extra_dirs.iter().filter(|dir| !dir.is_dir()) {
            events.notice(format!("{} is no directory, so adding it changes nothing yet", dir.display()));
        }
        let roots = Arc::new(SessionRoots::new(directories(&cwd, home.as_deref(), &loaded, &extra_dirs)));
        let walls = CommandSandbox::new(
            Arc::clone(&store),
            session_id.as_str(),
            state,
            Arc::clone(&roots),
            home.clone(),
            events.clone(),
        );
        let masker = masker(&variables, &loaded)?;
        for name in &spec.place.secret_names {
            if let Some(value) = variables.text(name) {
                masker.know(name, &value);
            }
        }
        let login_path = LoginShellPath::new(variables.clone(), state_dir(&store), events.clone());
        Ok(Self {
            cwd,
            home,
            variables,
            store,
            session_id,
            extra_dirs,
            roots,
            walls: Arc::new(walls),
            program: spec.place.program.clone(),
            events,
            permissions: spec.permissions.clone(),
            has_several_clients: spec.has_several_clients,
            settings_spec: Mutex::new(spec.settings.clone()),
            masker,
            hosts: OnceLock::new(),
            classifier: OnceLock::new(),
            tasks: OnceLock::new(),
            traces: Arc::default(),
            tool_policies: ToolPolicies::default(),
            login_path,
        })
    }

    /// The current settings.
    pub fn loaded(&self) -> Arc<LoadedSettings> {
        self.store.current()
    }

    /// One line about the project settings that are ignored because the project is not trusted; `None`
    /// if there are none. Does not include MCP servers, which are reported when they would be started.
    pub(crate) fn waiting_for_trust(&self) -> Option<String> {
        let loaded = self.store.current();
        let pending = loaded.pending_trust.as_ref()?;
        let named = [
            (ItemKind::Hook, "hook", "hooks"),
            (ItemKind::AllowRule, "allow rule", "allow rules"),
            (ItemKind::Environment, "variable", "variables"),
            (ItemKind::Directory, "directory", "directories"),
            (ItemKind::Setting, "setting", "settings"),
        ];
        let counted = named.iter().filter_map(|(kind, one, many)| {
            let count = pending.items.iter().filter(|it| it.item.kind == *kind).count();
            (0 < count).then(|| format!("{count} {}", if count == 1 { one } else { many }))
        });
        let counted: Vec<String> = counted.collect();
        (!counted.is_empty()).then(|| {
            let (folder, what) = (pending.folder.display(), counted.join(", "));
            format!("not in force until you trust {folder}: {what}; `haft trust` shows them and asks")
        })
    }

    /// Haft's state directory. Without a home directory, a private temporary one.
    pub fn state_dir(&self) -> PathBuf {
        state_dir(&self.store)
    }

    /// Makes the state directory accessible to its owner only. Called by components that write there:
    /// reading the environment changes nothing.
    pub(crate) fn make_state_private(&self) {
        state_dir::keep_private(&self.state_dir());
    }

    /// The symlink the user entered the working directory through (`PWD`), so that rules with that path
    /// match too.
    fn link_to_here(&self) -> Option<PathBuf> {
        haft_settings_rules::link_to(&self.cwd, self.variable("PWD"))
    }

    /// The directory of this session's stored data.
    pub fn session_dir(&self) -> PathBuf {
        self.sessions_dir().join(self.session_id.as_str())
    }

    /// The directory that contains those of all sessions.
    pub(crate) fn sessions_dir(&self) -> PathBuf {
        self.state_dir().join("sessions")
    }

    /// Directories of stored large results, which are readable without permission. Empty if several
    /// clients share the session, because they must not read each other's results.
    fn kept_dirs(&self) -> Vec<PathBuf> {
        if self.has_several_clients {
            return Vec::new();
        }
        let state = self.state_dir();
        vec![
            self.session_dir().join(TOOL_RESULTS),
            Shell::outputs_of(&state, self.session_id.as_str()),
            haft_builtin_tools::read::parts_dir(&state, Some(&self.session_id)),
        ]
    }

    /// Opens the project's files and their undo journal. Repairs the journal if a command was changing
    /// files when its session was killed.
    pub fn workspace(&self) -> Result<Workspace, OpenError> {
        let workspace =
            Workspace::open(self.workspace_config()).map_err(|err| OpenError::Start(err.to_string()))?;
        self.roots.now().iter().skip(1).for_each(|dir| workspace.add_root(resolved(dir)));
        workspace.recover();
        self.tell_ended(&haft_command_undo::recover(&workspace, Git::NAME));
        self.tell_unrecorded(&workspace);
        Ok(workspace)
    }

    fn workspace_config(&self) -> WorkspaceConfig {
        let root = resolved(&self.cwd);
        WorkspaceConfig { state_dir: self.journal_state_dir(), root, limits: JournalLimits::default() }
    }

    /// The directory of the undo journal: the state directory, or a temporary one if that is not
    /// writable.
    pub fn journal_state_dir(&self) -> PathBuf {
        journal_state_dir(self.state_dir())
    }

    /// Warns the user before the first change if changes cannot be undone.
    fn tell_unrecorded(&self, workspace: &Workspace) {
        let room = |journal: &Journal| journal.reserve(ROOM_FOR_ENTRIES).map_err(|err| err.reason());
        if let Err(why) = workspace.journal().and_then(room) {
            self.events.notice(format!(
                "changes cannot be undone: {why}. Make room there, or set HAFT_CONFIG_DIR to another directory"
            ));
        }
    }

    /// Like [`SessionEnvironment::workspace`], for tools that are only described: writes and repairs
    /// nothing.
    pub(crate) fn described_workspace(&self) -> Workspace {
        let workspace = Workspace::described(self.workspace_config());
        self.roots.now().iter().skip(1).for_each(|dir| workspace.add_root(resolved(dir)));
        workspace
    }

    /// Reports processes of killed sessions that were ended.
    pub(crate) fn tell_ended(&self, ended: &[LiveProcesses]) {
        for it in ended {
            let (count, command) = (it.processes.len(), haft_types::text::one_line(&it.command, 100));
            let notice = format!("ended {count} process(es) that a killed session left running: {command}");
            self.events.notice(notice);
        }
    }

    /// Working and home directory of calls: local, or on the default tool host.
    pub(crate) fn work_place(&self) -> (PathBuf, Option<PathBuf>) {
        match self.hosts.get() {
            Some(hosts) => (hosts.place().cwd.clone(), hosts.place().home.clone()),
            None => (self.cwd.clone(), self.home.clone()),
        }
    }

    /// Builds the permission policy from the current settings.
    pub fn policy(&self) -> Result<Policy, OpenError> {
        build_policy::policy(self)
    }

    /// The built-in catalog of models, extended by the user's `models.json`. Fails if that file is
    /// invalid.
    pub fn catalog(&self) -> Result<Arc<Catalog>, OpenError> {
        let path = self.state_dir().join("models.json");
        let failed = |err: &dyn std::fmt::Display| OpenError::Spec(format!("{}: {err}", path.display()));
        match std::fs::read_to_string(&path) {
            Ok(text) => Ok(Arc::new(Catalog::built_in().with(&text).map_err(|err| failed(&err))?)),
            Err(err) if is_absent(&err) => Ok(Catalog::built_in()),
            Err(err) if self.is_anothers(&path, &err) => Ok(Catalog::built_in()),
            Err(err) => Err(failed(&err)),
        }
    }

    /// The API keys stored by `haft login`. Empty if there are none; fails if the file is invalid.
    pub fn stored_keys(&self) -> Result<StoredKeys, OpenError> {
        let own = self.state_dir();
        let further = self.store.places().further_keys.iter();
        let mut all = std::iter::once(&own).chain(further).map(|dir| dir.join("credentials.json"));
        let path = all.find(|it| it.exists()).unwrap_or_else(|| own.join("credentials.json"));
        let failed = |err: &dyn std::fmt::Display| OpenError::Spec(format!("{}: {err}", path.display()));
        match std::fs::read(&path) {
            Ok(bytes) => StoredKeys::parse(&bytes).map_err(|err| failed(&err)),
            Err(err) if is_absent(&err) => Ok(StoredKeys::default()),
            Err(err) if self.is_anothers(&path, &err) => Ok(StoredKeys::default()),
            Err(err) => Err(failed(&err)),
        }
    }

    /// Whether a file is unreadable for lack of permission, as in another user's home directory. The
    /// file is then ignored, and the user is told.
    pub(crate) fn is_anothers(&self, path: &Path, err: &std::io::Error) -> bool {
        let is_it = err.kind() == std::io::ErrorKind::PermissionDenied;
        if is_it {
            let path = path.display();
            self.events.notice(format!("{path}: {err}; it does not count. Set HOME to your own directory"));
        }
        is_it
    }

    /// The value of an environment variable: from the settings, else from the session's environment.
    pub fn variable(&self, name: &str) -> Option<String> {
        let loaded = self.store.current();
        let set = loaded.settings.env.iter().rev().find(|(it, _)| it == name);
        set.map(|(_, value)| value.value.clone()).or_else(|| self.variables.text(name))
    }

    /// The settings file of the project that sets a variable, if one does.
    pub(crate) fn folder_variable(&self, name: &str) -> Option<String> {
        let loaded = self.store.current();
        let set = loaded.settings.env.iter().rev().find(|(it, _)| it == name)?;
        let source = &set.1.origin.source;
        is_of_folder(source.layer).then(|| source.place.to_string())
    }

    /// Whether a variable is set by settings outside the project.
    pub(crate) fn is_foreign_setting(&self, name: &str) -> bool {
        let loaded = self.store.current();
        loaded.settings.get(name).is_some_and(|it| !is_of_folder(it.origin.source.layer))
    }

    /// The value of a setting if it is a string.
    pub fn string_setting(&self, name: &str) -> Option<String> {
        self.store.current().settings.get(name)?.value.as_str().map(str::to_owned)
    }

    /// The value of a setting if it is a boolean.
    pub fn flag_setting(&self, name: &str) -> Option<bool> {
        self.store.current().settings.get(name)?.value.as_bool()
    }

    /// Name of the output style.
    pub fn output_style(&self) -> String {
        self.string_setting("outputStyle").unwrap_or_else(|| String::from("default"))
    }

    /// Whether a settings layer is read.
    pub fn reads(&self, layer: SettingsLayer) -> bool {
        self.settings_spec().sources.is_none_or(|layers| layers.contains(&layer))
    }

    /// Whether the program that opened the session vouches for the project's settings.
    pub(crate) fn trusts_project(&self) -> bool {
        self.store.options().trust == TrustMode::Assume
    }

    /// The settings of the spec, with later changes.
    pub(crate) fn settings_spec(&self) -> SettingsSpec {
        self.settings_spec.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Directories that recordings replace by names.
    pub fn tape_places(&self) -> RecordingDirs {
        RecordingDirs::new(&self.cwd, Some(&self.session_dir()), self.home.as_deref())
    }

    /// The settings of the flags layer, as an object.
    pub(crate) fn flag_settings(&self) -> serde_json::Map<String, serde_json::Value> {
        let Some(text) = self.settings_spec().flags else { return serde_json::Map::new() };
        let text = if text.trim_start().starts_with('{') {
            text
        } else {
            std::fs::read_to_string(self.cwd.join(text)).unwrap_or_default()
        };
        serde_json::from_str(&text).unwrap_or_default()
    }

    /// Replaces the settings of the flags layer.
    pub(crate) fn set_flag_settings(&self, flags: &serde_json::Map<String, serde_json::Value>) {
        let spec = {
            let mut spec = self.settings_spec.lock().unwrap_or_else(PoisonError::into_inner);
            spec.flags = serde_json::to_string(flags).ok();
            spec.clone()
        };
        let loaded = self.store.set_options(load_options(&spec, &self.cwd));
        for notice in loaded.problems.iter().chain(&loaded.warnings) {
            self.events.notice(notice.to_string());
        }
    }

    /// The additional directories that flags and settings name now.
    pub(crate) fn named_directories(&self) -> Vec<PathBuf> {
        directories(&self.cwd, self.home.as_deref(), &self.loaded(), &self.extra_dirs)
    }

    /// Trusts all settings of the project, if `directory` is its directory: the program that opened the
    /// session vouches for it.
    pub(crate) fn trust_project(&self, directory: &Path) {
        if !directory.is_absolute() || resolved(directory) != resolved(&self.store.places().project) {
            let (other, project) = (directory.display(), self.store.places().project.display());
            self.events
                .notice(format!("{other} is not the project {project}; trust in it changes nothing here"));
            return;
        }
        let spec = {
            let mut spec = self.settings_spec.lock().unwrap_or_else(PoisonError::into_inner);
            spec.trusts_project = true;
            spec.clone()
        };
        self.store.set_options(load_options(&spec, &self.cwd));
    }

    /// The directory of plan files: from the settings, or in the state directory.
    pub(crate) fn plans_dir(&self) -> PathBuf {
        match self.string_setting("plansDirectory") {
            Some(dir) => absolute(Path::new(&dir), &self.cwd),
            None => self.state_dir().join("plans"),
        }
    }

    /// Whether the session may use the bypass mode.
    pub(crate) fn may_bypass(&self) -> bool {
        let forbidden = self.loaded().settings.permissions.disable_bypass_permissions_mode;
        let launched = self.permissions.may_bypass
            || self.permissions.mode == Some(haft_types::PermissionMode::BypassPermissions);
        launched && !forbidden
    }

    /// Whether hooks of an agent or skill file run: the settings may disable all but managed ones.
    pub(crate) fn runs_hooks_of(&self, source: &crate::AgentSource) -> bool {
        let loaded = self.loaded();
        let is_on = |name: &str| loaded.settings.get(name).and_then(|it| it.value.as_bool()) == Some(true);
        *source == crate::AgentSource::Managed
            || !(is_on("disableAllHooks") || is_on("allowManagedHooksOnly"))
    }

    /// Which of the tools are switched off.
    pub(crate) fn features(&self, tools: &[Arc<dyn DynTool>]) -> PoolFeatures {
        /// Features that are off unless enabled.
        const OFF: &[&str] = &["suggestBackgroundPr", "remoteTrigger"];
        let loaded = self.store.current();
        let is_off = |name: &&str| {
            let otherwise = if OFF.contains(name) { FeatureSwitch::Off } else { FeatureSwitch::On };
            loaded.settings.feature(name, otherwise) == FeatureSwitch::Off
        };
        let names = tools.iter().filter_map(|tool| tool.feature());
        PoolFeatures { off: names.filter(is_off).map(str::to_owned).collect() }
    }
}

/// Whether the error means that the file does not exist.
fn is_absent(err: &std::io::Error) -> bool {
    matches!(err.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory)
}

/// Free bytes on disk required by the first entries of the undo journal.
const ROOM_FOR_ENTRIES: u64 = 16 << 10;

fn journal_state_dir(state: PathBuf) -> PathBuf {
    if state_dir::may_be_written(&state) { state } else { state_dir::temporary_state() }
}

fn state_dir(store: &SettingsStore) -> PathBuf {
    store.places().state.clone().unwrap_or_else(state_dir::temporary_state)
}

/// Creates the masker from the session's variables.
fn masker(variables: &EnvVars, loaded: &LoadedSettings) -> Result<Masker, OpenError> {
    let text = |it: &std::ffi::OsStr| it.to_str().map(str::to_owned);
    let texts = variables.iter().filter_map(|(name, value)| Some((text(name)?, text(value)?)));
    let set = loaded.settings.env.iter().map(|(name, value)| (name.clone(), value.value.clone()));
    let texts = texts.chain(set);
    let which = loaded.settings.get("maskSecrets").and_then(|it| it.value.as_str().map(str::to_owned));
    let in_results = match which.as_deref() {
        None | Some("keyFiles") => MaskedResults::KeyFiles,
        Some("off") => MaskedResults::Off,
        Some("all") => MaskedResults::All,
        Some(other) => {
            let problem = format!("maskSecrets is {other:?}; it can be \"off\", \"keyFiles\" or \"all\"");
            return Err(OpenError::Spec(problem));
        }
    };
    Ok(Masker::of_env(texts.collect::<Vec<_>>()).in_results(in_results))
}

/// Whether the layer's settings files are in the project directory.
fn is_of_folder(layer: SettingsLayer) -> bool {
    matches!(layer, SettingsLayer::Project | SettingsLayer::Local)
}

/// Rejects invalid settings of flags: their author relies on them, so a part must not be dropped
/// silently.
fn refuse_broken_flags(spec: &SettingsSpec, loaded: &LoadedSettings, cwd: &Path) -> Result<(), OpenError> {
    let Some(flags) = &spec.flags else { return Ok(()) };
    let place = match FlagSettings::settings(flags, cwd).content {
        FlagContent::Json(_) => SettingsSourceKind::Argument(String::from("--settings")),
        FlagContent::File(path) => SettingsSourceKind::File(path),
    };
    match loaded.problems.iter().find(|it| it.place == place) {
        Some(problem) => {
            let text = problem.to_string();
            let flag = if text.contains("--settings") { "" } else { "--settings: " };
            Err(OpenError::Spec(format!("{flag}{text}")))
        }
        None => Ok(()),
    }
}

/// Which settings are read, and from where. Listing the project layer does not trust it.
fn load_options(spec: &SettingsSpec, cwd: &Path) -> LoadOptions {
    let managed = spec.managed.iter().map(|json| FlagSettings::managed(json));
    let named = spec.flags.iter().map(|value| FlagSettings::settings(value, cwd));
    let arguments = named.chain(managed).collect();
    let mut load = LoadOptions { arguments, trust: TrustMode::Ask, ..LoadOptions::default() };
    if let Some(layers) = &spec.sources {
        load.layers.clone_from(layers);
    }
    if spec.trusts_project {
        load.trust = TrustMode::Assume;
    }
    load
}

/// Parses a comma-separated list of layers, such as `user,project`. Fails for unknown names.
pub fn setting_sources(text: &str) -> Result<Vec<SettingsLayer>, OpenError> {
    let layer = |name: &str| {
        let known = [SettingsLayer::User, SettingsLayer::Project, SettingsLayer::Local].into_iter();
        let found = known.into_iter().find(|it| setting_source_name(*it) == Some(name));
        found.ok_or_else(|| {
            OpenError::Spec(format!("`{name}` is no settings source; use user, project or local"))
        })
    };
    text.split(',').map(str::trim).filter(|it| !it.is_empty()).map(layer).collect()
}

/// The name of a settings layer that has files; `None` for other layers.
pub(crate) fn setting_source_name(layer: SettingsLayer) -> Option<&'static str> {
    match layer {
        SettingsLayer::User => Some("user"),
        SettingsLayer::Project => Some("project"),
        SettingsLayer::Local => Some("local"),
        SettingsLayer::Flag | SettingsLayer::Managed => None,
    }
}

/// Checks and resolves the working directory.
fn directory(wanted: &Path) -> Result<PathBuf, OpenError> {
    let cwd = wanted.canonicalize().map_err(|err| OpenError::Spec(format!("{}: {err}", wanted.display())))?;
    if cwd.is_dir() { Ok(cwd) } else { Err(OpenError::Spec(format!("{} is not a directory", cwd.display()))) }
}

/// Makes a path of a spec absolute.
pub(crate) fn absolute(path: &Path, cwd: &Path) -> PathBuf {
    haft_paths::lexical(&cwd.join(path))
}

/// Resolves symlinks of an existing directory; returns other paths unchanged.
pub(crate) fn resolved(dir: &Path) -> PathBuf {
    dir.canonicalize().unwrap_or_else(|_| dir.to_owned())
}
