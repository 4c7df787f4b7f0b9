//! Follows a log: reads pages until there are no more, then waits for changes.

use std::{collections::VecDeque, time::Duration};

use futures_util::stream;
use tokio::time::{Instant, sleep};

use super::ChangeWaiter;
use crate::{StoreError, StoreFuture, StoreStream};

/// How long a follower retries while the engine cannot be reached.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Delay between retries.
const RETRY: Duration = Duration::from_millis(300);

/// Lines per page.
pub(super) const PAGE: usize = 500;

struct PageFollower<T, R> {
    waiter: Box<dyn ChangeWaiter>,
    read: R,
    page: VecDeque<(u64, T)>,
    /// Number of the next item.
    next: u64,
    gone_since: Option<Instant>,
    has_failed: bool,
}

impl<T: Send + 'static, R: Fn(u64) -> StoreFuture<'static, Vec<(u64, T)>>> PageFollower<T, R> {
    async fn next(&mut self) -> Result<T, StoreError> {
        loop {
            if let Some((number, item)) = self.page.pop_front() {
                self.next = number + 1;
                return Ok(item);
            }
            match unwatched((self.read)(self.next)).await {
                Ok(found) => {
                    self.gone_since = None;
                    if found.is_empty() {
                        self.waiter.wait().await;
                    }
                    self.page = found.into();
                }
                Err(err) => {
                    let since = *self.gone_since.get_or_insert_with(Instant::now);
                    if !err.is_passing() || since.elapsed() > TIMEOUT {
                        return Err(err);
                    }
                    sleep(RETRY).await;
                }
            }
        }
    }
}

/// Reads in a separate task. A follower that is not polled during a read would otherwise keep its
/// connection, for which its own caller may be waiting (deadlock).
async fn unwatched<T: Send + 'static>(read: StoreFuture<'static, T>) -> Result<T, StoreError> {
    match tokio::spawn(read).await {
        Ok(found) => found,
        Err(ended) => match ended.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is shutting down.
            Err(_) => std::future::pending().await,
        },
    }
}

/// Streams all items from a number on, in order and once; `read` returns those from a number on. Ends
/// after a permanent error.
pub(super) fn follow_pages<T: Send + 'static>(
    waiter: Box<dyn ChangeWaiter>,
    from: u64,
    read: impl Fn(u64) -> StoreFuture<'static, Vec<(u64, T)>> + Send + 'static,
) -> StoreStream<T> {
    let follower =
        PageFollower { waiter, read, page: VecDeque::new(), next: from, gone_since: None, has_failed: false };
    Box::pin(stream::unfold(follower, |mut follower| async move {
        if follower.has_failed {
            return None;
        }
        let next = follower.next().await;
        follower.has_failed = next.is_err();
        Some((next, follower))
    }))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "test code")]
mod tests {
    use std::{future::poll_fn, sync::Arc, task::Poll};

    use tokio::sync::Mutex;

    use super::*;
    use crate::engine::Pause;

    struct NeverReady;

    impl ChangeWaiter for NeverReady {
        fn wait(&mut self) -> Pause<'_> {
            Box::pin(std::future::pending())
        }
    }

    /// A read releases its connection even if its result is not polled.
    #[tokio::test]
    async fn read_releases_connection_without_being_polled() {
        let connection = Arc::new(Mutex::new(()));
        let held = Arc::clone(&connection);
        let mut items = follow_pages(Box::new(NeverReady), 0, move |from| {
            let held = Arc::clone(&held);
            Box::pin(async move {
                let _guard = held.lock().await;
                tokio::task::yield_now().await;
                Ok(vec![(from, from)])
            })
        });
        let begun = poll_fn(|cx| Poll::Ready(items.as_mut().poll_next(cx))).await;
        assert!(begun.is_pending());
        drop(tokio::time::timeout(Duration::from_secs(20), connection.lock()).await.unwrap());
        let first = poll_fn(|cx| items.as_mut().poll_next(cx)).await;
        assert_eq!(first.unwrap().unwrap(), 0);
    }
}
