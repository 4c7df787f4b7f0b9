//! The server, tested with Haft's own client and a plain HTTP client.

#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "test code")]

use crate::support;

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use haft_mcp_client::{
    ElicitAnswer, Elicitation, ElicitationHandler, HttpEndpoint, ProtocolRevision, ServerConfig,
    ServerEndpoint, ServerState, ServerTrust, StdioCommand,
};
use haft_mcp_server::{
    ClientApprover, Clients, HttpAuth, HttpOptions, HttpServer, ServerOptions, TokenCheck, TokenVerdict,
    ToolServer, serve_http,
};
use haft_permission::Policy;
use haft_tool::{BoxFuture, CallContext, DynTool, ErrorKind, Outcome, ProgressSink, ToolError, tool};
use haft_tool_runtime::{CallSessionState, Gate, Pipeline, Pool, ResultStore, SharedPool, StoreLimits};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use support::{Fixture, TIMEOUT, context, eventually, example, run};
use tokio::sync::Notify;

#[derive(Deserialize, JsonSchema)]
struct Text {
    text: String,
}

/// Side effects of a test server's tools.
#[derive(Default)]
struct Traces {
    written: Mutex<Vec<String>>,
    stopped: Mutex<bool>,
    waiting: Mutex<usize>,
    release: Notify,
}

fn tools(traces: &Arc<Traces>) -> Vec<Arc<dyn DynTool>> {
    let (writing, waiting) = (Arc::clone(traces), Arc::clone(traces));
    vec![
        tool("echo", "Says the same.", async |args: Text, _cx| Ok(args.text.into())).read_only().build(),
        tool("write", "Writes.", move |args: Text, _cx| {
            let traces = Arc::clone(&writing);
            async move {
                traces.written.lock().unwrap().push(args.text);
                Ok(String::from("written").into())
            }
        })
        .build(),
        tool("wait", "Waits.", move |args: Text, cx: haft_tool::ToolContext<Value>| {
            let traces = Arc::clone(&waiting);
            async move {
                *traces.waiting.lock().unwrap() += 1;
                cx.progress(&json!({"progress": 1, "message": "waiting"}));
                tokio::select! {
                    () = traces.release.notified() => Ok(Outcome::from(args.text)),
                    () = cx.cancel.cancelled() => {
                        *traces.stopped.lock().unwrap() = true;
                        Err(ToolError::new(ErrorKind::Interrupted, "stopped"))
                    }
                }
            }
        })
        .read_only()
        .build(),
        tool("big", "Says a lot.", async |args: Text, _cx| Ok(args.text.repeat(50_000).into()))
            .read_only()
            .build(),
        tool("fail", "Fails.", async |args: Text, _cx| {
            Err::<Outcome<String>, _>(ToolError::failed(args.text))
        })
        .read_only()
        .build(),
    ]
}

struct Serving {
    http: HttpServer,
    server: ToolServer,
    pool: SharedPool,
    traces: Arc<Traces>,
    _results: tempfile::TempDir,
}

async fn serve(change: impl FnOnce(&mut HttpOptions, &mut ServerOptions)) -> Serving {
    let traces = Arc::<Traces>::default();
    let clients = Clients::default();
    let results = tempfile::tempdir().unwrap();
    let gate = Gate::new(Policy::default()).with_approver(Arc::new(ClientApprover::new(clients.clone())));
    let store = ResultStore::new(results.path().join("results"), StoreLimits::default());
    let pipeline = Arc::new(Pipeline::new(gate, store));
    let pool = SharedPool::new(Pool::assemble(tools(&traces), Vec::new()));
    let (mut http, mut options) = (HttpOptions::default(), ServerOptions::default());
    change(&mut http, &mut options);
    let server = ToolServer::new(pipeline, pool.clone(), CallSessionState::new("/"), clients, options);
    let http = serve_http(server.clone(), http).await.unwrap();
    Serving { http, server, pool, traces, _results: results }
}

/// A user with scripted answers who records the questions.
struct Person {
    says: &'static str,
    asked: Mutex<Vec<String>>,
}

