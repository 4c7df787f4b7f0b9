//! Waits for a wall-clock time. Unlike the runtime's timers it notices clock changes and counts time
//! spent in suspend.

use std::time::{Duration, SystemTime};

/// Polling interval on systems without a timer that fires on clock changes.
const GLANCE: Duration = Duration::from_secs(30);

/// Waits until the wall clock shows `at`. Returns at once if it has passed. Uses a `timerfd` on Linux
/// and polls elsewhere.
pub async fn until_wall_clock(at: SystemTime) {
    while let Ok(left) = at.duration_since(SystemTime::now()) {
        if left.is_zero() || !wait(at).await {
            tokio::time::sleep(left.min(GLANCE)).await;
        }
    }
}

/// Waits until `at` or a clock change. False if no such timer is available.
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
    async fn until_wall_clock_returns_at_or_after_the_time() {
        for ahead in [0, 1, 30] {
            let at = SystemTime::now() + Duration::from_millis(ahead);
            until_wall_clock(at).await;
            assert!(at <= SystemTime::now(), "{ahead}");
        }
        until_wall_clock(SystemTime::UNIX_EPOCH).await;
        until_wall_clock(SystemTime::now() - Duration::from_secs(5)).await;
    }
}
