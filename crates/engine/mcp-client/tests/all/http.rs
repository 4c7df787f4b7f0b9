//! Servers at an address: both eras, the two older transports, and what can go
//! wrong on the way.

#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "test code")]

use crate::support;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    response::Response,
};
use futures_util::{SinkExt, StreamExt};
use haft_mcp_client::{
    ChannelEnds, ChannelServer, EmbeddedServer, HttpEndpoint, McpConnection, PeerInbox, ProtocolRevision,
    ServerConfig, ServerEndpoint, ServerState,
};
use haft_tool::BoxFuture;
use serde_json::{Value, json};
use support::{Fixture, TIMEOUT, context, eventually, run};
use tokio::sync::mpsc;

/// A server of one test: what it does, and what it saw.
struct Fake {
    modes: &'static str,
    seen: Mutex<Vec<Seen>>,
    stream: Mutex<Option<mpsc::UnboundedSender<String>>>,
    sessions: Mutex<u32>,
}

#[derive(Clone, Debug)]
struct Seen {
    http: String,
    method: String,
    headers: Vec<(String, String)>,
}

impl Seen {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(it, _)| it == name).map(|(_, value)| value.as_str())
    }
}

impl Fake {
    async fn start(modes: &'static str) -> (Arc<Self>, String) {
        let fake = Arc::new(Self {
            modes,
            seen: Mutex::default(),
            stream: Mutex::default(),
            sessions: Mutex::default(),
        });
        let app = Router::new().fallback(handle).with_state(Arc::clone(&fake));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, app).await });
        (fake, url)
    }

    fn on(&self, mode: &str) -> bool {
        self.modes.split(',').any(|it| it == mode)
    }

    fn seen(&self, method: &str) -> Vec<Seen> {
        self.seen.lock().unwrap().iter().filter(|it| it.method == method).cloned().collect()
    }

    fn session(&self) -> String {
        format!("session-{}", self.sessions.lock().unwrap())
    }

    fn answer(&self, message: &Value) -> Value {
        let modern = self.on("modern");
        let result = match message["method"].as_str().unwrap() {
            "server/discover" if modern => json!({
                "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
                "ttlMs": 0, "cacheScope": "private",
            }),
            "initialize" if !modern => json!({
                "protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "fake"},
            }),
            "tools/list" => json!({"tools": [{
                "name": "echo", "annotations": {"readOnlyHint": true},
                "inputSchema": {"type": "object", "properties": {"text": {"type": "string", "x-mcp-header": "Text"}}},
            }]}),
            "tools/call" => {
                json!({"content": [{"type": "text", "text": message["params"]["arguments"]["text"]}]})
            }
            other => {
                let error = json!({"code": -32601, "message": format!("no {other}")});
                return json!({"jsonrpc": "2.0", "id": message["id"], "error": error});
            }
        };
        json!({"jsonrpc": "2.0", "id": message["id"], "result": result})
    }
}

fn response(status: u16, kind: &str, body: impl Into<Body>) -> Response {
    Response::builder().status(status).header("content-type", kind).body(body.into()).unwrap()
}

fn event(message: &Value) -> String {
    format!("event: message\ndata: {message}\n\n")
}

async fn handle(State(fake): State<Arc<Fake>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
    let message: Value = serde_json::from_slice(&body).unwrap_or_default();
    let headers = parts.headers.iter();
    let seen = Seen {
        http: parts.method.to_string(),
        method: message["method"].as_str().unwrap_or(parts.method.as_str()).to_owned(),
        headers: headers
            .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
            .collect(),
    };
    fake.seen.lock().unwrap().push(seen.clone());
    match seen.http.as_str() {
        "GET" if fake.on("sse") => open_stream(&fake, "event: endpoint\ndata: /mcp?session=1\n\n"),
        "GET" if fake.on("sse_elsewhere") => {
            open_stream(&fake, "event: endpoint\ndata: http://other.test/x\n\n")
        }
        "GET" if seen.header("last-event-id") == Some("e1") => {
            let pending = fake.answer(&json!({
                "id": PENDING.lock().unwrap().clone(), "method": "tools/call",
                "params": {"arguments": {"text": "resumed"}},
            }));
            response(200, "text/event-stream", event(&pending))
        }
        "GET" if fake.on("news") => open_stream(&fake, ": hello\n\n"),
        "GET" => response(405, "text/plain", "no stream here"),
        "DELETE" => response(200, "text/plain", ""),
        _ => post(&fake, &seen, message).await,
    }
}

