//! `haft mcp serve`, used by Haft's own client in both protocol revisions and by raw requests.
#![allow(clippy::unwrap_used, clippy::print_stderr, missing_docs, reason = "test code")]

use crate::common;
use haft_testkit::haft_binary;

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use common::Haft;
use haft_mcp_client::{
    ElicitAnswer, Elicitation, ElicitationHandler, HttpEndpoint, ManagerOptions, McpManager,
    ProtocolRevision, ServerConfig, ServerEndpoint, ServerState, StdioCommand,
};
use haft_tool::BoxFuture;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

const TIMEOUT: Duration = Duration::from_secs(120);

/// A user at the client who always gives the same answer.
struct Person {
    says: &'static str,
    heard: Mutex<Vec<String>>,
}

impl ElicitationHandler for Person {
    fn elicit(&self, request: Elicitation) -> BoxFuture<'static, ElicitAnswer> {
        self.heard.lock().unwrap().push(request.message);
        let content = Map::from_iter([(String::from("decision"), json!(self.says))]);
        Box::pin(async move { ElicitAnswer::Accept(content) })
    }
}

fn person(says: &'static str) -> Arc<Person> {
    Arc::new(Person { says, heard: Mutex::default() })
}

struct Client {
    manager: McpManager,
}

impl Client {
    async fn connect(endpoint: ServerEndpoint, era: ProtocolRevision, person: Option<Arc<Person>>) -> Self {
        let mut options = ManagerOptions::detached();
        options.host.elicit = person.map(|it| it as Arc<dyn ElicitationHandler>);
        let manager = McpManager::new(options);
        let mut config = ServerConfig::new("haft", endpoint);
        config.era = Some(era);
        config.timeouts.startup = TIMEOUT;
        manager.set_servers(vec![config]);
        assert!(manager.settled(TIMEOUT).await);
        let status = manager.status().remove(0);
        assert_eq!(status.state, ServerState::Ready, "{status:#?}");
        assert_eq!(status.info.unwrap().era, era);
        assert!(status.skipped.is_empty() && status.repaired.is_empty());
        Self { manager }
    }

    /// The tool's result; a protocol error is returned as one.
    async fn call(&self, tool: &str, arguments: Value) -> Value {
        let arguments = arguments.as_object().unwrap().clone();
        let called = self.manager.call_for_user("haft", tool, arguments, &CancellationToken::new()).await;
        called.unwrap_or_else(
            |err| json!({"isError": true, "content": [{"type": "text", "text": err.to_string()}]}),
        )
    }
}

fn words(result: &Value) -> String {
    let blocks = result["content"].as_array().unwrap();
    blocks.iter().filter_map(|it| it["text"].as_str()).collect::<Vec<_>>().join("\n")
}

fn over_pipes(haft: &Haft, args: &[&str]) -> ServerEndpoint {
    let mut command = StdioCommand {
        program: haft_binary().to_owned(),
        args: [&["mcp", "serve"], args].concat().into_iter().map(str::to_owned).collect(),
        cwd: Some(haft.ws()),
        ..StdioCommand::default()
    };
    command.env.insert(String::from("HOME"), haft.home().display().to_string());
    ServerEndpoint::Stdio(command)
}

