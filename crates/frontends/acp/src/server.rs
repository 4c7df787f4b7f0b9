//! The connection to an editor: dispatches messages to sessions and handles all others.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use haft_json_lines::{InputLine, MAX_INPUT, read_lines};
use haft_session::{
    AnswerableQuestions, ApproverSpec, CloseMode, Command, DenialText, EventStream, LogStart, OpenError,
    Session, SessionHandle, SessionSpec,
};
use haft_types::exit_codes;
use serde_json::{Value, json};
use tokio::{sync::mpsc, task::JoinSet};

use crate::{
    client_capabilities::EditorCapabilities,
    editor::EditorPeer,
    editor_buffers::EditorBuffers,
    jsonrpc::{AUTH_REQUIRED, AcpError, METHOD_NOT_FOUND, NOT_FOUND, RpcMessage, parse_line, too_long},
    list_sessions::{delete_session, list_sessions, log_dirs},
    prompt_blocks::read_blocks,
    session_driver::{EditorRequest, SessionDriver},
    session_location::SessionLocation,
};

/// Supported protocol version.
pub const PROTOCOL_VERSION: u64 = 1;

/// Id of the only authentication method.
const KEY_METHOD: &str = "api-key";

/// Argument that editors add to the command line for a login in a terminal.
const LOGIN_FLAG: &str = "--login";

/// Maximum time for sessions to end after the editor has disconnected.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// How often, and with which delay, opening a session that was just closed is retried.
const MAX_TRIES: u32 = 40;
const BETWEEN_TRIES: Duration = Duration::from_millis(50);

/// Builds the spec of a session for a location. May block.
pub type SpecBuilderFn = Arc<dyn Fn(&SessionLocation) -> Result<SessionSpec, String> + Send + Sync>;

/// A signal that asks the program to exit.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AcpShutdown {
    /// Exit at once.
    Terminate,
    /// Exit after sessions had time to end.
    Interrupt,
}

/// ACP server on standard input and output.
pub struct AcpServer {
    shared: Arc<SharedAcpServer>,
    /// Tasks of sessions and of requests to open one.
    tasks: JoinSet<()>,
}

struct SharedAcpServer {
    editor: EditorPeer,
    maker: SpecBuilderFn,
    version: String,
    abilities: Mutex<EditorCapabilities>,
    sessions: Mutex<HashMap<String, mpsc::UnboundedSender<EditorRequest>>>,
    /// Sessions that were open on this connection before.
    closed: Mutex<HashSet<String>>,
}

/// A session, its events, and whether the bypass mode is permitted.
type OpenedSession = (SessionHandle, EventStream, bool);

/// How a session is opened.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Opening {
    New,
    Load,
    Resume,
    Fork,
}

impl AcpServer {
    /// Creates a server. `maker` builds session specs; `version` is reported to the editor.
    pub fn new(maker: SpecBuilderFn, version: impl Into<String>) -> Self {
        let shared = SharedAcpServer {
            editor: EditorPeer::new(),
            maker,
            version: version.into(),
            abilities: Mutex::default(),
            sessions: Mutex::default(),
            closed: Mutex::default(),
        };
        Self { shared: Arc::new(shared), tasks: JoinSet::new() }
    }

    /// Runs until the editor closes its output. Returns the exit code.
    pub async fn run(mut self, mut signals: mpsc::UnboundedReceiver<AcpShutdown>) -> u8 {
        let mut lines = read_lines();
        let broken = self.shared.editor.broken();
        let (code, how) = loop {
            tokio::select! {
                biased;
                Some(signal) = signals.recv() => match signal {
                    AcpShutdown::Terminate => break (exit_codes::TERMINATED, CloseMode::AtOnce),
                    AcpShutdown::Interrupt => break (exit_codes::INTERRUPTED, CloseMode::Orderly),
                },
                () = broken.cancelled() => break (1, CloseMode::AtOnce),
                line = lines.recv() => match line {
                    None => break (0, CloseMode::Orderly),
                    Some(InputLine::Whole(line)) => parse_line(&line).into_iter().for_each(|it| self.hear(it)),
                    Some(InputLine::TooLong(_)) => self.hear(too_long(MAX_INPUT)),
                },
                Some(_) = self.tasks.join_next(), if !self.tasks.is_empty() => (),
            }
        };
        self.shared.editor.close();
        for orders in self.shared.sessions().values() {
            orders.send(EditorRequest::Close { id: None, how }).ok();
        }
        let ended = async { while self.tasks.join_next().await.is_some() {} };
        tokio::time::timeout(LAST_WORDS, ended).await.ok();
        self.shared.editor.finish(Duration::from_secs(2)).await;
        code
    }

