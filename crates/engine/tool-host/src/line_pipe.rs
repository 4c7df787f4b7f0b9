//! Line-based connections over any transport.

use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt as _},
    sync::mpsc,
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{Message, protocol::WebSocketConfig},
};
use tokio_util::{
    codec::{FramedRead, LinesCodec},
    sync::{CancellationToken, DropGuard},
};

/// Maximum bytes of a line; a longer one ends the connection.
const MAX_LINE_BYTES: usize = 64 << 20;

/// Maximum queued lines for a peer that does not read.
const WAITING_LINES: usize = 256;

/// Maximum time to send the last lines when closing.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// A connection that carries lines. Dropping it closes the connection.
pub struct LinePipe {
    /// Received lines; closed with the connection.
    pub incoming: mpsc::Receiver<String>,
    /// Lines to send.
    pub outgoing: mpsc::Sender<String>,
    _end: DropGuard,
}

impl LinePipe {
    /// Creates a connection over two byte streams.
    pub fn of_streams<R, W>(from: R, mut to: W) -> Self
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let (pipe, said, mut waiting, end) = Self::channels();
        let stop = end.clone();
        tokio::spawn(end.clone().run_until_cancelled_owned(async move {
            let _ends = stop.drop_guard();
            let mut lines = FramedRead::new(from, LinesCodec::new_with_max_length(MAX_LINE_BYTES));
            while let Some(Ok(line)) = lines.next().await {
                if said.send(line).await.is_err() {
                    return;
                }
            }
        }));
        tokio::spawn(until_a_little_after(end, async move {
            while let Some(mut line) = waiting.recv().await {
                line.push('\n');
                if to.write_all(line.as_bytes()).await.is_err() || to.flush().await.is_err() {
                    return;
                }
            }
        }));
        pipe
    }

    /// Creates a connection over a WebSocket, one message per line.
    pub fn of_socket<S>(socket: WebSocketStream<S>) -> Self
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let (pipe, said, mut waiting, end) = Self::channels();
        let (mut to, mut from) = socket.split();
        let stop = end.clone();
        tokio::spawn(end.clone().run_until_cancelled_owned(async move {
            let _ends = stop.drop_guard();
            while let Some(Ok(message)) = from.next().await {
                let line = match message {
                    Message::Text(text) => text.as_str().to_owned(),
                    Message::Close(_) => return,
                    _ => continue,
                };
                if said.send(line).await.is_err() {
                    return;
                }
            }
        }));
        tokio::spawn(until_a_little_after(end, async move {
            while let Some(line) = waiting.recv().await {
                if to.send(Message::text(line)).await.is_err() {
                    return;
                }
            }
            to.close().await.ok();
        }));
        pipe
    }

    fn channels() -> (Self, mpsc::Sender<String>, mpsc::Receiver<String>, CancellationToken) {
        let (said, incoming) = mpsc::channel(WAITING_LINES);
        let (outgoing, waiting) = mpsc::channel(WAITING_LINES);
        let end = CancellationToken::new();
        let pipe = Self { incoming, outgoing, _end: end.clone().drop_guard() };
        (pipe, said, waiting, end)
    }
}

/// Lets queued lines be sent for at most [`LAST_WORDS`] after the end.
async fn until_a_little_after(end: CancellationToken, writing: impl Future<Output = ()>) {
    let late = async {
        end.cancelled().await;
        tokio::time::sleep(LAST_WORDS).await;
    };
    tokio::select! {
        () = writing => end.cancel(),
        () = late => (),
    }
}

/// Returns the limits on WebSocket messages.
pub(crate) fn socket_limits() -> WebSocketConfig {
    WebSocketConfig::default().max_message_size(Some(MAX_LINE_BYTES)).max_frame_size(Some(MAX_LINE_BYTES))
}
