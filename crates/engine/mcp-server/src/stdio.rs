use std::sync::{Arc, OnceLock};

use rmcp::ServiceExt;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use super::{
    ToolServer,
    stdio_fast_path::{ClientLines, SdkSession},
};

/// Capacity of the pipe to the SDK in bytes.
const SDK_PIPE: usize = 64 << 10;

/// Serves one client over standard input and output until the input ends or `stop` is cancelled, which
/// also cancels running calls.
///
/// Nothing else may write to standard output meanwhile. On a current-thread runtime a call costs about
/// half of what it costs on a multi-threaded one.
pub async fn serve_stdio(server: ToolServer, stop: CancellationToken) -> std::io::Result<()> {
    let (input, output) = rmcp::transport::stdio_pipes();
    serve_pipes(server, input, output, stop).await;
    Ok(())
}

async fn serve_pipes(
    server: ToolServer,
    input: impl AsyncRead + Unpin,
    output: impl AsyncWrite + Unpin,
    stop: CancellationToken,
) {
    let (near, far) = tokio::io::duplex(SDK_PIPE);
    let session = Arc::new(OnceLock::new());
    // A child token, because the SDK cancels it when it is done.
    let sdk_stop = stop.child_token();
    let lines =
        ClientLines { server: server.clone(), input, output, sdk: near, session: Arc::clone(&session), stop };
    let shared = Arc::clone(&server.shared);
    let sdk = tokio::spawn(async move {
        // A client that disconnects before the handshake is not an error.
        let Ok(running) = server.serve_with_ct(far, sdk_stop).await else { return };
        if let Some(begun) = SdkSession::new(running.peer().clone()) {
            let _ = session.set(begun);
        }
        running.waiting().await.ok();
    });
    lines.carry().await;
    sdk.abort();
    shared.tasks.shutdown();
}
