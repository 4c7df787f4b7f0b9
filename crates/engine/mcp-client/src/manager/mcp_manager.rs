use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use haft_mcp_auth::{AuthOptions, HttpEndpoint, LoginError, LoginFlow, OAuthTokens, TokenFile, TokenSource};
use haft_process::ProcessOwner;
use haft_tool::{Content, DynTool};
use serde_json::{Map, Value, json};
use tokio::sync::{Semaphore, broadcast, watch};
use tokio_util::sync::CancellationToken;

use super::{
    CallFailure, CallOptions, Context, Server, ServerEnabled, ServerEvent, ServerState, ServerStatus,
    manifest_cache::ManifestCache,
};
use crate::{
    adapt::{MediaDirectory, MediaSink, contents_text, sanitised, server_part, tool_prefix},
    client::{ClientPorts, OfferedTool, PromptDef, ResourceDef, ResourceTemplate, ServerRoot},
    config::{ServerConfig, ServerEndpoint},
    transport::{
        Connector, HttpConnector, ProgramFallback, SseConnector, StdioConnector, WebSocketConnector,
    },
};

/// All servers of a session. Cheap to clone.
#[derive(Clone)]
pub struct McpManager(Arc<ManagedServers>);

/// The same servers, for those who only watch them: does not keep them alive.
#[derive(Clone)]
pub struct WeakMcpManager(Weak<ManagedServers>);

impl WeakMcpManager {
    /// The manager, as long as somebody needs it.
    pub fn upgrade(&self) -> Option<McpManager> {
        self.0.upgrade().map(McpManager)
    }
}

struct ManagedServers {
    processes: Arc<ProcessOwner>,
    further_path: Option<ProgramFallback>,
    auth: AuthOptions,
    context: Arc<Context>,
    servers: Mutex<BTreeMap<String, Arc<Server>>>,
}

/// What a manager is made of.
pub struct ManagerOptions {
    /// What servers may ask of us.
    pub host: ClientPorts,
    /// Where manifests are kept between sessions; nowhere if `None`.
    pub cache_directory: Option<PathBuf>,
    /// How logins work.
    pub auth: AuthOptions,
    /// What becomes of bytes in results.
    pub media: Arc<dyn MediaSink>,
    /// How many local servers start at the same time.
    pub parallel_starts: usize,
    /// Owns the processes of the session. The default owner lists them nowhere.
    pub processes: Arc<ProcessOwner>,
    /// Finds programs of local servers that are not on the usual search path.
    pub further_path: Option<ProgramFallback>,
}

impl ManagerOptions {
    /// No ports, no cache, files of results below the temporary directory.
    pub fn detached() -> Self {
        Self {
            host: ClientPorts::default(),
            cache_directory: None,
            auth: AuthOptions::default(),
            media: Arc::new(MediaDirectory::new(std::env::temp_dir().join("haft-mcp-results"))),
            parallel_starts: std::thread::available_parallelism().map_or(2, |it| it.get()),
            processes: Arc::default(),
            further_path: None,
        }
    }
}

const PARALLEL_DIALS: usize = 20;
const WAITING_EVENTS: usize = 256;

/// A prompt of a server as a slash command.
#[derive(Clone, Debug, PartialEq)]
pub struct PromptCommand {
    /// What the user types after the slash.
    pub command: String,
    /// The server.
    pub server: String,
    /// Its prompt; its arguments are filled in the order they have here.
    pub prompt: PromptDef,
}

/// Why a question to a server has no answer, in words for people and models.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{0}")]
pub struct ServerQueryError(String);

impl McpManager {
    /// A manager without servers.
    pub fn new(options: ManagerOptions) -> Self {
        let context = Context {
            host: options.host,
            cache: ManifestCache::new(options.cache_directory),
            media: options.media,
            events: broadcast::channel(WAITING_EVENTS).0,
            revision: watch::channel(0).0,
            starts: Semaphore::new(options.parallel_starts.max(1)),
            dials: Semaphore::new(PARALLEL_DIALS),
        };
        Self(Arc::new(ManagedServers {
            processes: options.processes,
            further_path: options.further_path,
            auth: options.auth,
            context: Arc::new(context),
            servers: Mutex::default(),
        }))
    }

    /// For those who only watch.
    pub fn downgrade(&self) -> WeakMcpManager {
        WeakMcpManager(Arc::downgrade(&self.0))
    }

