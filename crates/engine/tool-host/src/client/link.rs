//! A session's connection to a tool host, which survives reconnects.

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

/// A link to a host. Dropping the last clone closes the connection; the host waits some time for a
/// reconnect.
pub struct HostLink {
    pub config: HostConfig,
    orders: mpsc::UnboundedSender<LinkCommand>,
    news: HostNotices,
}

/// Notices for agents, already fetched.
pub(super) type HostNotices = watch::Sender<BTreeMap<AgentId, Vec<HostNotice>>>;

/// Settings of a link.
#[derive(Clone)]
pub struct LinkConfig {
    pub config: HostConfig,
    /// Session id.
    pub session: String,
    /// Epoch, if an external party assigns epochs.
    pub epoch: Option<u64>,
    /// Whether a user can answer permission questions.
    pub attended: bool,
    /// Version of this program.
    pub version: String,
    pub times: LinkTimeouts,
    /// Called with messages for the user.
    pub notice: Arc<dyn Fn(String) + Send + Sync>,
}

/// Timeouts of a link.
#[derive(Clone, Copy, Debug)]
pub struct LinkTimeouts {
    /// For connecting, including the host's answer.
    pub connect: Duration,
    /// Keep-alive interval.
    pub ping: Duration,
    /// How long to retry a lost connection before calls fail.
    pub patience: Duration,
    /// Delay before the second attempt; doubles with each attempt, with jitter.
    pub first_wait: Duration,
    /// Maximum delay.
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

/// Why a host is unreachable.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LinkError {
    /// Text for the user.
    pub reason: String,
    /// Whether retrying is useless.
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

/// An event of a call.
#[derive(Debug)]
pub(super) enum RemoteCallEvent {
    Progress(Value),
    /// A permission question for the user.
    Ask(Box<QuestionFrame>),
    /// A question is no longer relevant.
    Withdrawn(u64),
    Report(Box<ReportFrame>),
    /// The host never received the call.
    Absent,
    /// The host is unreachable.
    Lost {
        trouble: LinkError,
        /// Whether the host may have received the call.
        was_sent: bool,
    },
}

/// A request to a link's task.
pub(super) enum LinkCommand {
    Call { frame: Box<CallFrame>, news: mpsc::UnboundedSender<RemoteCallEvent> },
    Find { key: CallKey, news: mpsc::UnboundedSender<RemoteCallEvent> },
    Cancel(CallKey),
    Answer { question: u64, answer: AnswerFrame },
    Order { order: HostCommand, outcome: oneshot::Sender<Result<Value, String>> },
    Close(oneshot::Sender<()>),
}

/// Runtime for connections, on a thread of its own, so that keep-alives are sent in time whatever else
/// the program does.
static RUNTIME: LazyLock<Result<Handle, String>> = LazyLock::new(|| {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|err| err.to_string())?;
    let handle = runtime.handle().clone();
    let thread = std::thread::Builder::new().name(String::from("haft-hosts"));
    thread.spawn(move || runtime.block_on(std::future::pending::<()>())).map_err(|err| err.to_string())?;
    Ok(handle)
});

impl HostLink {
    /// Connects and waits for the host's answer. Blocks the thread for at most the connect timeout.
    /// After a failure, the link connects again when it is used.
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

    /// Runs a call on the host. The receiver gets its events across reconnects.
    pub(super) fn call(&self, frame: CallFrame) -> mpsc::UnboundedReceiver<RemoteCallEvent> {
        let (news, heard) = mpsc::unbounded_channel();
        self.orders.send(LinkCommand::Call { frame: Box::new(frame), news }).ok();
        heard
    }

    /// Requests the report of a call without running it.
    pub(super) fn find(&self, key: CallKey) -> mpsc::UnboundedReceiver<RemoteCallEvent> {
        let (news, heard) = mpsc::unbounded_channel();
        self.orders.send(LinkCommand::Find { key, news }).ok();
        heard
    }

    /// Cancels a call. Its report still arrives.
    pub(super) fn cancel(&self, key: CallKey) {
        self.orders.send(LinkCommand::Cancel(key)).ok();
    }

    pub(super) fn answer(&self, question: u64, answer: AnswerFrame) {
        self.orders.send(LinkCommand::Answer { question, answer }).ok();
    }

    /// Runs a command on the host.
    pub async fn order(&self, order: HostCommand) -> Result<Value, String> {
        let (outcome, done) = oneshot::channel();
        self.orders.send(LinkCommand::Order { order, outcome }).ok();
        done.await.unwrap_or_else(|_| Err(String::from("the connection is closed")))
    }

    /// Like [`order`](Self::order); blocks the thread for at most `limit`.
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

    /// Returns the notices for agents.
    pub fn news(&self) -> watch::Receiver<BTreeMap<AgentId, Vec<HostNotice>>> {
        self.news.subscribe()
    }

    /// Takes the notices for an agent.
    pub(super) fn take_news(&self, agent: &AgentId) -> Vec<HostNotice> {
        let mut taken = None;
        self.news.send_if_modified(|it| {
            taken = it.remove(agent);
            taken.is_some()
        });
        taken.unwrap_or_default()
    }

    /// Ends the session on the host and stops what it has running there.
    pub async fn close(&self) {
        let (closed, done) = oneshot::channel();
        if self.orders.send(LinkCommand::Close(closed)).is_ok() {
            done.await.ok();
        }
    }
}

/// Locks a mutex, ignoring poisoning: the data stays consistent after a panic.
pub(super) fn locked<T>(lock: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}
