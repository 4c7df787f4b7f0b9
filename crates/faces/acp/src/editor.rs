//! The editor at the other end: what it is told, and what it is asked.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use haft_host::LineWriter;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::wire::{AcpError, CANCELLED, answer_line, notification_line, request_line};

/// The editor. Clones are the same one.
#[derive(Clone)]
pub(crate) struct EditorPeer(Arc<EditorLine>);

struct EditorLine {
    out: Mutex<LineWriter>,
    next: AtomicU64,
    waiting: Mutex<WaitingAnswers>,
}

#[derive(Default)]
struct WaitingAnswers {
    closed: bool,
    by_id: HashMap<u64, oneshot::Sender<Result<Value, AcpError>>>,
}

/// Takes a request back when nobody waits for its answer any more.
struct OpenRequest<'a> {
    editor: &'a EditorPeer,
    id: u64,
}

impl Drop for OpenRequest<'_> {
    fn drop(&mut self) {
        if self.editor.waiting().by_id.remove(&self.id).is_some() {
            self.editor.notify("$/cancel_request", &json!({"requestId": self.id}));
        }
    }
}

impl EditorPeer {
    pub(crate) fn new() -> Self {
        let line = EditorLine {
            out: Mutex::new(LineWriter::start()),
            next: AtomicU64::new(0),
            waiting: Mutex::default(),
        };
        Self(Arc::new(line))
    }

    fn waiting(&self) -> MutexGuard<'_, WaitingAnswers> {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, line: &Value) {
        self.0.out.lock().unwrap_or_else(PoisonError::into_inner).frame(line);
    }

    /// Answers a request of the editor.
    pub(crate) fn answer(&self, id: &Value, answer: &Result<Value, AcpError>) {
        self.write(&answer_line(id, answer));
    }

    /// Says something.
    pub(crate) fn notify(&self, method: &str, params: &Value) {
        self.write(&notification_line(method, params));
    }

    /// Asks, and waits for the answer. Dropping the future takes the question
    /// back. An editor that is gone answers at once, with an error.
    pub(crate) async fn ask(&self, method: &str, params: &Value) -> Result<Value, AcpError> {
        let id = self.0.next.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = oneshot::channel();
        {
            let mut waiting = self.waiting();
            if waiting.closed {
                return Err(gone());
            }
            waiting.by_id.insert(id, sender);
        }
        let _open = OpenRequest { editor: self, id };
        self.write(&request_line(id, method, params));
        receiver.await.unwrap_or_else(|_| Err(gone()))
    }

    /// The editor answered. Answers to what nobody asks any more are ignored.
    pub(crate) fn answered(&self, id: &Value, answer: Result<Value, AcpError>) {
        let sender = id.as_u64().and_then(|id| self.waiting().by_id.remove(&id));
        if let Some(sender) = sender {
            sender.send(answer).ok();
        }
    }

    /// The editor answers nothing any more.
    pub(crate) fn close(&self) {
        let mut waiting = self.waiting();
        waiting.closed = true;
        for (_, sender) in waiting.by_id.drain() {
            sender.send(Err(gone())).ok();
        }
    }

    /// Nobody reads any more.
    pub(crate) fn broken(&self) -> CancellationToken {
        self.0.out.lock().unwrap_or_else(PoisonError::into_inner).broken()
    }

    /// Waits until everything is written, as long as somebody reads it.
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