    fn servers(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Server>>> {
        self.0.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn all(&self) -> Vec<Arc<Server>> {
        self.servers().values().cloned().collect()
    }

    /// Makes exactly these servers the servers of the session and begins to
    /// connect to the new ones. Returns at once. A server whose configuration
    /// did not change goes on undisturbed; one that is no longer there is
    /// stopped.
    pub fn set_servers(&self, configs: Vec<ServerConfig>) {
        let mut removed = Vec::new();
        let mut added = Vec::new();
        {
            let mut servers = self.servers();
            let wanted: BTreeMap<String, ServerConfig> =
                configs.into_iter().map(|it| (it.name.clone(), it)).collect();
            servers.retain(|name, server| {
                let keep = wanted.get(name).is_some_and(|it| same(it, &server.config));
                if !keep {
                    removed.push(Arc::clone(server));
                }
                keep
            });
            for (name, config) in wanted {
                servers.entry(name).or_insert_with(|| {
                    let server = self.server_for(config);
                    added.push(Arc::clone(&server));
                    server
                });
            }
        }
        for server in removed {
            tokio::spawn(async move { server.stop().await });
        }
        added.iter().for_each(|server| server.begin());
        self.0.context.revision.send_modify(|it| *it += 1);
    }

    /// Adds or replaces one server.
    pub fn add_server(&self, config: ServerConfig) {
        let server = self.server_for(config);
        let before = self.servers().insert(server.name().to_owned(), Arc::clone(&server));
        if let Some(before) = before {
            tokio::spawn(async move { before.stop().await });
        }
        server.begin();
    }

    fn server_for(&self, config: ServerConfig) -> Arc<Server> {
        let tokens = |it: &HttpEndpoint| {
            let directory = self.0.auth.directory.as_deref();
            Arc::new(TokenFile::new(directory, &config.name, &it.url))
        };
        let login = |it: &HttpEndpoint, file: &Arc<TokenFile>| -> Arc<dyn TokenSource> {
            Arc::new(OAuthTokens::new(&config.name, it, Arc::clone(file)))
        };
        let name = config.name.as_str();
        let (connector, tokens): (Arc<dyn Connector>, _) = match &config.endpoint {
            ServerEndpoint::Stdio(command) => {
                let processes = Arc::clone(&self.0.processes);
                let (server, command) = (config.name.clone(), command.clone());
                let further_path = self.0.further_path.clone();
                (Arc::new(StdioConnector { server, command, processes, further_path }), None)
            }
            ServerEndpoint::InProcess(connector) => (Arc::clone(connector), None),
            ServerEndpoint::Http(it) => {
                let file = tokens(it);
                (Arc::new(HttpConnector::new(name, it.clone(), login(it, &file))), Some(file))
            }
            ServerEndpoint::Sse(it) => {
                let file = tokens(it);
                (Arc::new(SseConnector::new(name, it.clone(), login(it, &file))), Some(file))
            }
            ServerEndpoint::WebSocket(it) => {
                let file = tokens(it);
                (Arc::new(WebSocketConnector::new(name, it.clone(), login(it, &file))), Some(file))
            }
        };
        Server::new(config, connector, tokens, Arc::clone(&self.0.context))
    }

    /// Begins to log in to a server at an address. The caller opens
    /// [`LoginFlow::authorization_url`] in a browser, waits for it to come back
    /// to `redirect_uri` (see [`crate::CallbackListener`]), finishes the flow and
    /// then calls [`McpManager::reconnect`].
    pub async fn login(&self, server: &str, redirect_uri: &str) -> Result<LoginFlow, LoginError> {
        let server = self.find(server).map_err(|err| LoginError(err.to_string()))?;
        let (endpoint, file) = match (&server.config.endpoint, &server.tokens) {
            (
                ServerEndpoint::Http(it) | ServerEndpoint::Sse(it) | ServerEndpoint::WebSocket(it),
                Some(file),
            ) => (it, Arc::clone(file)),
            _ => return Err(LoginError(format!("the server `{}` has no login", server.name()))),
        };
        let challenge = server.challenge().filter(|it| !it.is_empty());
        let (name, options) = (server.name(), &self.0.auth);
        haft_mcp_auth::begin(name, endpoint, challenge.as_deref(), redirect_uri, options, file).await
    }

    /// Whether the login to a server works, but a call was refused because it is
    /// for less than that call needs: the next login asks for more.
    pub fn wants_more(&self, server: &str) -> bool {
        self.find(server).is_ok_and(|it| it.tokens.as_ref().is_some_and(|file| file.wants_more()))
    }

    /// Forgets the login to a server. Says whether there was one.
    pub fn logout(&self, server: &str) -> Result<bool, ServerQueryError> {
        let server = self.find(server)?;
        Ok(server.tokens.as_ref().is_some_and(|file| file.forget()))
    }

    /// All tools that are known now, by server and name: also those of servers
    /// that are being started or restarted. The same tool is the same object
    /// as long as its definition does not change.
    pub fn tools(&self) -> Vec<Arc<dyn DynTool>> {
        let is_on = |server: &&Arc<Server>| server.status().state != ServerState::Disabled;
        self.all().iter().filter(is_on).flat_map(|server| server.tools()).collect()
    }

    /// The tools of one server that are known now, by name.
    pub fn tools_of(&self, server: &str) -> Vec<Arc<dyn DynTool>> {
        self.find(server).map(|it| it.tools()).unwrap_or_default()
    }

    /// The tools of one server as it defined them.
    pub fn definitions(&self, server: &str) -> Vec<Arc<OfferedTool>> {
        self.find(server).map(|it| it.definitions()).unwrap_or_default()
    }

    /// Where every tool that is known now comes from: the name of the tool here,
    /// the server, and the server's own name for it.
    pub fn origins(&self) -> Vec<(String, String, String)> {
        self.all().iter().flat_map(|server| server.origins()).collect()
    }

    /// Why there is no tool of this name although it would be one of a server's:
    /// the server has not come yet, or cannot.
    pub fn why_absent(&self, tool: &str) -> Option<String> {
        let servers = self.all();
        let of = |it: &&Arc<Server>| {
            tool.starts_with(&tool_prefix(it.name())) || tool.starts_with(&format!("mcp__{}__", it.name()))
        };
        let server = servers.iter().find(of)?;
        let status = server.status();
        let (name, why) = (&status.name, status.last_error.as_deref().unwrap_or("it ended"));
        let said = match status.state {
            ServerState::Disabled => format!("The server `{name}` is switched off"),
            // Its tools are known, from now or from the last time, and this is none of them.
            ServerState::Ready | ServerState::Cached => return None,
            ServerState::Connecting if !server.tools().is_empty() => return None,
            ServerState::Connecting => format!(
                "The server `{name}` is still starting; RefreshMcpTools waits for it and brings its tools"
            ),
            ServerState::Restarting { .. } => format!("The server `{name}` is being started again: {why}"),
            ServerState::NeedsAuth => format!(
                "The server `{name}` asks for a login; the user has to run `haft mcp login {name}` first"
            ),
            ServerState::Failed => format!("The server `{name}` does not work: {why}"),
        };
        Some(format!("{said}. The call had no effect."))
    }

    /// Whether the tools of some server belong in every request.
    pub fn has_always_loaded(&self) -> bool {
        self.all().iter().any(|server| server.config.always_load)
    }

    /// Puts the tools of all servers into every request if what is known of
    /// them takes no more than so many characters. Says whether it did. Meant
    /// for the start of a session: later it would change what was sent before.
    pub fn load_if_small(&self, most_chars: usize) -> bool {
        let servers = self.all();
        let fits = servers.iter().map(|it| it.definition_chars()).sum::<usize>() <= most_chars;
        if fits {
            servers.iter().for_each(|server| server.load_at_once());
        }
        fits
    }

    /// What a person sees of all servers.
    pub fn status(&self) -> Vec<ServerStatus> {
        self.all().iter().map(|server| server.status()).collect()
    }

    /// What happens from now on.
    pub fn events(&self) -> broadcast::Receiver<ServerEvent> {
        self.0.context.events.subscribe()
    }

    /// Waits until no server is about to become ready any more, but not longer
    /// than `patience`. Says whether that is so.
    pub async fn settled(&self, patience: Duration) -> bool {
        let mut revision = self.0.context.revision.subscribe();
        let waiting = async {
            loop {
                revision.borrow_and_update();
                let busy = |server: &Arc<Server>| {
                    matches!(server.state(), ServerState::Connecting | ServerState::Restarting { .. })
                };
                if !self.all().iter().any(busy) || revision.changed().await.is_err() {
                    return;
                }
            }
        };
        tokio::time::timeout(patience, waiting).await.is_ok()
    }

    /// Ends the connection of a server and begins a new one.
    pub async fn reconnect(&self, server: &str) -> Result<(), ServerQueryError> {
        let server = self.find(server)?;
        server.reconnect().await.map(drop).map_err(|it| ServerQueryError(it.reason))
    }

    /// Reads a server's list of tools again, connecting first if necessary.
    pub async fn refresh(&self, server: &str) -> Result<(), ServerQueryError> {
        let server = self.find(server)?;
        let was_connected = server.is_connected();
        let session = server.session().await.map_err(|it| ServerQueryError(it.reason))?;
        if was_connected {
            server.take_tools(&session).await.map_err(|err| ServerQueryError(err.to_string()))
        } else {
            // Connecting has just read the list.
            Ok(())
        }
    }

    /// Switches a server on or off for this session.
    pub async fn set_enabled(&self, server: &str, enabled: ServerEnabled) -> Result<(), ServerQueryError> {
        self.find(server)?.set_enabled(enabled).await;
        Ok(())
    }

    /// The user has seen what changed in a server's tools and agrees.
    pub fn accept_definitions(&self, server: &str) -> Result<(), ServerQueryError> {
        self.find(server)?.accept_definitions();
        Ok(())
    }

    /// The workspace has other directories now: tells those who may ask.
    pub fn set_roots(&self, roots: Vec<ServerRoot>) {
        self.0.context.host.set_roots(roots);
        for server in self.all() {
            server.notify("notifications/roots/list_changed");
        }
    }

    /// The resources of one server.
    pub async fn resources(&self, server: &str) -> Result<Vec<ResourceDef>, ServerQueryError> {
        let server = self.find(server)?;
        let session = server.session().await.map_err(|it| ServerQueryError(it.reason))?;
        session.resources().await.map_err(|err| ServerQueryError(err.to_string()))
    }

    /// The resource templates of one server.
    pub async fn resource_templates(&self, server: &str) -> Result<Vec<ResourceTemplate>, ServerQueryError> {
        let server = self.find(server)?;
        let session = server.session().await.map_err(|it| ServerQueryError(it.reason))?;
        session.templates().await.map_err(|err| ServerQueryError(err.to_string()))
    }

    /// The prompts of one server.
    pub async fn prompts(&self, server: &str) -> Result<Vec<PromptDef>, ServerQueryError> {
        let server = self.find(server)?;
        let session = server.session().await.map_err(|it| ServerQueryError(it.reason))?;
        session.prompts().await.map_err(|err| ServerQueryError(err.to_string()))
    }

    /// One resource: as the model reads it, and as it came.
    pub async fn read_resource(
        &self,
        server: &str,
        uri: &str,
        cancel: &CancellationToken,
    ) -> Result<(Content, Value), ServerQueryError> {
        let server = self.find(server)?;
        let params = Map::from_iter([(String::from("uri"), json!(uri))]);
        let result = server.ask("resources/read", params, cancel).await.map_err(ask_error)?;
        Ok((contents_text(&result, server.name(), server.media()).await, result))
    }

    /// One prompt, filled in: the result of `prompts/get`.
    pub async fn get_prompt(
        &self,
        server: &str,
        prompt: &str,
        arguments: Map<String, Value>,
    ) -> Result<Value, ServerQueryError> {
        let mut params = Map::from_iter([(String::from("name"), json!(prompt))]);
        if !arguments.is_empty() {
            params.insert(String::from("arguments"), Value::Object(arguments));
        }
        let server = self.find(server)?;
        server.ask("prompts/get", params, &CancellationToken::new()).await.map_err(ask_error)
    }

    /// The prompts of all servers that are connected, as slash commands.
    pub async fn prompt_commands(&self) -> Vec<PromptCommand> {
        let offers = |server: &Arc<Server>| {
            let status = server.status();
            let offers = status.info.is_some_and(|it| it.capabilities.prompts);
            offers && status.state == ServerState::Ready
        };
        let servers: Vec<Arc<Server>> = self.all().into_iter().filter(offers).collect();
        let asked = servers.iter().map(|server| async move {
            let prompts = self.prompts(server.name()).await.unwrap_or_default();
            prompts.into_iter().map(|prompt| PromptCommand {
                command: format!("mcp__{}__{}", server_part(server.name()), sanitised(&prompt.name)),
                server: server.name().to_owned(),
                prompt,
            })
        });
        futures_util::future::join_all(asked).await.into_iter().flatten().collect()
    }

    /// What could complete an argument of a prompt (`{"type": "ref/prompt",
    /// "name": …}`) or of a resource template (`{"type": "ref/resource", "uri":
    /// …}`).
    pub async fn complete(
        &self,
        server: &str,
        reference: Value,
        argument: &str,
        begun: &str,
    ) -> Result<Vec<String>, ServerQueryError> {
        let params = Map::from_iter([
            (String::from("ref"), reference),
            (String::from("argument"), json!({"name": argument, "value": begun})),
        ]);
        let server = self.find(server)?;
        let result =
            server.ask("completion/complete", params, &CancellationToken::new()).await.map_err(ask_error)?;
        let values = result["completion"]["values"].as_array().into_iter().flatten();
        Ok(values.filter_map(Value::as_str).take(100).map(str::to_owned).collect())
    }

    /// Asks to be told with [`ServerEvent::Resource`] when a resource changes.
    pub fn subscribe(&self, server: &str, uri: &str) -> Result<(), ServerQueryError> {
        self.find(server)?.subscribe(uri);
        Ok(())
    }

    /// Calls a tool for the user or the program in their place: a hook they
    /// configured, a command they typed. Nobody is asked and no rule is looked
    /// at, so nothing a model wrote may end up here but what a person is shown to decide
    /// about it. Gives the result as the
    /// server gave it.
    pub async fn call_for_user(
        &self,
        server: &str,
        tool: &str,
        arguments: Map<String, Value>,
        cancel: &CancellationToken,
    ) -> Result<Value, ServerQueryError> {
        let server = self.find(server)?;
        if server.definitions().is_empty() {
            server.session().await.map_err(|it| ServerQueryError(it.reason))?;
        }
        let defs = server.definitions();
        let def = defs.iter().find(|def| def.name == tool);
        let def = def.ok_or_else(|| {
            ServerQueryError(format!("the server `{}` has no tool `{tool}`", server.name()))
        })?;
        let (call_id, cancel) = (String::from("user"), cancel.clone());
        let options = CallOptions { cancel, progress: None, call_id, traceparent: None };
        server.call_tool(def, Value::Object(arguments), &options).await.map_err(ask_error)
    }

    /// Stops all servers and waits until they are gone.
    pub async fn shutdown(&self) {
        let stopping = self.all().into_iter().map(|server| async move { server.stop().await });
        futures_util::future::join_all(stopping).await;
        self.servers().clear();
    }

    /// Names of all servers.
    pub fn names(&self) -> Vec<String> {
        self.servers().keys().cloned().collect()
    }

    fn find(&self, name: &str) -> Result<Arc<Server>, ServerQueryError> {
        let servers = self.servers();
        servers.get(name).cloned().ok_or_else(|| {
            let known: Vec<&str> = servers.keys().map(String::as_str).collect();
            ServerQueryError(if known.is_empty() {
                String::from("no MCP server is configured")
            } else {
                format!("no MCP server `{name}`; there are: {}", known.join(", "))
            })
        })
    }
}

fn same(a: &ServerConfig, b: &ServerConfig) -> bool {
    let in_process = |it: &ServerConfig| match &it.endpoint {
        ServerEndpoint::InProcess(connector) => Some(Arc::as_ptr(connector).cast::<()>()),
        _ => None,
    };
    a.fingerprint() == b.fingerprint()
        && in_process(a) == in_process(b)
        && (a.scope, a.trust, a.timeouts, a.always_load, &a.log_level, a.era, &a.sampling)
            == (b.scope, b.trust, b.timeouts, b.always_load, &b.log_level, b.era, &b.sampling)
}

fn ask_error(failure: CallFailure) -> ServerQueryError {
    ServerQueryError(match failure {
        CallFailure::Unavailable(unavailable) => unavailable.reason,
        CallFailure::Lost { reason } | CallFailure::TimedOut(reason) | CallFailure::Refused(reason) => reason,
        CallFailure::Cancelled => String::from("interrupted"),
    })
}
