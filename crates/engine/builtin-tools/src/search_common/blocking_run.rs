use std::time::Duration;

use haft_search::SearchStop;
use haft_tool::{ErrorKind, ToolContext, ToolError};

/// How long a cancelled search has to hand back what it has. A disk that does
/// not answer keeps its thread, not the call.
const GRACE: Duration = Duration::from_millis(80);

/// Runs a search on a thread of its own. Cancelling the call, or dropping it,
/// stops the search; what it found until then is handed back.
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