/// The id of the call a broken stream left unanswered.
static PENDING: Mutex<Value> = Mutex::new(Value::Null);

fn open_stream(fake: &Fake, first: &str) -> Response {
    let (sender, receiver) = mpsc::unbounded_channel();
    sender.send(first.to_owned()).unwrap();
    *fake.stream.lock().unwrap() = Some(sender);
    let stream = futures_util::stream::unfold(receiver, |mut receiver| async {
        let chunk = receiver.recv().await?;
        Some((Ok::<_, std::io::Error>(chunk), receiver))
    });
    response(200, "text/event-stream", Body::from_stream(stream))
}

async fn post(fake: &Fake, seen: &Seen, message: Value) -> Response {
    if fake.on("sse") {
        if message.get("id").is_some() {
            let stream = fake.stream.lock().unwrap().clone().unwrap();
            stream.send(event(&fake.answer(&message))).unwrap();
        }
        return response(202, "text/plain", "Accepted");
    }
    if fake.on("get_only") || fake.on("sse_elsewhere") {
        return response(405, "text/html", "<h1>Method not allowed</h1>");
    }
    if fake.on("redirect") {
        let location = "http://other.test/steal";
        return Response::builder().status(307).header("location", location).body(Body::empty()).unwrap();
    }
    if fake.on("login") && seen.header("authorization").is_none() {
        let challenge = "Bearer resource_metadata=\"http://127.0.0.1:9/x\"";
        return Response::builder()
            .status(401)
            .header("www-authenticate", challenge)
            .body(Body::empty())
            .unwrap();
    }
    if seen.method == "server/discover" && fake.on("html_probe") {
        return response(404, "text/html", "<h1>Not found</h1>");
    }
    if seen.method == "server/discover" && fake.on("no_session_probe") {
        let error = json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32000, "message": "Bad Request: no valid session ID"}});
        return response(400, "application/json", error.to_string());
    }
    let is_call = seen.method == "tools/call";
    if is_call && fake.on("forgets") && seen.header("mcp-session-id") == Some("session-1") {
        return response(404, "text/plain", "unknown session");
    }
    if is_call && fake.on("html_error") {
        return response(502, "text/html", "<h1>Bad gateway</h1>");
    }
    if is_call && fake.on("empty") {
        return response(200, "application/json", "");
    }
    if is_call && fake.on("other_answer") {
        return response(
            200,
            "application/json",
            json!({"jsonrpc": "2.0", "id": 999, "result": {}}).to_string(),
        );
    }
    if is_call && fake.on("breaks") {
        *PENDING.lock().unwrap() = message["id"].clone();
        return response(200, "text/event-stream", "id: e1\nretry: 10\ndata:\n\n");
    }
    if is_call && fake.on("ends") {
        return response(200, "text/event-stream", ": nothing\n\n");
    }
    if is_call && fake.on("hangs") {
        return open_stream(fake, ": wait\n\n");
    }
    if message.get("id").is_none() {
        return response(202, "text/plain", "");
    }
    let answer = fake.answer(&message);
    let mut response = if fake.on("stream") {
        let note = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": "x"}});
        response(200, "text/event-stream; charset=utf-8", event(&note) + &event(&answer))
    } else {
        response(200, "application/json", answer.to_string())
    };
    if seen.method == "initialize" && fake.on("sessions") {
        *fake.sessions.lock().unwrap() += 1;
        response.headers_mut().insert("mcp-session-id", fake.session().parse().unwrap());
    }
    response
}

fn at(url: &str) -> HttpEndpoint {
    HttpEndpoint { url: url.to_owned(), ..HttpEndpoint::default() }
}

fn limited(endpoint: ServerEndpoint) -> ServerConfig {
    let mut config = ServerConfig::new("srv", endpoint);
    config.timeouts.startup = Duration::from_secs(60);
    config
}

