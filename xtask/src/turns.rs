//! `cargo xtask bench turns`: an agent with a scripted model, wall clock time.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::bench::{median, release_binary};

/// A temporary directory, deleted on drop.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Result<Self, String> {
        let dir = std::env::temp_dir().join(format!("haft-bench-{}-{name}", std::process::id()));
        for part in ["ws", "home"] {
            fs::create_dir_all(dir.join(part)).map_err(|err| err.to_string())?;
        }
        Ok(Self(dir))
    }

    pub(crate) fn ws(&self) -> PathBuf {
        self.0.join("ws")
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.0.join("home")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

/// Runs all benchmarks of this file.
pub(crate) fn run() -> Result<(), String> {
    let haft = release_binary()?;
    first_request(&haft)?;
    println!("turn gaps (last byte of an answer to the next request), median and 90th percentile");
    let read = json!({"tool": {"name": "Read", "input": {"file_path": "a.txt"}}});
    let parallel = |piece: Value| (0..10).map(|_| piece.clone()).collect::<Vec<_>>();
    let numbered = |from: &dyn Fn(usize) -> Value, turns: usize| -> Vec<Value> {
        (0..turns).map(|turn| json!([from(turn)])).collect()
    };
    let read_page =
        |turn: usize| json!({"tool": {"name": "Read", "input": {"file_path": format!("f{turn}.txt")}}});
    let echo = |turn: usize| json!({"tool": {"name": "Bash", "input": {"command": format!("echo {turn}")}}});
    let edit = |turn: usize| {
        let (old, new) = (format!("line {turn} "), format!("changed {turn} "));
        json!({"tool": {"name": "Edit", "input": {"file_path": "a.txt", "old_string": old, "new_string": new}}})
    };
    let mut edits = vec![json!([read])];
    edits.extend(numbered(&edit, 20));
    for (name, goal, turns) in [
        ("50 turns with one Read", "0.5 ms", numbered(&read_page, 50)),
        ("20 edits", "1 ms", edits),
        ("50 turns of echo", "2 ms", numbered(&echo, 50)),
        ("10 parallel reads", "5 ms", vec![Value::from(parallel(read)); 1]),
    ] {
        let (gaps, memory) = played(&haft, name, &turns, &BYPASSING)?;
        println!("  {name:<24} {}  goal {goal}; peak {} MB (goal 18)", shown(&gaps), memory / 1024);
    }
    // Before its first command a session runs the login shell, which is measured separately.
    let sleep = json!({"tool": {"name": "Bash", "input": {"command": "sleep 0.3"}}});
    let (gaps, _) = played(&haft, "sleep", &[json!([echo(0)]), Value::from(parallel(sleep))], &BYPASSING)?;
    println!("  10 parallel sleep 0.3    {}  goal 320 ms", shown(&gaps[1..]));
    println!("  first command            {}  with the login shell's start-up files", shown(&gaps[..1]));
    walls(&haft, &numbered(&echo, 50))?;
    long_run(&haft)?;
    long_log(&haft)
}

/// Arguments that disable permission prompts.
pub(crate) const BYPASSING: [&str; 2] = ["--permission-mode", "bypassPermissions"];

/// Overhead of the sandbox of read-only commands: the same turns alternately with it, and without it
/// because of a rule.
fn walls(haft: &Path, turns: &[Value]) -> Result<(), String> {
    const ROUNDS: usize = 7;
    let (mut held, mut free) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        held.extend(played(haft, "held", turns, &[])?.0);
        free.extend(played(haft, "free", turns, &["--allowedTools", "Bash(echo *)"])?.0);
    }
    let middle = |gaps: &mut Vec<f64>| {
        gaps.sort_by(f64::total_cmp);
        gaps[gaps.len() / 2]
    };
    let (held, free) = (middle(&mut held), middle(&mut free));
    println!(
        "  echo behind walls        {held:>8.2} ms, by a rule and without them {free:.2} ms: {:+.2} ms (goal 0.3)",
        held - free
    );
    Ok(())
}

fn shown(gaps: &[f64]) -> String {
    let mut sorted = gaps.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |share: usize| sorted.get(sorted.len() * share / 100).copied().unwrap_or_default();
    format!("{:>8.2} ms {:>8.2} ms", at(50), at(90))
}

