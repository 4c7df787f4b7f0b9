//! The MCP servers of a session: which may run, and what becomes of their tools.

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

/// The servers somebody named, sorted by what may be done with them.
#[derive(Debug, Default)]
pub struct DiscoveredServers {
    /// These may run.
    pub usable: Vec<ServerConfig>,
    /// The project names these, and nobody has agreed to them as they are now.
    pub waiting: Vec<WaitingServer>,
    /// These cannot or must not be used, and why.
    pub problems: Vec<DeclarationProblem>,
    /// Everything that was declared, strongest scope first.
    pub declared: Vec<ServerDeclaration>,
}

impl DiscoveredServers {
    /// Tells which are left out, and why.
    fn tell(&self, events: &EventSender) {
        for server in &self.waiting {
            events.notice(format!("the MCP server {} {}", server.server.name, server.reason()));
        }
        for DeclarationProblem { server, reason } in &self.problems {
            events.notice(format!("the MCP server {server} cannot be used: {reason}"));
        }
    }
}

/// A server of the project that waits for a yes.
#[derive(Clone, Debug)]
pub struct WaitingServer {
    /// What was declared.
    pub server: ServerDeclaration,
    item: PendingItem,
    folder: PathBuf,
}

impl WaitingServer {
    /// Whether somebody agreed to something else under this name.
    pub fn has_changed(&self) -> bool {
        self.item.before.is_some()
    }

    /// Why it is not started, in words that say what to do.
    pub fn reason(&self) -> String {
        let why = if self.has_changed() {
            "is not what you agreed to any more"
        } else {
            "is named by the project and nobody has agreed to it"
        };
        format!("{why}, so it is not started ({}); see `haft trust`", self.server.summary())
    }
}

/// Longer than any server may take by default; what takes longer was told to.
const ATTACH_TIMEOUT: Duration = Duration::from_secs(60);

/// The MCP servers of a session. None runs until [`SessionServers::start`].
pub struct SessionServers {
    premises: Arc<SessionEnvironment>,
    spec: ServerSpec,
    /// What `--mcp-config` declares, and the program that opened the session.
    flagged: Vec<ServerDeclaration>,
    /// What is wrong with servers that program offered.
    unusable: Vec<DeclarationProblem>,
    manager: McpManager,
    processes: Arc<ProcessOwner>,
    pub(crate) answerer: ElicitationResponder,
    pub(crate) sampler: Sampler,
    /// What the person's editor says, where there is one.
    pub(crate) editor: Option<EditorContext>,
    chosen: Mutex<ChosenServers>,
}

/// Which servers are to run beside those that were found.
#[derive(Default)]
struct ChosenServers {
    /// Servers of plugins and of the host.
    added: Vec<ServerConfig>,
    /// Exactly these, since the host said so.
    replaced: Option<Vec<ServerConfig>>,
    journal: Option<Arc<ServerLog>>,
}

impl SessionServers {
    /// The servers of a session. What `--mcp-config` holds is read here.
    /// `processes` owns those of local servers.
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

    /// Runs the servers and knows their states.
    pub fn manager(&self) -> &McpManager {
        &self.manager
    }

    /// Who answers the questions of servers, and agrees to what they ask a model.
    pub(crate) fn answered_by(&self, person: Arc<dyn ElicitationHandler>) {
        self.answerer.ask(Some(Arc::clone(&person)));
        self.sampler.confirmed_by(Some(person));
    }

    fn chosen(&self) -> MutexGuard<'_, ChosenServers> {
        self.chosen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The servers of the settings and of the spec.
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
            // Who is here is agreed to: what is not waits elsewhere.
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

    /// The project's servers nobody has agreed to.
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

    /// Settings may agree to servers of the project by name. That counts for
    /// what is there when it is first seen; what changes later waits.
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

    /// Remembers a yes to exactly this server.
    pub fn agree_to(&self, waiting: &WaitingServer) {
        let pending = PendingTrust { folder: waiting.folder.clone(), items: vec![waiting.item.clone()] };
        if let Err(problem) = self.premises.store.trust(&pending) {
            self.premises.events.notice(problem.to_string());
        }
    }

    /// Servers of plugins and of the host, beside those that are found.
    pub(crate) fn add(&self, configs: Vec<ServerConfig>) {
        let mut chosen = self.chosen();
        for config in configs {
            chosen.added.retain(|it| it.name != config.name);
            chosen.added.push(config);
        }
    }

    /// Exactly these servers from now on. The lists of the settings hold for them
    /// as for all others: they are judged again whenever they are started.
    pub(crate) fn replace(&self, configs: Vec<ServerConfig>) {
        self.chosen().replaced = Some(configs.clone());
        self.launch(configs);
    }

    /// Which of these may run, whoever named them, and why the others may not.
    /// Where an administrator names servers there are no others, but for those
    /// in the process of the host, which are its own tools.
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

    /// Where the project really is.
    fn project(&self) -> PathBuf {
        let project = &self.premises.store.places().project;
        project.canonicalize().unwrap_or_else(|_| project.clone())
    }

    /// Begins to start the servers of the session, and tells which are left out.
    pub fn start(&self) {
        // A statement of its own: what `launch` locks must be free by then.
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

    /// Begins to start exactly these servers; what is in the way of one is told
    /// and costs no other anything.
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

    /// Starts servers that one agent describes, for itself: under the same lists
    /// and behind the same walls as others. Whoever gets them stops them.
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

    /// What servers need before they start: the session's variables and
    /// directory, walls for those that are to be held, a model for those that
    /// may ask one.
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

    /// Waits until the servers that are starting have settled.
    pub async fn settled(&self) {
        self.manager.settled(ATTACH_TIMEOUT).await;
    }

    /// Stops all servers.
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

/// What runs servers of a session.
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
        // Where results are that were too large to show: readable without a question.
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

/// What servers are told about directories.
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

/// The servers of `--mcp-config`: JSON text, or files with it.
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

/// The servers of an administrator: in the settings, or in a file of their own.
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
        // An entry that cannot be understood allows nothing.
        allowed: settings.allowed.as_ref().map(|it| it.iter().filter(counts).filter_map(matcher).collect()),
        denied: settings.denied.iter().filter_map(matcher).collect(),
    }
}