impl ElicitationHandler for Person {
    fn elicit(&self, request: Elicitation) -> BoxFuture<'static, ElicitAnswer> {
        self.asked.lock().unwrap().push(request.message);
        let answer = match self.says {
            "nothing" => ElicitAnswer::Cancel,
            says => ElicitAnswer::Accept(json!({"decision": says}).as_object().unwrap().clone()),
        };
        Box::pin(async { answer })
    }
}

/// Haft's client, connected to a server.
async fn connect(url: &str, era: ProtocolRevision, person: Option<Arc<Person>>) -> Fixture {
    let fixture =
        Fixture::with(|options| options.host.elicit = person.map(|it| it as Arc<dyn ElicitationHandler>));
    let endpoint = HttpEndpoint { url: url.to_owned(), ..HttpEndpoint::default() };
    let mut config = ServerConfig::new("haft", ServerEndpoint::Http(endpoint));
    config.era = Some(era);
    config.trust = ServerTrust::Trusted;
    fixture.manager.set_servers(vec![config]);
    assert!(fixture.manager.settled(TIMEOUT).await);
    let status = fixture.manager.status().remove(0);
    assert_eq!(status.state, ServerState::Ready, "{status:?}");
    assert_eq!(status.info.unwrap().era, era);
    fixture
}

#[tokio::test]
async fn undecided_calls_prompt_the_clients_user() {
    let serving = serve(|_, _| ()).await;
    for era in [ProtocolRevision::Modern, ProtocolRevision::Legacy] {
        for (says, allowed) in
            [(Some("allow"), true), (Some("deny"), false), (Some("nothing"), false), (None, false)]
        {
            let person = says.map(|says| Arc::new(Person { says, asked: Mutex::default() }));
            let fixture = connect(&serving.http.url(), era, person.clone()).await;
            let text = format!("{era:?} {}", says.unwrap_or("nobody"));
            let output = fixture.call("mcp__haft__write", json!({"text": text})).await;
            assert_eq!(output.is_ok(), allowed, "{text}: {output:?}");
            assert_eq!(serving.traces.written.lock().unwrap().contains(&text), allowed, "{text}");
            if let Some(person) = person {
                let asked = person.asked.lock().unwrap();
                assert!(asked.len() == 1 && asked[0].contains(&text), "{asked:?}");
            }
            // Read-only tools do not prompt.
            assert!(fixture.call("mcp__haft__echo", json!({"text": "x"})).await.is_ok());
            fixture.manager.shutdown().await;
        }
    }
}

#[tokio::test]
async fn results_arrive_complete_and_errors_as_results() {
    let serving = serve(|_, _| ()).await;
    for era in [ProtocolRevision::Modern, ProtocolRevision::Legacy] {
        let fixture = connect(&serving.http.url(), era, None).await;
        let err = fixture.call("mcp__haft__fail", json!({"text": "as told"})).await.unwrap_err();
        assert_eq!(err.message, "as told");
        let output = fixture.call("mcp__haft__big", json!({"text": "abc"})).await.unwrap();
        let text = output.content.to_text();
        let uri = text.split("haft-result://").nth(1).unwrap().split([' ', ';', ']']).next().unwrap();
        let uri = format!("haft-result://{uri}");
        let cancel = tokio_util::sync::CancellationToken::new();
        let (_, whole) = fixture.manager.read_resource("haft", &uri, &cancel).await.unwrap();
        assert_eq!(whole["contents"][0]["text"], "abc".repeat(50_000));
        let outside = fixture.manager.read_resource("haft", "haft-result://../../etc/passwd", &cancel).await;
        assert!(outside.unwrap_err().to_string().contains("no resource"));
        fixture.manager.shutdown().await;
    }
}

