//! Changes that were made while nothing could be recorded.
//!
//! What was there before them is lost, but that they happened is not: as soon as
//! the log can be written, they are listed in it. An undo then finds them first
//! and says why it cannot take them back, instead of taking back an older change.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::{Journal, JournalEntry};

/// More than this is not remembered.
const MOST: usize = 1_000;

/// Entries that are not in the log yet, oldest first.
#[derive(Debug, Default)]
pub(crate) struct PendingEntries(Mutex<Vec<JournalEntry>>);

impl PendingEntries {
    /// Remembers a change until the log can be written.
    pub(crate) fn add(&self, entry: JournalEntry) {
        let mut entries = self.entries();
        if entries.len() < MOST {
            entries.push(entry);
        }
    }

    /// Writes what is remembered into the log, as far as that works.
    pub(crate) fn flush(&self, journal: &Journal) {
        let mut entries = self.entries();
        let written = entries.iter().take_while(|entry| journal.log().append(entry).is_ok()).count();
        entries.drain(..written);
    }

    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries().is_empty()
    }

    fn entries(&self) -> MutexGuard<'_, Vec<JournalEntry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
