//! This process's copy of the ledger.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use tokio::sync::watch;

use crate::ledger::{JobLedger, LedgerCommand, LedgerOutcome, PLACE_BITS};

/// At most so many commands are one entry.
pub(super) const COMMANDS_AT_MOST: usize = 1_000;

/// One entry of the ordered list.
pub(crate) struct LedgerEntry {
    /// Its number, from 1, without gaps.
    pub(crate) number: u64,
    /// When it was written, in milliseconds of the engine's clock.
    pub(crate) at: i64,
    /// What its writer calls it.
    pub(crate) id: String,
    /// The commands.
    pub(crate) commands: Vec<LedgerCommand>,
}

#[derive(Default)]
struct ReplicaState {
    ledger: JobLedger,
    awaited: HashMap<String, Option<Vec<LedgerOutcome>>>,
    /// What the engine's clock said, and when that was.
    engine_clock: Option<(i64, Instant)>,
}

/// A ledger that entries are applied to, by whoever has them first.
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

    /// The last entry that was applied.
    pub(crate) fn number(&self) -> u64 {
        *self.number.borrow()
    }

    /// Tells when entries were applied.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.number.subscribe()
    }

    /// Applies an entry; one that was applied before changes nothing. `false`
    /// when there is a gap before it.
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

    /// Passes over a number that no entry has.
    pub(crate) fn skip(&self, number: u64) {
        self.apply(&LedgerEntry {
            number,
            at: self.read(|it| it.now),
            id: String::new(),
            commands: Vec::new(),
        });
    }

    /// Goes on from a snapshot that is ahead of what was applied.
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

    /// What the commands of an entry come to will be kept.
    pub(super) fn expect(&self, id: &str) {
        self.lock().awaited.insert(id.to_owned(), None);
    }

    /// What they came to, if the entry was applied.
    pub(super) fn claim(&self, id: &str) -> Option<Vec<LedgerOutcome>> {
        self.lock().awaited.remove(id).flatten()
    }

    /// Looks at the ledger. Short: nobody else can meanwhile.
    pub(crate) fn read<T>(&self, look: impl FnOnce(&JobLedger) -> T) -> T {
        look(&self.lock().ledger)
    }

    /// What the engine's clock says now, as far as can be known here: what it said when
    /// this process last wrote, and what has passed since. This machine's own wall clock
    /// may jump; it counts only as long as nothing was written.
    pub(crate) fn engine_now(&self) -> i64 {
        self.lock().engine_clock.map_or_else(wall_ms, |(said, when)| {
            said.saturating_add(i64::try_from(when.elapsed().as_millis()).unwrap_or(i64::MAX))
        })
    }

    /// Waits until an entry was applied.
    pub(crate) async fn reached(&self, number: u64) {
        let mut seen = self.subscribe();
        // The sender lives as long as we do.
        let _ = seen.wait_for(|it| *it >= number).await;
    }
}

/// This machine's wall clock.
pub(crate) fn wall_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
