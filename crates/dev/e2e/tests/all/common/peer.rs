//! A scripted host for the SDK protocol.
#![allow(dead_code, unreachable_pub, reason = "every test file uses its own part")]
#![allow(clippy::unwrap_used, reason = "test code")]

use std::{process::Stdio, time::Duration};

use haft_testkit::{MockModel, Script, Turn};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout},
};

use crate::common::Haft;

pub const FLAGS: [&str; 5] = ["--output-format", "stream-json", "--verbose", "--input-format", "stream-json"];

/// Only a hang takes this long.
pub const TIMEOUT: Duration = Duration::from_secs(120);

/// A running program and the host's side of its protocol.
pub struct Peer {
    pub child: Child,
    pub stdin: Option<ChildStdin>,
    pub lines: Lines<BufReader<ChildStdout>>,
    pub model: MockModel,
}

impl Peer {
    pub async fn start(haft: &Haft, turns: Vec<Turn>, args: &[&str]) -> Self {
        Self::of(haft, Script::from_turns(turns), args).await
    }

    /// Like `start`, with additional environment variables.
    pub async fn with(haft: &Haft, turns: Vec<Turn>, args: &[&str], variables: &[(&str, String)]) -> Self {
        Self::start_in(haft, Script::from_turns(turns), args, variables).await
    }

    pub async fn of(haft: &Haft, script: Script, args: &[&str]) -> Self {
        Self::start_in(haft, script, args, &[]).await
    }

    async fn start_in(haft: &Haft, script: Script, args: &[&str], variables: &[(&str, String)]) -> Self {
        let model = MockModel::start(script).await.unwrap();
        let mut child = haft
            .async_command()
            .args(FLAGS)
            .args(args)
            .env("ANTHROPIC_BASE_URL", model.url())
            .env("CLAUDE_CODE_SDK_READS_SESSION_STATE", "1")
            .env("IS_SANDBOX", "1")
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { stdin: child.stdin.take(), child, lines, model }
    }

    pub async fn raw(&mut self, line: &str) {
        self.stdin.as_mut().unwrap().write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    pub async fn send(&mut self, frame: Value) {
        self.raw(&frame.to_string()).await;
    }

    pub async fn say(&mut self, text: &str) {
        self.send(json!({"type": "user", "message": {"role": "user", "content": text}})).await;
    }

    pub async fn request(&mut self, id: &str, request: Value) {
        self.send(json!({"type": "control_request", "request_id": id, "request": request})).await;
    }

    pub async fn answer(&mut self, question: &Value, response: Value) {
        let id = question["request_id"].clone();
        let response = json!({"subtype": "success", "request_id": id, "response": response});
        self.send(json!({"type": "control_response", "response": response})).await;
    }

    pub async fn next(&mut self) -> Option<Value> {
        let line = tokio::time::timeout(TIMEOUT, self.lines.next_line()).await.unwrap().unwrap()?;
        assert!(line.len() <= 1_000_000, "{} bytes", line.len());
        Some(serde_json::from_str(&line).unwrap())
    }

    /// Frames up to and including the first that matches.
    pub async fn until(&mut self, fits: impl Fn(&Value) -> bool) -> Vec<Value> {
        let mut seen = Vec::new();
        loop {
            let Some(frame) = self.next().await else { panic!("ended after {seen:#?}") };
            let done = fits(&frame);
            seen.push(frame);
            if done {
                return seen;
            }
        }
    }

    pub async fn result(&mut self) -> Value {
        self.until(|it| it["type"] == "result").await.pop().unwrap()
    }

    /// The next control request of this subtype.
    pub async fn asked(&mut self, subtype: &str) -> Value {
        self.until(|it| it["type"] == "control_request" && it["request"]["subtype"] == subtype)
            .await
            .pop()
            .unwrap()
    }

    /// Closes the input; returns the remaining frames, the exit code and standard error.
    pub async fn end(mut self) -> (Vec<Value>, Option<i32>, String) {
        self.stdin = None;
        let mut rest = Vec::new();
        while let Some(frame) = self.next().await {
            rest.push(frame);
        }
        let status = tokio::time::timeout(TIMEOUT, self.child.wait()).await.unwrap().unwrap();
        let mut stderr = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut stderr).await.unwrap();
        (rest, status.code(), stderr)
    }
}
