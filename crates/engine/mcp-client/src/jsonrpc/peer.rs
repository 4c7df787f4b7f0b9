use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use haft_tool::BoxFuture;
use serde_json::{Map, Value, json};
use tokio::{
    sync::{mpsc, oneshot},
    task::AbortHandle,
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::{
    JsonRpcMessage, RpcError,
    frame::{notification, request, response},
};
use crate::transport::{OutgoingMessage, Transport};

/// Handles what the peer sends on its own.
pub(crate) trait Incoming: Send + Sync {
    /// Answers a request. Runs in a task of its own.
    fn request(&self, method: String, params: Value) -> BoxFuture<'static, Result<Value, RpcError>>;

    /// Handles a notification. Must not block.
    fn notification(&self, method: &str, params: Value);

    /// Handles output that is not a message. Must not block.
    fn noise(&self, line: &str);

    /// Handles a line of the error output. Must not block.
    fn logged(&self, _line: &str) {}
}

/// Why a request has no result.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum CallError {
    /// The server returned an error.
    #[error("{0}")]
    Rpc(RpcError),
    /// The server's answer is unreadable.
    #[error("the answer cannot be read: {0}")]
    Unreadable(&'static str),
    /// Idle timeout.
    #[error(
        "no answer and no progress for {} (the limit for silence; the limit for the whole call is {})",
        seconds(idle),
        seconds(total)
    )]
    Silent { idle: Duration, total: Duration },
    /// Total timeout.
    #[error(
        "no answer within {} (the limit for the whole call; the limit for silence is {})",
        seconds(total),
        seconds(idle)
    )]
    TooLong { idle: Duration, total: Duration },
    /// The caller cancelled the request.
    #[error("cancelled")]
    Cancelled,
    /// The request was not sent.
    #[error("{0}")]
    NotSent(String),
    /// The URL redirects to another server; the redirect was not followed.
    #[error("{0}")]
    Elsewhere(String),
    /// The request was not sent for now, for example because a token could not be refreshed.
    #[error("{0}")]
    HeldBack(String),
    /// The connection ended during the request.
    #[error("{0}")]
    Closed(String),
    /// The server requires a login, with this challenge.
    #[error("the server asks for authorization")]
    Unauthorized { challenge: String },
    /// The token lacks permissions, with this challenge.
    #[error("the server asks for more authorization")]
    Forbidden { challenge: String },
    /// The server has dropped the session and did not process the request.
    #[error("the server has ended the session")]
    SessionExpired,
    /// An HTTP response without a message.
    #[error("HTTP {status}: {message}")]
    Http { status: u16, message: String },
}

fn seconds(duration: &Duration) -> String {
    format!("{} s", (duration.as_secs_f64() * 10.0).round() / 10.0)
}

/// Timeouts, cancellation and progress reporting of a request.
#[derive(Clone)]
pub(crate) struct RequestOptions {
    /// Maximum time without progress.
    pub(crate) idle: Duration,
    /// Maximum total duration.
    pub(crate) total: Duration,
    /// Cancels the request and notifies the server.
    pub(crate) cancel: CancellationToken,
    /// Receives progress. Progress is requested from the server only if this is set or the idle timeout
    /// is shorter than the total.
    pub(crate) progress: Option<Arc<dyn Fn(ProgressReport) + Send + Sync>>,
    /// HTTP headers derived from arguments.
    pub(crate) headers: Vec<(String, String)>,
}

impl RequestOptions {
    /// A request without progress reporting and with a single timeout.
    pub(crate) fn within(limit: Duration) -> Self {
        Self {
            idle: limit,
            total: limit,
            cancel: CancellationToken::new(),
            progress: None,
            headers: Vec::new(),
        }
    }

    /// A request without timeout; the caller drops it to cancel.
    pub(crate) fn unlimited() -> Self {
        Self::within(FOREVER)
    }

    fn wants_progress(&self) -> bool {
        self.progress.is_some() || self.idle < self.total
    }
}

