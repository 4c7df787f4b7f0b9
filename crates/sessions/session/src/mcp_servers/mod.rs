//! The MCP servers of a session: which may run, and how their tools are handled.

mod editor_state;
mod elicitation;
mod embedded_configs;
mod prompt_commands;
mod result_media;
mod sampling;
mod sandboxed_launch;
mod server_log;
mod tool_hooks;
mod tool_policy;
mod tool_sync;

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use haft_config::{ItemKind, McpScope, McpSettings, PendingItem, PendingTrust, SettingsLayer, Sourced};
use haft_mcp_client::{
    Approval, AuthOptions, ClientPorts, DeclarationProblem, ElicitationHandler, ManagerOptions, McpManager,
    ServerConfig, ServerDeclaration, ServerEndpoint, ServerMatcher, ServerPolicy, ServerRoot, ServerRules,
    ServerScope, declared_servers, resolve, tool_prefix,
};
use haft_process::ProcessOwner;
use serde_json::{Map, Value, json};

pub(crate) use self::{
    editor_state::{EditorContext, EditorSelection},
    elicitation::ElicitationResponder,
    embedded_configs::server_configs,
    prompt_commands::expand_command,
    sampling::Sampler,
    tool_hooks::HookTools,
    tool_policy::ToolPolicies,
    tool_sync::{ServerTools, names},
};
pub use self::{server_log::journal_path, tool_sync::needs_servers};

use self::{result_media::SessionMedia, server_log::ServerLog, tool_sync::ServerToolLoading};
use crate::{
    EventSender, ModelSpec, OpenError, ServerSpec,
    build::{ChosenProvider, media_work, model_of},
    environment::SessionEnvironment,
};

/// Configured servers, by whether they may run.
#[derive(Debug, Default)]
pub struct DiscoveredServers {
    /// Servers that may run.
    pub usable: Vec<ServerConfig>,
    /// Servers of the project that the user has not approved in their current form.
    pub waiting: Vec<WaitingServer>,
    /// Servers that cannot or must not run, and why.
    pub problems: Vec<DeclarationProblem>,
    /// All declared servers, strongest scope first.
    pub declared: Vec<ServerDeclaration>,
}

impl DiscoveredServers {
    /// Reports servers that are left out, and why.
    fn tell(&self, events: &EventSender) {
        for server in &self.waiting {
            events.notice(format!("the MCP server {} {}", server.server.name, server.reason()));
        }
        for DeclarationProblem { server, reason } in &self.problems {
            events.notice(format!("the MCP server {server} cannot be used: {reason}"));
        }
    }
}

/// A server of the project that waits for approval.
#[derive(Clone, Debug)]
pub struct WaitingServer {
    /// Its declaration.
    pub server: ServerDeclaration,
    item: PendingItem,
    folder: PathBuf,
}

impl WaitingServer {
    /// Whether the user approved another configuration under this name.
    pub fn has_changed(&self) -> bool {
        self.item.before.is_some()
    }

    /// The reason why it is not started, and what to do about it.
    pub fn reason(&self) -> String {
        let why = if self.has_changed() {
            "is not what you agreed to any more"
        } else {
            "is named by the project and nobody has agreed to it"
        };
        format!("{why}, so it is not started ({}); see `haft trust`", self.server.summary())
    }
}

/// Maximum time for all servers to connect; longer than the default timeouts.
const ATTACH_TIMEOUT: Duration = Duration::from_secs(60);

/// The MCP servers of a session. None is started before [`SessionServers::start`].
pub struct SessionServers {
    premises: Arc<SessionEnvironment>,
    spec: ServerSpec,
    /// Servers of `--mcp-config` and of the program that opened the session.
    flagged: Vec<ServerDeclaration>,
    /// Problems with servers offered by that program.
    unusable: Vec<DeclarationProblem>,
    manager: McpManager,
    processes: Arc<ProcessOwner>,
    pub(crate) answerer: ElicitationResponder,
    pub(crate) sampler: Sampler,
    /// State of the user's editor, if it is connected.
    pub(crate) editor: Option<EditorContext>,
    chosen: Mutex<ChosenServers>,
}

