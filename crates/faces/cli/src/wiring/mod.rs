//! Builds a session out of flags, settings and the machine.

mod agent;
mod confine;
mod keep;
mod mcp;
mod policy;
mod provider;
mod rules_text;
mod scratch;
mod seen;
mod services;
mod sessions;
mod settings_access;

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
    time::Duration,
};

use haft_agent::Held;
use haft_config::{Argument, Feature, Layer, LoadOptions, Loaded, Places, SettingsStore, TrustMode};
use haft_hooks::{HookDefinition, HookEnvironment, HookObserver, Hooks, Ports};
use haft_permission::{Policy, Session as Permissions};
use haft_runtime::{
    Ask, Features, Gate, Pipeline, Pool, ResultStore, Session, SessionHooks, SessionState, SharedPool,
    StoreLimits, ToolSearch, Visibility, visible,
};
use haft_shell::run::Tasks;
use haft_tool::{DynTool, erase};
use haft_types::SessionId;
use haft_workspace::{Files, Workspace};
use tokio::runtime::Runtime;

pub(crate) use agent::Built;
pub(crate) use confine::{Limits, Walls, Wanted};
pub(crate) use mcp::{
    PersonAtTerminal, ServerFlags, ServerTools, Servers, expand_command, journal_path, needs_servers,
};
pub(crate) use policy::policy_of_rules;
pub(crate) use provider::Chosen;
pub(crate) use rules_text::split_rules;
pub(crate) use services::{Readers, Scratch, scratch_services};
pub(crate) use sessions::Logs;

use crate::{
    args::Options,
    ask_terminal::AskTerminal,
    output::{Failure, complain},
};

/// Whether somebody may be asked.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Attended {
    /// The person at the terminal, if there is one.
    IfTerminal,
    /// Nobody: standard input is data.
    Never,
}

/// The async runtime. Built only for commands that call tools.
pub(crate) fn runtime() -> Result<Runtime, Failure> {
    let built = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    built.map_err(|err| Failure::Message(format!("the runtime could not be started: {err}")))
}

/// What a signal that ends programs does.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Signals {
    /// Ends this one, and what its commands started.
    End,
    /// Stops the run, which then tells how far it came and ends by itself.
    Handled,
}

/// Flags and settings, read once.
pub(crate) struct Setup {
    pub(crate) cwd: PathBuf,
    pub(crate) home: Option<PathBuf>,
    pub(crate) store: Arc<SettingsStore>,
    pub(crate) loaded: Arc<Loaded>,
    pub(crate) options: Options,
    pub(crate) session_id: SessionId,
    /// Only these tools, if somebody said so.
    pub(crate) only_tools: Option<Vec<String>>,
    /// The program that embeds us, if it answers questions.
    pub(crate) asker: Option<Arc<dyn Ask>>,
    /// Who answers questions of MCP servers, if somebody does.
    pub(crate) person: Option<Arc<dyn haft_mcp_client::Elicit>>,
    /// Is told what hooks do.
    pub(crate) hook_observer: Option<Arc<dyn HookObserver>>,
    /// Where logs of sessions are kept.
    pub(crate) logs: Logs,
    /// What a signal that ends programs does.
    pub(crate) signals: Signals,
    /// Which results are in the next request, where there is a conversation.
    pub(crate) held: Option<Held>,
    /// The files of the session, once its tools are there.
    files: OnceLock<Arc<Files>>,
    /// The commands of the session, once its tools are there.
    tasks: OnceLock<Arc<Tasks>>,
    /// The MCP servers of the session.
    manager: OnceLock<haft_mcp_client::Manager>,
    begun: OnceLock<mcp::Begun>,
    /// Answers questions of servers.
    answerer: mcp::Answerer,
    /// Asks the model on behalf of servers that may.
    sampler: mcp::Sampler,
    /// What holds them.
    walls: OnceLock<Arc<Walls>>,
}

impl Setup {
    /// Reads settings, and tells the person on standard error what is wrong
    /// with them.
    pub(crate) fn new(options: &Options) -> Result<Self, Failure> {
        Self::in_environment(options, &|name| std::env::var_os(name))
    }

