//! Questions to another program that wait for their answers.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Mutex, MutexGuard, PoisonError},
};

use serde_json::Value;
use tokio::sync::oneshot;

/// Questions that are open, by what they are called on the line. Answers find them
/// in any order; `E` is what a program says that cannot answer.
pub struct PendingRequests<K, E>(Mutex<PendingReplies<K, E>>);

struct PendingReplies<K, E> {
    closed: bool,
    by_id: HashMap<K, oneshot::Sender<Result<Value, E>>>,
}

/// Takes a question back when nobody waits for its answer any more.
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
    /// Asks by `send`, and waits for the answer; nothing when the program is gone.
    /// Dropping the future takes the question back by `take_back`.
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

    /// The program answered. Answers to what nobody asked, or asks no more, are
    /// ignored.
    pub fn answered(&self, id: &K, answer: Result<Value, E>) {
        let sender = self.waiting().by_id.remove(id);
        if let Some(sender) = sender {
            sender.send(answer).ok();
        }
    }

    /// The program will answer nothing any more: all that is open, and whatever is
    /// asked from now on, has no answer.
    pub fn close(&self) {
        let mut waiting = self.waiting();
        waiting.closed = true;
        waiting.by_id.clear();
    }
}
