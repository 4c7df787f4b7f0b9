//! What is known of a session before anything of it runs: directories,
//! settings, rules, walls. Reading it starts nothing and asks nobody.

mod baseline_guard;
mod build_policy;
mod command_sandbox;
mod journalled_changes;
mod login_path;
mod private_dir;
mod read_only_guard;
mod scratch_dir;
mod session_roots;
mod split_rules;
pub(crate) mod state_dir;

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, OnceLock, PoisonError, Weak},
};

use haft_agent::{MaskedResults, Masker, recording::RecordingDirs};
use haft_config::{
    FeatureSwitch, FlagContent, FlagSettings, ItemKind, LoadOptions, LoadedSettings, SettingsLayer,
    SettingsPaths, SettingsSourceKind, SettingsStore, TrustMode,
};
use haft_model::{Catalog, StoredKeys};
use haft_permission::{Classifier, Policy};
use haft_process::LiveProcesses;
use haft_shell::run::{Shell, TaskRegistry};
use haft_tool::DynTool;
use haft_tool_runtime::PoolFeatures;
use haft_types::{EnvVars, SessionId};
use haft_workspace::{Journal, JournalLimits, Workspace, WorkspaceConfig};

use self::build_policy::directories;
pub use self::{
    build_policy::policy_of_rules,
    command_sandbox::{CallLimits, CommandSandbox, SandboxDemand},
    split_rules::split_rules,
};
pub(crate) use self::{
    command_sandbox::WorktreeRestriction, login_path::LoginShellPath, session_roots::SessionRoots,
};
use crate::{
    EventSender, OpenError, PermissionSpec, SessionSpec, SettingsSpec, mcp_servers::ToolPolicies,
    telemetry::TraceDesk,
};

/// Where large results of calls are, in the directory of a session.
pub(crate) const TOOL_RESULTS: &str = "tool-results";
/// The same for what MCP servers sent.
pub(crate) const MCP_RESULTS: &str = "tool-results/mcp";

/// Directories, settings, rules and walls of one session.
pub struct SessionEnvironment {
    /// Where the session works.
    pub cwd: PathBuf,
    /// The person's home.
    pub home: Option<PathBuf>,
    /// The environment variables the session sees.
    pub variables: EnvVars,
    /// The settings, as they are now.
    pub store: Arc<SettingsStore>,
    /// The session that its directories are named after.
    pub session_id: SessionId,
    /// Other directories of the workspace that the spec names.
    pub extra_dirs: Vec<PathBuf>,
    /// The directories it works in, as they are now.
    pub(crate) roots: Arc<SessionRoots>,
    /// What holds commands.
    pub walls: Arc<CommandSandbox>,
    /// The program `haft`, where it is at hand.
    pub program: Option<PathBuf>,
    /// Is told what the person should know.
    pub events: EventSender,
    pub(crate) permissions: PermissionSpec,
    has_several_clients: bool,
    settings_spec: Mutex<SettingsSpec>,
    /// Knows the secrets of the session: those of its variables, and those that
    /// calls come across.
    pub(crate) masker: Masker,
    /// The machines that files and commands are on, once they are connected.
    pub(crate) hosts: OnceLock<Arc<haft_tool_host::HostSet>>,
    /// Who answers in the person's place in auto mode, once somebody does.
    pub(crate) classifier: OnceLock<Arc<dyn Classifier>>,
    /// The commands that are running, once some can.
    pub(crate) tasks: OnceLock<Weak<TaskRegistry>>,
    /// What collectors are told about the session.
    pub(crate) traces: Arc<TraceDesk>,
    /// Rules of the program that opened the session for tools of its servers.
    pub(crate) tool_policies: ToolPolicies,
    /// Where programs are that the search path of this process does not lead to.
    pub(crate) login_path: Arc<LoginShellPath>,
}

impl SessionEnvironment {
    /// Reads settings, and tells what is wrong with them.
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

    /// The settings in force.
    pub fn loaded(&self) -> Arc<LoadedSettings> {
        self.store.current()
    }

    /// What of the folder is not in force because nobody trusted it, in one line.
    /// Servers are not in it: each is said where it would have been started.
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

    /// Haft's own directory. Without a home it is one that nobody else uses.
    pub fn state_dir(&self) -> PathBuf {
        state_dir(&self.store)
    }

    /// Makes Haft's own directory one that only its owner sees into. For those
    /// who will write there: reading premises changes nothing.
    pub(crate) fn keep_state_private(&self) {
        private_dir::keep(&self.state_dir());
    }

    /// The link by which the person came here, where they know the directory by
    /// one: what they call it means the same.
    fn link_to_here(&self) -> Option<PathBuf> {
        let link =
            self.variable("PWD").map(PathBuf::from).filter(|it| it.is_absolute() && *it != self.cwd)?;
        let here = self.cwd.canonicalize().ok()?;
        (link.canonicalize().ok()? == here && link != here).then_some(link)
    }

    /// Where this session keeps what it stores.
    pub fn session_dir(&self) -> PathBuf {
        self.sessions_dir().join(self.session_id.as_str())
    }

