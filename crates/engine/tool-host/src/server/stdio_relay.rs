//! The thin end of a connection over standard streams: bytes to the process that
//! has the sessions, and back.

use std::{io, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt as _},
    net::UnixStream,
    time::Instant,
};

use super::SocketPath;

/// How long the process may take to listen.
const START_LIMIT: Duration = Duration::from_secs(15);

/// How long to wait before looking again.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Carries bytes between two streams and the process at a place, until either
/// side ends. `start` starts the process where it is not there.
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
            // What is said at the end still comes.
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
            // One that is about to end keeps the next from beginning for a moment.
            Err(_) if next_start <= Instant::now() => {
                start()?;
                next_start = Instant::now() + Duration::from_secs(2);
            }
            Err(_) => (),
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}
