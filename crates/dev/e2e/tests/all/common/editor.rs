//! A raw test client for `haft acp`: sends any line, stores every received line, and validates each
//! against the protocol's schema.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "test code")]

use std::{collections::HashMap, path::PathBuf, process::Stdio, time::Duration};

use haft_testkit::MockModel;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    process::{Child, ChildStdin, ChildStdout},
};

use crate::common::Haft;

/// Only a hang takes this long.
const TIMEOUT: Duration = Duration::from_secs(120);

/// The client's response to a request of the agent; `None` leaves it open.
pub type Answering = fn(&str, &Value) -> Option<Value>;

pub struct EditorClient {
    child: Child,
    input: Option<ChildStdin>,
    lines: tokio::io::Lines<BufReader<ChildStdout>>,
    next: u64,
    /// Methods of the client's requests, by id.
    asked: HashMap<u64, String>,
    answers: HashMap<u64, Value>,
    /// Every received line, with the method it responds to.
    pub heard: Vec<(Value, Option<String>)>,
    /// Requests of the agent left unanswered.
    pub open: Vec<Value>,
    pub answering: Answering,
    /// Contents of open buffers, for the file system requests of the agent; writes are stored here.
    pub buffers: Option<HashMap<PathBuf, String>>,
}

/// Allows once.
pub fn allow(method: &str, _: &Value) -> Option<Value> {
    let outcome = json!({"outcome": {"outcome": "selected", "optionId": "allow-once"}});
    (method == "session/request_permission").then_some(outcome)
}

/// Leaves every request open.
pub fn silent(_: &str, _: &Value) -> Option<Value> {
    None
}

impl EditorClient {
    /// Starts `haft acp` in a project, with this model.
    pub fn start(haft: &Haft, model: &MockModel, flags: &[&str]) -> Self {
        let mut command = haft.async_command();
        command.args(flags).arg("acp").env("ANTHROPIC_BASE_URL", model.url()).env("ANTHROPIC_API_KEY", "key");
        Self::of_command(command)
    }

    pub fn of_command(mut command: tokio::process::Command) -> Self {
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = piped.kill_on_drop(true).spawn().unwrap();
        let input = child.stdin.take();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self {
            child,
            input,
            lines,
            next: 0,
            asked: HashMap::new(),
            answers: HashMap::new(),
            heard: Vec::new(),
            open: Vec::new(),
            answering: allow,
            buffers: None,
        }
    }

    pub fn pid(&self) -> u32 {
        self.child.id().unwrap()
    }

    pub async fn raw(&mut self, line: &str) {
        let input = self.input.as_mut().unwrap();
        input.write_all(format!("{line}\n").as_bytes()).await.unwrap();
        input.flush().await.unwrap();
    }