#[tokio::test]
async fn every_built_in_tool_is_offered_and_runs_in_both_eras() {
    for era in [ProtocolRevision::Legacy, ProtocolRevision::Modern] {
        let haft = Haft::new();
        haft.write("a.txt", "alpha\nbeta\n");
        let client = Client::connect(over_pipes(&haft, &["--structured"]), era, None).await;
        let tools = client.manager.definitions("haft");
        let listed: Vec<Value> = serde_json::from_str(&haft.ok(&["tool", "list", "--json"], "")).unwrap();
        let left_out = [
            "ToolSearch",
            "ListMcpResources",
            "ReadMcpResource",
            "RefreshMcpTools",
            // Without a model no sub-agent can run.
            "Agent",
            "Explore",
            "ListAgents",
            "SendMessage",
            "TeamCreate",
            "TeamDelete",
            // Without a user there is nobody to ask.
            "AskUserQuestion",
            "EnterPlanMode",
            "ExitPlanMode",
        ];
        for name in listed.iter().map(|it| it["name"].as_str().unwrap()).filter(|it| !left_out.contains(it)) {
            assert!(tools.iter().any(|it| it.name == name), "{name} is missing");
        }
        let of = |name: &str| tools.iter().find(|it| it.name == name).unwrap();
        assert_eq!(of("Read").annotations.read_only_hint, Some(true));
        assert_eq!(of("Config").annotations.read_only_hint, Some(false), "with a value it writes");
        assert_eq!(of("Bash").annotations.open_world_hint, Some(true));
        assert!(of("Grep").output_schema.is_some());
        for tool in tools.iter().filter(|it| !left_out.contains(&it.name.as_str())) {
            assert!(tool.output_schema.is_some(), "{} says nothing about its results", tool.name);
        }
        let file = haft.ws().join("a.txt");
        let read = client.call("Read", json!({"file_path": file})).await;
        assert!(words(&read).contains("beta"), "{read}");
        let found = client.call("Grep", json!({"pattern": "alp"})).await;
        assert!(found["structuredContent"].is_object() && words(&found).contains("a.txt"), "{found}");
        // Without an approver the call is denied, with advice.
        let refused = client.call("Write", json!({"file_path": haft.ws().join("b"), "content": "x"})).await;
        assert!(
            refused["isError"] == true && words(&refused).contains("haft permissions allow"),
            "{refused}"
        );
        assert!(!haft.ws().join("b").exists());
        let unknown = client.call("Read", json!({"file": 1})).await;
        assert!(unknown["isError"] == true && words(&unknown).contains("file_path"), "{unknown}");
        client.manager.shutdown().await;
    }
}

/// Results are the text for a model, unless structured data is requested.
#[tokio::test]
async fn results_are_text_unless_data_is_asked_for() {
    for era in [ProtocolRevision::Legacy, ProtocolRevision::Modern] {
        let haft = Haft::new();
        haft.write("notes.md", "first\nsecond\n");
        let client =
            Client::connect(over_pipes(&haft, &["--permission-mode", "acceptEdits"]), era, None).await;
        let tools = client.manager.definitions("haft");
        assert!(!tools.is_empty() && tools.iter().all(|it| it.output_schema.is_none()));
        let file = haft.ws().join("notes.md");
        let edit = json!({"file_path": file, "old_string": "second", "new_string": "third"});
        for (name, arguments, want) in [
            ("Read", json!({"file_path": file}), "2"),
            ("Edit", edit, "third"),
            ("Glob", json!({"pattern": "*"}), "notes"),
        ] {
            let result = client.call(name, arguments).await;
            assert!(result.get("structuredContent").is_none_or(Value::is_null), "{name}: {result}");
            assert!(words(&result).contains(want), "{name}: {result}");
        }
        client.manager.shutdown().await;
    }
}

/// Results pass clients that validate them against the output schema.
#[tokio::test]
async fn results_are_what_the_tools_say_they_are() {
    let haft = Haft::new();
    haft.write("a.txt", "alpha\nbeta\n");
    let args =
        ["--permission-mode", "acceptEdits", "--allowedTools", "Bash,TodoWrite,Config,REPL", "--structured"];
    let client = Client::connect(over_pipes(&haft, &args), ProtocolRevision::Legacy, None).await;
    let tools = client.manager.definitions("haft");
    let (a, b) = (haft.ws().join("a.txt"), haft.ws().join("b.txt"));
    for (name, arguments) in [
        ("Read", json!({"file_path": a})),
        ("Grep", json!({"pattern": "beta"})),
        ("Grep", json!({"pattern": "beta", "output_mode": "content", "-n": true})),
        ("Grep", json!({"pattern": "nothing at all"})),
        ("Glob", json!({"pattern": "*.txt"})),
        ("LS", json!({"path": haft.ws()})),
        ("Search", json!({"query": "alpha"})),
        ("Write", json!({"file_path": b, "content": "new\n"})),
        ("Write", json!({"file_path": b, "content": "newer\n"})),
        ("Edit", json!({"file_path": b, "old_string": "newer", "new_string": "newest"})),
        ("MultiEdit", json!({"file_path": a, "edits": [{"old_string": "beta", "new_string": "gamma"}]})),
        ("Bash", json!({"command": "echo hi"})),
        ("Bash", json!({"command": "seq 1 60000"})),
        ("Bash", json!({"command": "sleep 30", "run_in_background": true})),
        ("TodoWrite", json!({"todos": [{"content": "Do", "status": "pending", "activeForm": "Doing"}]})),
        ("Config", json!({"setting": "model"})),
    ] {
        let Some(tool) = tools.iter().find(|it| it.name == name) else { continue };
        let result = client.call(name, arguments).await;
        assert!(result["isError"] != true, "{name}: {}", words(&result));
        let schema = tool.output_schema.as_ref().unwrap();
        let mut structured = result["structuredContent"].clone();
        let fits = haft_tool::check_input(name, schema, &mut structured);
        assert!(fits.is_ok() && structured == result["structuredContent"], "{name}: {fits:?}");
    }
    client.manager.shutdown().await;
}

