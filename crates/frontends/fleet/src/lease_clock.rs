//! Clock for leases: monotonic, includes suspend.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use rustix::time::{ClockId, clock_gettime};

/// Returns the time since boot.
pub(crate) fn since_boot() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    let nanos = u32::try_from(time.tv_nsec).unwrap_or_default();
    Duration::new(seconds, nanos)
}

/// When the store last confirmed a worker's leases. Clones share the state.
#[derive(Clone, Debug)]
pub(crate) struct LeaseClock {
    confirmed_ms: Arc<AtomicU64>,
    /// How long a confirmation counts; shorter than the lease.
    counts: Duration,
}

/// How much earlier than other processes this worker considers its lease expired.
const MARGIN: Duration = Duration::from_secs(3);

impl LeaseClock {
    /// Creates a clock for leases of this length, confirmed now.
    pub(crate) fn new(lease: Duration) -> Self {
        // Very short leases are used in tests only; half of them is still a margin.
        let counts = lease.saturating_sub(MARGIN).max(lease / 2);
        let clock = Self { confirmed_ms: Arc::default(), counts };
        clock.confirm(since_boot());
        clock
    }

    /// Records a confirmation of a request that was sent at time `asked`.
    pub(crate) fn confirm(&self, asked: Duration) {
        self.confirmed_ms.fetch_max(millis(asked), Ordering::AcqRel);
    }

    /// Whether the leases are certainly valid.
    pub(crate) fn is_fresh(&self) -> bool {
        !self.left().is_zero()
    }

    /// Returns how long they are certainly valid.
    pub(crate) fn left(&self) -> Duration {
        let confirmed = Duration::from_millis(self.confirmed_ms.load(Ordering::Acquire));
        (confirmed + self.counts).saturating_sub(since_boot())
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lease_counts_as_expired_early() {
        let clock = LeaseClock::new(Duration::from_secs(30));
        assert!(clock.is_fresh() && clock.left() <= Duration::from_secs(27));
        let old = LeaseClock { confirmed_ms: Arc::default(), counts: Duration::from_millis(1) };
        assert!(!old.is_fresh());
        old.confirm(since_boot() + Duration::from_secs(5));
        assert!(old.is_fresh());
    }
}
