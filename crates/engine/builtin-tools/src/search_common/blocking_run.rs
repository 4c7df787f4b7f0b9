use std::time::Duration;

use haft_search::SearchStop;
use haft_tool::{ErrorKind, ToolContext, ToolError};

/// How long a cancelled search may take to return partial results. A hanging disk then blocks its
/// thread, not the call.
const GRACE: Duration = Duration::from_millis(80);

/// Runs a search on a blocking thread. Cancelling or dropping the call stops the search; cancelling
/// returns partial results.
pub(crate) async fn run<P, T: Send + 'static>(
    cx: &ToolContext<P>,
    limit: Duration,
    search: impl FnOnce(&SearchStop) -> T + Send + 'static,
) -> Result<T, ToolError> {
    let stop = SearchStop::after(limit);
    let _guard = CancelOnDrop(stop.clone());
    let own = stop.clone();
    let mut task = tokio::task::spawn_blocking(move || search(&own));
    let ended = tokio::select! {
        ended = &mut task => ended,
        () = cx.cancel.cancelled() => {
            stop.cancel();
            match tokio::time::timeout(GRACE, task).await {
                Ok(ended) => ended,
                Err(_) => return Err(ToolError::new(ErrorKind::Interrupted, "The search was interrupted")),
            }
        }
    };
    ended.map_err(|error| ToolError::new(ErrorKind::Internal, format!("The search broke: {error}")))
}

struct CancelOnDrop(SearchStop);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}
