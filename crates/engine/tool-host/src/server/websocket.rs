//! Callers at an address: a WebSocket, with a token.

use std::{io, sync::Arc, time::Duration};

use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};
use tokio_tungstenite::{
    accept_hdr_async_with_config,
    tungstenite::handshake::server::{ErrorResponse, Request, Response},
};
use tokio_util::sync::CancellationToken;

use super::{client_connection, run_registry::HostRunRegistry};
use crate::line_pipe::{LinePipe, socket_limits};

/// How callers come in.
#[derive(Clone)]
pub struct WebOptions {
    /// What they must show.
    pub token: String,
    /// Connections at the same time; more wait.
    pub connections: usize,
    /// How long they may take to say what they want.
    pub header_limit: Duration,
}

/// How long to wait when the machine has no connection left for us.
const NO_ROOM: Duration = Duration::from_millis(100);

/// Serves callers at an address until `stop`.
pub async fn serve_web(
    listener: TcpListener,
    runs: Arc<HostRunRegistry>,
    options: WebOptions,
    stop: CancellationToken,
) -> io::Result<()> {
    let (token, limit) = (Arc::<str>::from(options.token), options.header_limit);
    let serve = |stream| {
        let (runs, token) = (Arc::clone(&runs), Arc::clone(&token));
        async move {
            #[expect(clippy::result_large_err, reason = "the library's own type")]
            let check = |request: &Request, response: Response| checked(request, response, &token);
            let socket = accept_hdr_async_with_config(stream, check, Some(socket_limits()));
            if let Ok(Ok(socket)) = tokio::time::timeout(limit, socket).await {
                client_connection::serve(LinePipe::of_socket(socket), runs).await;
            }
        }
    };
    accept_until(stop, listener, options.connections, serve).await;
    runs.close_all().await;
    Ok(())
}

/// Lets connections in until `stop`, so many at a time, and serves each beside the others.
pub(super) async fn accept_until<F>(
    stop: CancellationToken,
    listener: TcpListener,
    connections: usize,
    serve: impl Fn(TcpStream) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let room = Arc::new(Semaphore::new(connections.max(1)));
    let accepting = async {
        while let Ok(permit) = Arc::clone(&room).acquire_owned().await {
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(NO_ROOM).await;
                continue;
            };
            // Without it every answer waits 40 ms for an acknowledgement.
            stream.set_nodelay(true).ok();
            let served = serve(stream);
            tokio::spawn(async move {
                served.await;
                drop(permit);
            });
        }
    };
    stop.run_until_cancelled(accepting).await;
}

/// Whether a request may come in. Pages of browsers never may, whatever they
/// know.
#[expect(clippy::result_large_err, reason = "the library's own type")]
pub(super) fn checked(request: &Request, response: Response, token: &str) -> Result<Response, ErrorResponse> {
    let headers = request.headers();
    if headers.contains_key("origin") {
        return Err(refused(403, "pages of browsers may not use a tool host"));
    }
    let mut shown = headers.get_all("authorization").iter();
    let bearer = shown.next().and_then(|it| it.to_str().ok()).and_then(|it| it.strip_prefix("Bearer "));
    let is_right = bearer.is_some_and(|it| same(it.trim(), token)) && shown.next().is_none();
    if is_right { Ok(response) } else { Err(refused(401, "the token is missing or wrong")) }
}

/// A request that may not.
pub(super) fn refused(status: u16, words: &str) -> ErrorResponse {
    let mut refusal = ErrorResponse::new(Some(words.to_owned()));
    if let Ok(status) = status.try_into() {
        *refusal.status_mut() = status;
    }
    refusal
}

/// Compares hashes, which takes as long for every wrong token.
fn same(shown: &str, token: &str) -> bool {
    blake3::hash(shown.as_bytes()) == blake3::hash(token.as_bytes())
}