    fn hear(&mut self, message: RpcMessage) {
        match message {
            RpcMessage::Answer { id, answer } => self.shared.editor.answered(&id, answer),
            RpcMessage::Broken { id, problem } => self.shared.editor.answer(&id, &Err(problem)),
            RpcMessage::Notification { method, params } => self.notified(&method, &params),
            RpcMessage::Request { id, method, params } => {
                tracing::debug!(method, "request");
                if let Err(problem) = self.request(&id, &method, params) {
                    self.shared.editor.answer(&id, &Err(problem));
                }
            }
        }
    }

    fn notified(&self, method: &str, params: &Value) {
        match method {
            "session/cancel" => {
                if let Ok(orders) = self.shared.session(params) {
                    orders.send(EditorRequest::Cancel).ok();
                }
            }
            "$/cancel_request" => {
                for orders in self.shared.sessions().values() {
                    orders.send(EditorRequest::CancelRequest(params["requestId"].clone())).ok();
                }
            }
            // Unknown notifications of newer editors are ignored.
            _ => (),
        }
    }

    /// Handles a request, or forwards it to its session.
    fn request(&mut self, id: &Value, method: &str, params: Value) -> Result<(), AcpError> {
        let id = id.clone();
        let to_session = |order: EditorRequest| {
            let session = params["sessionId"].as_str().unwrap_or_default();
            let sent = self.shared.session(&params)?.send(order);
            sent.map_err(|_| AcpError::no_session(session))
        };
        match method {
            "initialize" => {
                let answer = self.shared.initialize(&params);
                self.shared.editor.answer(&id, &Ok(answer));
                Ok(())
            }
            "authenticate" => {
                self.in_background(id, move |shared| shared.authenticate(&params));
                Ok(())
            }
            "session/new" => self.open(id, params, Opening::New),
            "session/load" => self.open(id, params, Opening::Load),
            "session/resume" => self.open(id, params, Opening::Resume),
            "session/fork" => self.open(id, params, Opening::Fork),
            "session/list" => {
                self.in_background(id, move |shared| shared.list(&params));
                Ok(())
            }
            "session/delete" => self.delete(id, params),
            "session/prompt" => {
                to_session(EditorRequest::Prompt { id, blocks: read_blocks(&params["prompt"])? })
            }
            "session/set_mode" => to_session(EditorRequest::SetMode { id, mode: text_of(&params["modeId"]) }),
            "session/set_config_option" => to_session(EditorRequest::SetOption {
                id,
                option: text_of(&params["configId"]),
                value: params["value"].clone(),
            }),
            "session/close" => to_session(EditorRequest::Close { id: Some(id), how: CloseMode::Orderly }),
            _ => Err(AcpError::new(METHOD_NOT_FOUND, format!("there is no method `{method}`"))),
        }
    }

    /// Handles a request on a blocking thread.
    fn in_background(
        &mut self,
        id: Value,
        work: impl FnOnce(&SharedAcpServer) -> Result<Value, AcpError> + Send + 'static,
    ) {
        let shared = Arc::clone(&self.shared);
        self.tasks.spawn_blocking(move || {
            let answer = work(&shared);
            shared.editor.answer(&id, &answer);
        });
    }

