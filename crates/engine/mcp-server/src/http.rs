use std::{
    io,
    net::SocketAddr,
    sync::{Arc, OnceLock},
    time::Duration,
};

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    http::{StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::get,
};
use futures_util::{StreamExt as _, stream};
use rmcp::{
    ServerHandler,
    transport::{StreamableHttpServerConfig, StreamableHttpService},
};
use tokio::{
    net::TcpListener,
    task::JoinHandle,
    time::{Instant, timeout_at},
};
use tokio_util::sync::CancellationToken;

use super::{
    ToolServer,
    accept_loop::{AcceptLimits, accept},
    bounded_sessions::BoundedSessions,
    http_guard::{HttpAuth, WELL_KNOWN, guard},
};

/// Options of the HTTP server.
pub struct HttpOptions {
    /// Address to listen on. An address other than loopback requires a token.
    pub bind: SocketAddr,
    /// Authentication.
    pub auth: HttpAuth,
    /// Accepted host names besides those of this machine.
    pub hosts: Vec<String>,
    /// Origins of web pages that may send requests. Default: only the server's own.
    pub origins: Vec<String>,
    /// Maximum concurrent connections; further ones wait.
    pub max_connections: usize,
    /// Maximum concurrent sessions of legacy clients.
    pub max_sessions: usize,
    /// Maximum bytes of a request body.
    pub max_body_bytes: usize,
    /// Timeout for the request headers; four times as long for the whole request.
    pub header_limit: Duration,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            bind: SocketAddr::from(([127, 0, 0, 1], 0)),
            auth: HttpAuth::Anyone,
            hosts: Vec::new(),
            origins: Vec::new(),
            max_connections: 1024,
            max_sessions: 256,
            max_body_bytes: 16 << 20,
            header_limit: Duration::from_secs(15),
        }
    }
}

/// A running server.
pub struct HttpServer {
    pub address: SocketAddr,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

/// Time after which open connections are closed on shutdown.
const STOP_LIMIT: Duration = Duration::from_secs(3);

impl HttpServer {
    /// Returns the URL for clients.
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Stops accepting requests, ends open streams, and waits up to three seconds for open
    /// connections.
    pub async fn stop(self) {
        self.stop.cancel();
        let abort = self.task.abort_handle();
        if tokio::time::timeout(STOP_LIMIT, self.task).await.is_err() {
            abort.abort();
        }
    }

    /// Waits until the server ends by itself.
    pub async fn wait(self) -> io::Result<()> {
        self.task.await.map_err(io::Error::other)
    }
}

/// Serves a tool pool over HTTP, to legacy and modern clients.
pub async fn serve_http(server: ToolServer, options: HttpOptions) -> io::Result<HttpServer> {
    serve_http_handler(move || server.session(), options).await
}

/// Serves any handler over HTTP; `make` is called for every session, and for every request of the modern
/// protocol.
pub async fn serve_http_handler<H: ServerHandler>(
    make: impl Fn() -> H + Send + Sync + 'static,
    options: HttpOptions,
) -> io::Result<HttpServer> {
    if !options.bind.ip().is_loopback() && matches!(options.auth, HttpAuth::Anyone) {
        let reason = "a server that others can reach needs a token";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
    }
    let listener = TcpListener::bind(options.bind).await?;
    let address = listener.local_addr()?;
    let stop = CancellationToken::new();
    let mut hosts: Vec<String> = ["localhost", "127.0.0.1", "::1"].map(String::from).to_vec();
    hosts.extend(options.hosts);
    hosts.extend(options.auth.host());
    let config = StreamableHttpServerConfig::default()
        .with_allowed_hosts(hosts)
        .with_allowed_origins(own_origins(address.port()).into_iter().chain(options.origins))
        .enforce_origin_validation()
        .with_max_request_body_bytes(options.max_body_bytes)
        // A single message is returned as JSON; several become an event stream.
        .with_json_response(true)
        .with_cancellation_token(stop.clone());
    let sessions = BoundedSessions::new(options.max_sessions);
    let service = StreamableHttpService::new(move || Ok(make()), Arc::clone(&sessions), config);
    let mut app = Router::new().fallback_service(Router::new().route_service("/mcp", service));
    let reading = ReadingLimits { time: options.header_limit * 4, bytes: options.max_body_bytes as u64 };
    app = app.layer(middleware::from_fn_with_state(reading, in_time));
    app = app.layer(middleware::from_fn_with_state(sessions, later));
    app = app.layer(middleware::from_fn_with_state(options.auth.clone(), guard));
    if let HttpAuth::Resource { metadata, .. } = options.auth {
        let text = metadata.to_string();
        let answer = move || async move { ([(header::CONTENT_TYPE, "application/json")], text.clone()) };
        // Accept any path after it: the resource's path follows, and a proxy may change it.
        app =
            app.route(WELL_KNOWN, get(answer.clone())).route(&format!("{WELL_KNOWN}/{{*path}}"), get(answer));
    }
    let limits = AcceptLimits { connections: options.max_connections, header: options.header_limit };
    let task = tokio::spawn(accept(listener, app, limits, stop.clone()));
    Ok(HttpServer { address, stop, task })
}

/// Returns the origins of this server's own pages. Other local origins are not accepted, because any
/// local program or page could use them.
fn own_origins(port: u16) -> Vec<String> {
    ["localhost", "127.0.0.1", "[::1]"].map(|host| format!("http://{host}:{port}")).to_vec()
}

/// Limits on reading a request.
#[derive(Clone, Copy)]
struct ReadingLimits {
    time: Duration,
    bytes: u64,
}

/// Aborts requests that take too long, because their connection is needed by others. Rejects a declared
/// length above the limit at once.
async fn in_time(State(limits): State<ReadingLimits>, request: Request, next: Next) -> Response {
    let length = request.headers().get(header::CONTENT_LENGTH).and_then(|it| it.to_str().ok());
    if length.and_then(|it| it.parse::<u64>().ok()).is_some_and(|it| limits.bytes < it) {
        return (StatusCode::PAYLOAD_TOO_LARGE, [(header::CONNECTION, "close")]).into_response();
    }
    let deadline = Instant::now() + limits.time;
    // The error of reading the body, if that is why the request failed.
    let broken = Arc::new(OnceLock::new());
    let note = Arc::clone(&broken);
    let body = |body: Body| {
        let state = (body.into_data_stream(), note);
        let pieces = stream::try_unfold(state, move |(mut pieces, note)| async move {
            let (status, reason) = match timeout_at(deadline, pieces.next()).await {
                Ok(Some(Ok(piece))) => return Ok(Some((piece, (pieces, note)))),
                Ok(None) => return Ok(None),
                Ok(Some(Err(err))) => (StatusCode::BAD_REQUEST, io::Error::other(err)),
                Err(_) => (StatusCode::REQUEST_TIMEOUT, io::Error::from(io::ErrorKind::TimedOut)),
            };
            note.set(status).ok();
            Err(reason)
        });
        Body::from_stream(pieces)
    };
    let response = next.run(request.map(body)).await;
    match broken.get() {
        Some(status) if response.status().is_server_error() => {
            (*status, [(header::CONNECTION, "close")]).into_response()
        }
        _ => response,
    }
}

/// Returns "503 Retry-After" when there is no room for a session.
async fn later(State(sessions): State<Arc<BoundedSessions>>, request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    if response.status() != StatusCode::INTERNAL_SERVER_ERROR || !sessions.take_refusal() {
        return response;
    }
    let words = "too many sessions; try again later";
    (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, "30")], words).into_response()
}
