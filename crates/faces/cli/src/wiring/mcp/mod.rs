//! The MCP servers of a session: which may run, and what becomes of their tools.

mod answerer;
mod commands;
mod confined;
mod hooks;
mod journal;
mod media;
mod person;
mod questions;
mod sampling;
mod tools;

use std::{path::PathBuf, sync::Arc, time::Duration};

use haft_config::{ItemKind, Layer, McpScope, McpSettings, PendingItem, PendingTrust, Sourced};
use haft_hooks::HandlerKind;
use haft_mcp_client::{
    Approval, AuthOptions, Declared, Host, Manager, ManagerOptions, Problem, Root, Rules, Scope,
    ServerConfig, ServerMatcher, ServerPolicy, declared_servers, resolve, tool_prefix,
};
use haft_runtime::{Pool, Session};
use haft_tool::DynTool;
use serde_json::{Map, Value, json};

pub(super) use answerer::Answerer;
pub(crate) use commands::expand_command;
pub(super) use hooks::HookTools;
use journal::Journal;
pub(crate) use journal::journal_path;
use media::SessionMedia;
pub(crate) use person::PersonAtTerminal;
pub(super) use sampling::Sampler;
pub(super) use tools::names;
pub(crate) use tools::{ServerTools, ToolLoading, needs_servers};

use super::{Attended, Setup};
use crate::{
    args::RunArgs,
    output::{Failure, complain},
};

/// The servers somebody named, sorted by what may be done with them.
#[derive(Debug, Default)]
pub(crate) struct Servers {
    /// These may run.
    pub(crate) usable: Vec<ServerConfig>,
    /// The project names these, and nobody has agreed to them as they are now.
    pub(crate) waiting: Vec<WaitingServer>,
    /// These cannot or must not be used, and why.
    pub(crate) problems: Vec<Problem>,
    /// Everything that was declared, strongest scope first.
    pub(crate) declared: Vec<Declared>,
}

impl Servers {
    /// Says on standard error which are left out, and why.
    fn complain(&self) {
        for server in &self.waiting {
            complain(&format!("the MCP server {} {}", server.server.name, server.reason()));
        }
        for Problem { server, reason } in &self.problems {
            complain(&format!("the MCP server {server} cannot be used: {reason}"));
        }
    }
}

/// A server of the project that waits for a yes.
#[derive(Clone, Debug)]
pub(crate) struct WaitingServer {
    pub(crate) server: Declared,
    item: PendingItem,
    folder: PathBuf,
}

impl WaitingServer {
    /// Whether somebody agreed to something else under this name.
    pub(crate) fn has_changed(&self) -> bool {
        self.item.before.is_some()
    }

    /// Why it is not started, in words that say what to do.
    pub(crate) fn reason(&self) -> String {
        let why = match self.has_changed() {
            true => "is not what you agreed to any more",
            false => "is named by the project and nobody has agreed to it",
        };
        format!("{why}, so it is not started ({}); see `haft trust`", self.server.summary())
    }
}

/// What a session's servers were started with.
pub(crate) struct Begun {
    journal: Journal,
    /// What the command line adds to the settings; nothing if somebody else
    /// says which servers there are.
    flags: Option<(Vec<String>, bool)>,
}

/// Longer than any server may take by default; what takes longer was told to.
const ATTACH_PATIENCE: Duration = Duration::from_secs(60);

/// Which servers the command line adds, and whether others count.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ServerFlags<'a> {
    /// Only the server this tool belongs to is needed.
    pub(crate) for_tool: Option<&'a str>,
    /// Values of `--mcp-config`: JSON text or files.
    pub(crate) configs: &'a [String],
    /// Whether only those count.
    pub(crate) only_those: bool,
}

impl<'a> ServerFlags<'a> {
    /// Those of a run.
    pub(crate) fn of(run: &'a RunArgs) -> Self {
        Self { for_tool: None, configs: &run.sdk.mcp_config, only_those: run.sdk.strict_mcp_config }
    }
}

impl Setup {
    /// The manager of this session's servers. It has none until
    /// [`Setup::start_servers`].
    pub(crate) fn manager(&self) -> &Manager {
        self.manager.get_or_init(|| {
            let state = self.state_dir();
            let mut host = Host::default();
            host.elicit = Some(Arc::new(self.answerer.clone()));
            host.sample = Some(Arc::new(self.sampler.clone()));
            host.set_roots(self.roots());
            Manager::new(ManagerOptions {
                host,
                cache_directory: Some(state.join("mcp").join("manifests")),
                auth: AuthOptions {
                    directory: Some(state.join("mcp").join("logins")),
                    ..AuthOptions::default()
                },
                // Where results are that were too large to show: readable without a question.
                media: Arc::new(SessionMedia::new(
                    self.session_dir().join("tool-results").join("mcp"),
                    super::services::media_work(),
                )),
                processes: self.processes(),
                ..ManagerOptions::detached()
            })
        })
    }

