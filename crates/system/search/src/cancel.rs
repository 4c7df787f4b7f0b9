use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

/// When a search has to end, although it is not done.
///
/// Every loop of this crate asks it at least once per file and once per 64 KiB
/// of a large file.
#[derive(Clone, Debug)]
pub struct SearchStop {
    cancelled: Arc<AtomicBool>,
    started: Instant,
    deadline: Option<Instant>,
}

/// Why a search ended before it was done.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SearchStopReason {
    /// Nobody wants the answer any more.
    Cancelled,
    /// Its time is over; what was found so far counts.
    Deadline,
}

impl SearchStop {
    /// Ends when it is cancelled.
    pub fn never() -> Self {
        Self { cancelled: Arc::default(), started: Instant::now(), deadline: None }
    }

    /// Ends when it is cancelled or after this time.
    pub fn after(limit: Duration) -> Self {
        let stop = Self::never();
        Self { deadline: stop.started.checked_add(limit), ..stop }
    }

    /// The same cancellation with another, not later, end.
    pub fn within(&self, limit: Duration) -> Self {
        let now = Instant::now();
        let own = now.checked_add(limit);
        let deadline = match (self.deadline, own) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        Self { cancelled: Arc::clone(&self.cancelled), started: now, deadline }
    }

    /// Ends it now, in every clone.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Whether to go on.
    pub fn is_over(&self) -> bool {
        self.reason().is_some()
    }

    /// Why not to go on, if so.
    pub fn reason(&self) -> Option<SearchStopReason> {
        if self.cancelled.load(Ordering::Relaxed) {
            return Some(SearchStopReason::Cancelled);
        }
        match self.deadline {
            Some(deadline) if deadline <= Instant::now() => Some(SearchStopReason::Deadline),
            _ => None,
        }
    }

    /// How long it has been running.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }
}
