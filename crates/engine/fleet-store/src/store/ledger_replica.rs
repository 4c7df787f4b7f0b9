//! This process's copy of the ledger.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use tokio::sync::watch;

use crate::ledger::{JobLedger, LedgerCommand, LedgerOutcome, PLACE_BITS};

/// Maximum commands per entry.
pub(super) const COMMANDS_AT_MOST: usize = 1_000;

/// An entry of the command log.
pub(crate) struct LedgerEntry {
    /// Number, from 1 without gaps.
    pub(crate) number: u64,
    /// Time of writing, in milliseconds of the engine's clock.
    pub(crate) at: i64,
    /// Id chosen by its writer.
    pub(crate) id: String,
    pub(crate) commands: Vec<LedgerCommand>,
}

#[derive(Default)]
struct ReplicaState {
    ledger: JobLedger,
    awaited: HashMap<String, Option<Vec<LedgerOutcome>>>,
    /// Last known time of the engine's clock, and when it was read.
    engine_clock: Option<(i64, Instant)>,
}

/// A ledger to which any task may apply entries.
pub(crate) struct Mirror {
    copied: Mutex<ReplicaState>,
    number: watch::Sender<u64>,
}

impl Default for Mirror {
    fn default() -> Self {
        Self { copied: Mutex::default(), number: watch::Sender::new(0) }
    }
}

impl Mirror {
    fn lock(&self) -> MutexGuard<'_, ReplicaState> {
        self.copied.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of the last applied entry.
    pub(crate) fn number(&self) -> u64 {
        *self.number.borrow()
    }

    /// Notifies when entries were applied.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.number.subscribe()
    }

    /// Applies an entry; ignores one that was applied before. `false` if entries before it are missing.
    pub(crate) fn apply(&self, entry: &LedgerEntry) -> bool {
        let mut copied = self.lock();
        let last = copied.ledger.position >> PLACE_BITS;
        if entry.number != last + 1 {
            return entry.number <= last;
        }
        let mut outcomes = Vec::with_capacity(entry.commands.len());
        for (index, command) in entry.commands.iter().enumerate() {
            let place = entry.number << PLACE_BITS | index as u64;
            outcomes.push(copied.ledger.apply(place, entry.at, command));
        }
        copied.ledger.position = entry.number << PLACE_BITS;
        if let Some(kept) = copied.awaited.get_mut(&entry.id) {
            kept.get_or_insert(outcomes);
            copied.engine_clock = Some((entry.at, Instant::now()));
        }
        drop(copied);
        self.number.send_replace(entry.number);
        true
    }

    /// Skips a number that has no entry.
    pub(crate) fn skip(&self, number: u64) {
        self.apply(&LedgerEntry {
            number,
            at: self.read(|it| it.now),
            id: String::new(),
            commands: Vec::new(),
        });
    }

    /// Replaces the ledger by a newer snapshot.
    pub(crate) fn load(&self, ledger: JobLedger) {
        let mut copied = self.lock();
        if ledger.position <= copied.ledger.position {
            return;
        }
        let number = ledger.position >> PLACE_BITS;
        copied.ledger = ledger;
        drop(copied);
        self.number.send_replace(number);
    }

    /// Registers interest in the outcomes of an entry.
    pub(super) fn expect(&self, id: &str) {
        self.lock().awaited.insert(id.to_owned(), None);
    }

    /// Takes the outcomes of an entry; `None` if it was not applied.
    pub(super) fn claim(&self, id: &str) -> Option<Vec<LedgerOutcome>> {
        self.lock().awaited.remove(id).flatten()
    }

    /// Reads the ledger under its lock; `look` must be fast.
    pub(crate) fn read<T>(&self, look: impl FnOnce(&JobLedger) -> T) -> T {
        look(&self.lock().ledger)
    }

    /// Estimates the engine's current time: its time at this process's last write plus the elapsed
    /// monotonic time. Before the first write, this machine's wall clock.
    pub(crate) fn engine_now(&self) -> i64 {
        self.lock().engine_clock.map_or_else(wall_ms, |(said, when)| {
            said.saturating_add(i64::try_from(when.elapsed().as_millis()).unwrap_or(i64::MAX))
        })
    }

    /// Waits until an entry was applied.
    pub(crate) async fn reached(&self, number: u64) {
        let mut seen = self.subscribe();
        // The sender lives as long as `self`.
        let _ = seen.wait_for(|it| *it >= number).await;
    }
}

/// Returns this machine's wall clock in milliseconds.
pub(crate) fn wall_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