    /// The directories servers are told about.
    fn roots(&self) -> Vec<Root> {
        let more = self.options.add_dir.iter().map(|dir| super::absolute(dir, &self.cwd));
        let directories = std::iter::once(self.cwd.clone()).chain(more);
        let root = |path: PathBuf| {
            let uri = url::Url::from_directory_path(&path).ok()?.to_string();
            let name = path.file_name().map(|it| it.to_string_lossy().into_owned());
            Some(Root { uri: uri.trim_end_matches('/').to_owned(), name })
        };
        directories.filter_map(root).collect()
    }

    /// The servers of the settings and of the command line.
    pub(crate) fn servers(&self, flags: ServerFlags<'_>) -> Result<Servers, Failure> {
        let mut declared = flag_servers(flags.configs, &self.cwd)?;
        let mut found = Servers::default();
        self.agree_to_named_servers();
        let loaded = self.store.current();
        let settings = &loaded.settings;
        let (managed, problems) = managed_servers(&settings.mcp, &self.store.places().managed);
        found.problems.extend(problems);
        if !flags.only_those || !managed.is_empty() {
            for server in &settings.mcp_servers {
                let scope = match server.scope {
                    McpScope::User => Scope::User,
                    McpScope::Project => Scope::Project,
                    McpScope::Local => Scope::Local,
                };
                let (servers, problems) = declared_servers(&one(&server.name, &server.config), scope);
                declared.extend(servers);
                found.problems.extend(problems);
            }
            found.waiting = self.waiting_servers();
        }
        declared.extend(managed);
        declared.sort_by_key(|it| it.scope);
        found.declared.clone_from(&declared);
        let variable = |name: &str| {
            let set = settings.env.iter().find(|(it, _)| it == name).map(|(_, value)| value.value.clone());
            set.or_else(|| std::env::var(name).ok())
        };
        let disabled = &settings.mcp.disabled;
        let rules = Rules {
            policy: &server_policy(&settings.mcp),
            // Who is here is agreed to: what is not waits elsewhere.
            approval: &|server| match server.scope == Scope::Project
                && disabled.iter().any(|it| it.value == server.name)
            {
                true => Approval::Rejected,
                false => Approval::Approved,
            },
            project: self.real_project(),
            lookup: &variable,
        };
        let resolved = resolve(declared, &rules);
        found.usable = resolved.servers;
        found.problems.extend(resolved.problems);
        found.waiting.retain(|it| !disabled.iter().any(|name| name.value == it.server.name));
        Ok(found)
    }

    /// The servers of the settings, beside those somebody named already. Says
    /// which are left out.
    pub(crate) fn servers_beside(&self, named: &[ServerConfig]) -> Result<Vec<ServerConfig>, Failure> {
        let found = self.servers(ServerFlags::default())?;
        found.complain();
        let is_new = |it: &ServerConfig| !named.iter().any(|known| known.name == it.name);
        Ok(found.usable.into_iter().filter(is_new).collect())
    }

    fn real_project(&self) -> PathBuf {
        let project = &self.store.places().project;
        project.canonicalize().unwrap_or_else(|_| project.clone())
    }

    /// The project's servers nobody has agreed to.
    fn waiting_servers(&self) -> Vec<WaitingServer> {
        let loaded = self.store.current();
        let Some(PendingTrust { folder, items }) = &loaded.pending_trust else { return Vec::new() };
        let servers = items.iter().filter(|it| it.item.kind == ItemKind::McpServer).filter_map(|item| {
            let name = item.item.name.strip_prefix("mcpServers.")?;
            let value: Map<String, Value> = serde_json::from_str(&item.item.text).ok()?;
            let server = Declared { name: name.to_owned(), scope: Scope::Project, value };
            Some(WaitingServer { server, item: item.clone(), folder: folder.clone() })
        });
        servers.collect()
    }

