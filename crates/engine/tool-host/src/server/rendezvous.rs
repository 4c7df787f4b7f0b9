//! A meeting point, for hosts that can only dial out: behind a router, in somebody's
//! office. A host waits there under a name, and a caller that asks for the name is put
//! through to it. Both show the same token.

use std::{
    collections::HashMap,
    io,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures_util::{SinkExt as _, StreamExt as _};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::oneshot,
    time::Instant,
};
use tokio_tungstenite::{
    WebSocketStream, accept_hdr_async_with_config,
    tungstenite::{
        Message,
        handshake::server::{ErrorResponse, Request, Response},
    },
};
use tokio_util::sync::CancellationToken;

use super::{
    WebOptions, client_connection,
    run_registry::HostRunRegistry,
    websocket::{accept_until, checked, refused},
};
use crate::{
    client::{LinkError, web_socket},
    host_address::{HostAddress, HostConfig},
    line_pipe::{LinePipe, socket_limits},
};

/// The header of a host that waits.
const WAITS: &str = "haft-tool-host";

/// What a host hears when a caller has come.
const TAKEN: &str = "taken";

/// How often both say that they are still there.
const PING: Duration = Duration::from_secs(5);

/// Silence that means that the other end is gone.
const SILENCE: Duration = Duration::from_secs(20);

/// So many callers can come at the same moment.
const WAITING_LINES: usize = 4;

/// Longest time between two tries to reach a meeting point.
const MAX_PAUSE: Duration = Duration::from_secs(5);

type RendezvousSocket = WebSocketStream<TcpStream>;

/// Hosts that wait, by the path they wait at.
#[derive(Default)]
struct WaitingHosts(Mutex<HashMap<String, Vec<oneshot::Sender<RendezvousSocket>>>>);

impl WaitingHosts {
    fn add(&self, path: &str) -> oneshot::Receiver<RendezvousSocket> {
        let (put_through, caller) = oneshot::channel();
        let mut hosts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        hosts.retain(|_, lines| {
            lines.retain(|it| !it.is_closed());
            !lines.is_empty()
        });
        hosts.entry(path.to_owned()).or_default().push(put_through);
        caller
    }

    fn take(&self, path: &str) -> Option<oneshot::Sender<RendezvousSocket>> {
        let mut hosts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let lines = hosts.get_mut(path)?;
        std::iter::from_fn(|| lines.pop()).find(|it| !it.is_closed())
    }
}

/// Who has come.
enum RendezvousPeer {
    Host(oneshot::Receiver<RendezvousSocket>),
    Caller(oneshot::Sender<RendezvousSocket>),
}

/// Puts callers through to hosts that wait, until `stop`.
pub async fn serve_meeting(
    listener: TcpListener,
    options: WebOptions,
    stop: CancellationToken,
) -> io::Result<()> {
    let (hosts, token) = (Arc::new(WaitingHosts::default()), Arc::<str>::from(options.token));
    let limit = options.header_limit;
    let serve = |stream| {
        let (hosts, token) = (Arc::clone(&hosts), Arc::clone(&token));
        async move {
            let received = tokio::time::timeout(limit, receive(stream, &hosts, &token)).await;
            match received {
                Ok(Some((socket, RendezvousPeer::Host(caller)))) => wait_here(socket, caller).await,
                // A host that has gone in this moment: the caller tries again.
                Ok(Some((socket, RendezvousPeer::Caller(host)))) => drop(host.send(socket)),
                _ => (),
            }
        }
    };
    accept_until(stop, listener, options.connections, serve).await;
    Ok(())
}

/// Lets a visitor in who shows the token and, if it is a caller, whose host waits.
async fn receive(
    stream: TcpStream,
    hosts: &WaitingHosts,
    token: &str,
) -> Option<(RendezvousSocket, RendezvousPeer)> {
    let mut visitor = None;
    #[expect(clippy::result_large_err, reason = "the library's own type")]
    let check = |request: &Request, response: Response| -> Result<Response, ErrorResponse> {
        let response = checked(request, response, token)?;
        let path = request.uri().path();
        visitor = if request.headers().contains_key(WAITS) {
            Some(RendezvousPeer::Host(hosts.add(path)))
        } else {
            hosts.take(path).map(RendezvousPeer::Caller)
        };
        match visitor {
            Some(_) => Ok(response),
            None => Err(refused(503, "no tool host waits under this name")),
        }
    };
    let socket = accept_hdr_async_with_config(stream, check, Some(socket_limits())).await.ok()?;
    visitor.map(|it| (socket, it))
}

