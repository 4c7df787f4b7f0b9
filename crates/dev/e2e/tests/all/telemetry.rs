//! What a telemetry collector receives, and what it does not.
#![allow(clippy::unwrap_used, missing_docs, reason = "test code")]

use crate::common;

use std::{
    process::Stdio,
    sync::{Arc, Mutex},
};

use common::Haft;
use haft_testkit::{MockModel, ReplyPiece, Script, Turn};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

type Posts = Arc<Mutex<Vec<(String, Value)>>>;

/// A collector that accepts every POST request.
async fn collector() -> (String, Posts) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let posts = Posts::default();
    let kept = Arc::clone(&posts);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let kept = Arc::clone(&kept);
            tokio::spawn(async move {
                let mut bytes = Vec::new();
                let mut buffer = [0_u8; 8192];
                loop {
                    let read = stream.read(&mut buffer).await.unwrap_or(0);
                    if read == 0 {
                        return;
                    }
                    bytes.extend_from_slice(&buffer[..read]);
                    let text = String::from_utf8_lossy(&bytes).into_owned();
                    let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
                    let length: usize = head
                        .lines()
                        .find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok())
                        .unwrap();
                    if length <= body.len() {
                        let path = head.split(' ').nth(1).unwrap().to_owned();
                        kept.lock().unwrap().push((path, serde_json::from_str(body).unwrap()));
                        stream
                            .write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}")
                            .await
                            .ok();
                        return;
                    }
                }
            });
        }
    });
    (url, posts)
}

async fn run(haft: &Haft, extra: &[(&str, &str)]) -> MockModel {
    let model = MockModel::start(Script::from_turns([
        Turn::from_pieces([
            ReplyPiece::tool("Read", json!({"file_path": "a.txt"})),
            ReplyPiece::tool("Bash", json!({"command": "make install"})),
        ]),
        Turn::text("Done."),
    ]))
    .await
    .unwrap();
    let output = haft
        .async_command()
        .args(["-p", "secret prompt-4711"])
        .env("ANTHROPIC_BASE_URL", model.url())
        .envs(extra.iter().copied())
        .stdin(Stdio::null())
        .output()
        .await
        .unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stderr));
    model
}

fn attribute<'a>(span: &'a Value, name: &str) -> &'a Value {
    let list = span["attributes"].as_array().unwrap();
    list.iter().find(|it| it["key"] == name).map_or(&Value::Null, |it| &it["value"])
}