    /// Where all sessions keep what they store.
    pub(crate) fn sessions_dir(&self) -> PathBuf {
        self.state_dir().join("sessions")
    }

    /// Where the session keeps what was too large to show. All of it is there to
    /// be read, and nothing in it is anybody else's.
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

    /// The files of the project, and the record of what changed in them. What a
    /// command was changing when its session was killed is put right.
    pub fn workspace(&self) -> Result<Workspace, OpenError> {
        let workspace =
            Workspace::open(self.workspace_config()).map_err(|err| OpenError::Start(err.to_string()))?;
        self.roots.now().iter().skip(1).for_each(|dir| workspace.add_root(resolved(dir)));
        workspace.recover();
        self.tell_ended(&haft_builtin_tools::bash::undo::recover(&workspace));
        self.tell_unrecorded(&workspace);
        Ok(workspace)
    }

    fn workspace_config(&self) -> WorkspaceConfig {
        let root = resolved(&self.cwd);
        WorkspaceConfig { state_dir: self.journal_state_dir(), root, limits: JournalLimits::default() }
    }

    /// The directory with the record of changes: Haft's own, or one in the temp
    /// directory where we may not write there.
    pub fn journal_state_dir(&self) -> PathBuf {
        journal_state_dir(self.state_dir())
    }

    /// Tells the user before the first change that no change can be undone.
    fn tell_unrecorded(&self, workspace: &Workspace) {
        let room = |journal: &Journal| journal.reserve(ROOM_FOR_ENTRIES).map_err(|err| err.reason());
        if let Err(why) = workspace.journal().and_then(room) {
            self.events.notice(format!(
                "changes cannot be undone: {why}. Make room there, or set HAFT_CONFIG_DIR to another directory"
            ));
        }
    }

    /// The same for tools that are only described: nothing is written or put right.
    pub(crate) fn described_workspace(&self) -> Workspace {
        let workspace = Workspace::described(self.workspace_config());
        self.roots.now().iter().skip(1).for_each(|dir| workspace.add_root(resolved(dir)));
        workspace
    }

    /// Tells what killed sessions had left running and was ended.
    pub(crate) fn tell_ended(&self, ended: &[LiveProcesses]) {
        for it in ended {
            let (count, command) = (it.processes.len(), haft_types::text::one_line(&it.command, 100));
            let notice = format!("ended {count} process(es) that a killed session left running: {command}");
            self.events.notice(notice);
        }
    }

    /// Where calls run: here, or in the place of the usual host.
    pub(crate) fn work_place(&self) -> (PathBuf, Option<PathBuf>) {
        match self.hosts.get() {
            Some(hosts) => (hosts.place().cwd.clone(), hosts.place().home.clone()),
            None => (self.cwd.clone(), self.home.clone()),
        }
    }

    /// What decides about calls.
    pub fn policy(&self) -> Result<Policy, OpenError> {
        build_policy::policy(self)
    }

    /// The built-in list of models, with the person's own `models.json` on top.
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

    /// The keys that `haft login` has kept.
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

    /// Whether a file of the home cannot be read because the home is somebody
    /// else's; that is said, and the file does not count.
    pub(crate) fn is_anothers(&self, path: &Path, err: &std::io::Error) -> bool {
        let is_it = err.kind() == std::io::ErrorKind::PermissionDenied;
        if is_it {
            let path = path.display();
            self.events.notice(format!("{path}: {err}; it does not count. Set HOME to your own directory"));
        }
        is_it
    }

    /// A variable as settings set it, or as the session's environment has it.
    pub fn variable(&self, name: &str) -> Option<String> {
        let loaded = self.store.current();
        let set = loaded.settings.env.iter().rev().find(|(it, _)| it == name);
        set.map(|(_, value)| value.value.clone()).or_else(|| self.variables.text(name))
    }

    /// The file of the folder that sets a variable, where one of the folder's own
    /// settings does.
    pub(crate) fn folder_variable(&self, name: &str) -> Option<String> {
        let loaded = self.store.current();
        let set = loaded.settings.env.iter().rev().find(|(it, _)| it == name)?;
        let source = &set.1.origin.source;
        is_of_folder(source.layer).then(|| source.place.to_string())
    }

    /// Whether there is such a setting, and not from the folder.
    pub(crate) fn is_foreign_setting(&self, name: &str) -> bool {
        let loaded = self.store.current();
        loaded.settings.get(name).is_some_and(|it| !is_of_folder(it.origin.source.layer))
    }

    /// A setting that is a text.
    pub fn text_setting(&self, name: &str) -> Option<String> {
        self.store.current().settings.get(name)?.value.as_str().map(str::to_owned)
    }

    /// A setting that is true or false, if somebody says it.
    pub fn flag_setting(&self, name: &str) -> Option<bool> {
        self.store.current().settings.get(name)?.value.as_bool()
    }

    /// How the model is to write.
    pub fn output_style(&self) -> String {
        self.text_setting("outputStyle").unwrap_or_else(|| String::from("default"))
    }

