//! The server over pipes, line by line: the fast path and the SDK behave the same.

#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "test code")]

use crate::support;

use std::process::Stdio;

use serde_json::{Value, json};
use support::{TIMEOUT, example};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
    time::timeout,
};

/// A server and a client that controls every byte.
struct Raw {
    server: Child,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
}

impl Raw {
    async fn start(capabilities: Value) -> Self {
        let mut command = Command::new(example("tool_server"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut server = command.spawn().unwrap();
        let (input, output) = (server.stdin.take(), server.stdout.take().unwrap());
        let mut raw = Self { server, input, output: BufReader::new(output).lines() };
        let client = json!({"name": "raw", "version": "1"});
        let params =
            json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": client});
        raw.send(&json!({"jsonrpc": "2.0", "id": "begin", "method": "initialize", "params": params})).await;
        raw.read().await;
        raw.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        // The session is established once a later request is answered.
        raw.send(&json!({"jsonrpc": "2.0", "id": "list", "method": "tools/list", "params": {}})).await;
        raw.read().await;
        raw
    }

    async fn write(&mut self, bytes: &[u8]) {
        self.input.as_mut().unwrap().write_all(bytes).await.unwrap();
    }

    async fn send(&mut self, message: &Value) {
        self.write(format!("{message}\n").as_bytes()).await;
    }

    async fn read(&mut self) -> Value {
        let line = timeout(TIMEOUT, self.output.next_line()).await.expect("no line came").unwrap();
        serde_json::from_str(&line.expect("the server left")).unwrap()
    }

    /// Returns all messages up to the answer to `id`, with the answer last.
    async fn until(&mut self, id: &Value) -> Vec<Value> {
        let mut lines = Vec::new();
        loop {
            lines.push(self.read().await);
            if lines.last().unwrap()["id"] == *id && lines.last().unwrap().get("method").is_none() {
                return lines;
            }
        }
    }
}

fn call(id: impl Into<Value>, tool: &str, arguments: Value) -> Value {
    let params = json!({"name": tool, "arguments": arguments});
    json!({"jsonrpc": "2.0", "id": id.into(), "method": "tools/call", "params": params})
}

/// Removes what differs between calls.
fn comparable(mut answer: Value) -> Value {
    answer["id"] = Value::Null;
    // Files of results have consecutive numbers.
    let text = answer.to_string();
    let without_numbers = text.split(".txt").map(|it| it.trim_end_matches(|it: char| it.is_ascii_digit()));
    let same: Vec<&str> = without_numbers.collect();
    serde_json::from_str(&same.join(".txt")).unwrap()
}

#[tokio::test]
async fn fast_path_and_sdk_give_same_answer() {
    let mut raw = Raw::start(json!({})).await;
    for (tool, arguments) in [
        ("echo", json!({"text": "a \"quoted\"\nline\u{1f980}"})),
        ("echo", json!({})),
        ("echo", json!({"text": 5})),
        ("fail", json!({"text": "why"})),
        ("nothing", json!({})),
        ("big", json!({"count": 20_000})),
        // There is no approver.
        ("write", json!({"text": "x"})),
    ] {
        let short = call(1, tool, arguments.clone());
        // A field the fast path does not know.
        let mut long = call("two", tool, arguments);
        long["params"]["unknown"] = json!(true);
        raw.send(&short).await;
        let short = raw.read().await;
        raw.send(&long).await;
        let long = raw.read().await;
        assert_eq!((&short["id"], &long["id"]), (&json!(1), &json!("two")));
        assert_eq!(comparable(short), comparable(long), "{tool}");
    }
}

#[tokio::test]
async fn input_lines_may_be_split_anywhere() {
    let mut raw = Raw::start(json!({})).await;
    let echo = |id: u64| call(id, "echo", json!({"text": "x"})).to_string();
    for byte in format!("{}\r\n", echo(1)).bytes() {
        raw.write(&[byte]).await;
    }
    assert_eq!(raw.read().await["id"], 1);
    raw.write(format!("{}\n\n{}\n{}", echo(2), echo(3), &echo(4)[..30]).as_bytes()).await;
    raw.write(format!("{}\n", &echo(4)[30..]).as_bytes()).await;
    let mut ids: Vec<u64> = Vec::new();
    for _ in 2..=4 {
        ids.push(raw.read().await["id"].as_u64().unwrap());
    }
    ids.sort_unstable();
    assert_eq!(ids, [2, 3, 4]);
    // Longer than the limit of the fast path, followed directly by the next line.
    let long = "y".repeat(3 << 20);
    raw.write(format!("{}\n{}\n", call(5, "echo", json!({"text": long})), echo(6)).as_bytes()).await;
    let mut answers = [raw.read().await, raw.read().await];
    answers.sort_by_key(|it| it["id"].as_u64());
    assert_eq!((&answers[0]["id"], &answers[1]["id"]), (&json!(5), &json!(6)));
    // Lines that are not messages do no harm.
    raw.write(b"{\"tools/call\"\n\"tools/call\"\n[1, 2]\n").await;
    raw.send(&call(7, "echo", json!({"text": "still here"}))).await;
    let answer = raw.until(&json!(7)).await.pop().unwrap();
    assert_eq!(answer["result"]["content"][0]["text"], "still here");
}

#[tokio::test]
async fn progress_precedes_result_and_questions_are_answered() {
    let mut raw = Raw::start(json!({"elicitation": {}})).await;
    let mut count = call(1, "count", json!({"count": 3}));
    count["params"]["_meta"] = json!({"progressToken": "p"});
    raw.send(&count).await;
    let lines = raw.until(&json!(1)).await;
    let steps: Vec<&Value> = lines[..lines.len() - 1].iter().map(|it| &it["params"]["progress"]).collect();
    assert_eq!(steps, [1.0, 2.0, 3.0]);
    for (decision, said) in [("allow", "wrote it"), ("deny", "the user said no")] {
        raw.send(&call(decision, "write", json!({"text": "it"}))).await;
        let question = raw.read().await;
        assert_eq!(question["method"], "elicitation/create");
        let result = json!({"action": "accept", "content": {"decision": decision}});
        raw.send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": result})).await;
        let answer = raw.read().await;
        assert_eq!(answer["id"], decision);
        let text = answer["result"]["content"][0]["text"].as_str().unwrap();
        assert!(text.contains(said), "{text}");
    }
}

#[tokio::test]
async fn cancelled_call_gets_no_response() {
    let mut raw = Raw::start(json!({})).await;
    let mut count = call("slow", "count", json!({"count": 1_000_000}));
    count["params"]["_meta"] = json!({"progressToken": 1});
    raw.send(&count).await;
    assert_eq!(raw.read().await["method"], "notifications/progress");
    let params = json!({"requestId": "slow", "reason": "changed my mind"});
    raw.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})).await;
    raw.send(&call(2, "echo", json!({"text": "x"}))).await;
    let lines = raw.until(&json!(2)).await;
    assert!(lines.iter().all(|it| it["id"] != "slow"), "{lines:?}");
    // No calls are running, so the server exits at once.
    drop(raw.input.take());
    let mut rest = 0;
    while let Some(line) = timeout(TIMEOUT, raw.output.next_line()).await.unwrap().unwrap() {
        assert!(!line.contains("slow"), "{line}");
        rest += 1;
    }
    assert!(rest < 5, "{rest} reports after the call was taken back");
}