#[tokio::test]
async fn one_trace_per_run_without_content() {
    let haft = Haft::new();
    haft.write("a.txt", "content-0815\n");
    let (url, posts) = collector().await;
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    run(
        &haft,
        &[("HAFT_ENABLE_TELEMETRY", "1"), ("OTEL_EXPORTER_OTLP_ENDPOINT", &url), ("TRACEPARENT", parent)],
    )
    .await;
    let posts = posts.lock().unwrap().clone();
    let mut paths: Vec<&str> = posts.iter().map(|(path, _)| path.as_str()).collect();
    paths.sort_unstable();
    assert_eq!(paths, ["/v1/logs", "/v1/metrics", "/v1/traces"]);
    let all = format!("{posts:?}");
    assert!(!all.contains("prompt-4711") && !all.contains("content-0815"), "{all}");
    assert!(!all.contains("make install"), "{all}");
    let traces = &posts.iter().find(|(path, _)| path == "/v1/traces").unwrap().1;
    let spans = traces["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap();
    let is_phase = |it: &&Value| {
        let phases = ["queue", "hooks", "permission", "run", "after"];
        it["name"].as_str().is_some_and(|name| phases.contains(&name))
    };
    let (phases, spans): (Vec<&Value>, Vec<&Value>) = spans.iter().partition(is_phase);
    let mut names: Vec<&str> = spans.iter().map(|it| it["name"].as_str().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "chat claude-opus-5-5",
            "chat claude-opus-5-5",
            "execute_tool Bash",
            "execute_tool Read",
            "invoke_agent haft"
        ]
    );
    let root = spans.iter().find(|it| it["name"] == "invoke_agent haft").unwrap();
    assert_eq!(root["parentSpanId"], "00f067aa0ba902b7");
    let chats: Vec<&Value> =
        spans.iter().filter(|it| it["name"] == "chat claude-opus-5-5").map(|it| &it["spanId"]).collect();
    for span in &spans {
        assert_eq!(span["traceId"], "4bf92f3577b34da6a3ce929d0e0e4736");
        let times = [&span["startTimeUnixNano"], &span["endTimeUnixNano"]];
        let [start, end] = times.map(|it| it.as_str().unwrap().parse::<u128>().unwrap());
        assert!(start <= end);
        let parent = &span["parentSpanId"];
        match span["name"].as_str().unwrap() {
            name if name.starts_with("execute_tool") => assert!(chats.contains(&parent), "{span}"),
            name if name.starts_with("chat") => assert_eq!(*parent, root["spanId"]),
            _ => (),
        }
    }
    let bash = spans.iter().find(|it| it["name"] == "execute_tool Bash").unwrap();
    assert_eq!(bash["status"]["code"], 2);
    assert_eq!(attribute(bash, "gen_ai.tool.call.id")["stringValue"], "toolu_mock_0_1");
    assert_eq!(attribute(bash, "haft.tool.denied")["boolValue"], true);
    assert_eq!(attribute(bash, "haft.tool.denied_by")["stringValue"], "asked");
    let phases_of = |span: &Value| -> Vec<&str> {
        let own = phases.iter().filter(|it| it["parentSpanId"] == span["spanId"]);
        own.map(|it| it["name"].as_str().unwrap()).collect()
    };
    assert!(phases_of(bash).contains(&"permission") && !phases_of(bash).contains(&"run"), "{phases:?}");
    let read = spans.iter().find(|it| it["name"] == "execute_tool Read").unwrap();
    assert!(["permission", "run"].iter().all(|it| phases_of(read).contains(it)), "{phases:?}");
    let chat = spans.iter().find(|it| it["name"] == "chat claude-opus-5-5").unwrap();
    assert!(attribute(chat, "gen_ai.usage.input_tokens")["intValue"].is_string());
}

