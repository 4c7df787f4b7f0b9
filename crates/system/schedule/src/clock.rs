use std::time::Duration;

use jiff::{Timestamp, tz::TimeZone};

/// What time it is, and where.
pub trait ScheduleClock: Send + Sync {
    /// Now.
    fn now(&self) -> Timestamp;

    /// The person's time zone.
    fn zone(&self) -> TimeZone;

    /// Whether it is the clock of the system, which wakes those who wait for a time.
    fn is_the_system(&self) -> bool {
        false
    }

    /// Another clock may be set meanwhile: nobody sleeps longer without a look at it.
    fn glance(&self) -> Duration {
        Duration::from_secs(30)
    }
}

/// The clock of the system.
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

/// What a zone is called in a stored job. One without a name (a copy of a file, rules in
/// a variable) is that of the system, where the job is read as where it was made.
pub fn zone_name(zone: &TimeZone) -> &str {
    zone.iana_name().unwrap_or("local")
}

/// The zone of this name; that of the system where the name means nothing here.
pub fn zone_named(name: &str) -> TimeZone {
    TimeZone::get(name).unwrap_or_else(|_| TimeZone::system())
}
