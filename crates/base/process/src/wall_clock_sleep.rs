//! Waiting for a time of the clock on the wall, which may be set meanwhile and goes
//! on while the machine sleeps. The runtime's own timers do neither.

use std::time::{Duration, SystemTime};

/// Without a clock that wakes us when it is set, nobody sleeps longer without a look
/// at it.
const GLANCE: Duration = Duration::from_secs(30);

/// Waits until the clock shows this time. Costs nothing while it waits, where the
/// system has such a timer.
pub async fn until_wall_clock(at: SystemTime) {
    while let Ok(left) = at.duration_since(SystemTime::now()) {
        if left.is_zero() || !wait(at).await {
            tokio::time::sleep(left.min(GLANCE)).await;
        }
    }
}

/// Waits for that time, or until somebody sets the clock; false where it cannot.
#[cfg(target_os = "linux")]
async fn wait(at: SystemTime) -> bool {
    match timer(at).ok().and_then(crate::process_tree::register) {
        Some(timer) => timer.readable().await.is_ok(),
        None => false,
    }
}

#[cfg(not(target_os = "linux"))]
async fn wait(_at: SystemTime) -> bool {
    false
}

#[cfg(target_os = "linux")]
fn timer(at: SystemTime) -> std::io::Result<std::os::fd::OwnedFd> {
    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
    };
    let since = at.duration_since(SystemTime::UNIX_EPOCH).map_err(std::io::Error::other)?;
    let timer = timerfd_create(TimerfdClockId::Realtime, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
    let when = Itimerspec { it_interval: crate::timespec(Duration::ZERO), it_value: crate::timespec(since) };
    timerfd_settime(&timer, TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET, &when)?;
    Ok(timer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn times_come_and_are_not_early() {
        for ahead in [0, 1, 30] {
            let at = SystemTime::now() + Duration::from_millis(ahead);
            until_wall_clock(at).await;
            assert!(at <= SystemTime::now(), "{ahead}");
        }
        until_wall_clock(SystemTime::UNIX_EPOCH).await;
        until_wall_clock(SystemTime::now() - Duration::from_secs(5)).await;
    }
}