/// A client cannot access what another one stored: names are unguessable, and lists contain only the
/// client's own results.
#[tokio::test]
async fn stored_results_are_private_to_client() {
    let serving = serve(|_, _| ()).await;
    let cancel = tokio_util::sync::CancellationToken::new();
    let (one, other) = (
        connect(&serving.http.url(), ProtocolRevision::Legacy, None).await,
        connect(&serving.http.url(), ProtocolRevision::Legacy, None).await,
    );
    let mut names = Vec::new();
    for client in [&one, &other] {
        let output = client.call("mcp__haft__big", json!({"text": "abc"})).await.unwrap();
        let text = output.content.to_text();
        let name = text.split("haft-result://").nth(1).unwrap().split([' ', ';', ']']).next().unwrap();
        names.push(name.to_owned());
    }
    let (first, second) = (names[0].rsplit_once('-').unwrap(), names[1].rsplit_once('-').unwrap());
    assert_ne!(first.0, second.0, "each has names of its own");
    assert!(32 <= first.0.trim_start_matches("mcp-").len(), "{names:?}");
    for guess in [
        format!("haft-result://{}-{}", second.0, first.1),
        format!("haft-result://mcp-{}-1.txt", std::process::id()),
        String::from("haft-output://0/bash_1.out"),
        format!("haft-output://0/{}/bash_1.out", "0".repeat(32)),
    ] {
        let read = other.manager.read_resource("haft", &guess, &cancel).await;
        assert!(read.is_err_and(|err| err.to_string().contains("no resource")), "{guess}");
    }
    for (client, own) in [(&one, &names[0]), (&other, &names[1])] {
        let uri = format!("haft-result://{own}");
        assert!(client.manager.read_resource("haft", &uri, &cancel).await.is_ok());
    }
    one.manager.shutdown().await;
    other.manager.shutdown().await;
}

#[tokio::test]
async fn cancelled_call_stops_after_progress() {
    let serving = serve(|_, _| ()).await;
    for era in [ProtocolRevision::Modern, ProtocolRevision::Legacy] {
        let fixture = connect(&serving.http.url(), era, None).await;
        let (progress, mut reports) = ProgressSink::channel();
        let cx = CallContext { progress, ..context() };
        let cancel = cx.cancel.clone();
        let call = tokio::spawn(run(fixture.tool("mcp__haft__wait"), json!({"text": "x"}), cx));
        let report = tokio::time::timeout(TIMEOUT, reports.recv()).await.unwrap().unwrap();
        assert_eq!(report.data["message"], "waiting");
        *serving.traces.stopped.lock().unwrap() = false;
        cancel.cancel();
        assert!(call.await.unwrap().is_err());
        eventually("the tool stopped", || *serving.traces.stopped.lock().unwrap()).await;
        fixture.manager.shutdown().await;
    }
}

#[tokio::test]
async fn long_call_continues_as_task() {
    let serving = serve(|_, options| options.task_after = Duration::from_millis(50)).await;
    let fixture = connect(&serving.http.url(), ProtocolRevision::Modern, None).await;
    let call = tokio::spawn(run(fixture.tool("mcp__haft__wait"), json!({"text": "done"}), context()));
    tokio::time::sleep(Duration::from_millis(300)).await;
    serving.traces.release.notify_one();
    assert_eq!(call.await.unwrap().unwrap().content.to_text(), "done");
    // A cancelled call is also cancelled as a task.
    let cx = context();
    let cancel = cx.cancel.clone();
    let call = tokio::spawn(run(fixture.tool("mcp__haft__wait"), json!({"text": "never"}), cx));
    eventually("the tool waits", || *serving.traces.waiting.lock().unwrap() == 2).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    cancel.cancel();
    assert!(call.await.unwrap().is_err());
    eventually("the tool stopped", || *serving.traces.stopped.lock().unwrap()).await;
    fixture.manager.shutdown().await;
}

#[tokio::test]
async fn clients_are_notified_of_new_tools() {
    let serving = serve(|_, _| ()).await;
    for (era, name) in [(ProtocolRevision::Modern, "late_modern"), (ProtocolRevision::Legacy, "late_legacy")]
    {
        let fixture = connect(&serving.http.url(), era, None).await;
        let mut all = tools(&serving.traces);
        all.push(tool(name, "Comes late.", async |args: Text, _cx| Ok(args.text.into())).build());
        serving.pool.set(Pool::assemble(all, Vec::new()));
        let wanted = format!("mcp__haft__{name}");
        // Opening the stream takes a moment; earlier notifications are lost.
        let mut said: Option<std::time::Instant> = None;
        eventually("the new tool is known", || {
            if said.is_none_or(|it| Duration::from_secs(2) < it.elapsed()) {
                serving.server.tools_changed();
                said = Some(std::time::Instant::now());
            }
            fixture.manager.tools().iter().any(|it| it.name() == wanted)
        })
        .await;
        fixture.manager.shutdown().await;
    }
}