/// Process start to the first byte of the first request.
fn first_request(haft: &Path) -> Result<(), String> {
    let scratch = Scratch::new("first")?;
    let listener = TcpListener::bind("127.0.0.1:0").map_err(|err| err.to_string())?;
    let url = format!("http://{}", listener.local_addr().map_err(|err| err.to_string())?);
    let mut times = Vec::new();
    for _ in 0..31 {
        let started = Instant::now();
        let mut child = agent(haft, &scratch, &url, &[]).spawn().map_err(|err| err.to_string())?;
        let (mut stream, _) = listener.accept().map_err(|err| err.to_string())?;
        stream.read_exact(&mut [0]).map_err(|err| err.to_string())?;
        times.push(started.elapsed());
        // The rest is irrelevant.
        stream.write_all(b"HTTP/1.1 401 no\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").ok();
        drop(stream);
        child.wait().map_err(|err| err.to_string())?;
    }
    println!("process start to first request, median of 31: {:.1?} (goal 8 ms)", median(times));
    Ok(())
}

fn agent(haft: &Path, scratch: &Scratch, url: &str, extra: &[&str]) -> Command {
    agent_in(Command::new(haft), scratch, url, &[&BYPASSING[..], extra].concat())
}

/// Returns an agent command, wrapped in `command`.
pub(crate) fn agent_in(mut command: Command, scratch: &Scratch, url: &str, extra: &[&str]) -> Command {
    command
        .args(["-p", "go"])
        .args(extra)
        .current_dir(scratch.ws())
        .env("HOME", scratch.home())
        .env("ANTHROPIC_BASE_URL", url)
        .env("ANTHROPIC_API_KEY", "bench")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// Starts a model that plays a script; returns its process and URL.
pub(crate) fn model(haft: &Path, scratch: &Scratch, script: &Value) -> Result<(Child, String), String> {
    let path = scratch.0.join("script.json");
    fs::write(&path, script.to_string()).map_err(|err| err.to_string())?;
    let mut child = Command::new(haft)
        .args(["dev", "mock-model"])
        .arg(&path)
        .arg("--requests")
        .arg(scratch.0.join("requests.jsonl"))
        .arg("--without-bodies")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|err| err.to_string())?;
    let mut url = String::new();
    let out = child.stdout.take().ok_or("no output")?;
    BufReader::new(out).read_line(&mut url).map_err(|err| err.to_string())?;
    Ok((child, url.trim().to_owned()))
}

/// Returns the gaps between requests in milliseconds, and the agent's peak memory in kB.
fn played(haft: &Path, name: &str, turns: &[Value], flags: &[&str]) -> Result<(Vec<f64>, u64), String> {
    let scratch = Scratch::new(&name.replace(' ', "-"))?;
    let lines: String = (0..200).map(|number| format!("line {number} of the file\n")).collect();
    fs::write(scratch.ws().join("a.txt"), &lines).map_err(|err| err.to_string())?;
    for number in 0..50 {
        fs::write(scratch.ws().join(format!("f{number}.txt")), &lines).map_err(|err| err.to_string())?;
    }
    let mut list: Vec<Value> = turns.iter().map(|reply| json!({"reply": reply})).collect();
    list.push(json!({"reply": [{"text": "Done."}]}));
    let (mut server, url) = model(haft, &scratch, &json!({"turns": list}))?;
    let mut child =
        agent_in(Command::new(haft), &scratch, &url, flags).spawn().map_err(|err| err.to_string())?;
    let memory = peak(&mut child)?;
    wait_for_lines(&scratch.0.join("requests.jsonl"), list.len())?;
    server.kill().ok();
    server.wait().ok();
    Ok((gaps(&scratch.0.join("requests.jsonl"))?, memory))
}

fn gaps(path: &Path) -> Result<Vec<f64>, String> {
    let text = fs::read_to_string(path).map_err(|err| err.to_string())?;
    let lines: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let refused = lines.iter().filter(|line| !line["refusal"].is_null()).count();
    if 0 < refused {
        return Err(format!("{refused} requests were refused"));
    }
    let gap = |pair: &[Value]| Some(pair[1]["received_ms"].as_f64()? - pair[0]["answered_ms"].as_f64()?);
    Ok(lines.windows(2).filter_map(gap).collect())
}