#[tokio::test]
async fn every_kind_of_address_is_reached() {
    for (modes, era, want) in [
        ("modern", ProtocolRevision::Modern, "hi"),
        ("modern,stream", ProtocolRevision::Modern, "hi"),
        ("", ProtocolRevision::Legacy, "hi"),
        ("stream", ProtocolRevision::Legacy, "hi"),
        ("sessions", ProtocolRevision::Legacy, "hi"),
        ("sessions,stream,news", ProtocolRevision::Legacy, "hi"),
        ("sessions,forgets", ProtocolRevision::Legacy, "hi"),
        ("html_probe", ProtocolRevision::Legacy, "hi"),
        ("no_session_probe", ProtocolRevision::Legacy, "hi"),
        ("breaks", ProtocolRevision::Legacy, "resumed"),
        ("sse", ProtocolRevision::Legacy, "hi"),
        ("html_error", ProtocolRevision::Legacy, "!HTTP 502: Bad Gateway: <h1>Bad gateway</h1>"),
        ("empty", ProtocolRevision::Legacy, "!the answer is empty"),
        ("other_answer", ProtocolRevision::Legacy, "!the server answered something else"),
        ("ends", ProtocolRevision::Legacy, "!the stream ended without an answer"),
    ] {
        let (fake, url) = Fake::start(modes).await;
        let fixture = Fixture::new();
        let endpoint =
            if fake.on("sse") { ServerEndpoint::Sse(at(&url)) } else { ServerEndpoint::Http(at(&url)) };
        fixture.manager.set_servers(vec![limited(endpoint)]);
        assert!(fixture.manager.settled(TIMEOUT).await, "{modes}");
        let status = fixture.manager.status().remove(0);
        assert_eq!(status.info.as_ref().map(|it| it.era), Some(era), "{modes}: {status:#?}");
        let output = fixture.call("mcp__srv__echo", json!({"text": "hi"})).await;
        match (output, want.strip_prefix('!')) {
            (Ok(output), None) => assert_eq!(output.content.to_text(), want, "{modes}"),
            (Err(err), Some(part)) => assert!(err.message.contains(part), "{modes}: {}", err.message),
            (output, _) => panic!("{modes}: {output:?}"),
        }
        fixture.manager.shutdown().await;
    }
}

#[tokio::test]
async fn headers_are_those_of_the_era() {
    let (fake, url) = Fake::start("modern").await;
    let fixture = Fixture::new();
    let mut endpoint = at(&url);
    endpoint.headers.insert("X-Key".into(), "secret".into());
    endpoint.headers_helper = Some("printf '{\"X-Helper\": \"%s\"}' \"$CLAUDE_CODE_MCP_SERVER_NAME\"".into());
    fixture.manager.set_servers(vec![limited(ServerEndpoint::Http(endpoint))]);
    fixture.manager.settled(TIMEOUT).await;
    fixture.call("mcp__srv__echo", json!({"text": "grün"})).await.unwrap();
    let call = fake.seen("tools/call").remove(0);
    for (name, want) in [
        ("mcp-method", Some("tools/call")),
        ("mcp-name", Some("echo")),
        ("mcp-param-text", Some("=?base64?Z3LDvG4=?=")),
        ("mcp-protocol-version", Some("2026-07-28")),
        ("mcp-session-id", None),
        ("x-key", Some("secret")),
        ("x-helper", Some("srv")),
        ("accept", Some("application/json, text/event-stream")),
    ] {
        assert_eq!(call.header(name), want, "{name}");
    }

    let (fake, url) = Fake::start("sessions").await;
    fixture.manager.set_servers(vec![limited(ServerEndpoint::Http(at(&url)))]);
    fixture.manager.settled(TIMEOUT).await;
    fixture.call("mcp__srv__echo", json!({"text": "x"})).await.unwrap();
    let call = fake.seen("tools/call").remove(0);
    assert_eq!(call.header("mcp-session-id"), Some("session-1"));
    assert_eq!(call.header("mcp-protocol-version"), Some("2025-06-18"));
    assert_eq!(call.header("mcp-method"), Some("tools/call"));
    // The handshake was over before anything else was said.
    let order: Vec<String> = fake.seen.lock().unwrap().iter().map(|it| it.method.clone()).collect();
    let at = |method: &str| order.iter().position(|it| it == method);
    assert!(at("notifications/initialized") < at("tools/list"), "{order:?}");
    fixture.manager.shutdown().await;
    assert_eq!(fake.seen("DELETE").len(), 1);
}