/// Servers to run besides the configured ones.
#[derive(Default)]
struct ChosenServers {
    /// Servers of plugins and of the host.
    added: Vec<ServerConfig>,
    /// If set by the host, exactly these servers.
    replaced: Option<Vec<ServerConfig>>,
    journal: Option<Arc<ServerLog>>,
}

impl SessionServers {
    /// Prepares the servers of a session. Parses `--mcp-config`, which can fail. `processes` owns the
    /// processes of local servers.
    pub fn new(
        premises: Arc<SessionEnvironment>,
        spec: ServerSpec,
        processes: Arc<ProcessOwner>,
    ) -> Result<Self, OpenError> {
        let mut flagged = flag_servers(&spec.configs, &premises.cwd)?;
        let offered = json!({"mcpServers": spec.offered});
        let (offered, unusable) = declared_servers(&offered, ServerScope::Dynamic);
        flagged.retain(|it| !spec.offered.contains_key(&it.name));
        flagged.extend(offered);
        for server in &flagged {
            premises.tool_policies.add(&server.name, &Value::Object(server.value.clone()));
        }
        let hosted = flagged.iter().filter(|it| it.value.get("type").is_some_and(|kind| kind == "sdk"));
        let added = match &spec.hosted {
            Some(config) => hosted.map(|it| config(&it.name)).collect(),
            None => Vec::new(),
        };
        let (answerer, sampler) = (ElicitationResponder::new(premises.events.clone()), Sampler::default());
        let manager = manager(&premises, &processes, &answerer, &sampler);
        let chosen = Mutex::new(ChosenServers { added, ..ChosenServers::default() });
        let editor = spec.editor.as_ref().map(|name| EditorContext::new(name, manager.events()));
        Ok(Self { premises, spec, flagged, unusable, manager, processes, answerer, sampler, editor, chosen })
    }

    /// The manager that runs the servers.
    pub fn manager(&self) -> &McpManager {
        &self.manager
    }

    /// Sets who answers elicitation requests and approves sampling.
    pub(crate) fn answered_by(&self, person: Arc<dyn ElicitationHandler>) {
        self.answerer.ask(Some(Arc::clone(&person)));
        self.sampler.confirmed_by(Some(person));
    }

    fn chosen(&self) -> MutexGuard<'_, ChosenServers> {
        self.chosen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Determines the servers of settings and spec.
    pub fn found(&self) -> DiscoveredServers {
        let premises = &self.premises;
        let mut declared = self.flagged.clone();
        let mut found = DiscoveredServers { problems: self.unusable.clone(), ..DiscoveredServers::default() };
        self.agree_to_named_servers();
        let loaded = premises.loaded();
        let settings = &loaded.settings;
        let (managed, problems) = managed_servers(&settings.mcp, &premises.store.places().managed);
        found.problems.extend(problems);
        if !self.spec.only_those || !managed.is_empty() {
            for server in &settings.mcp_servers {
                let scope = match server.scope {
                    McpScope::User => ServerScope::User,
                    McpScope::Project => ServerScope::Project,
                    McpScope::Local => ServerScope::Local,
                };
                let (servers, problems) = declared_servers(&one(&server.name, &server.config), scope);
                declared.extend(servers);
                found.problems.extend(problems);
            }
            found.waiting = self.waiting();
        }
        declared.extend(managed);
        declared.sort_by_key(|it| it.scope);
        found.declared.clone_from(&declared);
        let disabled = &settings.mcp.disabled;
        let rules = ServerRules {
            policy: &server_policy(&settings.mcp, &premises.events),
            // Servers that get here are approved; others are in `waiting`.
            approval: &|server| {
                if server.scope == ServerScope::Project && disabled.iter().any(|it| it.value == server.name) {
                    Approval::Rejected
                } else {
                    Approval::Approved
                }
            },
            project: self.project(),
            lookup: &|name| premises.variable(name),
        };
        let resolved = resolve(declared, &rules);
        found.usable = resolved.servers;
        found.problems.extend(resolved.problems);
        found.waiting.retain(|it| !disabled.iter().any(|name| name.value == it.server.name));
        found
    }

