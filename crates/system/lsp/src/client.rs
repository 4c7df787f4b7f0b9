//! The conversation with one server.

use std::{
    collections::HashMap,
    future::Future,
    path::{Path, PathBuf},
    pin::Pin,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tokio::{
    io::AsyncWriteExt as _,
    net::UnixStream,
    net::unix::{OwnedReadHalf, OwnedWriteHalf},
    sync::{mpsc, oneshot, watch},
};

use crate::{
    CheckState, ColumnEncoding, Diagnostic, FileDiagnostics, FrameError, FrameReader, LspError, ServerPlan,
    ServerReadiness, diagnostics::DiagnosticStore, framed, open_documents::Documents, server_requests,
};

/// Starts servers; who does decides what holds them.
pub trait ServerLauncher: Send + Sync {
    /// Starts one. Its input and output are the channel.
    fn launch(&self, plan: &ServerPlan) -> std::io::Result<LaunchedServer>;
}

/// A server that was started.
pub struct LaunchedServer {
    /// Its input and output.
    pub channel: UnixStream,
    /// The process behind it.
    pub process: Arc<dyn LspProcess>,
}

/// A process, seen from here.
pub trait LspProcess: Send + Sync {
    /// Returns when it has ended, with how.
    fn ended(&self) -> Pin<Box<dyn Future<Output = String> + Send + '_>>;
    /// The last lines of its error output.
    fn errors(&self) -> String;
    /// Ends it and all it started. Returns at once.
    fn stop(&self);
    /// Bytes of memory it and all it started take, where that is known. Blocks.
    fn memory(&self) -> Option<u64> {
        None
    }
}

/// Messages that wait until a server reads.
const WAITING: usize = 256;
/// How long a server may take to read.
const READS: Duration = Duration::from_secs(5);
/// Questions in a row without an answer, or any other sign, until a server counts as hung.
const HUNG: u32 = 2;
/// A server may keep this answer back until something changes; that is no hang.
const MAY_WAIT: &str = "workspace/diagnostic";
/// How often a question is put again that a server gave up because a text changed.
const AGAIN: usize = 3;
/// How long a server may take to leave.
const LEAVES: Duration = Duration::from_secs(2);
/// How long reports about one text follow each other.
const SETTLE: Duration = Duration::from_millis(150);

type ServerReply = Result<Value, (i64, String)>;

/// One server that runs.
pub struct LspClient {
    plan: ServerPlan,
    outgoing: mpsc::Sender<Vec<u8>>,
    shared: Arc<SharedClient>,
    numbers: AtomicU64,
    documents: Arc<Mutex<Documents>>,
    /// One text is told after the other.
    telling: tokio::sync::Mutex<()>,
    capabilities: OnceLock<Value>,
    process: Arc<dyn LspProcess>,
    started: Instant,
    used: Mutex<Instant>,
}

/// What the reading side and the asking side share.
struct SharedClient {
    waiting: Mutex<HashMap<u64, oneshot::Sender<ServerReply>>>,
    readiness: watch::Sender<ServerReadiness>,
    ledger: DiagnosticStore,
    /// What it said when it was asked.
    pulled: DiagnosticStore,
    /// How it ended, once it has.
    end: watch::Sender<Option<String>>,
    /// Questions without an answer since the last sign of life.
    unanswered: AtomicU32,
}

impl SharedClient {
    fn finish(&self, why: String) {
        self.end.send_if_modified(|end| {
            let is_first = end.is_none();
            if is_first {
                *end = Some(why);
            }
            is_first
        });
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl LspClient {
    /// Starts a server and tells it where it is. Must be called within a
    /// runtime, whose tasks carry the conversation.
    pub async fn start(plan: ServerPlan, launcher: &dyn ServerLauncher) -> Result<Arc<Self>, LspError> {
        let failed = |why: String| LspError::NotStarted { server: plan.name.clone(), why };
        let LaunchedServer { channel, process } =
            launcher.launch(&plan).map_err(|err| failed(err.to_string()))?;
        let (reading, writing) = channel.into_split();
        let (outgoing, queue) = mpsc::channel(WAITING);
        let shared = Arc::new(SharedClient {
            waiting: Mutex::default(),
            readiness: watch::Sender::default(),
            ledger: DiagnosticStore::default(),
            pulled: DiagnosticStore::default(),
            end: watch::Sender::default(),
            unanswered: AtomicU32::new(0),
        });
        let client = Arc::new(Self {
            outgoing: outgoing.clone(),
            shared: Arc::clone(&shared),
            numbers: AtomicU64::new(1),
            documents: Arc::default(),
            telling: tokio::sync::Mutex::default(),
            capabilities: OnceLock::new(),
            process: Arc::clone(&process),
            started: Instant::now(),
            used: Mutex::new(Instant::now()),
            plan,
        });
        tokio::spawn(write(writing, queue));
        tokio::spawn(read(reading, Arc::clone(&shared), outgoing.downgrade(), client.plan.clone(), process));
        match client.introduce().await {
            Ok(()) => Ok(client),
            Err(fault) => {
                client.process.stop();
                let errors = client.last_words().await;
                Err(LspError::NotStarted {
                    server: client.plan.name.clone(),
                    why: format!("{}{errors}", reason(&fault)),
                })
            }
        }
    }

    async fn introduce(&self) -> Result<(), LspError> {
        let params = server_requests::initialize(&self.plan);
        let answer = self.ask_once("initialize", &params, self.plan.startup).await?;
        if !answer["capabilities"].is_object() {
            let (server, method) = (self.plan.name.clone(), String::from("initialize"));
            return Err(LspError::Nonsense { server, method, why: String::from("no capabilities") });
        }
        self.capabilities.set(answer["capabilities"].clone()).ok();
        self.tell("initialized", &json!({})).await?;
        if !self.plan.settings.is_null() {
            self.tell("workspace/didChangeConfiguration", &json!({"settings": self.plan.settings})).await?;
        }
        Ok(())
    }

    /// What it printed last, in words to add to a reason.
    async fn last_words(&self) -> String {
        // What it printed at its end may still be on its way.
        tokio::time::timeout(Duration::from_millis(300), self.process.ended()).await.ok();
        let errors = self.process.errors();
        let lines: Vec<&str> = errors.lines().filter(|it| !it.trim().is_empty()).collect();
        let last = lines[lines.len().saturating_sub(5)..].join("\n");
        if last.is_empty() {
            String::new()
        } else {
            format!(". It printed:\n{}", haft_types::text::head(&last, 1_000))
        }
    }

    /// Which server it is.
    pub fn plan(&self) -> &ServerPlan {
        &self.plan
    }

    /// How it ended, once it has.
    pub fn end(&self) -> Option<String> {
        self.shared.end.borrow().clone()
    }

    /// How long it has been there.
    pub fn age(&self) -> Duration {
        self.started.elapsed()
    }

    /// How long nobody has asked it anything.
    pub fn idle(&self) -> Duration {
        self.used.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }

    /// How far it is.
    pub fn readiness(&self) -> ServerReadiness {
        self.shared.readiness.borrow().clone()
    }

    /// What it counts columns in.
    pub fn encoding(&self) -> ColumnEncoding {
        ColumnEncoding::named(self.capability("positionEncoding").as_str())
    }

    fn capability(&self, name: &str) -> &Value {
        self.capabilities.get().map_or(&Value::Null, |it| &it[name])
    }

    /// Whether it offers something, by the name of the capability.
    pub fn offers(&self, capability: &str) -> bool {
        let it = self.capability(capability);
        !it.is_null() && *it != Value::Bool(false)
    }

    /// Whether it completes what it offers when asked to.
    pub fn resolves(&self, capability: &str) -> bool {
        self.capability(capability)["resolveProvider"].as_bool() == Some(true)
    }

    /// Asks something. A question it gave up because a text changed is put again.
    pub async fn ask(&self, method: &str, params: &Value, patience: Duration) -> Result<Value, LspError> {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        let mut tries = 0;
        loop {
            tries += 1;
            match self.ask_once(method, params, patience).await {
                // Content modified, request cancelled, server cancelled.
                Err(LspError::Refused { code: -32802..=-32800, .. }) if tries < AGAIN => {
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
                Err(LspError::Refused { code: -32601, .. }) => {
                    return Err(LspError::Unsupported {
                        server: self.plan.name.clone(),
                        method: method.to_owned(),
                    });
                }
                done => return done,
            }
        }
    }

    async fn ask_once(&self, method: &str, params: &Value, patience: Duration) -> Result<Value, LspError> {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = oneshot::channel();
        self.shared.waiting.lock().unwrap_or_else(PoisonError::into_inner).insert(number, sender);
        let body = json!({"jsonrpc": "2.0", "id": number, "method": method, "params": params});
        self.send(&body).await?;
        match tokio::time::timeout(patience, receiver).await {
            Ok(Ok(Ok(result))) => Ok(result),
            Ok(Ok(Err((code, message)))) => Err(LspError::Refused {
                server: self.plan.name.clone(),
                method: method.to_owned(),
                code,
                message,
            }),
            Ok(Err(_)) => Err(self.ended()),
            Err(_) => {
                self.shared.waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
                let cancel = json!({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": number}});
                self.outgoing.try_send(encoded(&cancel)).ok();
                let counts = method != MAY_WAIT;
                if counts && HUNG <= self.shared.unanswered.fetch_add(1, Ordering::Relaxed) + 1 {
                    self.shared.finish(String::from("it answered nothing and said nothing"));
                    self.process.stop();
                }
                let (server, method) = (self.plan.name.clone(), method.to_owned());
                Err(LspError::Silent { server, method, seconds: patience.as_secs() })
            }
        }
    }

    fn ended(&self) -> LspError {
        let why = self.end().unwrap_or_else(|| String::from("its output ended"));
        LspError::Ended { server: self.plan.name.clone(), why }
    }

    /// Tells something that has no answer.
    pub async fn tell(&self, method: &str, params: &Value) -> Result<(), LspError> {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params})).await
    }

    async fn send(&self, body: &Value) -> Result<(), LspError> {
        if self.end().is_some() {
            return Err(self.ended());
        }
        match tokio::time::timeout(READS, self.outgoing.send(encoded(body))).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(self.ended()),
            Err(_) => {
                self.shared.finish(String::from("it does not read what it is told"));
                self.process.stop();
                Err(self.ended())
            }
        }
    }

    /// Makes it know this text of a file, and whatever else changed on disk. The
    /// version it knows then, and since when.
    pub async fn know(&self, path: &Path, language: &str, text: &str) -> Result<(i32, Instant), LspError> {
        let _one = self.telling.lock().await;
        let (documents, path, language, text) =
            (Arc::clone(&self.documents), path.to_owned(), language.to_owned(), text.to_owned());
        let said = tokio::task::spawn_blocking(move || {
            let mut documents = documents.lock().unwrap_or_else(PoisonError::into_inner);
            let mut messages = documents.catch_up();
            let saying = documents.know(&path, &language, &text)?;
            messages.extend(saying.messages);
            Some((messages, saying.version, saying.since))
        });
        let Ok(Some((messages, version, since))) = said.await else {
            let (server, method) = (self.plan.name.clone(), String::from("textDocument/didOpen"));
            return Err(LspError::Nonsense { server, method, why: String::from("the file has no address") });
        };
        for (method, params) in messages {
            self.tell(method, &params).await?;
        }
        Ok((version, since))
    }

    /// Waits until it says that it is ready, or has said nothing about that; in
    /// what state it then is.
    pub async fn settle(&self, patience: Duration) -> ServerReadiness {
        let mut readiness = self.shared.readiness.subscribe();
        let mut end = self.shared.end.subscribe();
        let deadline = tokio::time::Instant::now() + patience;
        loop {
            let now = readiness.borrow_and_update().clone();
            if !now.is_busy() {
                return now;
            }
            tokio::select! {
                changed = readiness.changed() => if changed.is_err() { return now },
                _ = end.wait_for(Option::is_some) => return now,
                // Works that are forgotten end without a message.
                () = tokio::time::sleep(Duration::from_secs(5)) => (),
                () = tokio::time::sleep_until(deadline) => return now,
            }
        }
    }

    /// What it says about a text it was told, once it has looked at it.
    pub async fn check(
        &self,
        path: &Path,
        version: i32,
        since: Instant,
        patience: Duration,
    ) -> Result<CheckState, LspError> {
        if !self.offers("diagnosticProvider") {
            let checked = self.shared.ledger.wait(path, version, since, patience, SETTLE).await;
            return match self.end() {
                Some(_) if checked == CheckState::NotYet => Err(self.ended()),
                _ => Ok(checked),
            };
        }
        let params = json!({"textDocument": {"uri": crate::uri_of(path)}});
        let answer = self.ask("textDocument/diagnostic", &params, patience).await?;
        if answer["kind"] == "unchanged" {
            let known = self.shared.pulled.get(path).map(|it| it.items);
            return Ok(known.map_or(CheckState::NotYet, CheckState::Now));
        }
        let mut items = Diagnostic::read_all(&answer["items"]);
        // Some say a part of it without being asked.
        if let Some(pushed) =
            self.shared.ledger.get(path).filter(|it| it.version.is_some_and(|it| version <= it))
        {
            items.extend(pushed.items.into_iter().filter(|it| !answer_has(&answer, it)));
        }
        self.shared.pulled.put(path, Some(version), items.clone());
        Ok(CheckState::Now(items))
    }

    /// Asks what is wrong in the whole project. Whether it could be asked and has
    /// answered; what it said is in the reports then.
    pub async fn check_all(&self, patience: Duration) -> Result<bool, LspError> {
        if self.capability("diagnosticProvider")["workspaceDiagnostics"] != Value::Bool(true) {
            return Ok(false);
        }
        let answer = match self.ask(MAY_WAIT, &json!({"previousResultIds": []}), patience).await {
            Ok(answer) => answer,
            Err(fault @ LspError::Ended { .. }) => return Err(fault),
            Err(_) => return Ok(false),
        };
        let Some(items) = answer["items"].as_array() else { return Ok(false) };
        for item in items.iter().filter(|it| it["kind"] != "unchanged") {
            let Some(path) = item["uri"].as_str().and_then(crate::path_of) else { continue };
            let version = item["version"].as_i64().and_then(|it| i32::try_from(it).ok());
            self.shared.pulled.put(&path, version, Diagnostic::read_all(&item["items"]));
        }
        Ok(true)
    }

    /// Bytes of memory it takes, where that is known. Blocks.
    pub fn memory(&self) -> Option<u64> {
        self.process.memory()
    }

    /// What it last said about a file, asked or not.
    pub fn report(&self, path: &Path) -> Option<FileDiagnostics> {
        self.shared.pulled.get(path).or_else(|| self.shared.ledger.get(path))
    }

    /// What it last said about each file, asked or not.
    pub fn reports(&self) -> Vec<(PathBuf, FileDiagnostics)> {
        let mut all = self.shared.pulled.all();
        let pushed = self.shared.ledger.all().into_iter();
        let more: Vec<_> = pushed.filter(|(path, _)| !all.iter().any(|it| it.0 == *path)).collect();
        all.extend(more);
        all
    }

    /// Ends it: politely, then by force.
    pub async fn stop(&self) {
        if self.end().is_none() {
            let leaving = async {
                self.ask_once("shutdown", &Value::Null, LEAVES).await?;
                self.tell("exit", &Value::Null).await
            };
            tokio::time::timeout(LEAVES, leaving).await.ok();
            tokio::time::timeout(LEAVES / 4, self.process.ended()).await.ok();
        }
        self.kill("it was stopped");
    }

    /// Ends it by force.
    pub fn kill(&self, why: &str) {
        self.shared.finish(why.to_owned());
        self.process.stop();
    }
}

fn answer_has(answer: &Value, it: &Diagnostic) -> bool {
    Diagnostic::read_all(&answer["items"])
        .iter()
        .any(|other| other.print() == it.print() && other.line == it.line)
}

impl Drop for LspClient {
    fn drop(&mut self) {
        self.process.stop();
    }
}

fn reason(fault: &LspError) -> String {
    match fault {
        LspError::Ended { why, .. } | LspError::NotStarted { why, .. } => why.clone(),
        LspError::Silent { seconds, .. } => format!("it did not answer within {seconds} s"),
        other => other.to_string(),
    }
}

fn encoded(body: &Value) -> Vec<u8> {
    framed(body.to_string().as_bytes())
}

/// What waits together goes together: a server wakes up once for it.
async fn write(mut to: OwnedWriteHalf, mut queue: mpsc::Receiver<Vec<u8>>) {
    let mut messages = Vec::new();
    while queue.recv_many(&mut messages, WAITING).await != 0 {
        let all = match messages.len() {
            1 => messages.pop().unwrap_or_default(),
            _ => messages.concat(),
        };
        messages.clear();
        if to.write_all(&all).await.is_err() {
            return;
        }
    }
}

/// Reads until the end, whatever comes.
async fn read(
    from: OwnedReadHalf,
    shared: Arc<SharedClient>,
    outgoing: mpsc::WeakSender<Vec<u8>>,
    plan: ServerPlan,
    process: Arc<dyn LspProcess>,
) {
    let mut frames = FrameReader::new(from);
    let why = loop {
        match frames.next().await {
            Ok(body) => match serde_json::from_slice::<Value>(&body) {
                Ok(message) => {
                    shared.unanswered.store(0, Ordering::Relaxed);
                    hear(&message, &shared, &outgoing, &plan);
                }
                Err(err) => break format!("it sent something that is no JSON: {err}"),
            },
            Err(FrameError::Broken(why)) => break format!("it sent something that is no message: {why}"),
            Err(FrameError::End | FrameError::Lost(_)) => {
                let ended = tokio::time::timeout(Duration::from_secs(1), process.ended()).await;
                break ended.unwrap_or_else(|_| String::from("it closed its output"));
            }
        }
    };
    tracing::debug!(server = plan.name, why, "a language server ended");
    shared.finish(why);
    process.stop();
}

fn hear(message: &Value, shared: &SharedClient, outgoing: &mpsc::WeakSender<Vec<u8>>, plan: &ServerPlan) {
    let params = &message["params"];
    match (message["method"].as_str(), message.get("id").filter(|it| !it.is_null())) {
        (Some(method), Some(id)) => {
            let answer = match server_requests::answer(method, params, plan) {
                Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
                Err((code, text)) => {
                    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": text}})
                }
            };
            // One that floods us with questions and reads no answers loses some.
            if let Some(outgoing) = outgoing.upgrade() {
                outgoing.try_send(encoded(&answer)).ok();
            }
        }
        (Some("$/progress"), None) => shared.readiness.send_modify(|it| it.progress(params)),
        (Some("experimental/serverStatus"), None) => shared.readiness.send_modify(|it| it.status(params)),
        (Some("textDocument/publishDiagnostics"), None) => drop(shared.ledger.published(params)),
        (Some(_), None) => (),
        (None, id) => {
            // Some servers write numbers as text.
            let number = id.and_then(|it| it.as_u64().or_else(|| it.as_str()?.parse().ok()));
            let mut waiting = shared.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(sender) = number.and_then(|number| waiting.remove(&number)) else { return };
            let error = message.get("error").filter(|it| !it.is_null());
            let reply = match error {
                Some(error) => {
                    let text = error["message"].as_str().unwrap_or("it gives no reason");
                    Err((error["code"].as_i64().unwrap_or(0), haft_types::text::one_line(text, 500)))
                }
                None => Ok(message["result"].clone()),
            };
            sender.send(reply).ok();
        }
    }
}