pub(crate) fn wait_for_lines(path: &Path, count: usize) -> Result<(), String> {
    let deadline = Instant::now() + Duration::from_secs(10);
    while Instant::now() < deadline {
        let lines = fs::read_to_string(path).map_or(0, |text| text.lines().count());
        if count <= lines {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Err(format!("{} has fewer than {count} requests", path.display()))
}

/// Waits for a child; returns its peak memory in kB.
fn peak(child: &mut Child) -> Result<u64, String> {
    let status = format!("/proc/{}/status", child.id());
    let mut most = 0;
    loop {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let now = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0);
        most = most.max(now);
        match child.try_wait().map_err(|err| err.to_string())? {
            Some(ended) if ended.success() => return Ok(most),
            Some(ended) => return Err(format!("the agent ended with {ended}")),
            None => std::thread::sleep(Duration::from_millis(2)),
        }
    }
}

/// Two thousand turns with results of 50 kB.
fn long_run(haft: &Path) -> Result<(), String> {
    const TURNS: usize = 2_000;
    let scratch = Scratch::new("long")?;
    let line = "forty-nine characters of text and a line break..\n";
    for number in 0..TURNS {
        let text = format!("{number}\n{}", line.repeat(1_000));
        fs::write(scratch.ws().join(format!("{number}.txt")), text).map_err(|err| err.to_string())?;
    }
    let turn = |number: usize| json!({"reply": [{"tool": {"name": "Read", "input": {"file_path": format!("{number}.txt")}}}]});
    let summary = json!({"when": {"last_user": "Sum up this conversation"}, "times": "always", "reply": [{"text": "Files were read."}]});
    let mut list = vec![summary];
    list.extend((0..TURNS).map(turn));
    list.push(json!({"reply": [{"text": "Done."}]}));
    let (mut server, url) = model(haft, &scratch, &json!({"turns": list, "keep_requests": 4}))?;
    let started = Instant::now();
    let mut child = agent(haft, &scratch, &url, &[]).spawn().map_err(|err| err.to_string())?;
    let memory = peak(&mut child)?;
    let took = started.elapsed();
    server.kill().ok();
    server.wait().ok();
    let gaps = gaps(&scratch.0.join("requests.jsonl"))?;
    let quarter = gaps.len() / 4;
    println!("{TURNS} turns with 50 kB each: {took:.1?}, peak {} MB (goal 150)", memory / 1024);
    println!(
        "  first quarter {}\n  last quarter  {}",
        shown(&gaps[..quarter]),
        shown(&gaps[gaps.len() - quarter..])
    );
    let log = log_of(&scratch)?;
    let size = fs::metadata(&log).map_err(|err| err.to_string())?.len();
    println!("  log {} MB for about {} MB of results", size / 1_000_000, TURNS * 50 / 1000);
    Ok(())
}

/// Returns the only session log.
fn log_of(scratch: &Scratch) -> Result<PathBuf, String> {
    let mut dirs = vec![scratch.0.join("home/.haft/projects")];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).map_err(|err| err.to_string())?.flatten() {
            let path = entry.path();
            if path.is_dir() {
                dirs.push(path);
            } else if path.extension().is_some_and(|it| it == "jsonl") {
                return Ok(path);
            }
        }
    }
    Err(String::from("there is no session log"))
}

/// Resumes a session with a log of one gigabyte.
fn long_log(haft: &Path) -> Result<(), String> {
    let scratch = Scratch::new("log")?;
    let (mut server, url) = model(
        haft,
        &scratch,
        &json!({"turns": [{"reply": [{"text": "Noted."}]}, {"times": "always", "reply": [{"text": "Again."}]}]}),
    )?;
    let mut child = agent(haft, &scratch, &url, &[]).spawn().map_err(|err| err.to_string())?;
    peak(&mut child)?;
    let log = log_of(&scratch)?;
    grow(&log, 1 << 30)?;
    let started = Instant::now();
    let mut child = agent(haft, &scratch, &url, &["--continue"]).spawn().map_err(|err| err.to_string())?;
    let memory = peak(&mut child)?;
    println!(
        "resume of a 1 GB log, start to end of the run: {:.2?} (goal 2 s), peak {} MB (goal 200)",
        started.elapsed(),
        memory / 1024
    );
    server.kill().ok();
    server.wait().ok();
    Ok(())
}

/// Appends turns to a log up to this many bytes.
fn grow(log: &Path, bytes: u64) -> Result<(), String> {
    let mut file = fs::OpenOptions::new().append(true).open(log).map_err(|err| err.to_string())?;
    let filler = "x".repeat(20_000);
    let (mut written, mut number) = (0, 0);
    while written < bytes {
        let mut block = String::new();
        for _ in 0..50 {
            number += 1;
            let line = |kind: &str, content: Value| {
                json!({"type": kind, "uuid": format!("{kind}-{number}"), "parentUuid": null, "sessionId": "bench",
                       "message": {"role": kind, "content": content}})
            };
            let id = format!("call_{number}");
            let call = json!([{"type": "tool_use", "id": id, "name": "Read", "input": {"file_path": "x"}}]);
            let result = json!([{"type": "tool_result", "tool_use_id": id, "content": [{"type": "text", "text": filler}]}]);
            block.push_str(&format!("{}\n{}\n", line("assistant", call), line("user", result)));
        }
        file.write_all(block.as_bytes()).map_err(|err| err.to_string())?;
        written += block.len() as u64;
    }
    Ok(())
}