/// Ten years: effectively unlimited, but does not overflow an `Instant`.
const FOREVER: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ProgressReport {
    pub(crate) progress: f64,
    pub(crate) total: Option<f64>,
    pub(crate) message: Option<String>,
}

impl ProgressReport {
    fn from_params(params: &Value) -> Self {
        Self {
            progress: params["progress"].as_f64().unwrap_or(0.0),
            total: params["total"].as_f64(),
            message: params["message"].as_str().map(|it| haft_types::text::head(it, 500).to_owned()),
        }
    }
}

/// Capacity of the progress queue; further reports are dropped. Extending the deadline still works,
/// because one queued report is enough.
const WAITING_REPORTS: usize = 16;

/// Maximum concurrent requests of the peer.
const MAX_INCOMING: usize = 32;

/// The client's end of a connection: matches answers to requests, enforces deadlines, answers the
/// server's requests.
///
/// **Invariant:** every request ends: with its answer, an error, or a timeout. Closing the connection
/// ends all of them at once.
#[derive(Clone)]
pub(crate) struct Peer(Arc<PeerInner>);

struct PeerInner {
    transport: OnceLock<Arc<dyn Transport>>,
    incoming: Arc<dyn Incoming>,
    next_id: AtomicU64,
    state: Mutex<PeerState>,
    gone: CancellationToken,
}

#[derive(Default)]
struct PeerState {
    pending: HashMap<u64, PendingRequest>,
    serving: HashMap<String, AbortHandle>,
    closed: Option<String>,
}

struct PendingRequest {
    answer: oneshot::Sender<Result<Value, CallError>>,
    progress: Option<mpsc::Sender<ProgressReport>>,
}

impl Peer {
    pub(crate) fn new(incoming: Arc<dyn Incoming>) -> Self {
        Self(Arc::new(PeerInner {
            transport: OnceLock::new(),
            incoming,
            next_id: AtomicU64::new(1),
            state: Mutex::default(),
            gone: CancellationToken::new(),
        }))
    }

    /// Sets the sending side. Requests fail before that.
    pub(crate) fn attach(&self, transport: Arc<dyn Transport>) {
        let _ = self.0.transport.set(transport);
    }

    /// Returns the receiving side, for the transport.
    pub(crate) fn inbox(&self) -> PeerInbox {
        PeerInbox(Arc::downgrade(&self.0))
    }

    pub(crate) fn transport(&self) -> Option<&Arc<dyn Transport>> {
        self.0.transport.get()
    }

    /// Cancelled when the connection has ended.
    pub(crate) fn gone(&self) -> &CancellationToken {
        &self.0.gone
    }

    /// Returns why the connection has ended.
    pub(crate) fn closed_reason(&self) -> Option<String> {
        self.0.state().closed.clone()
    }

    pub(crate) fn notify(&self, method: &str, params: Map<String, Value>) {
        let _ = self.0.send(OutgoingMessage::message(notification(method, params)));
    }

    /// Replaces a "broken pipe" error by the reason the server exited, if it becomes known within
    /// [`LAST_WORDS`].
    async fn why_not(&self, problem: String) -> String {
        let _ = tokio::time::timeout(LAST_WORDS, self.0.gone.cancelled()).await;
        self.closed_reason().unwrap_or(problem)
    }

