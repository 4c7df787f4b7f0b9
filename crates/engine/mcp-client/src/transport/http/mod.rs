//! Streamable HTTP transport, for modern and legacy servers.

mod post;
mod stream;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::{FutureExt, future::Shared};
use haft_mcp_auth::{HttpEndpoint, TokenSource};
use haft_tool::BoxFuture;
use serde_json::Value;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    Connector, OutgoingMessage, PeerInbox, SseConnector, Transport, TransportError,
    http_site::{HttpSite, Protocol},
};
use crate::client::MODERN;

/// Sends every message as a request of its own.
pub(crate) struct HttpConnector {
    server: String,
    endpoint: HttpEndpoint,
    login: Arc<dyn TokenSource>,
    older: SseConnector,
}

impl HttpConnector {
    pub(crate) fn new(server: &str, endpoint: HttpEndpoint, login: Arc<dyn TokenSource>) -> Self {
        let older = SseConnector::new(server, endpoint.clone(), Arc::clone(&login));
        Self { server: server.to_owned(), endpoint, login, older }
    }
}

impl Connector for HttpConnector {
    fn open(&self, inbox: PeerInbox) -> BoxFuture<'_, Result<Arc<dyn Transport>, TransportError>> {
        Box::pin(async move {
            let site =
                HttpSite::open(&self.server, &self.endpoint, Arc::clone(&self.login), Protocol::Any).await?;
            Ok(Arc::new(Http::new(site, inbox)) as Arc<dyn Transport>)
        })
    }

    /// HTTP requests are always answered, so silence only means a slow server.
    fn patience(&self) -> Duration {
        Duration::from_secs(12)
    }

    fn older(&self) -> Option<&dyn Connector> {
        Some(&self.older)
    }
}

struct Http {
    line: Arc<HttpLine>,
    /// Cancels all streams and requests when the transport is dropped.
    _end: DropGuard,
}

/// State shared by the requests of one connection.
struct HttpLine {
    site: HttpSite,
    inbox: PeerInbox,
    state: Mutex<HttpState>,
    end: CancellationToken,
}

#[derive(Default)]
struct HttpState {
    /// Session id of a legacy server, sent with every later message.
    session: Option<String>,
    version: Option<String>,
    /// Pending requests, with a token to cancel each.
    under_way: HashMap<u64, CancellationToken>,
    /// Completes when a legacy server has accepted the `initialized` notification; later messages wait
    /// for it.
    begun: Option<Shared<BoxFuture<'static, ()>>>,
    /// The stream for messages the server sends on its own.
    news: Option<CancellationToken>,
}

impl Http {
    fn new(site: HttpSite, inbox: PeerInbox) -> Self {
        let end = CancellationToken::new();
        let line = HttpLine { site, inbox, state: Mutex::default(), end: end.clone() };
        Self { line: Arc::new(line), _end: end.drop_guard() }
    }
}

impl HttpLine {
    fn state(&self) -> MutexGuard<'_, HttpState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_modern(&self) -> bool {
        self.state().version.as_deref() == Some(MODERN)
    }
}

impl Transport for Http {
    fn send(&self, message: OutgoingMessage) -> Result<(), String> {
        let line = Arc::clone(&self.line);
        let method = message.message["method"].as_str();
        match (message.message["id"].as_u64(), method) {
            (Some(id), Some(_)) => {
                let stop = line.end.child_token();
                line.state().under_way.insert(id, stop.clone());
                tokio::spawn(async move {
                    tokio::select! {
                        () = line.request(id, message) => (),
                        () = stop.cancelled() => (),
                    }
                    line.state().under_way.remove(&id);
                });
            }
            (_, Some("notifications/initialized")) => {
                let begin = {
                    let line = Arc::clone(&line);
                    async move { line.begin(message).await }.boxed().shared()
                };
                self.line.state().begun = Some(begin.clone());
                tokio::spawn(begin);
            }
            _ => {
                let end = line.end.clone();
                tokio::spawn(async move {
                    tokio::select! {
                        _ = tokio::time::timeout(NOTE_LIMIT, line.tell(message)) => (),
                        () = end.cancelled() => (),
                    }
                });
            }
        }
        Ok(())
    }

    fn cancel(&self, id: u64) {
        let stop = self.line.state().under_way.remove(&id);
        // In the modern protocol, closing the request cancels it.
        if !self.line.is_modern() {
            let note = serde_json::json!({
                "jsonrpc": "2.0",
                "method": "notifications/cancelled",
                "params": {"requestId": id, "reason": "the caller no longer waits for it"},
            });
            let _ = self.send(OutgoingMessage::message(note));
        }
        if let Some(stop) = stop {
            stop.cancel();
        }
    }

    fn negotiated(&self, version: &str) {
        self.line.state().version = Some(version.to_owned());
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        let line = Arc::clone(&self.line);
        Box::pin(async move {
            let session = line.state().session.take();
            line.end.cancel();
            if let Some(session) = session {
                // Best effort; does not wait for a server that does not answer.
                let bye = || line.site.client.delete(line.site.url.clone()).header(SESSION, &session);
                let _ = tokio::time::timeout(Duration::from_secs(2), line.site.send(bye)).await;
            }
        })
    }
}

/// Timeout for sending a notification.
const NOTE_LIMIT: Duration = Duration::from_secs(60);

const SESSION: &str = "mcp-session-id";
const VERSION: &str = "mcp-protocol-version";

/// Returns the headers that describe a request, so that intermediaries need not parse the body.
fn routing_headers(message: &Value) -> Vec<(&'static str, String)> {
    let Some(method) = message["method"].as_str() else { return Vec::new() };
    let field = match method {
        "tools/call" | "prompts/get" => "name",
        "resources/read" | "resources/subscribe" | "resources/unsubscribe" => "uri",
        "tasks/get" | "tasks/update" | "tasks/cancel" => "taskId",
        _ => "",
    };
    let mut headers = vec![("mcp-method", method.to_owned())];
    if let Some(name) = message["params"][field].as_str() {
        headers.push(("mcp-name", crate::client::encode_header(name)));
    }
    headers
}