    /// Servers of the project that wait for approval.
    pub fn waiting(&self) -> Vec<WaitingServer> {
        let loaded = self.premises.loaded();
        let Some(PendingTrust { folder, items }) = &loaded.pending_trust else { return Vec::new() };
        let servers = items.iter().filter(|it| it.item.kind == ItemKind::McpServer).filter_map(|item| {
            let name = item.item.name.strip_prefix("mcpServers.")?;
            let value: Map<String, Value> = serde_json::from_str(&item.item.text).ok()?;
            let server = ServerDeclaration { name: name.to_owned(), scope: ServerScope::Project, value };
            Some(WaitingServer { server, item: item.clone(), folder: folder.clone() })
        });
        servers.collect()
    }

    /// Approves servers of the project that the settings approve by name, in their form when first seen.
    /// Later changes need approval.
    fn agree_to_named_servers(&self) {
        let loaded = self.premises.loaded();
        let mcp = &loaded.settings.mcp;
        let named = |it: &WaitingServer| {
            mcp.enable_all_project_servers || mcp.enabled.iter().any(|name| name.value == it.server.name)
        };
        for server in self.waiting().iter().filter(|it| named(it) && !it.has_changed()) {
            self.agree_to(server);
        }
    }

    /// Stores the approval of exactly this configuration.
    pub fn agree_to(&self, waiting: &WaitingServer) {
        let pending = PendingTrust { folder: waiting.folder.clone(), items: vec![waiting.item.clone()] };
        if let Err(problem) = self.premises.store.trust(&pending) {
            self.premises.events.notice(problem.to_string());
        }
    }

    /// Adds servers of plugins and of the host.
    pub(crate) fn add(&self, configs: Vec<ServerConfig>) {
        let mut chosen = self.chosen();
        for config in configs {
            chosen.added.retain(|it| it.name != config.name);
            chosen.added.push(config);
        }
    }

    /// Replaces all servers. Allow and deny lists of the settings are checked whenever they are started.
    pub(crate) fn replace(&self, configs: Vec<ServerConfig>) {
        self.chosen().replaced = Some(configs.clone());
        self.launch(configs);
    }

    /// Splits servers into permitted ones and problems. If the organisation defines servers, only these
    /// may run, except those in the host's process.
    pub(crate) fn permitted(
        &self,
        servers: Vec<ServerConfig>,
    ) -> (Vec<ServerConfig>, Vec<DeclarationProblem>) {
        let loaded = self.premises.loaded();
        let settings = &loaded.settings.mcp;
        let policy = server_policy(settings, &self.premises.events);
        let exclusive = !managed_servers(settings, &self.premises.store.places().managed).0.is_empty();
        let project = self.project();
        let (mut usable, mut problems) = (Vec::new(), Vec::new());
        for server in servers {
            let foreign = exclusive
                && server.scope != ServerScope::Managed
                && !matches!(server.endpoint, ServerEndpoint::InProcess(_));
            let excluded = foreign.then(|| String::from("an administrator says which servers there are"));
            match excluded.or_else(|| policy.objection_to(&server, &project)) {
                None => usable.push(server),
                Some(reason) => problems.push(DeclarationProblem { server: server.name, reason }),
            }
        }
        (usable, problems)
    }

    /// Real path of the project.
    fn project(&self) -> PathBuf {
        let project = &self.premises.store.places().project;
        project.canonicalize().unwrap_or_else(|_| project.clone())
    }

    /// Starts the servers in the background, and reports those that are left out.
    pub fn start(&self) {
        // In a statement of its own, so that the lock is released before `launch`.
        let replaced = self.chosen().replaced.clone();
        if let Some(replaced) = replaced {
            return self.launch(replaced);
        }
        let found = self.found();
        found.tell(&self.premises.events);
        let mut all = self.chosen().added.clone();
        all.extend(
            found
                .usable
                .into_iter()
                .filter(|it| !all.iter().any(|known| known.name == it.name))
                .collect::<Vec<_>>(),
        );
        if let Some(tool) = &self.spec.for_tool {
            let is_of = |it: &ServerConfig| {
                tool.starts_with(&tool_prefix(&it.name)) || tool.starts_with(&format!("mcp__{}__", it.name))
            };
            if all.iter().any(is_of) {
                all.retain(is_of);
            }
        }
        self.launch(all);
    }