    /// Sends a request and waits for its result. Dropping the future cancels the request.
    pub(crate) async fn request(
        &self,
        method: &str,
        mut params: Map<String, Value>,
        options: &RequestOptions,
    ) -> Result<Value, CallError> {
        let id = self.0.next_id.fetch_add(1, Ordering::Relaxed);
        let (answer, mut answered) = oneshot::channel();
        let (reports, mut reported) = mpsc::channel(WAITING_REPORTS);
        if options.wants_progress() {
            let meta = params.entry("_meta").or_insert_with(|| json!({}));
            meta["progressToken"] = json!(id);
        }
        self.0
            .register(id, PendingRequest { answer, progress: options.wants_progress().then_some(reports) })?;
        let mut guard =
            InFlight { peer: &self.0, id, tell_server: !matches!(method, "initialize" | "server/discover") };
        let message = request(id, method, params);
        if let Err(problem) = self.0.send(OutgoingMessage { message, headers: options.headers.clone() }) {
            guard.tell_server = false;
            return Err(CallError::NotSent(self.why_not(problem).await));
        }
        let started = Instant::now();
        let hard_end = started + options.total;
        let mut silent_since = started;
        let mut last = f64::NEG_INFINITY;
        loop {
            let soft_end = silent_since + options.idle;
            tokio::select! {
                biased;
                answer = &mut answered => {
                    guard.tell_server = false;
                    return answer.unwrap_or_else(|_| Err(CallError::Closed(self.0.why_closed())));
                }
                () = options.cancel.cancelled() => return Err(CallError::Cancelled),
                Some(report) = reported.recv() => {
                    silent_since = Instant::now();
                    // The specification requires increasing values; lower ones are outdated.
                    if last < report.progress && let Some(watcher) = &options.progress {
                        last = report.progress;
                        watcher(report);
                    }
                }
                () = tokio::time::sleep_until(soft_end.min(hard_end)) => {
                    if soft_end < hard_end && self.0.is_serving() {
                        // The server waits for an answer from this side, for example of a user.
                        silent_since = Instant::now();
                        continue;
                    }
                    let (idle, total) = (options.idle, options.total);
                    return Err(if hard_end <= soft_end {
                        CallError::TooLong { idle, total }
                    } else {
                        CallError::Silent { idle, total }
                    });
                }
            }
        }
    }
}

/// How long to wait for the reason of a broken connection.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// A pending request. Dropping it before the answer withdraws the request from the server.
struct InFlight<'a> {
    peer: &'a Arc<PeerInner>,
    id: u64,
    tell_server: bool,
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.peer.state().pending.remove(&self.id);
        if self.tell_server
            && let Some(transport) = self.peer.transport.get()
        {
            transport.cancel(self.id);
        }
    }
}

impl PeerInner {
    fn state(&self) -> MutexGuard<'_, PeerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn register(&self, id: u64, pending: PendingRequest) -> Result<(), CallError> {
        let mut state = self.state();
        if let Some(reason) = &state.closed {
            return Err(CallError::NotSent(reason.clone()));
        }
        state.pending.insert(id, pending);
        Ok(())
    }

    fn send(&self, message: OutgoingMessage) -> Result<(), String> {
        match self.transport.get() {
            Some(transport) => transport.send(message),
            None => Err(String::from("not connected yet")),
        }
    }

    fn is_serving(&self) -> bool {
        !self.state().serving.is_empty()
    }

    fn why_closed(&self) -> String {
        self.state().closed.clone().unwrap_or_else(|| String::from("the connection was closed"))
    }

    fn finish(&self, id: u64, answer: Result<Value, CallError>) {
        let pending = self.state().pending.remove(&id);
        if let Some(pending) = pending {
            let _ = pending.answer.send(answer);
        }
    }

    /// Completes a request. An error without an id is assigned to the only pending request, if there is
    /// exactly one.
    fn answer(&self, id: Option<u64>, answer: Result<Value, CallError>) {
        let id = id.or_else(|| {
            let state = self.state();
            let mut ids = state.pending.keys();
            ids.next().copied().filter(|_| ids.next().is_none() && answer.is_err())
        });
        if let Some(id) = id {
            self.finish(id, answer);
        }
    }

    fn progressed(&self, params: &Value) {
        let token = match &params["progressToken"] {
            Value::Number(number) => number.as_u64(),
            Value::String(text) => text.parse().ok(),
            _ => None,
        };
        let state = self.state();
        let Some(pending) = token.and_then(|token| state.pending.get(&token)) else { return };
        if let Some(watcher) = &pending.progress {
            let _ = watcher.try_send(ProgressReport::from_params(params));
        }
    }

    fn serve(self: &Arc<Self>, id: Value, method: String, params: Value) {
        if method == "ping" {
            let _ = self.send(OutgoingMessage::message(response(id, Ok(json!({})))));
            return;
        }
        let mut state = self.state();
        if MAX_INCOMING <= state.serving.len() {
            drop(state);
            let busy = RpcError::new(RpcError::INTERNAL, "too many requests at once");
            let _ = self.send(OutgoingMessage::message(response(id, Err(busy))));
            return;
        }
        let work = self.incoming.request(method, params);
        let inner = Arc::clone(self);
        let key = id.to_string();
        let task = tokio::spawn({
            let key = key.clone();
            async move {
                let answer = work.await;
                inner.state().serving.remove(&key);
                let _ = inner.send(OutgoingMessage::message(response(id, answer)));
            }
        });
        state.serving.insert(key, task.abort_handle());
    }

    fn notified(&self, method: &str, params: Value) {
        match method {
            "notifications/progress" => self.progressed(&params),
            "notifications/cancelled" => {
                let task = self.state().serving.remove(&params["requestId"].to_string());
                if let Some(task) = task {
                    task.abort();
                }
            }
            _ => self.incoming.notification(method, params),
        }
    }
}