/// Keeps the line of a host until a caller comes, and then carries what both say.
async fn wait_here(mut host: RendezvousSocket, mut caller: oneshot::Receiver<RendezvousSocket>) {
    let mut ping = tokio::time::interval(PING);
    let mut heard = Instant::now();
    loop {
        tokio::select! {
            come = &mut caller => {
                if let (Ok(caller), Ok(())) = (come, host.send(Message::text(TAKEN)).await) {
                    put_through(host, caller).await;
                }
                return;
            }
            message = host.next() => match message {
                Some(Ok(_)) => heard = Instant::now(),
                _ => return,
            },
            _ = ping.tick() => {
                if SILENCE < heard.elapsed() || host.send(Message::Ping(Default::default())).await.is_err() {
                    return;
                }
            }
        }
    }
}

async fn put_through(host: RendezvousSocket, caller: RendezvousSocket) {
    let ((mut to_host, mut from_host), (mut to_caller, mut from_caller)) = (host.split(), caller.split());
    let forth = async {
        while let Some(Ok(message @ Message::Text(_))) = spoken(&mut from_caller).await {
            if to_host.send(message).await.is_err() {
                return;
            }
        }
    };
    let back = async {
        while let Some(Ok(message @ Message::Text(_))) = spoken(&mut from_host).await {
            if to_caller.send(message).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = forth => (),
        () = back => (),
    }
    to_host.close().await.ok();
    to_caller.close().await.ok();
}

/// The next message that is no sign of life of the line itself.
async fn spoken<S, E>(from: &mut S) -> Option<Result<Message, E>>
where
    S: futures_util::Stream<Item = Result<Message, E>> + Unpin,
{
    loop {
        match from.next().await {
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => (),
            other => return other,
        }
    }
}

/// Waits at a meeting point for callers until `stop`. The error says why it makes no sense
/// to go on; what passes is `told`, once.
pub async fn serve_through(
    point: HostConfig,
    runs: Arc<HostRunRegistry>,
    stop: CancellationToken,
    told: impl Fn(&str) + Send + Sync,
) -> Result<(), String> {
    let told = &told;
    let lines = (0..WAITING_LINES).map(|_| keep_a_line(&point, &runs, told));
    let ended = stop.run_until_cancelled(futures_util::future::select_all(lines.map(Box::pin))).await;
    runs.close_all().await;
    ended.map_or(Ok(()), |it| Err(it.0))
}

/// One line that waits, and the next when a caller has it. Returns why it cannot.
async fn keep_a_line(
    point: &HostConfig,
    runs: &Arc<HostRunRegistry>,
    told: &(impl Fn(&str) + Sync),
) -> String {
    let HostAddress::Web { url } = &point.address else {
        return String::from("a meeting point has an address with https://");
    };
    let mut failures: u32 = 0;
    loop {
        match web_socket(url, point, &[(WAITS, "waits")]).await {
            Ok(socket) => {
                failures = 0;
                if let Some(socket) = wait_there(socket).await {
                    tokio::spawn(client_connection::serve(LinePipe::of_socket(socket), Arc::clone(runs)));
                    continue;
                }
            }
            Err(LinkError { is_lasting: true, reason }) => return reason,
            Err(LinkError { reason, .. }) => {
                if failures == 0 {
                    told(&format!("{} is not reached: {reason}; trying again", point.address));
                }
                failures += 1;
            }
        }
        let pause = Duration::from_millis(100) * 2_u32.pow(failures.min(6));
        tokio::time::sleep(pause.min(MAX_PAUSE)).await;
    }
}

/// The line, when a caller has come; nothing when it is over before.
async fn wait_there<S>(mut socket: WebSocketStream<S>) -> Option<WebSocketStream<S>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    loop {
        match tokio::time::timeout(SILENCE, socket.next()).await {
            Ok(Some(Ok(Message::Text(word)))) if word.as_str() == TAKEN => return Some(socket),
            Ok(Some(Ok(Message::Ping(_) | Message::Pong(_)))) => (),
            _ => return None,
        }
    }
}
