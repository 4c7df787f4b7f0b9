//! `haft acp` from an editor's view: response times, and the cost of sessions.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{median, release_binary, small, view::kilobytes};
use crate::{
    session_log::{LogLength, append_session},
    turns::Scratch,
};

const STARTS: usize = 51;
/// Number of timed requests, and of sessions in one process.
const QUESTIONS: usize = 1_000;
const SESSIONS: usize = 20;
const CALLS: u64 = 10_000;

pub(super) fn run() -> Result<(), String> {
    let haft = release_binary()?;
    let scratch = Scratch::new("acp")?;
    println!("haft acp, median of {}", small(STARTS));
    let (mut initialized, mut opened) = (Vec::new(), Vec::new());
    for _ in 0..small(STARTS) {
        let began = Instant::now();
        let mut editor = BenchEditor::start(&haft, &scratch)?;
        initialized.push(began.elapsed());
        let began = Instant::now();
        editor.open(&scratch)?;
        opened.push(began.elapsed());
    }
    println!("  start to initialize {:.1?} (goal 15 ms)", median(initialized));
    println!("  session/new {:.1?} (goal 30 ms)", median(opened));
    let mut editor = BenchEditor::start(&haft, &scratch)?;
    let session = editor.open(&scratch)?;
    let mut times = Vec::new();
    for turn in 0..small(QUESTIONS) {
        let mode = if turn % 2 == 0 { "plan" } else { "default" };
        let began = Instant::now();
        editor.call("session/set_mode", &json!({"sessionId": session, "modeId": mode}))?;
        times.push(began.elapsed());
    }
    times.sort();
    println!("  a request to its answer, p99 {:.2?} (goal 1 ms)", times[times.len() * 99 / 100]);
    let before = kilobytes(editor.child.id(), "VmRSS:")?;
    for _ in 0..SESSIONS {
        editor.open(&scratch)?;
    }
    let each = kilobytes(editor.child.id(), "VmRSS:")?.saturating_sub(before) / SESSIONS as u64;
    println!("  memory with one session {} MB, a further one {each} kB (goal 2048)", before / 1024);
    println!("  load of {CALLS} calls {:.1?} (goal 300 ms)", load(&haft, &scratch)?);
    Ok(())
}

/// Loads a long session in a new process; returns the time from request to response, including the
/// replay.
fn load(haft: &Path, scratch: &Scratch) -> Result<Duration, String> {
    let session = "0198f3c2-0000-7000-8000-000000000001";
    let mut editor = BenchEditor::start(haft, scratch)?;
    let place = json!({"cwd": scratch.ws(), "mcpServers": []});
    let dir = logs_of(scratch);
    fs::create_dir_all(&dir).map_err(|err| err.to_string())?;
    append_session(&dir.join(format!("{session}.jsonl")), LogLength::Calls(CALLS))?;
    let began = Instant::now();
    let params = json!({"sessionId": session, "cwd": place["cwd"], "mcpServers": []});
    editor.call("session/load", &params)?;
    let took = began.elapsed();
    if editor.lines < CALLS as usize {
        return Err(format!("only {} lines were shown", editor.lines));
    }
    Ok(took)
}

/// Returns the log directory of the temporary workspace.
fn logs_of(scratch: &Scratch) -> PathBuf {
    let ws = scratch.ws().display().to_string();
    let name: String = ws.chars().map(|it| if it.is_ascii_alphanumeric() { it } else { '-' }).collect();
    scratch.home().join(".haft/projects").join(name)
}

/// An editor after the handshake.
struct BenchEditor {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    next: u64,
    /// Number of lines received.
    lines: usize,
}

impl Drop for BenchEditor {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl BenchEditor {
    fn start(haft: &Path, scratch: &Scratch) -> Result<Self, String> {
        let mut command = Command::new(haft);
        command.arg("acp").env("HOME", scratch.home()).env("ANTHROPIC_API_KEY", "key");
        command.env("ANTHROPIC_BASE_URL", "http://127.0.0.1:9").current_dir(scratch.ws());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(|err| format!("{}: {err}", haft.display()))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(String::from("no pipes"));
        };
        let mut editor = Self { child, input, output: BufReader::new(output), next: 0, lines: 0 };
        editor.call("initialize", &json!({"protocolVersion": 1, "clientCapabilities": {}}))?;
        Ok(editor)
    }

    fn open(&mut self, scratch: &Scratch) -> Result<String, String> {
        let made = self.call("session/new", &json!({"cwd": scratch.ws(), "mcpServers": []}))?;
        Ok(made["sessionId"].as_str().unwrap_or_default().to_owned())
    }

    fn call(&mut self, method: &str, params: &Value) -> Result<Value, String> {
        self.next += 1;
        let line = json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params});
        writeln!(self.input, "{line}").map_err(|err| err.to_string())?;
        let mut heard = String::new();
        loop {
            heard.clear();
            if self.output.read_line(&mut heard).map_err(|err| err.to_string())? == 0 {
                return Err(format!("{method}: the agent is gone"));
            }
            self.lines += 1;
            // Updates are not parsed, because the editor's work is not measured.
            if heard.starts_with("{\"id\"") || heard.contains("\"result\"") || heard.contains("\"error\"") {
                let answer: Value = serde_json::from_str(&heard).map_err(|err| err.to_string())?;
                if answer["id"] == self.next && answer.get("method").is_none() {
                    return match answer.get("error") {
                        Some(error) => Err(format!("{method}: {error}")),
                        None => Ok(answer["result"].clone()),
                    };
                }
            }
        }
    }
}