    /// Settings may agree to servers of the project by name. That counts for
    /// what is there when it is first seen; what changes later waits.
    fn agree_to_named_servers(&self) {
        let loaded = self.store.current();
        let mcp = &loaded.settings.mcp;
        let named = |it: &WaitingServer| {
            mcp.enable_all_project_servers || mcp.enabled.iter().any(|name| name.value == it.server.name)
        };
        for server in self.waiting_servers().iter().filter(|it| named(it) && !it.has_changed()) {
            self.agree_to_server(server);
        }
    }

    /// Remembers a yes to exactly this server.
    pub(crate) fn agree_to_server(&self, waiting: &WaitingServer) {
        let pending = PendingTrust { folder: waiting.folder.clone(), items: vec![waiting.item.clone()] };
        if let Err(problem) = self.store.trust(&pending) {
            complain(&problem.to_string());
        }
    }

    /// Begins to start the servers of the session, asks about those that wait
    /// if somebody is there, and says which are left out.
    pub(crate) fn start_servers(
        &self,
        flags: ServerFlags<'_>,
        attended: Attended,
    ) -> Result<&Manager, Failure> {
        let mut found = self.servers(flags)?;
        if attended == Attended::IfTerminal && self.ask_about(&found.waiting) {
            found = self.servers(flags)?;
        }
        found.complain();
        self.launch(found.usable, flags)
    }

    /// Begins to start exactly these servers.
    pub(crate) fn launch(
        &self,
        mut usable: Vec<ServerConfig>,
        flags: ServerFlags<'_>,
    ) -> Result<&Manager, Failure> {
        self.prepare(&mut usable)?;
        if let Some(tool) = flags.for_tool {
            let is_of = |it: &ServerConfig| {
                tool.starts_with(&tool_prefix(&it.name)) || tool.starts_with(&format!("mcp__{}__", it.name))
            };
            if usable.iter().any(is_of) {
                usable.retain(is_of);
            }
        }
        if ToolLoading::from_env() == ToolLoading::AllAtOnce {
            usable.iter_mut().for_each(|it| it.always_load = true);
        }
        self.begin(Some((flags.configs.to_vec(), flags.only_those)));
        self.manager().set_servers(usable);
        Ok(self.manager())
    }

    fn begin(&self, flags: Option<(Vec<String>, bool)>) {
        let journal = || Journal::keep(self.manager(), self.state_dir());
        self.begun.get_or_init(|| Begun { journal: journal(), flags });
    }

    /// Begins to start the servers a host named; what is in the way of them is
    /// said and costs nobody else anything.
    pub(crate) fn launch_all(&self, mut servers: Vec<ServerConfig>) {
        if let Err(Failure::Message(problem)) = self.prepare(&mut servers) {
            complain(&problem);
        }
        self.begin(None);
        self.manager().set_servers(servers);
    }

    /// What servers need before they start: walls for those that are to be
    /// held, somebody who answers, a model for those that may ask one.
    fn prepare(&self, servers: &mut [ServerConfig]) -> Result<(), Failure> {
        self.confine(servers)?;
        self.answerer.ask(self.person.clone());
        self.sampler.confirmed_by(self.person.clone());
        self.sampler.allow(servers);
        if self.sampler.is_wanted() && !self.sampler.has_model() {
            let run = RunArgs::default();
            match self.provider(&run) {
                Ok(chosen) => {
                    let model = self.agent_settings(&run, &chosen.catalog)?.model;
                    self.sampler.answer_with(chosen.provider, &model);
                }
                Err(Failure::Message(why)) => {
                    complain(&format!("MCP servers cannot ask a model: {why}"));
                }
                Err(other) => return Err(other),
            }
        }
        Ok(())
    }

    /// The session's own tools, for somebody who sees all of them at once: what
    /// brings tools on demand and what is about other servers is left out.
    pub(crate) fn built_in_tools(&self, session: &Session) -> Vec<Arc<dyn DynTool>> {
        let pool = session.pool.get();
        let own = pool.tools().filter(|(name, _)| *name != "ToolSearch" && !needs_servers(name));
        own.map(|(_, tool)| Arc::clone(tool)).collect()
    }

    /// Whether some hook is a tool of a server.
    pub(crate) fn hooks_need_servers(&self) -> bool {
        self.loaded.settings.hooks.iter().any(|it| it.handler.kind() == HandlerKind::McpTool)
    }

    /// Stops all servers.
    pub(crate) async fn stop_servers(&self) {
        let Some(manager) = self.manager.get() else { return };
        manager.shutdown().await;
        if let Some(begun) = self.begun.get() {
            begun.journal.finish().await;
        }
    }

