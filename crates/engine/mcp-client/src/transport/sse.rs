//! The HTTP+SSE transport of revision 2024-11-05: a stream for the server's messages, a URL for the
//! client's.

use std::{sync::Arc, time::Duration};

use haft_mcp_auth::{HttpEndpoint, TokenSource};
use haft_tool::BoxFuture;
use reqwest::{
    Url,
    header::{ACCEPT, CONTENT_TYPE},
};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    Connector, OutgoingMessage, PeerInbox, Transport, TransportError,
    http_site::{HttpSite, Protocol, explanation, http_error},
    sse_decoder::SseStream,
};
use crate::{
    client::ProtocolRevision,
    jsonrpc::{CallError, parse_values},
};

/// Reads the event stream and posts messages to the URL it names.
pub(crate) struct SseConnector {
    server: String,
    endpoint: HttpEndpoint,
    login: Arc<dyn TokenSource>,
}

/// Maximum time until the server names the URL.
const ENDPOINT_LIMIT: Duration = Duration::from_secs(10);

impl SseConnector {
    pub(crate) fn new(server: &str, endpoint: HttpEndpoint, login: Arc<dyn TokenSource>) -> Self {
        Self { server: server.to_owned(), endpoint, login }
    }
}

impl Connector for SseConnector {
    fn open(&self, inbox: PeerInbox) -> BoxFuture<'_, Result<Arc<dyn Transport>, TransportError>> {
        Box::pin(async move {
            let site =
                HttpSite::open(&self.server, &self.endpoint, Arc::clone(&self.login), Protocol::Any).await?;
            let opening = tokio::time::timeout(ENDPOINT_LIMIT, begin(&site)).await;
            let (stream, target) = match opening {
                Ok(opened) => opened?,
                Err(_) => {
                    let reason = "the server did not say where to send messages";
                    return Err(TransportError::Failed(reason.to_owned()));
                }
            };
            let end = CancellationToken::new();
            tokio::spawn(read(stream, inbox.clone(), end.clone()));
            Ok(Arc::new(Sse { site, target, inbox, end: end.clone(), _guard: end.drop_guard() })
                as Arc<dyn Transport>)
        })
    }

    /// This transport is older than the modern protocol.
    fn era(&self) -> Option<ProtocolRevision> {
        Some(ProtocolRevision::Legacy)
    }
}

/// Opens the stream and waits for the URL.
async fn begin(site: &HttpSite) -> Result<(SseStream, Url), TransportError> {
    let request = || site.client.get(site.url.clone()).header(ACCEPT, "text/event-stream");
    let response = site.send(request).await.map_err(open_error)?;
    let status = response.status();
    if !status.is_success() {
        let body = explanation(response).await;
        return Err(open_error(http_error(status, &body)));
    }
    let mut stream = SseStream::new(response);
    loop {
        match stream.next().await {
            Ok(Some(event)) if event.kind == "endpoint" => {
                let target = String::from_utf8_lossy(&event.data).trim().to_owned();
                return Ok((stream, resolve(&site.url, &target)?));
            }
            Ok(Some(_)) => (),
            Ok(None) => return Err(TransportError::Failed(String::from("the stream ended at once"))),
            Err(reason) => return Err(TransportError::Failed(reason)),
        }
    }
}

/// Resolves the URL; it must have the approved origin, because messages and the token are sent to it.
fn resolve(base: &Url, target: &str) -> Result<Url, TransportError> {
    let url = base
        .join(target)
        .map_err(|err| TransportError::Failed(format!("`{target}` is not an address: {err}")))?;
    if url.origin() != base.origin() {
        return Err(TransportError::Failed(format!("the server sends messages to another origin: {url}")));
    }
    Ok(url)
}

fn open_error(err: CallError) -> TransportError {
    match err {
        CallError::Unauthorized { challenge } => TransportError::Unauthorized { challenge },
        other => TransportError::Failed(other.to_string()),
    }
}

async fn read(mut stream: SseStream, inbox: PeerInbox, end: CancellationToken) {
    let reading = async {
        loop {
            match stream.next().await {
                Ok(Some(event)) => {
                    parse_values(&event.data).into_iter().for_each(|value| inbox.deliver(value))
                }
                Ok(None) => return String::from("the server ended the stream"),
                Err(reason) => return format!("the stream broke: {reason}"),
            }
        }
    };
    let reason = tokio::select! {
        reason = reading => reason,
        () = end.cancelled() => String::from("the connection was closed"),
    };
    inbox.closed(reason);
}

struct Sse {
    site: HttpSite,
    target: Url,
    inbox: PeerInbox,
    end: CancellationToken,
    _guard: DropGuard,
}

impl Transport for Sse {
    fn send(&self, message: OutgoingMessage) -> Result<(), String> {
        let (site, target, inbox) = (self.site.clone(), self.target.clone(), self.inbox.clone());
        let id = message.message["id"].as_u64().filter(|_| message.message.get("method").is_some());
        let text = message.message.to_string();
        let posting = async move {
            let request = || {
                site.client.post(target.clone()).header(CONTENT_TYPE, "application/json").body(text.clone())
            };
            let failure = match site.send(request).await {
                Ok(response) if response.status().is_success() => None,
                Ok(response) => {
                    let status = response.status();
                    Some(http_error(status, &explanation(response).await))
                }
                Err(err) => Some(err),
            };
            if let (Some(id), Some(err)) = (id, failure) {
                inbox.fail(id, err);
            }
        };
        let end = self.end.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = posting => (),
                () = end.cancelled() => (),
            }
        });
        Ok(())
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        self.end.cancel();
        Box::pin(async {})
    }
}
