//! Takes connections in, so many at most, and gives up on those that never say
//! what they want.
//!
//! Own code: axum's own loop has no limit on either.

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

/// What clients may take.
#[derive(Clone, Copy, Debug)]
pub struct AcceptLimits {
    /// Connections at the same time.
    pub connections: usize,
    /// Time until they have said what they want.
    pub header: Duration,
}

/// What a connection may keep in memory before anybody reads it; headers must
/// fit.
const MAX_BUFFER_BYTES: usize = 128 << 10;

/// How long to wait when the machine has no connection left for us.
const NO_ROOM: Duration = Duration::from_millis(100);

/// Serves connections until `stop`, then until those that are open are done.
/// Dropping the future cuts all of them off.
pub async fn accept(listener: TcpListener, app: Router, limits: AcceptLimits, stop: CancellationToken) {
    let room = Arc::new(Semaphore::new(limits.connections.max(1)));
    let mut open = JoinSet::new();
    while let Some((stream, permit)) = next(&listener, &room, &stop).await {
        // Without it every answer waits 40 ms for an acknowledgement.
        stream.set_nodelay(true).ok();
        let (app, stop) = (app.clone(), stop.clone());
        open.spawn(async move {
            serve(stream, app, limits.header, &stop).await;
            drop(permit);
        });
        while open.try_join_next().is_some() {}
    }
    // Whoever comes now is told that nobody is here.
    drop(listener);
    while open.join_next().await.is_some() {}
}

/// The next connection there is room for; nothing when it is time to stop.
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
                // The client is gone already, or there are too many open files.
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
    // Finding out the version would wait for the first bytes without a limit.
    let mut builder = auto::Builder::new(TokioExecutor::new()).http1_only();
    builder.http1().timer(TokioTimer::new()).header_read_timeout(header_limit).max_buf_size(MAX_BUFFER_BYTES);
    let connection = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(app));
    tokio::pin!(connection);
    tokio::select! {
        // A connection that broke is nobody's failure but the client's.
        _ = connection.as_mut() => return,
        () = stop.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    connection.await.ok();
}
