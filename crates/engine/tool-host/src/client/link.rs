//! A host, as a session holds it: calls go in, what comes of them comes out,
//! whatever becomes of connections meanwhile.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, LazyLock, Mutex, PoisonError, mpsc as std_mpsc},
    time::Duration,
};

use haft_types::AgentId;
use serde_json::Value;
use tokio::{
    runtime::Handle,
    sync::{mpsc, oneshot, watch},
};

use super::link_task::LinkTask;
use crate::{
    host_address::HostConfig,
    protocol::{
        AnswerFrame, CallFrame, CallKey, HostCommand, HostNotice, QuestionFrame, ReportFrame, Welcome,
    },
};

/// A link to a host. When the last one is dropped, the connection ends; the
/// host waits a while for the caller to come back.
pub struct HostLink {
    /// The host.
    pub config: HostConfig,
    orders: mpsc::UnboundedSender<LinkCommand>,
    news: HostNotices,
}

/// What agents have to be told, whole and here already.
pub(super) type HostNotices = watch::Sender<BTreeMap<AgentId, Vec<HostNotice>>>;

/// What a link is made of.
#[derive(Clone)]
pub struct LinkConfig {
    /// The host.
    pub config: HostConfig,
    /// The session that calls.
    pub session: String,
    /// Its turn, where somebody counts turns.
    pub epoch: Option<u64>,
    /// Whether a person can be asked.
    pub attended: bool,
    /// The version of the program.
    pub version: String,
    /// How long things may take.
    pub times: LinkTimeouts,
    /// Is told what the person should know.
    pub notice: Arc<dyn Fn(String) + Send + Sync>,
}

/// How long things may take.
#[derive(Clone, Copy, Debug)]
pub struct LinkTimeouts {
    /// Until the host has answered.
    pub connect: Duration,
    /// Between two signs of life.
    pub ping: Duration,
    /// How long a connection that broke is tried to be had again before calls
    /// fail.
    pub patience: Duration,
    /// The first wait before another try; each is twice as long as the one
    /// before, with some chance in it.
    pub first_wait: Duration,
    /// The longest wait.
    pub longest_wait: Duration,
}

impl Default for LinkTimeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(20),
            ping: Duration::from_secs(5),
            patience: Duration::from_secs(300),
            first_wait: Duration::from_millis(100),
            longest_wait: Duration::from_secs(5),
        }
    }
}

/// Why a host is not to be had.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LinkError {
    /// In words.
    pub reason: String,
    /// Whether trying again makes no sense.
    pub is_lasting: bool,
}

impl LinkError {
    pub(super) fn lasting(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), is_lasting: true }
    }

    pub(super) fn passing(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), is_lasting: false }
    }
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

/// What a call's maker hears.
#[derive(Debug)]
pub(super) enum RemoteCallEvent {
    /// How far it is.
    Progress(Value),
    /// The far rules want the person to be asked.
    Ask(Box<QuestionFrame>),
    /// Nobody waits for the answer any more.
    Withdrawn(u64),
    /// What came of it.
    Report(Box<ReportFrame>),
    /// It never came there.
    Absent,
    /// The host is not to be had.
    Lost {
        trouble: LinkError,
        /// Whether the call may have come there.
        was_sent: bool,
    },
}

/// What the task of a link is told.
pub(super) enum LinkCommand {
    Call { frame: Box<CallFrame>, news: mpsc::UnboundedSender<RemoteCallEvent> },
    Find { key: CallKey, news: mpsc::UnboundedSender<RemoteCallEvent> },
    Cancel(CallKey),
    Answer { question: u64, answer: AnswerFrame },
    Order { order: HostCommand, outcome: oneshot::Sender<Result<Value, String>> },
    Close(oneshot::Sender<()>),
}

/// Where connections live: a thread of their own, so that they answer in time
/// whatever else the program does.
static RUNTIME: LazyLock<Result<Handle, String>> = LazyLock::new(|| {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|err| err.to_string())?;
    let handle = runtime.handle().clone();
    let thread = std::thread::Builder::new().name(String::from("haft-hosts"));
    thread.spawn(move || runtime.block_on(std::future::pending::<()>())).map_err(|err| err.to_string())?;
    Ok(handle)
});

