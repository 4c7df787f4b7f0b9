//! A host with one tool that leaves a mark, a client, and a connection between them that can be cut.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use haft_permission::Policy;
use haft_tool::{AccessSet, BoxFuture, DynTool, Outcome, Tool, ToolContext, ToolError, Traits, erase};
use haft_tool_host::{
    HostConfig, HostLimits, HostOperations, HostRunRegistry, HostSession, HostSet, LinkConfig, LinkTimeouts,
    RunRequest, SessionFactory, WebOptions,
    protocol::{HostCommand, HostLocation},
    serve_web,
};
use haft_tool_runtime::{
    Approver, CallReport, CallSession, CallSessionState, Gate, Pipeline, Pool, ResultStore, SharedPool,
    StoreLimits,
};
use haft_types::{AgentId, PermissionMode, ToolUse};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::watch,
};
use tokio_util::sync::CancellationToken;

pub const TOKEN: &str = "open sesame";

/// Long enough that a busy machine is not silent for three of these.
const PING: Duration = Duration::from_millis(400);

/// Leaves a mark.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
pub struct MarkInput {
    /// What is marked.
    pub name: String,
    /// How long it takes, in milliseconds.
    #[serde(default)]
    pub ms: u64,
    /// Whether it only looks.
    #[serde(default)]
    pub looks: bool,
    /// How long what it says is.
    #[serde(default)]
    pub size: usize,
}

/// Appends a line to a file, once per run.
pub struct Mark {
    pub file: PathBuf,
}

impl Tool for Mark {
    type Input = MarkInput;
    type Output = String;
    type Progress = Value;
    const NAME: &'static str = "Mark";

    fn traits(&self) -> Traits {
        Traits { max_result_chars: None, ..Traits::default() }
    }

    fn is_read_only(&self, input: &MarkInput) -> bool {
        input.looks
    }

    fn is_concurrency_safe(&self, _input: &MarkInput) -> bool {
        true
    }

    fn reach(&self, _input: &MarkInput, _cx: &haft_tool::CallContext) -> AccessSet {
        AccessSet::nothing()
    }

    async fn call(&self, input: MarkInput, cx: &ToolContext<Value>) -> Result<Outcome<String>, ToolError> {
        append(&self.file, &format!("begin {}\n", input.name));
        cx.progress(&json!({"begun": input.name}));
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(input.ms)) => (),
            () = cx.cancel.cancelled() => {
                append(&self.file, &format!("stopped {}\n", input.name));
                return Err(ToolError::failed("stopped"));
            }
        }
        append(&self.file, &format!("end {}\n", input.name));
        Ok(Outcome::from(format!("marked {} {}", input.name, "x".repeat(input.size))))
    }
}

fn append(file: &Path, line: &str) {
    use std::io::Write as _;
    let mut file = std::fs::File::options().create(true).append(true).open(file).unwrap();
    file.write_all(line.as_bytes()).unwrap();
}

/// Opens sessions with only this tool.
pub struct MarkLender {
    pub dir: PathBuf,
    /// Deny rules of the host.
    pub deny: Vec<String>,
    pub ask: Vec<String>,
    pub closed: watch::Sender<usize>,
}

struct NoHands(watch::Sender<usize>);

impl HostOperations for NoHands {
    fn news(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::pending())
    }

    fn agents_with_news(&self) -> Vec<AgentId> {
        Vec::new()
    }

    fn order(&self, order: HostCommand) -> BoxFuture<'_, Result<Value, String>> {
        Box::pin(async move {
            match order {
                HostCommand::Redo => {
                    let count = self.0.send_replace(0);
                    self.0.send_replace(count);
                    Ok(json!("redone"))
                }
                _ => Err(String::from("not here")),
            }
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.0.send_modify(|it| *it += 1);
        Box::pin(async {})
    }
}

pub fn pipeline(
    dir: &Path,
    deny: &[String],
    ask: &[String],
    asker: Option<Arc<dyn Approver>>,
) -> Arc<Pipeline> {
    let origin =
        haft_permission::RuleSource::new("the host's own file", haft_permission::Destination::Session);
    let policy = Policy::builder(dir)
        .mode(PermissionMode::BypassPermissions)
        .rules(&origin, haft_permission::Behavior::Deny, deny.to_vec())
        .rules(&origin, haft_permission::Behavior::Ask, ask.to_vec())
        .build();
    let mut gate = Gate::new(policy);
    if let Some(asker) = asker {
        gate = gate.with_approver(asker);
    }
    Arc::new(Pipeline::new(gate, ResultStore::new(dir.join("results"), StoreLimits::default())))
}

impl SessionFactory for MarkLender {
    fn directory(&self, _wanted: &str) -> Result<PathBuf, String> {
        Ok(self.dir.clone())
    }

    fn lend(
        &self,
        _wanted: RunRequest,
        ask: Arc<dyn Approver>,
    ) -> BoxFuture<'_, Result<HostSession, String>> {
        let mark = erase(Mark { file: self.dir.join("marks") });
        let lent = HostSession {
            pipeline: pipeline(&self.dir, &self.deny, &self.ask, Some(ask)),
            pool: SharedPool::new(Pool::assemble(vec![mark], Vec::new())),
            state: CallSessionState::new(&self.dir),
            place: HostLocation { cwd: self.dir.clone(), ..HostLocation::default() },
            hands: Arc::new(NoHands(self.closed.clone())),
        };
        Box::pin(async move { Ok(lent) })
    }
}

