//! `haft view` with a log of a hundred megabytes: response times and cost.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use super::release_binary;
use crate::{
    command,
    session_log::{LogLength, append_session},
    tidy,
    turns::Scratch,
};

const MEGABYTES: u64 = 100;
/// Lines appended to a followed log.
const APPENDED: usize = 20;
/// Calls that the browser scrolls through.
const CALLS: u64 = 10_000;

pub(super) fn run() -> Result<(), String> {
    let haft = release_binary()?;
    let scratch = Scratch::new("view")?;
    let log = scratch.ws().join("large.jsonl");
    let calls = append_session(&log, LogLength::Bytes(MEGABYTES << 20))?;
    println!("haft view of a log of {MEGABYTES} MB, {calls} calls");
    let began = Instant::now();
    let served = ServedLog::start(&haft, &scratch, &log)?;
    let tail = served.get("/tail")?;
    let painted = began.elapsed();
    if !tail.contains("article") {
        return Err(String::from("the end of the log was not shown"));
    }
    served.get("")?;
    let read = began.elapsed();
    println!("  start to the last rows {painted:.1?} (goal 1 s)");
    println!("  start to the whole index {read:.1?}");
    let mut follows = served.follow(&log)?;
    follows.sort();
    println!("  an appended line is told after {:.1?} at most (goal 200 ms)", follows[follows.len() - 1]);
    println!("  peak memory {} MB (goal 80)", served.peak()? / 1024);
    drop(served);
    let began = Instant::now();
    let served = ServedLog::start(&haft, &scratch, &log)?;
    served.get("")?;
    println!("  opened again, start to everything {:.1?}", began.elapsed());
    drop(served);
    browser(&haft, &scratch)
}

/// Frame times of a browser that scrolls through ten thousand calls, measured on its main thread.
fn browser(haft: &Path, scratch: &Scratch) -> Result<(), String> {
    let kit = command::target_dir()?.join("tmp/browser-node");
    if !kit.join("node_modules/playwright-core").is_dir() || !Path::new("/usr/bin/chromium").exists() {
        println!(
            "  frames: not measured, Chromium or what drives it is not there (cargo xtask test installs it)"
        );
        return Ok(());
    }
    let log = scratch.ws().join("calls.jsonl");
    append_session(&log, LogLength::Calls(CALLS))?;
    let served = ServedLog::start(haft, scratch, &log)?;
    let script = kit.join("page_frames.mjs");
    let source = tidy::root().join("crates/dev/e2e/tests/all/support/page_frames.mjs");
    fs::copy(source, &script).map_err(|err| err.to_string())?;
    let said = command::output("node", &[&script.display().to_string(), &served.url])?;
    println!("  scrolling {CALLS} calls: {} (goal 50 ms)", said.trim());
    Ok(())
}

/// A server for one log.
struct ServedLog {
    child: Child,
    address: String,
    token: String,
    key: String,
    url: String,
}

impl Drop for ServedLog {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl ServedLog {
    fn start(haft: &Path, scratch: &Scratch, log: &PathBuf) -> Result<Self, String> {
        let mut command = Command::new(haft);
        command.args(["view", "--no-open"]).arg(log).env("HOME", scratch.home()).current_dir(scratch.ws());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(|err| format!("{}: {err}", haft.display()))?;
        let mut url = String::new();
        if let Some(out) = child.stdout.take() {
            BufReader::new(out).read_line(&mut url).map_err(|err| err.to_string())?;
        }
        let url = url.trim().to_owned();
        let parts = url.strip_prefix("http://").and_then(|it| it.split_once("/#t="));
        let parts = parts.and_then(|(address, said)| Some((address, said.split_once("&s=")?)));
        let (address, (token, key)) = parts.ok_or_else(|| format!("no address was printed: {url:?}"))?;
        let [address, token, key] = [address, token, key].map(str::to_owned);
        Ok(Self { child, address, token, key, url })
    }

    fn ask(&self, path: &str) -> Result<TcpStream, String> {
        let mut stream = TcpStream::connect(&self.address).map_err(|err| err.to_string())?;
        stream.set_read_timeout(Some(Duration::from_secs(120))).map_err(|err| err.to_string())?;
        let (address, token, key) = (&self.address, &self.token, &self.key);
        let asked = format!(
            "GET /api/log/{key}{path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\nConnection: \
             close\r\n\r\n"
        );
        stream.write_all(asked.as_bytes()).map_err(|err| err.to_string())?;
        Ok(stream)
    }

    fn get(&self, path: &str) -> Result<String, String> {
        let mut answer = Vec::new();
        self.ask(path)?.read_to_end(&mut answer).map_err(|err| err.to_string())?;
        let answer = String::from_utf8_lossy(&answer).into_owned();
        if answer.starts_with("HTTP/1.1 200") { Ok(answer) } else { Err(format!("{path}: {answer}")) }
    }

    /// Returns the latency of each appended line.
    fn follow(&self, log: &Path) -> Result<Vec<Duration>, String> {
        let mut lines = BufReader::new(self.ask("/follow")?).lines();
        let mut news = move || loop {
            match lines.next() {
                Some(Ok(line)) if line.contains("data: ") => return Ok(()),
                Some(Ok(_)) => (),
                Some(Err(err)) => return Err(err.to_string()),
                None => return Err(String::from("the server does not tell any more")),
            }
        };
        news()?;
        let mut found = Vec::new();
        for _ in 0..APPENDED {
            let began = Instant::now();
            append_session(log, LogLength::Calls(1))?;
            news()?;
            found.push(began.elapsed());
        }
        Ok(found)
    }

    /// Returns its peak memory in kilobytes.
    fn peak(&self) -> Result<u64, String> {
        kilobytes(self.child.id(), "VmHWM:")
    }
}

/// Returns a size from `/proc/PID/status` in kilobytes.
pub(super) fn kilobytes(process: u32, name: &str) -> Result<u64, String> {
    let text = fs::read_to_string(format!("/proc/{process}/status")).map_err(|err| err.to_string())?;
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
    number.ok_or_else(|| format!("{name} is not told"))
}
