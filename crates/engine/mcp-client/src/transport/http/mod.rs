//! Streamable HTTP, both eras.

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

    /// A request over HTTP is always answered; silence only means a slow server.
    fn patience(&self) -> Duration {
        Duration::from_secs(12)
    }

    fn older(&self) -> Option<&dyn Connector> {
        Some(&self.older)
    }
}

struct Http {
    line: Arc<HttpLine>,
    /// Ends all streams and requests with the transport.
    _end: DropGuard,
}

/// What the requests of one connection share.
struct HttpLine {
    site: HttpSite,
    inbox: PeerInbox,
    state: Mutex<HttpState>,
    end: CancellationToken,
}

#[derive(Default)]
struct HttpState {
    /// Given by a legacy server; every later message carries it.
    session: Option<String>,
    version: Option<String>,
    /// Requests under way, to be cut off when nobody waits any more.
    under_way: HashMap<u64, CancellationToken>,
    /// A legacy session has begun when the server has taken this note; later
    /// messages wait for it.
    begun: Option<Shared<BoxFuture<'static, ()>>>,
    /// The stream for what the server says by itself.
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
        // In the modern protocol the end of the request says it all.
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
                // A courtesy; a server that does not answer is not waited for.
                let bye = || line.site.client.delete(line.site.url.clone()).header(SESSION, &session);
                let _ = tokio::time::timeout(Duration::from_secs(2), line.site.send(bye)).await;
            }
        })
    }
}

/// How long a server may take to take note of something.
const NOTE_LIMIT: Duration = Duration::from_secs(60);

const SESSION: &str = "mcp-session-id";
const VERSION: &str = "mcp-protocol-version";

/// What a request says about itself in its headers, so that nobody on the way
/// has to read the body.
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