#[tokio::test]
async fn what_must_not_happen_does_not() {
    for (modes, state, part) in [
        ("login", ServerState::NeedsAuth, "haft mcp login srv"),
        ("redirect", ServerState::Failed, "another host"),
        ("sse_elsewhere", ServerState::Failed, "another origin"),
        ("get_only", ServerState::Failed, "405"),
    ] {
        let (_fake, url) = Fake::start(modes).await;
        let fixture = Fixture::new();
        fixture.manager.set_servers(vec![limited(ServerEndpoint::Http(at(&url)))]);
        assert!(fixture.manager.settled(TIMEOUT).await, "{modes}");
        let status = fixture.manager.status().remove(0);
        assert_eq!(status.state, state, "{modes}: {status:?}");
        let error = status.last_error.unwrap();
        assert!(error.contains(part), "{modes}: {error}");
    }
    let fixture = Fixture::new();
    let mut broken = at("http://127.0.0.1:9/mcp");
    broken.headers_helper = Some("echo oops >&2; exit 3".into());
    for (endpoint, part) in [
        (at("http://127.0.0.1:9/mcp"), "refused"),
        (at("ftp://127.0.0.1/mcp"), "not a way to reach a server"),
        (at("nonsense"), "not an address"),
        (broken, "the headers helper failed: oops"),
    ] {
        fixture.manager.set_servers(vec![limited(ServerEndpoint::Http(endpoint))]);
        assert!(fixture.manager.settled(TIMEOUT).await);
        let error = fixture.manager.status().remove(0).last_error.unwrap();
        assert!(error.contains(part), "{error}");
    }
}

#[tokio::test]
async fn a_server_that_comes_back_is_found_again() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serve = |listener| {
        let fake = Arc::new(Fake {
            modes: "sessions",
            seen: Mutex::default(),
            stream: Mutex::default(),
            sessions: Mutex::default(),
        });
        let app = Router::new().fallback(handle).with_state(fake);
        let stop = tokio_util::sync::CancellationToken::new();
        let stopping = stop.clone();
        let serving =
            axum::serve(listener, app).with_graceful_shutdown(async move { stopping.cancelled().await });
        (stop, tokio::spawn(async move { serving.await }))
    };
    let (stop, first) = serve(listener);
    let fixture = Fixture::new();
    fixture.manager.set_servers(vec![limited(ServerEndpoint::Http(at(&format!("http://{address}/mcp"))))]);
    assert!(fixture.manager.settled(TIMEOUT).await);
    assert!(fixture.call("mcp__srv__echo", json!({"text": "x"})).await.is_ok());
    stop.cancel();
    first.await.unwrap().unwrap();
    let err = fixture.call("mcp__srv__echo", json!({"text": "x"})).await.unwrap_err().message;
    assert!(err.contains("refused"), "{err}");
    eventually("it is seen to be gone", || fixture.manager.status()[0].state != ServerState::Ready).await;
    let again = tokio::net::TcpListener::bind(address).await.unwrap();
    let _second = serve(again);
    eventually("it is back", || fixture.manager.status()[0].state == ServerState::Ready).await;
    assert!(fixture.call("mcp__srv__echo", json!({"text": "x"})).await.is_ok());
    fixture.manager.shutdown().await;
}

#[tokio::test]
async fn a_cancelled_call_ends_its_request() {
    for (modes, told) in [("modern,hangs", false), ("sessions,hangs", true)] {
        let (fake, url) = Fake::start(modes).await;
        let fixture = Fixture::new();
        fixture.manager.set_servers(vec![limited(ServerEndpoint::Http(at(&url)))]);
        assert!(fixture.manager.settled(TIMEOUT).await);
        let cx = context();
        let cancel = cx.cancel.clone();
        let call = tokio::spawn(run(fixture.tool("mcp__srv__echo"), json!({"text": "x"}), cx));
        eventually("the call hangs", || fake.seen("tools/call").len() == 1).await;
        eventually("its stream is open", || fake.stream.lock().unwrap().is_some()).await;
        cancel.cancel();
        assert!(call.await.unwrap().is_err());
        let stream = fake.stream.lock().unwrap().clone().unwrap();
        eventually("its stream is closed", || stream.is_closed()).await;
        if told {
            eventually("the server was told", || !fake.seen("notifications/cancelled").is_empty()).await;
        } else {
            assert!(fake.seen("notifications/cancelled").is_empty());
        }
        fixture.manager.shutdown().await;
    }
}

#[tokio::test]
async fn news_arrive_on_the_stream_of_a_legacy_server() {
    let (fake, url) = Fake::start("sessions,news").await;
    let fixture = Fixture::new();
    fixture.manager.set_servers(vec![limited(ServerEndpoint::Http(at(&url)))]);
    assert!(fixture.manager.settled(TIMEOUT).await);
    eventually("the stream is open", || fake.stream.lock().unwrap().is_some()).await;
    let note = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
    fake.stream.lock().unwrap().as_ref().unwrap().send(event(&note)).unwrap();
    eventually("the list is read again", || fake.seen("tools/list").len() == 2).await;
    fixture.manager.shutdown().await;
}

