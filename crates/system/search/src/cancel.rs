use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

/// Cancellation and deadline of a search. Clones share the cancellation.
///
/// Every loop in this crate checks it at least once per file and once per 64 KiB of a large file.
#[derive(Clone, Debug)]
pub struct SearchStop {
    cancelled: Arc<AtomicBool>,
    started: Instant,
    deadline: Option<Instant>,
}

/// Why a search stopped early.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SearchStopReason {
    /// It was cancelled.
    Cancelled,
    /// Its deadline passed; results so far are valid.
    Deadline,
}

impl SearchStop {
    /// Without a deadline; stops only when cancelled.
    pub fn never() -> Self {
        Self { cancelled: Arc::default(), started: Instant::now(), deadline: None }
    }

    /// With a deadline `limit` from now.
    pub fn after(limit: Duration) -> Self {
        let stop = Self::never();
        Self { deadline: stop.started.checked_add(limit), ..stop }
    }

    /// Shares the cancellation; the deadline is at most `limit` from now and not later than this one.
    pub fn within(&self, limit: Duration) -> Self {
        let now = Instant::now();
        let own = now.checked_add(limit);
        let deadline = match (self.deadline, own) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        Self { cancelled: Arc::clone(&self.cancelled), started: now, deadline }
    }

    /// Cancels the search, in all clones.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Whether to stop.
    pub fn is_over(&self) -> bool {
        self.reason().is_some()
    }

    /// Why to stop; `None` if the search may continue.
    pub fn reason(&self) -> Option<SearchStopReason> {
        if self.cancelled.load(Ordering::Relaxed) {
            return Some(SearchStopReason::Cancelled);
        }
        match self.deadline {
            Some(deadline) if deadline <= Instant::now() => Some(SearchStopReason::Deadline),
            _ => None,
        }
    }

    /// Time since it was created.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }
}