    fn open(&mut self, id: Value, params: Value, how: Opening) -> Result<(), AcpError> {
        let place = SessionLocation::read(&params)?;
        let old = params["sessionId"].as_str().map(str::to_owned);
        if how != Opening::New && old.is_none() {
            return Err(AcpError::params("`sessionId` is missing"));
        }
        let replays = how == Opening::Load;
        // A session that is open here is replayed, not opened twice.
        if matches!(how, Opening::Load | Opening::Resume)
            && let Some(orders) = old.as_deref().and_then(|id| self.shared.sessions().get(id).cloned())
        {
            let order = EditorRequest::Introduce { id, replays, named: false };
            return orders.send(order).map_err(|_| AcpError::internal("the session is closing; try again"));
        }
        let shared = Arc::clone(&self.shared);
        self.tasks.spawn(async move {
            match shared.opened(&place, old, how).await {
                Err(problem) => shared.editor.answer(&id, &Err(problem)),
                Ok((driver, orders)) => {
                    let session = driver.id.clone();
                    let named = matches!(how, Opening::New | Opening::Fork);
                    orders.send(EditorRequest::Introduce { id, replays, named }).ok();
                    shared.sessions().insert(session.clone(), orders);
                    let closing = driver.run().await;
                    shared.sessions().remove(&session);
                    shared.closed.lock().unwrap_or_else(PoisonError::into_inner).insert(session);
                    closing.iter().for_each(|id| shared.editor.answer(id, &Ok(json!({}))));
                }
            }
        });
        Ok(())
    }

    fn delete(&mut self, id: Value, params: Value) -> Result<(), AcpError> {
        let session = text_of(&params["sessionId"]);
        if self.shared.sessions().contains_key(&session) {
            return Err(AcpError::params(format!("the session {session} is open; close it first")));
        }
        self.in_background(id, move |shared| {
            let spec = shared.spec(&shared.usual_place())?;
            delete_session(&log_dirs(&spec.place), &session).map(|()| json!({}))
        });
        Ok(())
    }
}