    /// Starts exactly these servers in the background. A problem of one is reported and does not affect
    /// the others.
    pub fn launch(&self, servers: Vec<ServerConfig>) {
        let (mut servers, problems) = self.permitted(servers);
        DiscoveredServers { problems, ..DiscoveredServers::default() }.tell(&self.premises.events);
        self.prepare(&mut servers);
        if ServerToolLoading::from_settings(&self.premises) == ServerToolLoading::AllAtOnce {
            servers.iter_mut().for_each(|it| it.always_load = true);
        }
        let journal = || Arc::new(ServerLog::keep(&self.manager, self.premises.state_dir()));
        self.chosen().journal.get_or_insert_with(journal);
        self.manager.set_servers(servers);
    }

    /// Creates a manager for servers of an agent definition, with the same allow lists and sandbox as
    /// others. The caller must stop them.
    pub(crate) fn of_agent(&self, described: &Map<String, Value>) -> (McpManager, Vec<DeclarationProblem>) {
        let is_hosted = |config: &Value| config["type"] == "sdk";
        let (mut found, mut problems) = (Vec::new(), Vec::new());
        for (name, config) in described {
            if let (true, Some(hosted)) = (is_hosted(config), &self.spec.hosted) {
                found.push(hosted(name));
                continue;
            }
            let (declared, wrong) = declared_servers(&one(name, config), ServerScope::Local);
            problems.extend(wrong);
            let rules = ServerRules {
                policy: &server_policy(&self.premises.loaded().settings.mcp, &self.premises.events),
                approval: &|_| Approval::Approved,
                project: self.project(),
                lookup: &|name| self.premises.variable(name),
            };
            let resolved = resolve(declared, &rules);
            found.extend(resolved.servers);
            problems.extend(resolved.problems);
        }
        let (mut servers, refused) = self.permitted(found);
        problems.extend(refused);
        self.prepare(&mut servers);
        servers.iter_mut().for_each(|it| it.always_load = true);
        let manager = manager(&self.premises, &self.processes, &self.answerer, &self.sampler);
        manager.set_servers(servers);
        (manager, problems)
    }

    /// Prepares configurations for starting: variables, working directory, sandbox, sampling.
    fn prepare(&self, servers: &mut [ServerConfig]) {
        for server in servers.iter_mut() {
            if let ServerEndpoint::Stdio(command) = &mut server.endpoint {
                command.cwd.get_or_insert_with(|| self.premises.cwd.clone());
                command.variables = Some(self.premises.variables.clone());
            }
        }
        sandboxed_launch::confine(&self.premises, servers);
        self.sampler.allow(servers);
        if self.sampler.is_wanted() && !self.sampler.has_model() {
            let spec = ModelSpec::default();
            let asked = ChosenProvider::choose(&self.premises, &spec)
                .and_then(|chosen| Ok((model_of(&self.premises, &spec, &chosen)?, chosen.provider)));
            match asked {
                Ok((model, provider)) => self.sampler.answer_with(provider, &model),
                Err(why) => self.premises.events.notice(format!("MCP servers cannot ask a model: {why}")),
            }
        }
    }

    /// Waits until starting servers have connected or failed.
    pub async fn settled(&self) {
        self.manager.settled(ATTACH_TIMEOUT).await;
    }

    /// Stops all servers and waits for it.
    pub async fn stop(&self) {
        self.manager.shutdown().await;
        let journal = self.chosen().journal.clone();
        if let Some(journal) = journal {
            journal.finish().await;
        }
    }

    pub(crate) fn spec(&self) -> &ServerSpec {
        &self.spec
    }
}

/// Creates the manager of a session's servers.
fn manager(
    premises: &SessionEnvironment,
    processes: &Arc<ProcessOwner>,
    answerer: &ElicitationResponder,
    sampler: &Sampler,
) -> McpManager {
    let state = premises.state_dir();
    let mut host = ClientPorts::default();
    host.elicit = Some(Arc::new(answerer.clone()));
    host.sample = Some(Arc::new(sampler.clone()));
    let traces = Arc::clone(&premises.traces);
    host.trace = Some(Arc::new(move |agent, call| traces.traceparent(agent, call)));
    host.set_roots(server_roots(&premises.roots.now()));
    McpManager::new(ManagerOptions {
        host,
        processes: Arc::clone(processes),
        cache_directory: Some(state.join("mcp").join("manifests")),
        auth: AuthOptions { directory: Some(state.join("mcp").join("logins")), ..AuthOptions::default() },
        // Directory of large results, which is readable without a prompt.
        media: Arc::new(SessionMedia::new(
            premises.session_dir().join(crate::environment::MCP_RESULTS),
            media_work(premises.program.as_ref()),
        )),
        further_path: Some({
            let path = Arc::clone(&premises.login_path);
            Arc::new(move |program| path.leading_to(program))
        }),
        ..ManagerOptions::detached()
    })
}

