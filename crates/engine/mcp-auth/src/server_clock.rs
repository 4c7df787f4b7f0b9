use std::{
    sync::atomic::{AtomicI64, Ordering},
    time::{SystemTime, UNIX_EPOCH},
};

use reqwest::header::{DATE, HeaderMap};

/// Clock differences up to this many seconds are ignored.
const TOLERATED_SECONDS: i64 = 5;

/// The authorization server's clock. Signed assertions contain timestamps and are rejected if the clocks
/// differ, so the server's time is used.
#[derive(Debug, Default)]
pub(super) struct Clock(AtomicI64);

impl Clock {
    /// Updates the offset from the `Date` header of a response.
    pub(super) fn heard(&self, headers: &HeaderMap) {
        let date = headers.get(DATE).and_then(|it| it.to_str().ok());
        let Some(theirs) = date.and_then(|it| httpdate::parse_http_date(it).ok()) else { return };
        let theirs = theirs.duration_since(UNIX_EPOCH).map_or(0, |it| it.as_secs());
        let difference = i64::try_from(theirs).unwrap_or(0) - i64::try_from(now()).unwrap_or(0);
        let difference = if difference.abs() <= TOLERATED_SECONDS { 0 } else { difference };
        self.0.store(difference, Ordering::Relaxed);
    }

    /// Returns the server's time in seconds since 1970.
    pub(super) fn now(&self) -> u64 {
        now().saturating_add_signed(self.0.load(Ordering::Relaxed))
    }
}

/// Returns the local time in seconds since 1970.
pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_secs())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn clock_follows_server_date_header() {
        let check = |date: &str| {
            let clock = Clock::default();
            clock.heard(&HeaderMap::from_iter([(DATE, date.parse().unwrap())]));
            i64::try_from(clock.now()).unwrap() - i64::try_from(now()).unwrap()
        };
        let at = |seconds: u64| httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(seconds));
        // Allow for delays between two readings of the local clock.
        assert!((3990..=4010).contains(&check(&at(now() + 4000))));
        assert!((-4010..=-3990).contains(&check(&at(now() - 4000))));
        assert!(check(&at(now() + 1)).abs() <= 1, "that is nobody's mistake");
        assert!(check("yesterday").abs() <= 1);
    }
}