    /// The servers of the settings may have changed: starts what is new, stops
    /// what is gone.
    pub(super) fn follow_settings(&self) {
        let Some((configs, only_those)) = self.begun.get().and_then(|it| it.flags.as_ref()) else { return };
        let flags = ServerFlags { for_tool: None, configs, only_those: *only_those };
        if let Err(Failure::Message(problem)) = self.start_servers(flags, Attended::Never) {
            complain(&problem);
        }
    }

    /// Starts the servers, waits for them and takes their tools into the
    /// session.
    pub(crate) async fn attach_servers(
        &self,
        session: &Session,
        flags: ServerFlags<'_>,
        attended: Attended,
    ) -> Result<ServerTools, Failure> {
        let manager = self.start_servers(flags, attended)?;
        manager.settled(ATTACH_PATIENCE).await;
        let tools = ServerTools::new(manager, session);
        tools.take();
        Ok(tools)
    }

    /// The tools of this session with those of its servers, without anything
    /// that could call them.
    pub(crate) fn pool_with_servers(&self) -> Result<Pool, Failure> {
        let pool = self.pool()?;
        if self.servers(ServerFlags::default())?.declared.is_empty() && self.waiting_servers().is_empty() {
            return Ok(pool);
        }
        let policy = self.policy()?;
        super::runtime()?.block_on(async {
            let manager = self.start_servers(ServerFlags::default(), Attended::Never)?;
            manager.settled(ATTACH_PATIENCE).await;
            let permissions = haft_permission::Session::new(policy);
            permissions.rename(&Arc::new(names(manager)));
            let (policy, mut tools) = (permissions.policy(), manager.tools());
            tools.retain(|tool| policy.removes(tool.name()).is_none());
            self.stop_servers().await;
            Ok(pool.with_external(tools, |_| String::from("its server is no longer there")))
        })
    }

    /// Asks about every server that waits; says whether any was agreed to.
    fn ask_about(&self, waiting: &[WaitingServer]) -> bool {
        let agreed = waiting.iter().filter(|it| questions::may_start(it));
        agreed.map(|it| self.agree_to_server(it)).count() != 0
    }
}

fn one(name: &str, config: &Value) -> Value {
    json!({"mcpServers": {name: config}})
}

/// The servers of `--mcp-config`: JSON text, or files with it.
fn flag_servers(configs: &[String], cwd: &std::path::Path) -> Result<Vec<Declared>, Failure> {
    let mut all = Vec::new();
    for text in configs {
        let invalid = |why: String| Failure::Message(format!("Invalid MCP configuration: {why}"));
        let json = match text.trim_start().starts_with('{') {
            true => text.clone(),
            false => std::fs::read_to_string(cwd.join(text))
                .map_err(|err| invalid(format!("MCP config file not found: {text} ({err})")))?,
        };
        let parsed: Value = serde_json::from_str(&json).map_err(|err| invalid(format!("not JSON: {err}")))?;
        let (servers, problems) = declared_servers(&parsed, Scope::Dynamic);
        if let Some(Problem { server, reason }) = problems.first() {
            return Err(invalid(format!("{server}: {reason}")));
        }
        all.extend(servers);
    }
    Ok(all)
}

/// The servers of an administrator: in the settings, or in a file of their own.
fn managed_servers(settings: &McpSettings, places: &[PathBuf]) -> (Vec<Declared>, Vec<Problem>) {
    let (mut found, mut problems) = (Vec::new(), Vec::new());
    let mut take = |config: &Value| {
        let (servers, wrong) = declared_servers(config, Scope::Managed);
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
    problems.extend(unreadable.into_iter().map(|reason| Problem { server: String::new(), reason }));
    (found, problems)
}

fn server_policy(settings: &McpSettings) -> ServerPolicy {
    let counts = |it: &&Sourced<Value>| !settings.managed_only || it.origin.source.layer == Layer::Managed;
    let matcher = |it: &Sourced<Value>| serde_json::from_value::<ServerMatcher>(it.value.clone()).ok();
    for entry in settings.denied.iter().filter(|it| matcher(it).is_none()) {
        complain(&format!("{}: {} names no server; it does not count", entry.origin, entry.value));
    }
    ServerPolicy {
        // An entry that cannot be understood allows nothing.
        allowed: settings.allowed.as_ref().map(|it| it.iter().filter(counts).filter_map(matcher).collect()),
        denied: settings.denied.iter().filter_map(matcher).collect(),
    }
}
