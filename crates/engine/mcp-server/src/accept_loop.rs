//! Accept loop with a limit on connections and a timeout for request headers.
//!
//! Own implementation, because axum's has neither.

use std::{sync::Arc, time::Duration};

use axum::Router;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

/// Limits on clients.
#[derive(Clone, Copy, Debug)]
pub struct AcceptLimits {
    /// Maximum concurrent connections.
    pub connections: usize,
    /// Timeout for the request headers.
    pub header: Duration,
}

/// Maximum bytes buffered per connection; headers must fit.
const MAX_BUFFER_BYTES: usize = 128 << 10;

/// Delay after `accept` failed for lack of file descriptors.
const NO_ROOM: Duration = Duration::from_millis(100);

/// Accepts connections until `stop`, then waits until open ones are done. Dropping the future closes all
/// of them.
pub async fn accept(listener: TcpListener, app: Router, limits: AcceptLimits, stop: CancellationToken) {
    let room = Arc::new(Semaphore::new(limits.connections.max(1)));
    let mut open = JoinSet::new();
    while let Some((stream, permit)) = next(&listener, &room, &stop).await {
        // Otherwise Nagle's algorithm and delayed acknowledgements add 40 ms to every answer.
        stream.set_nodelay(true).ok();
        let (app, stop) = (app.clone(), stop.clone());
        open.spawn(async move {
            serve(stream, app, limits.header, &stop).await;
            drop(permit);
        });
        while open.try_join_next().is_some() {}
    }
    // Further connections are refused from here on.
    drop(listener);
    while open.join_next().await.is_some() {}
}

/// Returns the next connection within the limit; `None` on `stop`.
async fn next(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
    stop: &CancellationToken,
) -> Option<(TcpStream, OwnedSemaphorePermit)> {
    let accepted = async {
        let permit = Arc::clone(room).acquire_owned().await.ok()?;
        loop {
            match listener.accept().await {
                Ok((stream, _)) => return Some((stream, permit)),
                // The client has already disconnected, or there are too many open files.
                Err(_) => tokio::time::sleep(NO_ROOM).await,
            }
        }
    };
    tokio::select! {
        accepted = accepted => accepted,
        () = stop.cancelled() => None,
    }
}

async fn serve(stream: TcpStream, app: Router, header_limit: Duration, stop: &CancellationToken) {
    // HTTP/1.1 only: detecting the version waits for the first bytes without a timeout.
    let mut builder = auto::Builder::new(TokioExecutor::new()).http1_only();
    builder.http1().timer(TokioTimer::new()).header_read_timeout(header_limit).max_buf_size(MAX_BUFFER_BYTES);
    let connection = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(app));
    tokio::pin!(connection);
    tokio::select! {
        // A broken connection is not reported.
        _ = connection.as_mut() => return,
        () = stop.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    connection.await.ok();
}
