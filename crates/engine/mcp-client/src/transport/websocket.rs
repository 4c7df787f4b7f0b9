//! WebSocket transport, one message per text frame.
//!
//! The handshake is an HTTP request through the common client, with the same TLS, proxy, headers and
//! logins.

use std::sync::Arc;

use futures_util::{SinkExt, StreamExt};
use haft_mcp_auth::{HttpEndpoint, TokenSource, explain};
use haft_tool::BoxFuture;
use reqwest::{StatusCode, Upgraded, header};
use tokio::sync::mpsc;
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Message,
        handshake::{client::generate_key, derive_accept_key},
        protocol::{CloseFrame, Role, WebSocketConfig},
    },
};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    Connector, OutgoingMessage, PeerInbox, Transport, TransportError,
    http_site::{HttpSite, Protocol, explanation, http_error},
};
use crate::jsonrpc::{CallError, MAX_MESSAGE_BYTES, parse_values};

/// Opens one WebSocket per connection.
pub(crate) struct WebSocketConnector {
    server: String,
    endpoint: HttpEndpoint,
    login: Arc<dyn TokenSource>,
}

/// Maximum queued messages for a server that does not read.
const WAITING_MESSAGES: usize = 1024;

impl WebSocketConnector {
    pub(crate) fn new(server: &str, endpoint: HttpEndpoint, login: Arc<dyn TokenSource>) -> Self {
        Self { server: server.to_owned(), endpoint, login }
    }
}

impl Connector for WebSocketConnector {
    fn open(&self, inbox: PeerInbox) -> BoxFuture<'_, Result<Arc<dyn Transport>, TransportError>> {
        Box::pin(async move {
            let login = Arc::clone(&self.login);
            let site = HttpSite::open(&self.server, &self.endpoint, login, Protocol::Upgradable).await?;
            let socket = upgrade(&site).await?;
            let (outbox, messages) = mpsc::channel(WAITING_MESSAGES);
            let end = CancellationToken::new();
            tokio::spawn(run(socket, messages, inbox, end.clone()));
            Ok(Arc::new(SocketTransport { outbox, end: end.clone(), _guard: end.drop_guard() })
                as Arc<dyn Transport>)
        })
    }
}

async fn upgrade(site: &HttpSite) -> Result<WebSocketStream<Upgraded>, TransportError> {
    let failed = |reason: String| TransportError::Failed(reason);
    let key = generate_key();
    let request = || {
        site.client
            .get(site.url.clone())
            .header(header::CONNECTION, "Upgrade")
            .header(header::UPGRADE, "websocket")
            .header(header::SEC_WEBSOCKET_VERSION, "13")
            .header(header::SEC_WEBSOCKET_KEY, &key)
            .header(header::SEC_WEBSOCKET_PROTOCOL, "mcp")
    };
    let response = site.send(request).await.map_err(|err| match err {
        CallError::Unauthorized { challenge } => TransportError::Unauthorized { challenge },
        other => failed(other.to_string()),
    })?;
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        let status = response.status();
        return Err(failed(http_error(status, &explanation(response).await).to_string()));
    }
    let accepted = response.headers().get(header::SEC_WEBSOCKET_ACCEPT);
    if accepted.is_none_or(|it| it.as_bytes() != derive_accept_key(key.as_bytes()).as_bytes()) {
        return Err(failed(String::from("the server does not speak WebSocket")));
    }
    let stream = response.upgrade().await.map_err(|err| failed(explain(&err)))?;
    let limits = WebSocketConfig::default()
        .max_message_size(Some(MAX_MESSAGE_BYTES))
        .max_frame_size(Some(MAX_MESSAGE_BYTES));
    Ok(WebSocketStream::from_raw_socket(stream, Role::Client, Some(limits)).await)
}

/// Transfers messages in both directions until either side closes.
async fn run(
    socket: WebSocketStream<Upgraded>,
    mut messages: mpsc::Receiver<String>,
    inbox: PeerInbox,
    end: CancellationToken,
) {
    let (mut out, mut from) = socket.split();
    let writing = async {
        while let Some(message) = messages.recv().await {
            if out.send(Message::text(message)).await.is_err() {
                break;
            }
        }
        std::future::pending::<()>().await;
    };
    let reading = async {
        loop {
            match from.next().await {
                Some(Ok(Message::Text(text))) => deliver(&inbox, text.as_bytes()),
                Some(Ok(Message::Binary(bytes))) => deliver(&inbox, &bytes),
                Some(Ok(Message::Close(why))) => return farewell(why),
                None => return String::from("the server closed the connection"),
                Some(Ok(_)) => (),
                Some(Err(err)) => return format!("the connection broke: {err}"),
            }
        }
    };
    let reason = tokio::select! {
        reason = reading => reason,
        () = writing => String::from("the connection broke"),
        () = end.cancelled() => String::from("the connection was closed"),
    };
    inbox.closed(reason);
    let _ = tokio::time::timeout(std::time::Duration::from_secs(1), out.close()).await;
}

/// Describes why the server closed the connection.
fn farewell(why: Option<CloseFrame>) -> String {
    match why {
        None => String::from("the server closed the connection"),
        Some(CloseFrame { code, reason }) => {
            let said = haft_types::text::one_line(&reason, 200);
            let said = if said.is_empty() { said } else { format!(": {said}") };
            format!("the server closed the connection with code {}{said}", u16::from(code))
        }
    }
}

fn deliver(inbox: &PeerInbox, text: &[u8]) {
    let values = parse_values(text);
    if values.is_empty() {
        inbox.noise(&String::from_utf8_lossy(text));
    }
    values.into_iter().for_each(|value| inbox.deliver(value));
}

struct SocketTransport {
    outbox: mpsc::Sender<String>,
    end: CancellationToken,
    _guard: DropGuard,
}

impl Transport for SocketTransport {
    fn send(&self, message: OutgoingMessage) -> Result<(), String> {
        self.outbox.try_send(message.message.to_string()).map_err(|err| match err {
            mpsc::error::TrySendError::Full(_) => String::from("the server does not read its messages"),
            mpsc::error::TrySendError::Closed(_) => String::from("the connection is closed"),
        })
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        self.end.cancel();
        Box::pin(async {})
    }
}