/// The workspace roots that servers are told.
pub(crate) fn server_roots(directories: &[PathBuf]) -> Vec<ServerRoot> {
    let root = |path: &PathBuf| {
        let uri = url::Url::from_directory_path(path).ok()?.to_string();
        let name = path.file_name().map(|it| it.to_string_lossy().into_owned());
        Some(ServerRoot { uri: uri.trim_end_matches('/').to_owned(), name })
    };
    directories.iter().filter_map(root).collect()
}

fn one(name: &str, config: &Value) -> Value {
    json!({"mcpServers": {name: config}})
}

/// Parses `--mcp-config`: JSON text, or JSON files.
fn flag_servers(configs: &[String], cwd: &std::path::Path) -> Result<Vec<ServerDeclaration>, OpenError> {
    let mut all = Vec::new();
    for text in configs {
        let invalid = |why: String| OpenError::Spec(format!("Invalid MCP configuration: {why}"));
        let json = if text.trim_start().starts_with('{') {
            text.clone()
        } else {
            std::fs::read_to_string(cwd.join(text))
                .map_err(|err| invalid(format!("MCP config file not found: {text} ({err})")))?
        };
        let parsed: Value = serde_json::from_str(&json).map_err(|err| invalid(format!("not JSON: {err}")))?;
        let (servers, problems) = declared_servers(&parsed, ServerScope::Dynamic);
        if let Some(DeclarationProblem { server, reason }) = problems.first() {
            return Err(invalid(format!("{server}: {reason}")));
        }
        all.extend(servers);
    }
    Ok(all)
}

/// Servers defined by the organisation, in the settings or a separate file.
fn managed_servers(
    settings: &McpSettings,
    places: &[PathBuf],
) -> (Vec<ServerDeclaration>, Vec<DeclarationProblem>) {
    let (mut found, mut problems) = (Vec::new(), Vec::new());
    let mut take = |config: &Value| {
        let (servers, wrong) = declared_servers(config, ServerScope::Managed);
        found.extend(servers);
        problems.extend(wrong);
    };
    for (name, server) in &settings.managed {
        take(&one(name, &server.value));
    }
    let mut unreadable = Vec::new();
    for path in places.iter().map(|it| it.join("managed-mcp.json")) {
        match std::fs::read(&path) {
            Ok(bytes) => match serde_json::from_slice(&bytes) {
                Ok(config) => take(&config),
                Err(err) => unreadable.push(format!("{}: {err}", path.display())),
            },
            Err(err) if err.kind() == std::io::ErrorKind::NotFound => (),
            Err(err) => unreadable.push(format!("{}: {err}", path.display())),
        }
    }
    problems
        .extend(unreadable.into_iter().map(|reason| DeclarationProblem { server: String::new(), reason }));
    (found, problems)
}

fn server_policy(settings: &McpSettings, events: &EventSender) -> ServerPolicy {
    let counts =
        |it: &&Sourced<Value>| !settings.managed_only || it.origin.source.layer == SettingsLayer::Managed;
    let matcher = |it: &Sourced<Value>| serde_json::from_value::<ServerMatcher>(it.value.clone()).ok();
    for entry in settings.denied.iter().filter(|it| matcher(it).is_none()) {
        events.notice(format!("{}: {} names no server; it does not count", entry.origin, entry.value));
    }
    ServerPolicy {
        // An invalid entry allows nothing.
        allowed: settings.allowed.as_ref().map(|it| it.iter().filter(counts).filter_map(matcher).collect()),
        denied: settings.denied.iter().filter_map(matcher).collect(),
    }
}
