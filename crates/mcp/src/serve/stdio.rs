use rmcp::ServiceExt;
use tokio_util::sync::CancellationToken;

use super::ToolServer;

/// Serves one client over standard input and output, until the input ends or
/// `stop` fires. Calls under way are cancelled then.
///
/// Nothing else may write to standard output meanwhile. On a current-thread
/// runtime a call costs about half of what it costs on a multi-threaded one.
pub async fn serve_stdio(server: ToolServer, stop: CancellationToken) -> std::io::Result<()> {
    let tasks = std::sync::Arc::clone(&server.shared);
    let running = server.serve_with_ct(rmcp::transport::stdio_pipes(), stop).await;
    let ended = match running {
        Ok(running) => running.waiting().await.map(drop).map_err(std::io::Error::other),
        // A client that leaves before it said anything is no failure.
        Err(_) => Ok(()),
    };
    tasks.tasks.shutdown();
    ended
}
