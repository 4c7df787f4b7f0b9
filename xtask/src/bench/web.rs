//! Web pages, webhooks, stored prompts and repository status, each compared with a minimal equivalent.

use std::{
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use super::{median, release_binary, small};
use crate::command;

/// Files in the repository.
const FILES: usize = 20_000;
/// Calls per process, so that its start is negligible.
const CALLS: usize = 20;
const ROUNDS: usize = 9;

pub(super) fn run() -> Result<(), String> {
    // One heap for all threads, as in the program.
    let heap = [("MALLOC_ARENA_MAX", "1")];
    command::cargo_with(&["bench", "--quiet", "-p", "haft-builtin-tools", "--bench", "web"], &heap)?;
    command::cargo(&["bench", "--quiet", "-p", "haft-schedule", "--bench", "load"])?;
    command::cargo(&["bench", "--quiet", "-p", "haft-triggers", "--bench", "verify"])?;
    deliveries()?;
    git_status()?;
    super::servers::run()
}

/// Response time of a webhook that starts a run.
fn deliveries() -> Result<(), String> {
    const CLIENT: &str = r#"
import hashlib, hmac, http.client, json, sys, time
times = []
for number in range(int(sys.argv[2])):
    body = json.dumps({'number': number, 'text': 'x' * 64000}).encode()
    signature = 'sha256=' + hmac.new(b'a secret of the two of us', body, hashlib.sha256).hexdigest()
    headers = {'X-Hub-Signature-256': signature, 'X-GitHub-Delivery': 'd%d' % number, 'Content-Type': 'application/json'}
    time.sleep(0.15) # the run that the delivery before started is not what is measured
    client = http.client.HTTPConnection('127.0.0.1', int(sys.argv[1]), timeout=20)
    while True:
        try: client.connect(); break
        except ConnectionRefusedError: time.sleep(0.05)
    began = time.monotonic_ns()
    client.request('POST', '/hooks/bench', body, headers)
    answer = client.getresponse()
    times.append(time.monotonic_ns() - began)
    if answer.status != 202: sys.exit('answered %d: %s' % (answer.status, answer.read()))
print(sorted(times)[len(times) // 2])
"#;
    let haft = release_binary()?;
    let dir = std::env::temp_dir().join(format!("haft-bench-hooks-{}", std::process::id()));
    let failed = |err: std::io::Error| err.to_string();
    std::fs::create_dir_all(dir.join("home/.haft")).map_err(failed)?;
    let settings = serde_json::json!({"triggers": {"bench": {"dir": dir, "prompt": "{{body.number}}",
        "scheme": "github", "secret": {"env": "BENCH_SECRET"}}}});
    std::fs::write(dir.join("home/.haft/settings.json"), settings.to_string()).map_err(failed)?;
    let free = std::net::TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).map_err(failed)?;
    let port = free.port().to_string();
    let mut server = Command::new(haft);
    server.args(["triggers", "serve", "--port", &port]).current_dir(&dir).env_clear();
    server.env("HOME", dir.join("home")).env("PATH", std::env::var_os("PATH").unwrap_or_default());
    server.env("BENCH_SECRET", "a secret of the two of us");
    server.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut server = server.spawn().map_err(failed)?;
    let asked = Command::new("python3").args(["-c", CLIENT, &port, &small(31).to_string()]).output();
    server.kill().ok();
    server.wait().ok();
    std::fs::remove_dir_all(&dir).ok();
    let asked = asked.map_err(|err| format!("python3: {err}"))?;
    let said = String::from_utf8_lossy(&asked.stdout);
    let nanos = said.trim().parse().map_err(|_| String::from_utf8_lossy(&asked.stderr).into_owned())?;
    println!("  answered with 202 after {:.1?} (goal 5 ms)", Duration::from_nanos(nanos));
    Ok(())
}

/// The Git tool compared with git, in a repository of twenty thousand files.
fn git_status() -> Result<(), String> {
    let haft = release_binary()?;
    let dir = std::env::temp_dir().join(format!("haft-bench-git-{}", std::process::id()));
    let made = repository(&dir);
    let measured = made.and_then(|()| {
        let (mut ours, mut bare) = (Vec::new(), Vec::new());
        for _ in 0..small(ROUNDS) {
            let one = calls(&haft, &dir, 1)?;
            ours.push(calls(&haft, &dir, CALLS + 1)?.saturating_sub(one) / CALLS as u32);
            let began = Instant::now();
            for _ in 0..CALLS {
                git(&dir, &["status", "--porcelain=v2", "-z"])?;
            }
            bare.push(began.elapsed() / CALLS as u32);
        }
        Ok((median(ours), median(bare)))
    });
    std::fs::remove_dir_all(&dir).ok();
    let (ours, bare) = measured?;
    let ratio = ours.as_secs_f64() / bare.as_secs_f64();
    println!("git status in {FILES} files, median of {ROUNDS}");
    println!("  Git {ours:.1?}, git status --porcelain=v2 -z {bare:.1?}, ratio {ratio:.2} (goal 1.2)");
    Ok(())
}

pub(super) fn repository(dir: &Path) -> Result<(), String> {
    let failed = |err: std::io::Error| format!("{}: {err}", dir.display());
    for number in 0..small(FILES) {
        let path = dir.join(format!("d{}/f{number}.txt", number % 200));
        std::fs::create_dir_all(path.parent().unwrap_or(dir)).map_err(failed)?;
        std::fs::write(path, format!("{number}\n")).map_err(failed)?;
    }
    let who = ["-c", "user.name=x", "-c", "user.email=x@example.com"];
    git(dir, &["init", "-q"])?;
    git(dir, &["add", "-A"])?;
    git(dir, &[&who[..], &["commit", "-q", "-m", "all"]].concat())?;
    std::fs::write(dir.join("d1/f1.txt"), "changed\n").map_err(failed)
}

pub(super) fn git(dir: &Path, args: &[&str]) -> Result<(), String> {
    let mut command = Command::new("git");
    command.args(args).current_dir(dir).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let status = command.status().map_err(|err| format!("git: {err}"))?;
    if status.success() { Ok(()) } else { Err(format!("git {} failed", args.join(" "))) }
}

/// Runs this many calls in one process, in sequence.
fn calls(haft: &Path, dir: &Path, count: usize) -> Result<Duration, String> {
    let lines: String = (0..count)
        .map(|number| {
            let call = serde_json::json!({"id": format!("c{number}"), "name": "Git", "input": {"operation": "status"}});
            format!("{call}\n")
        })
        .collect();
    let file = dir.with_extension("calls");
    std::fs::write(&file, lines).map_err(|err| err.to_string())?;
    let input = std::fs::File::open(&file).map_err(|err| err.to_string())?;
    let began = Instant::now();
    let mut command = Command::new(haft);
    command.args(["tool", "run"]).current_dir(dir).stdin(input).stdout(Stdio::null()).stderr(Stdio::null());
    let status = command.status().map_err(|err| err.to_string())?;
    let took = began.elapsed();
    std::fs::remove_file(&file).ok();
    if status.success() { Ok(took) } else { Err(String::from("haft tool run failed")) }
}