#[tokio::test]
async fn a_websocket_carries_messages_both_ways() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/mcp", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let fake =
            Fake { modes: "", seen: Mutex::default(), stream: Mutex::default(), sessions: Mutex::default() };
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            let mut socket = tokio_tungstenite::accept_async(socket).await.unwrap();
            while let Some(Ok(message)) = socket.next().await {
                let Ok(text) = message.to_text() else { continue };
                let Ok(message) = serde_json::from_str::<Value>(text) else { continue };
                if message.get("id").is_some() {
                    let answer = fake.answer(&message).to_string();
                    socket.send(tokio_tungstenite::tungstenite::Message::text(answer)).await.unwrap();
                }
                if message["params"]["arguments"]["text"] == "last" {
                    break;
                }
            }
        }
    });
    let fixture = Fixture::new();
    fixture.manager.set_servers(vec![limited(ServerEndpoint::WebSocket(at(&url)))]);
    assert!(fixture.manager.settled(TIMEOUT).await);
    let output = fixture.call("mcp__srv__echo", json!({"text": "last"})).await.unwrap();
    assert_eq!(output.content.to_text(), "last");
    // The server hung up; the next call finds a new connection.
    let output = fixture.call("mcp__srv__echo", json!({"text": "again"})).await.unwrap();
    assert_eq!(output.content.to_text(), "again");
    fixture.manager.shutdown().await;
}

/// The Agent SDK's way: the host carries every message and its answer.
struct Sdk(Fake, Mutex<Option<PeerInbox>>);

impl McpConnection for Sdk {
    fn exchange(&self, message: Value) -> BoxFuture<'static, Result<Option<Value>, String>> {
        let answer = match message.get("id") {
            Some(_) => self.0.answer(&message),
            // What the Python SDK says to notifications.
            None => json!({"jsonrpc": "2.0", "result": {}}),
        };
        let seen =
            Seen { http: String::new(), method: message["method"].as_str().unwrap().into(), headers: vec![] };
        self.0.seen.lock().unwrap().push(seen);
        Box::pin(async { Ok(Some(answer)) })
    }

    fn opened(&self, inbox: PeerInbox) {
        *self.1.lock().unwrap() = Some(inbox);
    }
}

#[tokio::test]
async fn servers_in_this_process_are_reached() {
    let fake =
        || Fake { modes: "", seen: Mutex::default(), stream: Mutex::default(), sessions: Mutex::default() };
    let sdk = Arc::new(Sdk(fake(), Mutex::default()));
    let channel = ChannelServer::connector(move || {
        let (to_server, mut requests) = mpsc::unbounded_channel::<Value>();
        let (answers, from_server) = mpsc::unbounded_channel();
        let fake = fake();
        tokio::spawn(async move {
            while let Some(message) = requests.recv().await {
                if message.get("id").is_some() {
                    answers.send(fake.answer(&message)).unwrap();
                }
            }
        });
        ChannelEnds { to_server, from_server }
    });
    let fixture = Fixture::new();
    let hosted = EmbeddedServer::connector(Arc::clone(&sdk) as Arc<dyn McpConnection>);
    fixture.manager.set_servers(vec![
        ServerConfig::new("hosted", ServerEndpoint::InProcess(hosted)),
        ServerConfig::new("channel", ServerEndpoint::InProcess(channel)),
    ]);
    assert!(fixture.manager.settled(TIMEOUT).await);
    for name in ["mcp__hosted__echo", "mcp__channel__echo"] {
        let output = fixture.call(name, json!({"text": "hi"})).await.unwrap();
        assert_eq!(output.content.to_text(), "hi", "{name}");
    }
    let methods: Vec<String> = sdk.0.seen.lock().unwrap().iter().map(|it| it.method.clone()).collect();
    assert_eq!(methods[..3], ["initialize", "notifications/initialized", "tools/list"]);
    let note = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
    sdk.1.lock().unwrap().as_ref().unwrap().deliver(note);
    eventually("the list is read again", || sdk.0.seen("tools/list").len() == 2).await;
    fixture.manager.shutdown().await;
}