#[tokio::test]
async fn the_person_at_the_client_decides_and_rules_stand_above() {
    for era in [ProtocolRevision::Legacy, ProtocolRevision::Modern] {
        for (says, written) in [("allow", true), ("deny", false), ("nonsense", false)] {
            let haft = Haft::new();
            haft.write_home(".haft/settings.json", r#"{"permissions": {"deny": ["Edit(secret)"]}}"#);
            let person = person(says);
            let client = Client::connect(over_pipes(&haft, &[]), era, Some(Arc::clone(&person))).await;
            let result =
                client.call("Write", json!({"file_path": haft.ws().join("b"), "content": "x"})).await;
            assert_eq!(result["isError"] != true, written, "{era:?} {says}: {result}");
            assert_eq!(haft.ws().join("b").exists(), written);
            // An invalid answer is asked again a limited number of times.
            let heard = person.heard.lock().unwrap().len();
            assert!(heard == 1 || (says == "nonsense" && heard <= 12), "{heard}");
            let result =
                client.call("Write", json!({"file_path": haft.ws().join("secret"), "content": "x"})).await;
            assert!(result["isError"] == true && !haft.ws().join("secret").exists(), "{result}");
            assert_eq!(person.heard.lock().unwrap().len(), heard, "nobody is asked about what is forbidden");
            client.manager.shutdown().await;
        }
    }
}

#[tokio::test]
async fn large_results_are_resources_and_a_cancelled_command_is_gone() {
    let haft = Haft::new();
    let client = Client::connect(
        over_pipes(&haft, &["--allowedTools", "Bash", "--permission-mode", "acceptEdits"]),
        ProtocolRevision::Legacy,
        None,
    )
    .await;
    let result = client.call("Bash", json!({"command": "seq 1 60000"})).await;
    let link = result["content"].as_array().unwrap().iter().find(|it| it["type"] == "resource_link");
    let Some(uri) = link.and_then(|it| it["uri"].as_str()) else { panic!("{}", words(&result).len()) };
    let stop = CancellationToken::new();
    let (_, read) = client.manager.read_resource("haft", uri, &stop).await.unwrap();
    let text = read["contents"][0]["text"].as_str().unwrap();
    assert!(text.contains("\n30000\n") && text.contains("\n59999\n"), "{}", text.len());
    let mark = haft.ws().join("running");
    let command = format!("echo $$ > {}; sleep 600", mark.display());
    let arguments = json!({"command": command}).as_object().unwrap().clone();
    let calling = client.manager.call_for_user("haft", "Bash", arguments, &stop);
    let until_it_runs = async {
        while std::fs::read_to_string(&mark).is_ok_and(|it| it.trim().is_empty()) || !mark.exists() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        stop.cancel();
    };
    let both = async { tokio::join!(calling, until_it_runs) };
    let (called, ()) = tokio::time::timeout(TIMEOUT, both).await.unwrap();
    assert!(called.is_err());
    let pid: u32 = std::fs::read_to_string(&mark).unwrap().trim().parse().unwrap();
    let started = Instant::now();
    while is_alive(pid) {
        assert!(started.elapsed() < TIMEOUT, "the command outlived its call");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(words(&client.call("Bash", json!({"command": "echo still here"})).await).contains("still here"));
    client.manager.shutdown().await;
}

fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.rsplit(')').next().unwrap_or_default().trim_start().starts_with('Z')
}

struct Http {
    child: Child,
    url: String,
}

impl Http {
    fn start(haft: &Haft, args: &[&str], env: &[(&str, &str)]) -> Self {
        let mut child = Command::new(haft_binary())
            .args(["mcp", "serve", "--http"])
            .args(args)
            .current_dir(haft.ws())
            .env("HOME", haft.home())
            .envs(env.iter().copied())
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
        let url = line.trim().strip_prefix("Serving at ").unwrap_or_else(|| panic!("{line}")).to_owned();
        Self { child, url }
    }

    fn endpoint(&self, token: Option<&str>) -> ServerEndpoint {
        let mut endpoint = HttpEndpoint { url: self.url.clone(), ..HttpEndpoint::default() };
        if let Some(token) = token {
            endpoint.headers.insert(String::from("Authorization"), format!("Bearer {token}"));
        }
        ServerEndpoint::Http(endpoint)
    }

    /// HTTP status of a bare request.
    fn status(&self, headers: &str) -> String {
        let address = self.url.trim_start_matches("http://").trim_end_matches("/mcp");
        let mut stream = TcpStream::connect(address).unwrap();
        let body = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        let head = format!(
            "POST /mcp HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-type: application/json\r\naccept: application/json, text/event-stream\r\ncontent-length: {}\r\n{headers}\r\n{body}",
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.lines().next().unwrap_or_default().to_owned()
    }
}

impl Drop for Http {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn over_http_only_the_right_ones_come_in_and_a_signal_ends_it_well() {
    let haft = Haft::new();
    haft.write("a.txt", "alpha\n");
    let mut server = Http::start(&haft, &["--token-env", "THE_TOKEN"], &[("THE_TOKEN", "s3cret")]);
    for era in [ProtocolRevision::Legacy, ProtocolRevision::Modern] {
        let client = Client::connect(server.endpoint(Some("s3cret")), era, None).await;
        let read = client.call("Read", json!({"file_path": haft.ws().join("a.txt")})).await;
        assert!(words(&read).contains("alpha"), "{read}");
        client.manager.shutdown().await;
    }
    for (headers, wanted) in [
        ("", "401"),
        ("authorization: Bearer wrong\r\n", "401"),
        ("authorization: Bearer s3cret\r\norigin: https://evil.test\r\n", "403"),
    ] {
        assert!(server.status(headers).contains(wanted), "{headers:?}: {}", server.status(headers));
    }
    let pid = server.child.id().to_string();
    Command::new("kill").args(["-TERM", &pid]).status().unwrap();
    assert!(server.child.wait().unwrap().success());
    for (args, problem) in [
        (&["--http", "0.0.0.0:0"][..], "needs a token"),
        (&["--http", "--token-env", "NOT_SET_4711"], "NOT_SET_4711 is not set"),
        (&["--token-env", "X"], "--http"),
    ] {
        let output = haft.run(&[&["mcp", "serve"], args].concat(), "");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && stderr.contains(problem), "{args:?}: {stderr}");
    }
}

/// An authorization server with token introspection.
async fn authority() -> String {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let answer = |heard: &str| {
        let mut body =
            json!({"active": true, "aud": "https://tools.test/mcp", "scope": "use more", "exp": 4e9});
        let (field, value) = match heard.split("token=").nth(1).unwrap_or_default().split('&').next() {
            Some("good") => ("sub", json!("somebody")),
            Some("elsewhere") => ("aud", json!("https://other.test")),
            Some("ended") => ("exp", json!(1000)),
            Some("little") => ("scope", json!("more")),
            Some("foreign") => ("iss", json!("https://evil.test")),
            Some("bound") => ("cnf", json!({"jkt": "x"})),
            _ => ("active", json!(false)),
        };
        body[field] = value;
        body.to_string()
    };
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut heard = Vec::new();
            let mut chunk = [0; 4096];
            while !String::from_utf8_lossy(&heard).contains("token=") {
                match stream.read(&mut chunk).await {
                    Ok(0) | Err(_) => break,
                    Ok(count) => heard.extend_from_slice(&chunk[..count]),
                }
            }
            let body = answer(&String::from_utf8_lossy(&heard));
            let answer = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            );
            stream.write_all(answer.as_bytes()).await.ok();
        }
    });
    format!("http://{address}/introspect")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_of_an_authorization_server_must_be_meant_for_us() {
    let haft = Haft::new();
    let introspect = authority().await;
    let args = ["--oauth-server", "https://issuer.test", "--oauth-scope", "use", "--oauth-introspect"];
    let args = [&args[..], &[&introspect, "--resource", "https://tools.test/mcp"]].concat();
    let server = Http::start(&haft, &args, &[]);
    let client = Client::connect(server.endpoint(Some("good")), ProtocolRevision::Modern, None).await;
    client.manager.shutdown().await;
    for (token, want) in [
        ("bad", "401"),
        ("elsewhere", "401"),
        ("ended", "401"),
        ("foreign", "401"),
        ("bound", "401"),
        ("little", "403"),
    ] {
        let headers = format!("authorization: Bearer {token}\r\n");
        assert!(server.status(&headers).contains(want), "{token}: {}", server.status(&headers));
    }
    let dead =
        ["--oauth-server", "https://x.test", "--oauth-introspect", "http://127.0.0.1:9/", "--resource", "r"];
    let server = Http::start(&haft, &dead, &[]);
    // If the introspection endpoint is unreachable, requests are refused with 503 and not with 401, so
    // clients keep their login.
    assert!(server.status("authorization: Bearer good\r\n").contains("503"));
    assert!(server.status("").contains("401"));
}