/// A plain HTTP request.
async fn post(url: &str, headers: &[(&str, &str)], body: &str) -> (u16, String) {
    let client = reqwest::Client::new();
    let mut request = client
        .post(url)
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .body(body.to_owned());
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = request.send().await.unwrap();
    (response.status().as_u16(), response.text().await.unwrap())
}

fn initialize() -> String {
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"},
    }})
    .to_string()
}

#[tokio::test]
async fn http_access_requires_authorization() {
    struct Check;
    impl TokenCheck for Check {
        fn judge<'a>(&'a self, token: &'a str) -> BoxFuture<'a, TokenVerdict> {
            let verdict = match token {
                "granted" => TokenVerdict::Good,
                "little" => TokenVerdict::ForLess(vec![String::from("a"), String::from("b")]),
                "unknown" => TokenVerdict::Unknown,
                _ => TokenVerdict::Bad,
            };
            Box::pin(async move { verdict })
        }
    }
    let open = serve(|_, _| ()).await;
    let locked = serve(|http, _| http.auth = HttpAuth::Token(String::from("secret"))).await;
    let metadata =
        json!({"resource": "http://127.0.0.1/mcp", "authorization_servers": ["https://auth.test"]});
    let resource = {
        let metadata = metadata.clone();
        serve(|http, _| http.auth = HttpAuth::Resource { metadata, check: Arc::new(Check) }).await
    };
    let huge = format!("{{\"x\":\"{}\"}}", "y".repeat(17 << 20));
    let (open_url, locked_url, resource_url) = (open.http.url(), locked.http.url(), resource.http.url());
    let own = open_url.trim_end_matches("/mcp");
    for (url, headers, body, want) in [
        (&open_url, &[][..], initialize(), 200),
        (&open_url, &[("origin", own)], initialize(), 200),
        (&open_url, &[("origin", "http://localhost:5173")], initialize(), 403),
        (&open_url, &[("origin", "http://127.0.0.1")], initialize(), 403),
        (&open_url, &[("origin", "https://evil.test")], initialize(), 403),
        (&open_url, &[("origin", "null")], initialize(), 403),
        (&open_url, &[("host", "evil.test")], initialize(), 403),
        (&open_url, &[], huge, 413),
        (&open_url, &[], String::from("not json"), 415),
        (&locked_url, &[], initialize(), 401),
        (&locked_url, &[("authorization", "Bearer wrong")], initialize(), 401),
        (&locked_url, &[("authorization", "Basic secret")], initialize(), 401),
        (&locked_url, &[("authorization", "bearer secret")], initialize(), 200),
        (&resource_url, &[("authorization", "Bearer other")], initialize(), 401),
        (&resource_url, &[("authorization", "Bearer granted")], initialize(), 200),
        (&resource_url, &[("authorization", "Bearer little")], initialize(), 403),
        (&resource_url, &[("authorization", "Bearer unknown")], initialize(), 503),
    ] {
        let (status, text) = post(url, headers, &body).await;
        // A body that is not a message gives a client error; the SDK chooses which one.
        let right = status == want || (want == 415 && (400..500).contains(&status));
        assert!(right, "{headers:?}: {status} {}", haft_types::text::head(&text, 200));
    }
    let place = "resource_metadata=\"http://127.0.0.1/.well-known/oauth-protected-resource/mcp\"";
    for (token, want) in [
        ("", format!("Bearer {place}")),
        ("Bearer other", format!("Bearer error=\"invalid_token\", {place}")),
        ("Bearer little", format!("Bearer error=\"insufficient_scope\", {place}, scope=\"a b\"")),
    ] {
        let request = reqwest::Client::new().post(&resource_url);
        let request = if token.is_empty() { request } else { request.header("authorization", token) };
        let answer = request.send().await.unwrap();
        assert_eq!(answer.headers()["www-authenticate"], want, "{token}");
    }
    let base = resource_url.trim_end_matches("/mcp");
    let told = reqwest::get(format!("{base}/.well-known/oauth-protected-resource")).await.unwrap();
    assert_eq!(told.json::<Value>().await.unwrap(), metadata);
    for serving in [open, locked, resource] {
        serving.http.stop().await;
    }
}

