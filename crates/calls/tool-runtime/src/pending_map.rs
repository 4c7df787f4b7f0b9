use std::{
    borrow::Borrow,
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::sync::oneshot;

/// Questions waiting for their answers, by key. Answers may arrive in any order.
///
/// The asker inserts the question, sends it, and awaits the receiver while holding a [`PendingGuard`].
/// Dropping the guard withdraws the question.
pub struct PendingMap<K, Q, A>(Mutex<PendingState<K, Q, A>>);

struct PendingState<K, Q, A> {
    is_closed: bool,
    by_key: BTreeMap<K, (Q, oneshot::Sender<A>)>,
}

impl<K, Q, A> Default for PendingMap<K, Q, A> {
    fn default() -> Self {
        Self(Mutex::new(PendingState { is_closed: false, by_key: BTreeMap::new() }))
    }
}

impl<K: Ord, Q, A> PendingMap<K, Q, A> {
    fn state(&self) -> MutexGuard<'_, PendingState<K, Q, A>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a question and returns the receiver of its answer; `None` if the map is closed. A question
    /// already stored under `key` is replaced. The receiver fails if the question is removed without an
    /// answer.
    pub fn insert(&self, key: K, question: Q) -> Option<oneshot::Receiver<A>> {
        let (sender, receiver) = oneshot::channel();
        let mut state = self.state();
        if state.is_closed {
            return None;
        }
        state.by_key.insert(key, (question, sender));
        Some(receiver)
    }

    /// Removes and returns a question with the sender of its answer; `None` if it was already answered
    /// or withdrawn.
    pub fn take<B: Ord + ?Sized>(&self, key: &B) -> Option<(Q, oneshot::Sender<A>)>
    where
        K: Borrow<B>,
    {
        self.state().by_key.remove(key)
    }

    /// Answers a question. Returns the answer as an error if no such question is waiting.
    pub fn resolve<B: Ord + ?Sized>(&self, key: &B, answer: A) -> Result<(), A>
    where
        K: Borrow<B>,
    {
        match self.take(key) {
            Some((_, sender)) => sender.send(answer),
            None => Err(answer),
        }
    }

    /// Creates a guard that withdraws the question on drop: if the question is still in the map, it is
    /// removed and passed to `withdraw`.
    pub fn guard<W: FnOnce(Q)>(&self, key: K, withdraw: W) -> PendingGuard<'_, K, Q, A, W> {
        PendingGuard { map: self, key, withdraw: Some(withdraw) }
    }

    /// Returns the waiting questions, ordered by key.
    pub fn questions(&self) -> Vec<Q>
    where
        Q: Clone,
    {
        self.state().by_key.values().map(|(question, _)| question.clone()).collect()
    }

    /// Removes all questions, whose receivers then fail, and rejects new ones. Does not call `withdraw`.
    pub fn close(&self) {
        let mut state = self.state();
        state.is_closed = true;
        state.by_key.clear();
    }
}

impl<K: Ord + Clone, Q, A> PendingMap<K, Q, A> {
    /// Adds the question, calls `send` and waits for the answer. `None` if the map is closed before or
    /// while waiting. Dropping the future withdraws the question.
    pub async fn ask(&self, key: K, question: Q, send: impl FnOnce(), withdraw: impl FnOnce(Q)) -> Option<A> {
        let receiver = self.insert(key.clone(), question)?;
        let _guard = self.guard(key, withdraw);
        send();
        receiver.await.ok()
    }
}

/// Withdraws a question on drop; see [`PendingMap::guard`].
pub struct PendingGuard<'a, K: Ord, Q, A, W: FnOnce(Q)> {
    map: &'a PendingMap<K, Q, A>,
    key: K,
    withdraw: Option<W>,
}

impl<K: Ord, Q, A, W: FnOnce(Q)> Drop for PendingGuard<'_, K, Q, A, W> {
    fn drop(&mut self) {
        if let (Some((question, _)), Some(withdraw)) = (self.map.take(&self.key), self.withdraw.take()) {
            withdraw(question);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test]
    async fn answered_question_is_not_withdrawn() {
        let map = PendingMap::default();
        let withdrawn = Cell::new(false);
        let send = || assert_eq!(map.resolve(&1, "a"), Ok(()));
        let answer = map.ask(1, "q", send, |_| withdrawn.set(true)).await;
        assert_eq!((answer, withdrawn.get()), (Some("a"), false));
        assert_eq!(map.resolve(&1, "late"), Err("late"));
    }

    #[tokio::test]
    async fn dropped_question_is_withdrawn_once() {
        let map: PendingMap<u32, &str, ()> = PendingMap::default();
        let withdrawn = Cell::new(Vec::new());
        let asking = Box::pin(map.ask(7, "q", || (), |question| withdrawn.set(vec![question])));
        assert!(futures_util::poll!(asking).is_pending());
        assert_eq!((withdrawn.take(), map.questions()), (vec!["q"], vec![]));
    }

    #[tokio::test]
    async fn closed_map_drops_and_rejects_questions() {
        let map: PendingMap<u32, (), ()> = PendingMap::default();
        let withdrawn = Cell::new(false);
        assert_eq!(map.ask(1, (), || map.close(), |()| withdrawn.set(true)).await, None);
        assert!(map.insert(2, ()).is_none() && !withdrawn.get());
    }
}