    /// Sends a request; returns its id.
    pub async fn ask(&mut self, method: &str, params: Value) -> u64 {
        self.next += 1;
        self.asked.insert(self.next, method.to_owned());
        let line = json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params});
        self.raw(&line.to_string()).await;
        self.next
    }

    /// Registers a request that was sent as a raw line.
    pub fn expect(&mut self, id: u64, method: &str) {
        self.asked.insert(id, method.to_owned());
    }

    pub async fn say(&mut self, method: &str, params: Value) {
        self.raw(&json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string()).await;
    }

    /// Responds to a request of the agent.
    pub async fn reply(&mut self, request: &Value, result: Value) {
        self.raw(&json!({"jsonrpc": "2.0", "id": request["id"], "result": result}).to_string()).await;
    }

    /// Reads the next line, stores it, and answers it if it is a request.
    pub async fn hear(&mut self) -> Option<Value> {
        let line =
            tokio::time::timeout(TIMEOUT, self.lines.next_line()).await.expect("the agent hangs").unwrap()?;
        let line: Value = serde_json::from_str(&line).unwrap_or_else(|err| panic!("{err}: {line}"));
        assert_eq!(line["jsonrpc"], "2.0", "{line}");
        let mut answers = None;
        if let Some(method) = line["method"].as_str() {
            if line.get("id").is_some() {
                let of_buffer = self.buffer_answer(method, &line["params"]);
                match of_buffer.or_else(|| (self.answering)(method, &line["params"])) {
                    Some(result) => self.reply(&line, result).await,
                    None => self.open.push(line.clone()),
                }
            }
        } else if let Some(id) = line["id"].as_u64() {
            answers = self.asked.get(&id).cloned();
            assert!(self.answers.insert(id, line.clone()).is_none(), "{id} was answered twice");
        }
        self.heard.push((line.clone(), answers));
        Some(line)
    }

    /// Answers file system requests from the open buffers.
    fn buffer_answer(&mut self, method: &str, params: &Value) -> Option<Value> {
        let buffers = self.buffers.as_mut()?;
        let path = PathBuf::from(params["path"].as_str()?);
        match method {
            "fs/read_text_file" => {
                let shown = buffers.get(&path).cloned().or_else(|| std::fs::read_to_string(&path).ok());
                Some(json!({"content": shown.unwrap_or_default()}))
            }
            "fs/write_text_file" => {
                let text = params["content"].as_str()?.to_owned();
                std::fs::write(&path, &text).ok()?;
                buffers.insert(path, text);
                Some(json!({}))
            }
            _ => None,
        }
    }

    /// Waits for the response with this id: its result or error.
    pub async fn answer(&mut self, id: u64) -> Result<Value, Value> {
        while !self.answers.contains_key(&id) {
            self.hear().await.expect("the agent is gone");
        }
        let answer = &self.answers[&id];
        if answer.get("error").is_some() {
            Err(answer["error"].clone())
        } else {
            Ok(answer["result"].clone())
        }
    }

    pub async fn call(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        let id = self.ask(method, params).await;
        self.answer(id).await
    }

    /// Reads until a line matches.
    pub async fn until(&mut self, fits: impl Fn(&Value) -> bool) -> Value {
        loop {
            let line = self.hear().await.expect("the agent is gone");
            if fits(&line) {
                return line;
            }
        }
    }

    pub async fn begin(&mut self, abilities: Value) -> Value {
        let params = json!({"protocolVersion": 1, "clientCapabilities": abilities});
        self.call("initialize", params).await.unwrap()
    }

    pub async fn new_session(&mut self, haft: &Haft) -> String {
        let made = self.call("session/new", json!({"cwd": haft.ws(), "mcpServers": []})).await.unwrap();
        made["sessionId"].as_str().unwrap().to_owned()
    }

    pub async fn prompt(&mut self, session: &str, words: &str) -> Result<Value, Value> {
        self.call("session/prompt", prompt_params(session, words)).await
    }

    /// All updates of a session so far.
    pub fn updates(&self, session: &str) -> Vec<Value> {
        let lines = self.heard.iter().filter(|(line, _)| line["method"] == "session/update");
        let mine = lines.filter(|(line, _)| line["params"]["sessionId"] == session);
        mine.map(|(line, _)| line["params"]["update"].clone()).collect()
    }

    pub fn updates_of(&self, session: &str, kind: &str) -> Vec<Value> {
        self.updates(session).into_iter().filter(|it| it["sessionUpdate"] == kind).collect()
    }

    /// Closes the input and waits for the program. Checks all lines against the schema, and that
    /// standard error is empty.
    pub async fn end(mut self) -> Vec<Value> {
        self.input = None;
        while self.hear().await.is_some() {}
        let status =
            tokio::time::timeout(TIMEOUT, self.child.wait()).await.expect("it does not end").unwrap();
        let mut noise = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut noise).await.unwrap();
        assert!(status.success(), "{status}: {noise}");
        assert_eq!(noise, "", "standard error");
        judge(&self.heard);
        self.heard.into_iter().map(|(line, _)| line).collect()
    }
}

pub fn prompt_params(session: &str, words: &str) -> Value {
    json!({"sessionId": session, "prompt": [{"type": "text", "text": words}]})
}

/// Validates every line with the schema of the pinned package; prints a message if that is not
/// installed.
fn judge(heard: &[(Value, Option<String>)]) {
    let (Some(python), Some(node)) = (crate::editor_kits::python(), crate::editor_kits::node()) else {
        return;
    };
    let schema: PathBuf = node.join("node_modules/@agentclientprotocol/sdk/schema/v1/schema.unstable.json");
    let script = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/acp_clients/judge.py");
    let lines: String = heard
        .iter()
        .map(|(line, answers)| format!("{}\n", json!({"line": line, "answers": answers})))
        .collect();
    let mut judge = std::process::Command::new(python)
        .arg(script)
        .arg(schema)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = judge.stdin.take().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || std::io::Write::write_all(&mut input, lines.as_bytes()).unwrap());
        let judged = judge.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&judged.stdout).into_owned();
        let noise = String::from_utf8_lossy(&judged.stderr).into_owned();
        assert!(judged.status.success(), "{said}{noise}");
        assert_eq!(said.trim(), format!("{} lines fit", heard.len()), "{noise}");
    });
}
