//! Messages to the editor: responses, notifications and requests.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use haft_json_lines::{LineBatch, LineWriter, OutputBacklog};
use haft_tool_runtime::PendingMap;
use serde::Serialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::{
    jsonrpc::{AcpError, CANCELLED, NotificationLine, SessionUpdate, answer_line, request_line},
    updates::AcpUpdate,
};

/// Method of session notifications.
const UPDATE: &str = "session/update";

/// The connection to the editor. Clones share it.
#[derive(Clone)]
pub(crate) struct EditorPeer(Arc<EditorLine>);

struct EditorLine {
    out: Mutex<LineWriter>,
    next: AtomicU64,
    questions: PendingMap<u64, (), Result<Value, AcpError>>,
    waiting: OutputBacklog,
}

impl EditorPeer {
    pub(crate) fn new() -> Self {
        let out = LineWriter::start();
        let waiting = out.waiting();
        let (next, questions) = (AtomicU64::new(0), PendingMap::default());
        let line = EditorLine { out: Mutex::new(out), next, questions, waiting };
        Self(Arc::new(line))
    }

    fn write(&self, line: &impl Serialize) {
        self.0.out.lock().unwrap_or_else(PoisonError::into_inner).frame(line);
    }

    /// Returns how many bytes the editor has not read yet.
    pub(crate) fn waiting(&self) -> &OutputBacklog {
        &self.0.waiting
    }

    /// Responds to a request of the editor.
    pub(crate) fn answer(&self, id: &Value, answer: &Result<Value, AcpError>) {
        self.write(&answer_line(id, answer));
    }

    /// Sends a notification.
    pub(crate) fn notify(&self, method: &'static str, params: &impl Serialize) {
        self.write(&NotificationLine::new(method, params));
    }

    /// Sends a session update.
    pub(crate) fn update(&self, session_id: &str, update: &Value) {
        self.notify(UPDATE, &SessionUpdate { session_id, update });
    }

    /// Adds a session update to a batch, and sends the batch if it is full.
    pub(crate) fn update_many(&self, batch: &mut LineBatch, session_id: &str, update: &AcpUpdate<'_>) {
        batch.add(&NotificationLine::new(UPDATE, &SessionUpdate { session_id, update }));
        if batch.is_full() {
            self.finish_batch(batch);
        }
    }

    /// Sends the rest of a batch.
    pub(crate) fn finish_batch(&self, batch: &mut LineBatch) {
        self.0.out.lock().unwrap_or_else(PoisonError::into_inner).batch(batch);
    }

    /// Sends a request and waits for the response. Dropping the future cancels it. Fails at once if the
    /// editor is gone.
    pub(crate) async fn ask(&self, method: &str, params: &Value) -> Result<Value, AcpError> {
        let id = self.0.next.fetch_add(1, Ordering::Relaxed);
        let send = || self.write(&request_line(id, method, params));
        let withdraw = |()| self.notify("$/cancel_request", &json!({"requestId": id}));
        self.0.questions.ask(id, (), send, withdraw).await.unwrap_or_else(|| Err(gone()))
    }

    /// Handles a response of the editor; ignored if the request was cancelled.
    pub(crate) fn answered(&self, id: &Value, answer: Result<Value, AcpError>) {
        if let Some(id) = id.as_u64() {
            self.0.questions.resolve(&id, answer).ok();
        }
    }

    /// Fails all pending and future requests.
    pub(crate) fn close(&self) {
        self.0.questions.close();
    }

    /// Cancelled when the editor has closed its input.
    pub(crate) fn broken(&self) -> CancellationToken {
        self.0.out.lock().unwrap_or_else(PoisonError::into_inner).broken()
    }

    /// Waits until everything is written or the editor has closed its input, for at most `patience`.
    pub(crate) async fn finish(&self, patience: Duration) {
        let mut out = {
            let mut held = self.0.out.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *held, LineWriter::closed())
        };
        out.finish(patience).await;
    }
}

fn gone() -> AcpError {
    AcpError::new(CANCELLED, "the editor is gone")
}