    /// The same where variables have other values: `haft demo` touches nothing
    /// of the person.
    pub(crate) fn in_environment(
        options: &Options,
        variable: &dyn Fn(&str) -> Option<OsString>,
    ) -> Result<Self, Failure> {
        let cwd = cwd(options)?;
        let places = Places::detect(&cwd, variable);
        let managed = options.managed_settings.iter().map(|json| Argument::managed(json));
        let named = options.settings.iter().map(|value| Argument::settings(value, &cwd));
        let arguments = named.chain(managed).collect();
        let mut load = LoadOptions { arguments, trust: TrustMode::Ask, ..LoadOptions::default() };
        if let Some(sources) = &options.setting_sources {
            load.layers = setting_sources(sources)?;
            // Whoever names the project's own files answers for them.
            if load.layers.iter().any(|it| matches!(it, Layer::Project | Layer::Local)) {
                load.trust = TrustMode::Assume;
            }
        }
        let store = Arc::new(SettingsStore::open(places, load));
        let loaded = store.current();
        for notice in loaded.problems.iter().chain(&loaded.warnings) {
            complain(&notice.to_string());
        }
        Ok(Self {
            cwd,
            home: home_of(variable("HOME")),
            store,
            loaded,
            options: options.clone(),
            session_id: uuid::Uuid::new_v4().to_string().into(),
            only_tools: None,
            asker: None,
            person: None,
            hook_observer: None,
            logs: Logs::Own,
            signals: Signals::End,
            held: None,
            files: OnceLock::new(),
            tasks: OnceLock::new(),
            manager: OnceLock::new(),
            begun: OnceLock::new(),
            answerer: mcp::Answerer::default(),
            sampler: mcp::Sampler::default(),
            walls: OnceLock::new(),
        })
    }

    /// Haft's own directory. Without a home it is one that nobody else uses.
    pub(crate) fn state_dir(&self) -> PathBuf {
        let state = self.store.places().state.clone();
        state.unwrap_or_else(|| std::env::temp_dir().join(format!("haft-{}", std::process::id())))
    }

    /// Where this session keeps what it stores.
    pub(crate) fn session_dir(&self) -> PathBuf {
        self.state_dir().join("sessions").join(self.session_id.as_str())
    }

    /// The files of the project, and the record of what changed in them.
    pub(crate) fn workspace(&self) -> Result<Workspace, Failure> {
        let workspace = services::workspace(&self.state_dir(), &self.cwd)?;
        // A command may have been running when its session was killed.
        haft_tools::bash::undo::recover(&workspace);
        Ok(workspace)
    }

    /// What holds the commands of the session.
    pub(crate) fn walls(&self) -> Arc<Walls> {
        let make = || {
            let dirs = policy::directories(self);
            let (session, state) = (self.session_id.as_str(), self.state_dir());
            Arc::new(Walls::new(Arc::clone(&self.store), session, state, dirs, self.home.clone()))
        };
        Arc::clone(self.walls.get_or_init(make))
    }

    /// The built-in tools this session may use.
    pub(crate) fn tools(&self, policy: &Policy) -> Result<Vec<Arc<dyn DynTool>>, Failure> {
        let services = services::of_session(self)?;
        let mut base = haft_tools::base(&services);
        base.extend(haft_mcp_client::resource_tools(self.manager()));
        let denied = base.iter().filter(|tool| policy.removes(tool.name()).is_some());
        let visibility = Visibility {
            denied: denied.map(|tool| tool.name().to_owned()).collect(),
            only: self.only_tools.clone(),
            features: self.features(&base),
        };
        Ok(visible(&base, &visibility))
    }

    fn features(&self, base: &[Arc<dyn DynTool>]) -> Features {
        /// Switched off until somebody asks for them.
        const OFF: &[&str] = &["suggestBackgroundPr", "remoteTrigger"];
        let is_off = |name: &&str| {
            let otherwise = if OFF.contains(name) { Feature::Off } else { Feature::On };
            self.loaded.settings.feature(name, otherwise) == Feature::Off
        };
        let names = base.iter().filter_map(|tool| tool.feature());
        Features { off: names.filter(is_off).map(str::to_owned).collect() }
    }

    /// What decides.
    pub(crate) fn policy(&self) -> Result<Policy, Failure> {
        policy::policy(self)
    }

    /// The tools of this session, without anything that could call them.
    pub(crate) fn pool(&self) -> Result<Pool, Failure> {
        let policy = policy::policy(self)?;
        Ok(Pool::assemble(self.tools(&policy)?, Vec::new()))
    }

    /// A session ready to run calls.
    pub(crate) fn session(&self, attended: Attended) -> Result<Session, Failure> {
        let policy = policy::policy(self)?;
        for warning in policy.warnings() {
            complain(&format!(
                "rule {} ({}): {}",
                warning.rule.text, warning.rule.origin.label, warning.message
            ));
        }
        let tools = self.tools(&policy)?;
        let pool = SharedPool::new(Pool::assemble(Vec::new(), Vec::new()));
        let search = erase(ToolSearch::new(pool.clone()));
        pool.set(Pool::assemble(tools.into_iter().chain([search]).collect(), Vec::new()));
        let results = ResultStore::new(self.session_dir().join("tool-results"), StoreLimits::default());
        let gate = self.gate(policy, attended);
        let pipeline = Arc::new(Pipeline::new(gate, results));
        self.answerer.hooked_by(&pipeline, self.cwd.clone());
        let mut state = SessionState::new(self.cwd.clone());
        state.home = self.home.as_deref().map(Arc::from);
        Ok(Session::new(pipeline, pool, state))
    }

