//! Following: pages until there is none, then waiting for news.

use std::{collections::VecDeque, time::Duration};

use futures_util::stream;
use tokio::time::{Instant, sleep};

use super::NewsWaiter;
use crate::{StoreError, StoreFuture, StoreStream};

/// A follower outlives an engine that is gone for no longer than this.
const PATIENCE: Duration = Duration::from_secs(60);

/// Between two questions to an engine that is gone.
const RETRY: Duration = Duration::from_millis(300);

/// Followers read so many lines at once.
pub(super) const PAGE: usize = 500;

struct PageFollower<T, R> {
    waiter: Box<dyn NewsWaiter>,
    read: R,
    page: VecDeque<(u64, T)>,
    /// The number of the next item.
    next: u64,
    gone_since: Option<Instant>,
    has_failed: bool,
}

impl<T, R: Fn(u64) -> StoreFuture<'static, Vec<(u64, T)>>> PageFollower<T, R> {
    async fn next(&mut self) -> Result<T, StoreError> {
        loop {
            if let Some((number, item)) = self.page.pop_front() {
                self.next = number + 1;
                return Ok(item);
            }
            match (self.read)(self.next).await {
                Ok(found) => {
                    self.gone_since = None;
                    if found.is_empty() {
                        self.waiter.wait().await;
                    }
                    self.page = found.into();
                }
                Err(err) => {
                    let since = *self.gone_since.get_or_insert_with(Instant::now);
                    if !err.is_passing() || since.elapsed() > PATIENCE {
                        return Err(err);
                    }
                    sleep(RETRY).await;
                }
            }
        }
    }
}

/// Every item from a number on in order, once; `read` has those from a number on. Ends
/// after an error that does not pass.
pub(super) fn follow_pages<T: Send + 'static>(
    waiter: Box<dyn NewsWaiter>,
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