/// Runs all attacks of `attack.py` against the program.
#[test]
fn no_client_harms_the_server_or_the_others() {
    let haft = Haft::new();
    haft.write("small.txt", "small\n");
    haft.write("big.txt", &"a line of text that goes on for a while\n".repeat(20_000));
    let server = Http::start(
        &haft,
        &["--token-env", "THE_TOKEN", "--allowedTools", "Bash,Read", "--permission-mode", "acceptEdits"],
        &[("THE_TOKEN", "s3cret-token")],
    );
    let script = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../engine/mcp-client/tests/all/support/attack.py");
    let output = Command::new("python3")
        .args(["-IS".as_ref(), script.as_os_str()])
        .args([&server.url, "s3cret-token", &server.child.id().to_string()])
        .arg(haft.ws())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(output.status.success() && 15 < rows.len(), "{text} {}", String::from_utf8_lossy(&output.stderr));
    let wrong: Vec<String> =
        rows.iter().filter(|row| !row["why"].is_null()).map(ToString::to_string).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A signal during a call ends the call, its process, and the server.
#[test]
fn a_signal_in_the_middle_of_a_call_ends_everything() {
    let haft = Haft::new();
    let mut server = Http::start(&haft, &["--allowedTools", "Bash", "--permission-mode", "acceptEdits"], &[]);
    let mark = haft.ws().join("running");
    let address = server.url.trim_start_matches("http://").trim_end_matches("/mcp").to_owned();
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "Bash", "arguments": {"command": format!("echo $$ > {}; sleep 600", mark.display())},
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        },
    }})
    .to_string();
    let mut stream = TcpStream::connect(&address).unwrap();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\naccept: application/json, text/event-stream\r\nmcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: Bash\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes()).unwrap();
    common::eventually("the command runs", || {
        std::fs::read_to_string(&mark).is_ok_and(|it| it.ends_with('\n'))
    });
    let pid: u32 = std::fs::read_to_string(&mark).unwrap().trim().parse().unwrap();
    Command::new("kill").args(["-TERM", &server.child.id().to_string()]).status().unwrap();
    common::eventually("the server ended", || server.child.try_wait().unwrap().is_some());
    assert!(server.child.wait().unwrap().success());
    common::eventually("the command ended", || !is_alive(pid));
    // The client gets an answer and the end of the stream.
    let mut said = Vec::new();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let _ = stream.read_to_end(&mut said);
}