    /// The session is over: ends what hooks and commands left running.
    pub(crate) async fn close(&self, session: &Session) {
        /// How long processes may take to go.
        const PATIENCE: Duration = Duration::from_secs(2);
        session.close().await;
        self.stop_servers().await;
        let Some(tasks) = self.tasks.get().cloned() else { return };
        let ended = tokio::task::spawn_blocking(move || tasks.shell().owner().end(PATIENCE)).await;
        if !ended.unwrap_or(true) {
            complain("some processes of this session are still running");
        }
    }

    /// Takes over settings that changed since they were read; says whether they
    /// did.
    pub(crate) fn refresh(&mut self, pipeline: &Pipeline) -> bool {
        let Some(loaded) = self.store.reload_if_changed() else { return false };
        for notice in &loaded.problems {
            complain(&notice.to_string());
        }
        self.loaded = loaded;
        self.follow_settings();
        match self.policy() {
            Ok(mut policy) => {
                let gate = &pipeline.gate;
                policy.mode = gate.mode();
                gate.permissions().replace(&policy);
                if let Some(manager) = self.manager.get() {
                    gate.permissions().rename(&Arc::new(mcp::names(manager)));
                }
                let hooks = gate.hooks();
                let (definitions, ports) = self.hook_parts();
                hooks.set(hooks.get().reconfigured(definitions, ports));
            }
            // The settings forbid the mode we are in: what held so far still holds.
            Err(Failure::Message(problem)) => complain(&problem),
            Err(Failure::ClosedPipe) => (),
        }
        true
    }

    fn gate(&self, policy: Policy, attended: Attended) -> Gate {
        let keep = keep::KeepInSettings { store: Arc::clone(&self.store) };
        let hooks =
            SessionHooks::new(self.hooks(), self.session_id.clone(), self.log_path(self.session_id.as_str()));
        let gate =
            Gate::of_session(Arc::new(Permissions::new(policy))).with_hooks(hooks).with_keep(Arc::new(keep));
        if let Some(asker) = &self.asker {
            return gate.with_ask(Arc::clone(asker));
        }
        let asks = attended == Attended::IfTerminal
            && !self.loaded.settings.permissions.deny_instead_of_prompting
            && AskTerminal::is_there();
        if asks { gate.with_ask(Arc::new(AskTerminal)) } else { gate }
    }

    fn hooks(&self) -> Hooks {
        let (definitions, ports) = self.hook_parts();
        Hooks::new(definitions, ports)
    }

    /// The hooks of settings that changed; what was counted lives on.
    pub(crate) fn reconfigured_hooks(&self, before: &Hooks) -> Hooks {
        let (definitions, ports) = self.hook_parts();
        before.reconfigured(definitions, ports)
    }

    fn hook_parts(&self) -> (Vec<HookDefinition>, Ports) {
        let settings = &self.loaded.settings;
        let set = settings.env.iter().map(|(name, value)| (name.clone(), value.value.clone())).collect();
        let environment = HookEnvironment {
            project_dir: self.store.places().project.clone(),
            set,
            ..HookEnvironment::default()
        };
        let (cwd, home) = (self.cwd.clone(), self.home.clone());
        let ports = Ports {
            rule_matches: Some(Arc::new(move |rule, tool, input| {
                crate::permissions_command::rule_matches(rule, tool, input, &cwd, home.as_deref())
            })),
            environment,
            processes: self.processes(),
            http: settings.http_hooks.clone(),
            observer: self.hook_observer.clone(),
            external: Some(Arc::new(mcp::HookTools { manager: self.manager().downgrade() })),
            user_settings: self.store.places().state.as_ref().map(|state| state.join("settings.json")),
            ..Ports::default()
        };
        (settings.hooks.clone(), ports)
    }
}

/// The files `--setting-sources` names.
fn setting_sources(text: &str) -> Result<Vec<Layer>, Failure> {
    let layer = |name: &str| match name {
        "user" => Ok(Layer::User),
        "project" => Ok(Layer::Project),
        "local" => Ok(Layer::Local),
        other => {
            Err(Failure::Message(format!("`{other}` is no settings source; use user, project or local")))
        }
    };
    text.split(',').map(str::trim).filter(|it| !it.is_empty()).map(layer).collect()
}

/// The directory to work in.
fn cwd(options: &Options) -> Result<PathBuf, Failure> {
    let here = std::env::current_dir().map_err(|err| format!("the working directory is gone: {err}"))?;
    let Some(wanted) = &options.cwd else { return Ok(here) };
    let cwd = here.join(wanted).canonicalize().map_err(|err| format!("{}: {err}", wanted.display()))?;
    if !cwd.is_dir() {
        return Err(Failure::Message(format!("{} is not a directory", cwd.display())));
    }
    Ok(cwd)
}

fn home() -> Option<PathBuf> {
    home_of(std::env::var_os("HOME"))
}

fn home_of(variable: Option<OsString>) -> Option<PathBuf> {
    variable.filter(|home| !home.is_empty()).map(PathBuf::from).filter(|home| home.is_absolute())
}

/// An absolute form of a path from the command line.
pub(crate) fn absolute(path: &Path, cwd: &Path) -> PathBuf {
    haft_paths::lexical(&cwd.join(path))
}