    /// Whether a source of settings counts.
    pub fn reads(&self, layer: SettingsLayer) -> bool {
        self.settings_spec().sources.is_none_or(|layers| layers.contains(&layer))
    }

    /// Whether whoever opened the session answers for what the project's own
    /// files say.
    pub(crate) fn answers_for_project(&self) -> bool {
        self.store.options().trust == TrustMode::Assume
    }

    /// Which settings count, as the session was told last.
    pub(crate) fn settings_spec(&self) -> SettingsSpec {
        self.settings_spec.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The directories that have names in recordings.
    pub fn tape_places(&self) -> RecordingDirs {
        RecordingDirs::new(&self.cwd, Some(&self.session_dir()), self.home.as_deref())
    }

    /// The settings of the flags, as an object.
    pub(crate) fn flag_settings(&self) -> serde_json::Map<String, serde_json::Value> {
        let Some(text) = self.settings_spec().flags else { return serde_json::Map::new() };
        let text = if text.trim_start().starts_with('{') {
            text
        } else {
            std::fs::read_to_string(self.cwd.join(text)).unwrap_or_default()
        };
        serde_json::from_str(&text).unwrap_or_default()
    }

    /// Other settings of the flags from now on.
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

    /// The directories that flags and settings name now.
    pub(crate) fn named_directories(&self) -> Vec<PathBuf> {
        directories(&self.cwd, self.home.as_deref(), &self.loaded(), &self.extra_dirs)
    }

    /// Counts everything in the settings of the project from now on, if this is its
    /// directory: the program that opened the session answers for it.
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

    /// Where plans are kept: where the settings say, or in Haft's own directory.
    pub(crate) fn plans_dir(&self) -> PathBuf {
        match self.text_setting("plansDirectory") {
            Some(dir) => absolute(Path::new(&dir), &self.cwd),
            None => self.state_dir().join("plans"),
        }
    }

    /// Whether the session may be in the mode that asks nothing.
    pub(crate) fn may_bypass(&self) -> bool {
        let forbidden = self.loaded().settings.permissions.disable_bypass_permissions_mode;
        let launched = self.permissions.may_bypass
            || self.permissions.mode == Some(haft_types::PermissionMode::BypassPermissions);
        launched && !forbidden
    }

    /// Whether hooks run that a file of an agent or a skill brings: the settings
    /// may switch all off but those of the organisation.
    pub(crate) fn runs_hooks_of(&self, source: &crate::AgentSource) -> bool {
        let loaded = self.loaded();
        let is_on = |name: &str| loaded.settings.get(name).and_then(|it| it.value.as_bool()) == Some(true);
        *source == crate::AgentSource::Managed
            || !(is_on("disableAllHooks") || is_on("allowManagedHooksOnly"))
    }

    /// Which of these tools are switched off.
    pub(crate) fn features(&self, tools: &[Arc<dyn DynTool>]) -> PoolFeatures {
        /// Switched off until somebody asks for them.
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

/// Whether there is no such file.
fn is_absent(err: &std::io::Error) -> bool {
    matches!(err.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory)
}

/// Bytes that the first changes of a session need in the record of changes.
const ROOM_FOR_ENTRIES: u64 = 16 << 10;

fn journal_state_dir(state: PathBuf) -> PathBuf {
    if state_dir::may_be_written(&state) { state } else { state_dir::temporary_state() }
}

fn state_dir(store: &SettingsStore) -> PathBuf {
    store.places().state.clone().unwrap_or_else(state_dir::temporary_state)
}

/// Knows the secrets of the session's variables.
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

/// Whether settings of this layer lie in the folder that is worked in.
fn is_of_folder(layer: SettingsLayer) -> bool {
    matches!(layer, SettingsLayer::Project | SettingsLayer::Local)
}

/// Settings of a flag count or the session does not begin: whoever gives them
/// relies on them, and half a policy is none.
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

/// What is read, from where. Naming the project's own files is not trusting them.
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

/// The layers that a list of names such as `user,project` means.
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

/// The name of a layer that has files.
pub(crate) fn setting_source_name(layer: SettingsLayer) -> Option<&'static str> {
    match layer {
        SettingsLayer::User => Some("user"),
        SettingsLayer::Project => Some("project"),
        SettingsLayer::Local => Some("local"),
        SettingsLayer::Flag | SettingsLayer::Managed => None,
    }
}

/// The directory to work in.
fn directory(wanted: &Path) -> Result<PathBuf, OpenError> {
    let cwd = wanted.canonicalize().map_err(|err| OpenError::Spec(format!("{}: {err}", wanted.display())))?;
    if cwd.is_dir() { Ok(cwd) } else { Err(OpenError::Spec(format!("{} is not a directory", cwd.display()))) }
}

/// An absolute form of a path that a spec names.
pub(crate) fn absolute(path: &Path, cwd: &Path) -> PathBuf {
    haft_paths::lexical(&cwd.join(path))
}

/// A directory without links on the way, where it is there.
pub(crate) fn resolved(dir: &Path) -> PathBuf {
    dir.canonicalize().unwrap_or_else(|_| dir.to_owned())
}