fn text_of(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

impl SharedAcpServer {
    fn sessions(&self) -> MutexGuard<'_, HashMap<String, mpsc::UnboundedSender<EditorRequest>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn abilities(&self) -> MutexGuard<'_, EditorCapabilities> {
        self.abilities.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the session named in the parameters.
    fn session(&self, params: &Value) -> Result<mpsc::UnboundedSender<EditorRequest>, AcpError> {
        let id = params["sessionId"].as_str().ok_or_else(|| AcpError::params("`sessionId` is missing"))?;
        self.sessions().get(id).cloned().ok_or_else(|| AcpError::no_session(id))
    }

    fn initialize(&self, params: &Value) -> Value {
        let abilities = EditorCapabilities::read(params);
        *self.abilities() = abilities;
        let mut methods = vec![json!({
            "id": KEY_METHOD, "name": "Key in the environment",
            "description": "Set ANTHROPIC_API_KEY, OPENAI_API_KEY or the variables of a cloud for the program \
                            that starts Haft, or `apiKeyHelper` in the settings.",
        })];
        if abilities.terminal_login {
            methods.push(json!({
                "type": "terminal", "id": "login", "name": "Type a key", "args": [LOGIN_FLAG],
                "description": "Asks for a key in a terminal and keeps it, as `haft login` does.",
            }));
        }
        let empty = || json!({});
        json!({
            "protocolVersion": PROTOCOL_VERSION,
            "agentInfo": {"name": "haft", "title": "Haft", "version": self.version},
            "agentCapabilities": {
                "loadSession": true,
                "promptCapabilities": {"image": true, "audio": false, "embeddedContext": true},
                "mcpCapabilities": {"http": true, "sse": true},
                "sessionCapabilities": {
                    "list": empty(), "delete": empty(), "additionalDirectories": empty(), "resume": empty(),
                    "close": empty(), "fork": empty(),
                },
            },
            "authMethods": methods,
        })
    }

    fn usual_place(&self) -> SessionLocation {
        let cwd = std::env::current_dir().unwrap_or_else(|_| std::env::temp_dir());
        SessionLocation { cwd, ..SessionLocation::default() }
    }

    fn spec(&self, place: &SessionLocation) -> Result<SessionSpec, AcpError> {
        (self.maker)(place).map_err(AcpError::params)
    }

    /// Checks whether a key is available now.
    fn authenticate(&self, params: &Value) -> Result<Value, AcpError> {
        if params["methodId"] != KEY_METHOD {
            return Err(AcpError::params(format!("there is no such method: {}", params["methodId"])));
        }
        let spec = self.spec(&self.usual_place())?;
        let events = haft_session::EventSender::to(|_| ());
        let premises =
            haft_session::SessionEnvironment::read(&spec, String::from("authenticate").into(), events)
                .map_err(of_open)?;
        premises.provider(spec.model.as_ref()).map_err(of_open)?;
        Ok(json!({}))
    }

    fn list(&self, params: &Value) -> Result<Value, AcpError> {
        let place = match params["cwd"].as_str() {
            None => self.usual_place(),
            Some(_) => SessionLocation::read(params)?,
        };
        list_sessions(&self.spec(&place)?.place, params)
    }

    /// Opens a session without announcing it yet.
    async fn opened(
        self: &Arc<Self>,
        place: &SessionLocation,
        old: Option<String>,
        how: Opening,
    ) -> Result<(SessionDriver, mpsc::UnboundedSender<EditorRequest>), AcpError> {
        let abilities = *self.abilities();
        let (shared, place) = (Arc::clone(self), place.clone());
        let opened = tokio::task::spawn_blocking(move || {
            let mut tried = 0;
            loop {
                let opened = shared.open_now(&place, old.clone(), how, abilities);
                tried += 1;
                // A session that was just closed may take a moment to release its locks.
                let was_ours = old.as_ref().is_some_and(|id| shared.closed_here(id));
                if opened.is_ok() || !was_ours || MAX_TRIES <= tried {
                    return opened;
                }
                std::thread::sleep(BETWEEN_TRIES);
            }
        });
        let (handle, events, may_bypass) =
            opened.await.map_err(|err| AcpError::internal(err.to_string()))??;
        let id = handle.id().to_string();
        let introduction = handle.ask(Command::Reload).await.ok_or_else(|| AcpError::no_session(&id))?;
        let choices = SessionDriver::choices(&handle, &introduction, may_bypass)?;
        let (sender, orders) = mpsc::unbounded_channel();
        let editor = self.editor.clone();
        let commands = introduction.commands;
        Ok((SessionDriver { editor, id, handle, events, orders, abilities, choices, commands }, sender))
    }

    fn closed_here(&self, id: &str) -> bool {
        self.closed.lock().unwrap_or_else(PoisonError::into_inner).contains(id)
    }

    /// Opens a session. Blocks.
    fn open_now(
        &self,
        place: &SessionLocation,
        old: Option<String>,
        how: Opening,
        abilities: EditorCapabilities,
    ) -> Result<OpenedSession, AcpError> {
        let mut spec = self.spec(place)?;
        spec.asking = ApproverSpec::Face(DenialText::Explained);
        let asks = abilities.forms || abilities.addresses;
        spec.face_answers = AnswerableQuestions { elicitation: asks, server_trust: true };
        spec.progress = true;
        spec.log.entrypoint = Some(String::from("acp"));
        if let Some(old) = old.filter(|_| how != Opening::New) {
            spec.log.start = LogStart::Session(old);
            spec.log.fork = how == Opening::Fork;
        }
        if place.has_servers() {
            spec.servers.configs.push(place.servers.to_string());
        }
        let may_bypass = spec.permissions.may_bypass;
        let buffers = abilities.reads_files.then(|| {
            let roots = std::iter::once(&place.cwd).chain(&place.extra_dirs);
            Arc::new(EditorBuffers::new(self.editor.clone(), abilities, roots))
        });
        spec.overlay = buffers.clone().map(|it| it as Arc<_>);
        let (handle, events) = Session::open(spec).map_err(of_open)?;
        if let Some(buffers) = buffers {
            buffers.belong_to(handle.id().as_str());
        }
        Ok((handle, events, may_bypass))
    }
}

/// Converts the error of opening a session.
fn of_open(error: OpenError) -> AcpError {
    let words = error.to_string();
    match error {
        OpenError::NoKey(_) => AcpError::new(AUTH_REQUIRED, words),
        OpenError::Start(_) if words.starts_with("No conversation found") => AcpError::new(NOT_FOUND, words),
        OpenError::Spec(_) => AcpError::params(words),
        _ => AcpError::internal(words),
    }
}