impl Drop for PeerInner {
    fn drop(&mut self) {
        for task in self.state().serving.values() {
            task.abort();
        }
    }
}

/// Receives what the server sends. Does not keep the connection alive.
#[derive(Clone)]
pub struct PeerInbox(Weak<PeerInner>);

impl PeerInbox {
    /// Handles one JSON value: a message, a batch of messages, or noise.
    pub fn deliver(&self, value: Value) {
        match value {
            Value::Array(batch) => batch.into_iter().for_each(|it| self.deliver_one(it)),
            single => self.deliver_one(single),
        }
    }

    fn deliver_one(&self, value: Value) {
        let Some(inner) = self.0.upgrade() else { return };
        // Checking the shape first avoids serialising every message.
        let shape = matches!(&value, Value::Object(it) if ["method", "result", "error"].iter().any(|key| it.contains_key(*key)));
        if !shape {
            inner.incoming.noise(&value.to_string());
            return;
        }
        match JsonRpcMessage::from_value(value) {
            Some(JsonRpcMessage::Response { id, answer }) => inner.answer(id, answer.map_err(CallError::Rpc)),
            Some(JsonRpcMessage::Notification { method, params }) => inner.notified(&method, params),
            Some(JsonRpcMessage::Request { id, method, params }) => inner.serve(id, method, params),
            None => inner.incoming.noise("a message without method, result and error"),
        }
    }

    /// Handles output that is not a message.
    pub fn noise(&self, line: &str) {
        if let Some(inner) = self.0.upgrade() {
            inner.incoming.noise(line);
        }
    }

    /// Handles a line of the error output.
    pub fn logged(&self, line: &str) {
        if let Some(inner) = self.0.upgrade() {
            inner.incoming.logged(line);
        }
    }

    /// Reports an unreadable message; the request it answers fails at once.
    pub fn unreadable(&self, id: Option<u64>, problem: &'static str) {
        let Some(inner) = self.0.upgrade() else { return };
        let error = CallError::Unreadable(problem);
        inner.incoming.noise(&error.to_string());
        inner.answer(id, Err(error));
    }

    /// Fails a pending request.
    pub(crate) fn fail(&self, id: u64, error: CallError) {
        if let Some(inner) = self.0.upgrade() {
            inner.finish(id, Err(error));
        }
    }

    /// Ends the connection: all pending requests fail with `reason`.
    pub fn closed(&self, reason: impl Into<String>) {
        let Some(inner) = self.0.upgrade() else { return };
        let reason = reason.into();
        let mut state = inner.state();
        if state.closed.is_some() {
            return;
        }
        state.closed = Some(reason.clone());
        let pending = std::mem::take(&mut state.pending);
        for (_, task) in state.serving.drain() {
            task.abort();
        }
        drop(state);
        for (_, pending) in pending {
            let _ = pending.answer.send(Err(CallError::Closed(reason.clone())));
        }
        inner.gone.cancel();
    }

    /// Whether the connection is still in use.
    pub fn is_open(&self) -> bool {
        self.0.upgrade().is_some_and(|inner| inner.state().closed.is_none())
    }
}
