//! Changes made while the journal was not writable.
//!
//! Their old content is lost, but they are added to the log as soon as possible. Undo then finds them
//! first and reports that it cannot revert them, instead of reverting an older change.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::{Journal, JournalEntry};

/// Maximum number of pending entries; more are dropped.
const MOST: usize = 1_000;

/// Entries not yet in the log, oldest first.
#[derive(Debug, Default)]
pub(crate) struct PendingEntries(Mutex<Vec<JournalEntry>>);

impl PendingEntries {
    /// Adds an entry until the log can be written.
    pub(crate) fn add(&self, entry: JournalEntry) {
        let mut entries = self.entries();
        if entries.len() < MOST {
            entries.push(entry);
        }
    }

    /// Writes pending entries to the log, as far as possible.
    pub(crate) fn flush(&self, journal: &Journal) {
        let mut entries = self.entries();
        let written = entries.iter().take_while(|entry| journal.log().append(entry).is_ok()).count();
        entries.drain(..written);
    }

    /// Whether there are no pending entries.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries().is_empty()
    }

    fn entries(&self) -> MutexGuard<'_, Vec<JournalEntry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