/// A background task of an HTTP client without a session is visible to others only by its id; a stdio
/// server has one client.
#[tokio::test]
async fn tasks_of_clients_without_sessions_are_their_own() {
    let haft = Haft::new();
    let rules = ["--allowedTools", "Bash", "--permission-mode", "acceptEdits"];
    let server = Http::start(&haft, &rules, &[]);
    let one = Client::connect(server.endpoint(None), ProtocolRevision::Modern, None).await;
    let other = Client::connect(server.endpoint(None), ProtocolRevision::Modern, None).await;
    let begin = json!({"command": "echo SECRET; sleep 600", "run_in_background": true});
    let begun = words(&one.call("Bash", begin.clone()).await);
    let name = begun.split(|it: char| !it.is_alphanumeric() && it != '_' && it != '-');
    let name = name.filter(|it| it.starts_with("bash_")).max_by_key(|it| it.len()).unwrap().to_owned();
    assert!(32 < name.len(), "nobody guesses it: {begun}");
    for (client, id, may) in [(&other, "bash_1", false), (&one, "bash_1", false), (&one, name.as_str(), true)]
    {
        let said = client.call("TaskOutput", json!({"task_id": id, "block": false})).await.to_string();
        assert_eq!(said.contains(&format!("[{id} running]")), may, "{id}: {said}");
    }
    let stopped = words(&one.call("TaskStop", json!({"task_id": name})).await);
    assert!(!stopped.contains("no task"), "{stopped}");
    one.manager.shutdown().await;
    other.manager.shutdown().await;
    let only = Client::connect(over_pipes(&haft, &rules), ProtocolRevision::Modern, None).await;
    let begun = words(&only.call("Bash", begin).await);
    assert!(begun.contains("bash_1") && !begun.contains("bash_1-"), "{begun}");
    only.manager.shutdown().await;
}