#[tokio::test]
async fn large_input_before_reading_does_not_deadlock() {
    let mut raw = Raw::start(json!({})).await;
    let text = "z".repeat(500);
    let requests: String =
        (0..4000).map(|id| format!("{}\n", call(id, "echo", json!({"text": text})))).collect();
    // More than both pipes and all buffers can hold: neither side may deadlock.
    timeout(TIMEOUT, raw.write(requests.as_bytes())).await.expect("the server stopped reading");
    let mut seen = vec![false; 4000];
    for _ in 0..4000 {
        let id = usize::try_from(raw.read().await["id"].as_u64().unwrap()).unwrap();
        assert!(!std::mem::replace(&mut seen[id], true), "{id} was answered twice");
    }
}

#[tokio::test]
async fn calls_before_end_of_input_are_answered() {
    let mut raw = Raw::start(json!({})).await;
    raw.send(&call(1, "count", json!({"count": 5}))).await;
    raw.write(call(2, "echo", json!({"text": "no line break"})).to_string().as_bytes()).await;
    drop(raw.input.take());
    let mut answers = [raw.read().await, raw.read().await];
    answers.sort_by_key(|it| it["id"].as_u64());
    assert_eq!(answers[0]["result"]["content"][0]["text"], "counted to 5");
    assert_eq!(answers[1]["result"]["content"][0]["text"], "no line break");
    assert!(timeout(TIMEOUT, raw.server.wait()).await.unwrap().unwrap().success());
}

#[tokio::test]
async fn unresponsive_client_does_not_block_exit() {
    let mut raw = Raw::start(json!({})).await;
    let big = call(1, "big", json!({"count": 2_000})).to_string();
    for _ in 0..200 {
        raw.write(format!("{big}\n").as_bytes()).await;
    }
    drop(raw.input.take());
    assert!(timeout(TIMEOUT, raw.server.wait()).await.expect("it waits for ever").unwrap().success());
}
