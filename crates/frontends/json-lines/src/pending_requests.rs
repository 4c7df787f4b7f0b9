//! Pending requests to another program.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Mutex, MutexGuard, PoisonError},
};

use serde_json::Value;
use tokio::sync::oneshot;

/// Pending requests by id. Responses may arrive in any order; `E` is the peer's error type.
pub struct PendingRequests<K, E>(Mutex<PendingReplies<K, E>>);

struct PendingReplies<K, E> {
    closed: bool,
    by_id: HashMap<K, oneshot::Sender<Result<Value, E>>>,
}

/// Cancels a request when its caller stops waiting.
struct PendingRequestGuard<'a, K: Eq + Hash, E, T: FnOnce()> {
    questions: &'a PendingRequests<K, E>,
    id: K,
    take_back: Option<T>,
}

impl<K: Eq + Hash, E, T: FnOnce()> Drop for PendingRequestGuard<'_, K, E, T> {
    fn drop(&mut self) {
        let is_open = self.questions.waiting().by_id.remove(&self.id).is_some();
        if let Some(take_back) = self.take_back.take().filter(|_| is_open) {
            take_back();
        }
    }
}

impl<K, E> Default for PendingRequests<K, E> {
    fn default() -> Self {
        Self(Mutex::new(PendingReplies { closed: false, by_id: HashMap::new() }))
    }
}

impl<K: Clone + Eq + Hash, E> PendingRequests<K, E> {
    /// Sends a request with `send` and waits for the response; `None` if the peer is gone. Dropping the
    /// future calls `take_back` to cancel the request.
    pub async fn ask(
        &self,
        id: K,
        send: impl FnOnce(),
        take_back: impl FnOnce(),
    ) -> Option<Result<Value, E>> {
        let (sender, receiver) = oneshot::channel();
        {
            let mut waiting = self.waiting();
            if waiting.closed {
                return None;
            }
            waiting.by_id.insert(id.clone(), sender);
        }
        let _open = PendingRequestGuard { questions: self, id, take_back: Some(take_back) };
        send();
        receiver.await.ok()
    }
}

impl<K: Eq + Hash, E> PendingRequests<K, E> {
    fn waiting(&self) -> MutexGuard<'_, PendingReplies<K, E>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Handles a response; ignored if no such request is pending.
    pub fn answered(&self, id: &K, answer: Result<Value, E>) {
        let sender = self.waiting().by_id.remove(id);
        if let Some(sender) = sender {
            sender.send(answer).ok();
        }
    }

    /// Ends all pending and future requests without a response.
    pub fn close(&self) {
        let mut waiting = self.waiting();
        waiting.closed = true;
        waiting.by_id.clear();
    }
}