#[tokio::test]
async fn content_only_when_asked_and_nothing_when_off() {
    let haft = Haft::new();
    haft.write("a.txt", "content-0815\n");
    let (url, posts) = collector().await;
    run(&haft, &[("OTEL_EXPORTER_OTLP_ENDPOINT", &url)]).await;
    assert!(posts.lock().unwrap().is_empty());
    run(
        &haft,
        &[
            ("HAFT_ENABLE_TELEMETRY", "1"),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", &url),
            ("OTEL_LOG_TOOL_CONTENT", "1"),
        ],
    )
    .await;
    let all = format!("{:?}", posts.lock().unwrap());
    assert!(all.contains("content-0815") && all.contains("secret prompt-4711"), "{all}");
    // An unreachable collector does not affect the run.
    run(&haft, &[("HAFT_ENABLE_TELEMETRY", "1"), ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")])
        .await;
}

/// A session of an SDK host has a trace per prompt, too.
#[tokio::test]
async fn a_session_with_a_host_is_observed_too() {
    let haft = Haft::new();
    haft.write("a.txt", "content-0815\n");
    let (url, posts) = collector().await;
    let model = MockModel::start(Script::from_turns([
        Turn::from_pieces([ReplyPiece::tool("Read", json!({"file_path": "a.txt"}))]),
        Turn::text("Read."),
        Turn::text("Again."),
    ]))
    .await
    .unwrap();
    let mut child = haft
        .async_command()
        .args(["--output-format", "stream-json", "--verbose", "--input-format", "stream-json"])
        .env("ANTHROPIC_BASE_URL", model.url())
        .env("ANTHROPIC_API_KEY", "k")
        .env("HAFT_ENABLE_TELEMETRY", "1")
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", &url)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut lines =
        tokio::io::AsyncBufReadExt::lines(tokio::io::BufReader::new(child.stdout.take().unwrap()));
    for prompt in ["Read it.", "Once more."] {
        let line = json!({"type": "user", "message": {"role": "user", "content": prompt}});
        stdin.write_all(format!("{line}\n").as_bytes()).await.unwrap();
        while let Some(line) = lines.next_line().await.unwrap() {
            if line.contains(r#""type":"result""#) {
                break;
            }
        }
    }
    drop(stdin);
    assert!(child.wait().await.unwrap().success());
    let posts = posts.lock().unwrap().clone();
    let traces: Vec<&Value> =
        posts.iter().filter(|(path, _)| path == "/v1/traces").map(|(_, body)| body).collect();
    assert_eq!(traces.len(), 2);
    let spans = |trace: &Value| -> Vec<String> {
        let spans = trace["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap();
        spans.iter().map(|it| it["name"].as_str().unwrap().to_owned()).collect()
    };
    assert!(traces.iter().any(|trace| spans(trace).contains(&"execute_tool Read".to_owned())));
    assert!(traces.iter().all(|trace| spans(trace).contains(&"invoke_agent haft".to_owned())));
}

#[tokio::test]
async fn a_lost_cache_is_an_event() {
    let haft = Haft::new();
    let (url, posts) = collector().await;
    for model_name in ["claude-opus-4-5", "claude-sonnet-4-5"] {
        let model = MockModel::start(Script::from_turns([Turn::text("Fine.")])).await.unwrap();
        let status = haft
            .async_command()
            .args(["-p", "go", "--continue", "--model", model_name])
            .env("ANTHROPIC_BASE_URL", model.url())
            .envs([("HAFT_ENABLE_TELEMETRY", "1"), ("OTEL_EXPORTER_OTLP_ENDPOINT", &url)])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .await
            .unwrap();
        assert!(status.success());
    }
    let posts = posts.lock().unwrap().clone();
    let logs = posts.iter().filter(|(path, _)| path == "/v1/logs");
    let lines =
        logs.flat_map(|(_, it)| it["resourceLogs"][0]["scopeLogs"][0]["logRecords"].as_array().unwrap());
    let lost: Vec<&Value> = lines.filter(|it| it["eventName"] == "haft.cache_bust").collect();
    assert_eq!(lost.len(), 1, "{lost:?}");
    assert_eq!(attribute(lost[0], "haft.cache.cause")["stringValue"], "model_changed");
    assert_eq!(attribute(lost[0], "haft.request")["intValue"], "2");
}

/// A sub-agent's spans are children of the call that started it, and an MCP server gets the trace
/// context.
#[tokio::test]
async fn spans_of_agents_nest_and_servers_are_told() {
    let haft = Haft::new();
    let dir = tempfile::tempdir().unwrap();
    let (server, asked) = (dir.path().join("server.py"), dir.path().join("asked"));
    std::fs::write(&server, crate::replay::SERVER).unwrap();
    let servers =
        json!({"mcpServers": {"own": {"command": "python3", "args": [server, asked], "alwaysLoad": true}}});
    for observed in [true, false] {
        let (url, posts) = collector().await;
        std::fs::remove_file(&asked).ok();
        let spawn = json!({"description": "d", "prompt": "the task", "subagent_type": "general-purpose",
            "run_in_background": false});
        let model = MockModel::start(Script::from_turns([
            Turn::tool("Agent", spawn),
            Turn::tool("mcp__own__shout", json!({"word": "hey"})),
            Turn::text("The agent is done."),
            Turn::text("All done."),
        ]))
        .await
        .unwrap();
        let given = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let output = haft
            .async_command()
            .args(["-p", "go", "--mcp-config", &servers.to_string(), "--allowedTools", "mcp__own"])
            .env("ANTHROPIC_BASE_URL", model.url())
            .env("HAFT_ENABLE_TELEMETRY", if observed { "1" } else { "0" })
            .env("OTEL_EXPORTER_OTLP_ENDPOINT", &url)
            .env("TRACEPARENT", given)
            .stdin(Stdio::null())
            .output()
            .await
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let told: Value = serde_json::from_str(std::fs::read_to_string(&asked).unwrap().trim()).unwrap();
        let told = told["_meta"]["traceparent"].as_str().unwrap().to_owned();
        if !observed {
            assert_eq!(told, given, "whoever began the trace is passed on");
            continue;
        }
        let posts = posts.lock().unwrap().clone();
        let traces = &posts.iter().find(|(path, _)| path == "/v1/traces").unwrap().1;
        let spans = traces["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap();
        let named =
            |name: &str| spans.iter().find(|it| it["name"] == name).unwrap_or_else(|| panic!("{name}"));
        let above = |span: &Value| {
            let id = span["parentSpanId"].clone();
            spans
                .iter()
                .find(|it| it["spanId"] == id)
                .map_or("", |it| it["name"].as_str().unwrap())
                .to_owned()
        };
        let shout = named("execute_tool mcp__own__shout");
        assert_eq!(
            told,
            format!("00-4bf92f3577b34da6a3ce929d0e0e4736-{}-01", shout["spanId"].as_str().unwrap())
        );
        let agent = named("invoke_agent general-purpose");
        assert_eq!(above(agent), "execute_tool Agent");
        let chat = spans.iter().find(|it| it["spanId"] == shout["parentSpanId"]).unwrap();
        assert_eq!(chat["parentSpanId"], agent["spanId"]);
        assert_eq!(above(named("execute_tool Agent")), "chat claude-opus-5-5");
        assert_eq!(spans.iter().filter(|it| it["name"] == "chat claude-opus-5-5").count(), 4);
        let ids: std::collections::HashSet<String> =
            spans.iter().map(|it| it["spanId"].to_string()).collect();
        assert_eq!(ids.len(), spans.len(), "every span has an id of its own");
    }
}

/// Receives three POST requests; returns their headers.
fn heads_of_three() -> (String, std::thread::JoinHandle<Vec<String>>) {
    use std::io::{BufRead as _, BufReader, Read as _, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let heads = std::thread::spawn(move || {
        let mut heads = Vec::new();
        for stream in listener.incoming().take(3) {
            let mut stream = BufReader::new(stream.unwrap());
            let mut head = String::new();
            while stream.read_line(&mut head).unwrap() > 2 {}
            let length =
                head.lines().find_map(|it| it.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
            stream.read_exact(&mut vec![0; length.unwrap()]).unwrap();
            stream
                .get_mut()
                .write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}")
                .unwrap();
            heads.push(head.to_lowercase());
        }
        heads
    });
    (url, heads)
}

#[tokio::test]
async fn a_command_prints_headers_for_the_collector() {
    let haft = Haft::new();
    haft.write("a.txt", "x\n");
    let helper = r#"printf '{"Authorization": "Bearer %s", "X-Team": "tools"}' "$(cat "$HOME/token")""#;
    haft.write_home("token", "abc-123");
    haft.write_home(".haft/settings.json", &json!({"otelHeadersHelper": helper}).to_string());
    let (url, heads) = heads_of_three();
    run(&haft, &[("HAFT_ENABLE_TELEMETRY", "1"), ("OTEL_EXPORTER_OTLP_ENDPOINT", &url)]).await;
    let heads = tokio::task::spawn_blocking(|| heads.join().unwrap()).await.unwrap();
    for head in heads {
        assert!(head.contains("authorization: bearer abc-123") && head.contains("x-team: tools"), "{head}");
    }
}