impl HostLink {
    /// Connects, and waits until the host has answered. Blocks the thread for as
    /// long as that may take. A host that is not to be had now may be later: the
    /// link tries again when it is used.
    pub fn open(setup: LinkConfig) -> (Self, Result<Welcome, LinkError>) {
        let (orders, received) = mpsc::unbounded_channel();
        let news = watch::Sender::new(BTreeMap::new());
        let (first, answered) = std_mpsc::channel();
        let link = Self { config: setup.config.clone(), orders, news: news.clone() };
        let limit = setup.times.connect + Duration::from_secs(1);
        match &*RUNTIME {
            Ok(runtime) => drop(runtime.spawn(LinkTask::new(setup, received, news).run(first))),
            Err(err) => return (link, Err(LinkError::lasting(format!("no thread is to be had: {err}")))),
        }
        let welcome = answered.recv_timeout(limit);
        let welcome = welcome.unwrap_or_else(|_| Err(LinkError::passing("it does not answer")));
        (link, welcome)
    }

    /// Runs a call there. What it comes to is heard whatever becomes of the
    /// connection.
    pub(super) fn call(&self, frame: CallFrame) -> mpsc::UnboundedReceiver<RemoteCallEvent> {
        let (news, heard) = mpsc::unbounded_channel();
        self.orders.send(LinkCommand::Call { frame: Box::new(frame), news }).ok();
        heard
    }

    /// What came of a call; nothing is run.
    pub(super) fn find(&self, key: CallKey) -> mpsc::UnboundedReceiver<RemoteCallEvent> {
        let (news, heard) = mpsc::unbounded_channel();
        self.orders.send(LinkCommand::Find { key, news }).ok();
        heard
    }

    /// Nobody wants a call any more. What came of it is still told.
    pub(super) fn cancel(&self, key: CallKey) {
        self.orders.send(LinkCommand::Cancel(key)).ok();
    }

    pub(super) fn answer(&self, question: u64, answer: AnswerFrame) {
        self.orders.send(LinkCommand::Answer { question, answer }).ok();
    }

    /// Has something done that is no call.
    pub async fn order(&self, order: HostCommand) -> Result<Value, String> {
        let (outcome, done) = oneshot::channel();
        self.orders.send(LinkCommand::Order { order, outcome }).ok();
        done.await.unwrap_or_else(|_| Err(String::from("the connection is closed")))
    }

    /// The same; blocks the thread, so long at most.
    pub fn order_and_wait(&self, order: HostCommand, limit: Duration) -> Result<Value, String> {
        let (outcome, mut done) = oneshot::channel();
        self.orders.send(LinkCommand::Order { order, outcome }).ok();
        let (sender, receiver) = std_mpsc::channel();
        match &*RUNTIME {
            Ok(runtime) => drop(runtime.spawn(async move {
                let outcome = tokio::time::timeout(limit, &mut done).await;
                let late = || Err(String::from("the host does not answer"));
                sender.send(outcome.ok().and_then(Result::ok).unwrap_or_else(late)).ok();
            })),
            Err(err) => return Err(err.clone()),
        }
        let late = |_| Err(String::from("the host does not answer"));
        receiver.recv_timeout(limit + Duration::from_secs(1)).unwrap_or_else(late)
    }

    /// What agents have to be told.
    pub fn news(&self) -> watch::Receiver<BTreeMap<AgentId, Vec<HostNotice>>> {
        self.news.subscribe()
    }

    /// Takes what an agent has to be told.
    pub(super) fn take_news(&self, agent: &AgentId) -> Vec<HostNotice> {
        let mut taken = None;
        self.news.send_if_modified(|it| {
            taken = it.remove(agent);
            taken.is_some()
        });
        taken.unwrap_or_default()
    }

    /// The session is over: ends what it has running there.
    pub async fn close(&self) {
        let (closed, done) = oneshot::channel();
        if self.orders.send(LinkCommand::Close(closed)).is_ok() {
            done.await.ok();
        }
    }
}

/// Takes a lock that nobody can have poisoned in a way that matters.
pub(super) fn locked<T>(lock: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}
