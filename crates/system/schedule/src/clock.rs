use std::time::Duration;

use jiff::{Timestamp, tz::TimeZone};

/// Source of the current time and the user's time zone.
pub trait ScheduleClock: Send + Sync {
    fn now(&self) -> Timestamp;

    /// The user's time zone.
    fn zone(&self) -> TimeZone;

    /// Whether this is the system clock, whose changes wake up waiting tasks.
    fn is_the_system(&self) -> bool {
        false
    }

    /// Maximum time to sleep before the clock is read again, because a clock other than the system's may
    /// be set without a notification.
    fn glance(&self) -> Duration {
        Duration::from_secs(30)
    }
}

/// [`ScheduleClock`] of the system.
#[derive(Clone, Debug, Default)]
pub struct SystemClock;

impl ScheduleClock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn zone(&self) -> TimeZone {
        TimeZone::system()
    }

    fn is_the_system(&self) -> bool {
        true
    }
}

/// The zone name to store in a job. A zone without a name (such as a copied file or a rule in `TZ`) is
/// stored as the system's zone.
pub fn zone_name(zone: &TimeZone) -> &str {
    zone.iana_name().unwrap_or("local")
}

/// The zone of this name; the system's zone if the name is unknown here.
pub fn zone_named(name: &str) -> TimeZone {
    TimeZone::get(name).unwrap_or_else(|_| TimeZone::system())
}