#[tokio::test]
async fn public_address_requires_token() {
    let traces = Arc::<Traces>::default();
    let store = ResultStore::new("/nonexistent", StoreLimits::default());
    let pipeline = Arc::new(Pipeline::new(Gate::new(Policy::default()), store));
    let pool = SharedPool::new(Pool::assemble(tools(&traces), Vec::new()));
    let state = CallSessionState::new("/");
    let server = ToolServer::new(pipeline, pool, state, Clients::default(), ServerOptions::default());
    let everywhere = SocketAddr::from(([0, 0, 0, 0], 0));
    let refused =
        serve_http(server.clone(), HttpOptions { bind: everywhere, ..HttpOptions::default() }).await;
    assert!(refused.is_err_and(|err| err.to_string().contains("needs a token")));
    let auth = HttpAuth::Token(String::from("x"));
    let running = serve_http(server, HttpOptions { bind: everywhere, auth, ..HttpOptions::default() }).await;
    running.unwrap().stop().await;
}

#[tokio::test]
async fn sessions_are_bounded() {
    let serving = serve(|http, _| http.max_sessions = 3).await;
    let mut codes = Vec::new();
    for _ in 0..5 {
        codes.push(post(&serving.http.url(), &[], &initialize()).await.0);
    }
    assert_eq!(codes[..3], [200, 200, 200]);
    assert!(codes[3..].iter().all(|code| *code == 503), "{codes:?}");
    // The modern protocol has no sessions and is not affected.
    let fixture = connect(&serving.http.url(), ProtocolRevision::Modern, None).await;
    assert!(fixture.call("mcp__haft__echo", json!({"text": "x"})).await.is_ok());
    fixture.manager.shutdown().await;
}

#[tokio::test]
async fn stop_ends_open_calls_quickly() {
    let serving = serve(|_, _| ()).await;
    let fixture = connect(&serving.http.url(), ProtocolRevision::Modern, None).await;
    let (progress, mut reports) = ProgressSink::channel();
    let cx = CallContext { progress, ..context() };
    let call = tokio::spawn(run(fixture.tool("mcp__haft__wait"), json!({"text": "x"}), cx));
    tokio::time::timeout(TIMEOUT, reports.recv()).await.unwrap().unwrap();
    tokio::time::timeout(TIMEOUT, serving.http.stop()).await.expect("it stopped");
    let ended = tokio::time::timeout(TIMEOUT, call).await.expect("the call ended").unwrap();
    assert!(ended.is_err());
}

/// More slow clients than permitted concurrent calls, and more data than the system buffers.
#[tokio::test]
async fn slow_clients_do_not_block_others() {
    use tokio::io::AsyncWriteExt;
    let serving = serve(|_, options| options.max_calls = 4).await;
    let address = serving.http.address;
    let text = "x".repeat(1 << 20);
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "echo", "arguments": {"text": text},
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        },
    }})
    .to_string();
    let mut silent = Vec::new();
    for number in 0..12 {
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let head = format!(
            "POST /mcp HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\naccept: application/json, text/event-stream\r\nmcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: echo\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        // Every other client does not even finish its request.
        let sent = if number % 2 == 0 { body.len() } else { body.len() / 2 };
        stream.write_all(&body.as_bytes()[..sent]).await.unwrap();
        silent.push(stream);
    }
    let fixture = connect(&serving.http.url(), ProtocolRevision::Modern, None).await;
    for _ in 0..20 {
        let output = fixture.call("mcp__haft__echo", json!({"text": "hi"})).await.unwrap();
        assert_eq!(output.content.to_text(), "hi");
    }
    fixture.manager.shutdown().await;
    drop(silent);
}