/// A host with a network address.
pub struct Far {
    pub dir: tempfile::TempDir,
    pub stop: CancellationToken,
    pub address: std::net::SocketAddr,
    pub closed: watch::Receiver<usize>,
    task: tokio::task::JoinHandle<()>,
}

pub struct FarRules {
    pub deny: Vec<String>,
    pub ask: Vec<String>,
    pub linger: Duration,
}

impl Default for FarRules {
    fn default() -> Self {
        Self { deny: Vec::new(), ask: Vec::new(), linger: Duration::from_secs(60) }
    }
}

impl Far {
    pub async fn start(rules: FarRules) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), rules).await
    }

    pub async fn start_in(dir: tempfile::TempDir, rules: FarRules) -> Self {
        let (closed, watched) = watch::channel(0);
        let FarRules { deny, ask, linger } = rules;
        let lender = MarkLender { dir: dir.path().to_owned(), deny, ask, closed };
        let limits = HostLimits { linger, ping: PING, ..HostLimits::default() };
        let runs = HostRunRegistry::new(dir.path().join("state"), Arc::new(lender), "1.2.3", limits);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
        let options =
            WebOptions { token: TOKEN.to_owned(), connections: 16, header_limit: Duration::from_secs(30) };
        let ended = stop.clone();
        let task = tokio::spawn(async move { serve_web(listener, runs, options, ended).await.unwrap() });
        Self { dir, stop, address, closed: watched, task }
    }

    /// Returns how often each line is in the file of marks.
    pub fn marks(&self) -> std::collections::BTreeMap<String, usize> {
        let mut marks = std::collections::BTreeMap::new();
        for line in std::fs::read_to_string(self.dir.path().join("marks")).unwrap_or_default().lines() {
            *marks.entry(line.to_owned()).or_default() += 1;
        }
        marks
    }

    /// Stops the host process cleanly; its journal stays.
    pub async fn end(self) -> tempfile::TempDir {
        self.stop.cancel();
        self.task.await.unwrap();
        self.dir
    }
}

/// A connection that can be cut or silenced.
pub struct Wire {
    pub address: std::net::SocketAddr,
    cut: watch::Sender<u64>,
    silent: Arc<AtomicBool>,
    pub count: Arc<Mutex<u64>>,
}

impl Wire {
    pub async fn to(target: std::net::SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (cut, silent) = (watch::Sender::new(0), Arc::new(AtomicBool::new(false)));
        let count = Arc::new(Mutex::new(0));
        let wire = Self { address, cut: cut.clone(), silent: Arc::clone(&silent), count: Arc::clone(&count) };
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                *count.lock().unwrap() += 1;
                let (mut cuts, silent) = (cut.subscribe(), Arc::clone(&silent));
                tokio::spawn(async move {
                    let Ok(far) = TcpStream::connect(target).await else { return };
                    let ((nr, nw), (fr, fw)) = (near.into_split(), far.into_split());
                    tokio::select! {
                        () = carry(nr, fw, &silent) => (),
                        () = carry(fr, nw, &silent) => (),
                        _ = cuts.changed() => (),
                    }
                });
            }
        });
        wire
    }

    pub fn cut(&self) {
        self.cut.send_modify(|it| *it += 1);
    }

    pub fn fall_silent(&self, silent: bool) {
        self.silent.store(silent, Ordering::Release);
    }
}

async fn carry(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    silent: &AtomicBool,
) {
    let mut bytes = vec![0; 1 << 12];
    while let Ok(length @ 1..) = from.read(&mut bytes).await {
        if !silent.load(Ordering::Acquire) && to.write_all(&bytes[..length]).await.is_err() {
            return;
        }
    }
}

pub fn times() -> LinkTimeouts {
    LinkTimeouts {
        connect: Duration::from_secs(30),
        ping: PING,
        patience: Duration::from_secs(120),
        first_wait: Duration::from_millis(2),
        longest_wait: Duration::from_millis(50),
    }
}

pub fn setup(name: &str, address: std::net::SocketAddr, session: &str) -> LinkConfig {
    LinkConfig {
        config: HostConfig::read(&format!("{name}=http://{address}/")).unwrap().with_token(TOKEN),
        session: session.to_owned(),
        epoch: None,
        attended: false,
        version: String::from("1.2.3"),
        times: times(),
        notice: Arc::new(|_| ()),
    }
}

/// A client session whose tool runs on hosts.
pub fn near(set: &Arc<HostSet>, dir: &Path) -> CallSession {
    let tool: Arc<dyn DynTool> = erase(Mark { file: dir.join("never") });
    let pool = SharedPool::new(Pool::assemble(vec![set.tool(tool, false)], Vec::new()));
    let mut session =
        CallSession::new(pipeline(dir, &[], &[], None), pool, CallSessionState::new(set.place().cwd.clone()));
    session.limits.concurrency = 64;
    session
}

pub fn mark(id: &str, input: Value) -> ToolUse {
    ToolUse { id: id.into(), name: String::from("Mark"), input }
}

pub async fn open(setups: Vec<LinkConfig>) -> Result<Arc<HostSet>, String> {
    tokio::task::spawn_blocking(move || HostSet::open(setups)).await.unwrap()
}

pub async fn one(session: &mut CallSession, call: ToolUse) -> CallReport {
    session.run_message(vec![call], &CancellationToken::new()).await.remove(0)
}

pub fn text(report: &CallReport) -> String {
    report.content.to_text()
}
