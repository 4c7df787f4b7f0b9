//! Relays the standard streams of an `ssh` session to the daemon that has the sessions.

use std::{io, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt as _},
    net::UnixStream,
    time::Instant,
};

use super::SocketPath;

/// Maximum time for the daemon to start.
const START_LIMIT: Duration = Duration::from_secs(15);

/// Polling interval while it starts.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Relays bytes between two streams and the daemon until either side closes. `start` is called to start
/// the daemon if it is not running.
pub async fn relay<R, W>(
    place: &SocketPath,
    mut start: impl FnMut() -> io::Result<()>,
    mut from: R,
    mut to: W,
) -> io::Result<()>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let stream = connected(place, &mut start).await?;
    let (mut back, mut forth) = stream.into_split();
    tokio::select! {
        ended = tokio::io::copy(&mut from, &mut forth) => {
            ended?;
            forth.shutdown().await?;
            // Forward remaining output.
            tokio::time::timeout(Duration::from_secs(5), tokio::io::copy(&mut back, &mut to)).await.ok();
        }
        ended = tokio::io::copy(&mut back, &mut to) => drop(ended?),
    }
    to.flush().await
}

async fn connected(place: &SocketPath, start: &mut impl FnMut() -> io::Result<()>) -> io::Result<UnixStream> {
    let deadline = Instant::now() + START_LIMIT;
    let mut next_start = Instant::now();
    loop {
        match place.connect().await {
            Ok(stream) => return Ok(stream),
            Err(err) if deadline < Instant::now() => return Err(err),
            // A daemon that is shutting down prevents the next one from starting for a moment.
            Err(_) if next_start <= Instant::now() => {
                start()?;
                next_start = Instant::now() + Duration::from_secs(2);
            }
            Err(_) => (),
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}