/// Silent connections are closed after a while, even if they use up the limit.
#[tokio::test]
async fn silent_connections_are_closed_to_make_room() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let serving = serve(|http, _| {
        http.max_connections = 4;
        http.header_limit = Duration::from_secs(1);
    })
    .await;
    let mut idle = Vec::new();
    let half_body = "POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n\
                     accept: application/json, text/event-stream\r\ncontent-length: 1000\r\n\r\n{";
    for half in ["", "POST /mcp HT", "POST /mcp HTTP/1.1\r\nhost: x\r\nx: ", half_body] {
        let mut stream = tokio::net::TcpStream::connect(serving.http.address).await.unwrap();
        stream.write_all(half.as_bytes()).await.unwrap();
        idle.push(stream);
    }
    let (url, hello) = (serving.http.url(), initialize());
    let asked = post(&url, &[], &hello);
    assert_eq!(tokio::time::timeout(TIMEOUT, asked).await.unwrap().0, 200);
    for mut stream in idle {
        let mut said = Vec::new();
        // Closed or answered with an error.
        let _ = tokio::time::timeout(TIMEOUT, stream.read_to_end(&mut said)).await.unwrap();
    }
    let long = "y".repeat(1 << 20);
    let mut stream = tokio::net::TcpStream::connect(serving.http.address).await.unwrap();
    let head = format!("POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\nx: {long}\r\n\r\n");
    let _ = stream.write_all(head.as_bytes()).await;
    let mut said = Vec::new();
    let _ = tokio::time::timeout(TIMEOUT, stream.read_to_end(&mut said)).await.unwrap();
    let said = String::from_utf8_lossy(&said);
    assert!(said.is_empty() || said.contains("431"), "{said}");
    assert_eq!(post(&serving.http.url(), &[], &initialize()).await.0, 200);
    serving.http.stop().await;
}

#[tokio::test]
async fn two_hundred_clients_are_served() {
    let serving = serve(|_, _| ()).await;
    let url = serving.http.url();
    let client = reqwest::Client::new();
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "echo", "arguments": {"text": "hi"},
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        },
    }})
    .to_string();
    let calls = (0..200).map(|_| {
        let request = client
            .post(&url)
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", "2026-07-28")
            .header("mcp-method", "tools/call")
            .header("mcp-name", "echo")
            .body(body.clone());
        async move { request.send().await.unwrap().text().await.unwrap() }
    });
    for text in futures_util::future::join_all(calls).await {
        assert!(text.contains(r#""text":"hi""#), "{text}");
    }
}

#[tokio::test]
async fn stdio_server_exits_with_its_client() {
    let program = example("tool_server");
    for era in [ProtocolRevision::Modern, ProtocolRevision::Legacy] {
        let person = Arc::new(Person { says: "allow", asked: Mutex::default() });
        let fixture = Fixture::with(|options| options.host.elicit = Some(person));
        let command = StdioCommand { program: program.clone(), ..StdioCommand::default() };
        let mut config = ServerConfig::new("haft", ServerEndpoint::Stdio(command));
        config.era = Some(era);
        fixture.manager.set_servers(vec![config]);
        assert!(fixture.manager.settled(TIMEOUT).await);
        let pid = fixture.manager.status()[0].pid.unwrap();
        let output = fixture.call("mcp__haft__write", json!({"text": "it"})).await.unwrap();
        assert_eq!(output.content.to_text(), "wrote it");
        let calls =
            (0..50).map(|n| run(fixture.tool("mcp__haft__echo"), json!({"text": n.to_string()}), context()));
        for (n, output) in futures_util::future::join_all(calls).await.into_iter().enumerate() {
            assert_eq!(output.unwrap().content.to_text(), n.to_string());
        }
        fixture.manager.shutdown().await;
        assert!(!support::is_alive(pid as i32));
    }
}

#[tokio::test]
async fn annotations_match_tool_behaviour() {
    let serving = serve(|_, _| ()).await;
    let fixture = connect(&serving.http.url(), ProtocolRevision::Modern, None).await;
    let defs = fixture.manager.definitions("haft");
    let hint = |name: &str| defs.iter().find(|def| def.name == name).unwrap().annotations.read_only_hint;
    assert_eq!(hint("echo"), Some(true));
    assert_eq!(hint("write"), Some(false));
    fixture.manager.shutdown().await;
}
