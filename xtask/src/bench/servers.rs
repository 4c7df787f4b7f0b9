//! Language servers and undo, each compared with a minimal equivalent: queries with the server's own
//! answers, edits with edits without a server, repository changes with git itself.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{median, release_binary, small, web::repository};

/// Calls per process, so that its start is negligible.
const CALLS: usize = 40;
const ROUNDS: usize = 9;

pub(super) fn run() -> Result<(), String> {
    let haft = release_binary()?;
    let place = BenchHome::new()?;
    let done =
        questions(&haft, &place).and_then(|()| edits(&haft, &place)).and_then(|()| undo(&haft, &place));
    std::fs::remove_dir_all(&place.dir).ok();
    done
}

/// A home directory with a language server, and a workspace with a file.
struct BenchHome {
    dir: PathBuf,
    server: PathBuf,
}

impl BenchHome {
    fn new() -> Result<Self, String> {
        let dir = std::env::temp_dir().join(format!("haft-bench-servers-{}", std::process::id()));
        for name in ["ws", "with/.haft", "without/.haft"] {
            std::fs::create_dir_all(dir.join(name)).map_err(|err| err.to_string())?;
        }
        let server = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../crates/system/lsp/tests/all/support/fake_server.py")
            .canonicalize()
            .map_err(|err| format!("the server of the tests: {err}"))?;
        let settings = json!({"lsp": {"servers": {"fake": {"command": "python3", "args": [server, "--pull"],
            "extensionToLanguage": {".x": "text"}}}}});
        let written = std::fs::write(dir.join("with/.haft/settings.json"), settings.to_string());
        written.map_err(|err| err.to_string())?;
        Ok(Self { dir, server })
    }

    /// Runs calls in one process, in sequence.
    fn calls(&self, haft: &Path, home: &str, ws: &Path, calls: &[Value]) -> Result<Duration, String> {
        let lines: String = calls.iter().map(|call| format!("{call}\n")).collect();
        let file = self.dir.join("calls");
        std::fs::write(&file, lines).map_err(|err| err.to_string())?;
        let input = std::fs::File::open(&file).map_err(|err| err.to_string())?;
        let mut command = Command::new(haft);
        command
            .args(["tool", "run", "--permission-mode", "bypassPermissions"])
            .current_dir(ws)
            .env("HOME", self.dir.join(home))
            .stdin(input)
            .stderr(Stdio::null());
        let began = Instant::now();
        let output = command.output().map_err(|err| err.to_string())?;
        let took = began.elapsed();
        let printed = String::from_utf8_lossy(&output.stdout);
        match printed.lines().find(|it| it.contains("\"is_error\":true")) {
            None if output.status.success() && printed.lines().count() == calls.len() => Ok(took),
            wrong => Err(format!("haft tool run: {}", wrong.unwrap_or("it did not answer every call"))),
        }
    }

    /// Returns the time per call, from processes with few and with many calls.
    fn each(
        &self,
        haft: &Path,
        home: &str,
        ws: &Path,
        call: impl Fn(usize) -> Value,
    ) -> Result<Duration, String> {
        let calls: Vec<Value> = (0..CALLS + 2).map(call).collect();
        let few = self.calls(haft, home, ws, &calls[..2])?;
        let many = self.calls(haft, home, ws, &calls)?;
        Ok(many.saturating_sub(few) / CALLS as u32)
    }
}

/// Go to definition, compared with the same query sent to the server directly.
fn questions(haft: &Path, place: &BenchHome) -> Result<(), String> {
    let ws = place.dir.join("ws");
    let text: String = (0..400).map(|it| format!("def name_{it}\ncall name_{it}\n")).collect();
    std::fs::write(ws.join("a.x"), text).map_err(|err| err.to_string())?;
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    for _ in 0..small(ROUNDS) {
        ours.push(place.each(haft, "with", &ws, |number| {
            json!({"id": format!("c{number}"), "name": "LSP", "input": {"operation": "goToDefinition",
                "filePath": "a.x", "line": 2 * (number % 300) + 2, "symbol": format!("name_{}", number % 300)}})
        })?);
        bare.push(asked_alone(place)?);
    }
    let (ours, bare) = (median(ours), median(bare));
    println!("goToDefinition of a warm server");
    println!(
        "  LSP {ours:.1?}, the server alone {bare:.1?}, more {:.1?} (goal 2 ms)",
        ours.saturating_sub(bare)
    );
    Ok(())
}

/// Sends the query directly to the server.
fn asked_alone(place: &BenchHome) -> Result<Duration, String> {
    const CLIENT: &str = r#"
import json, subprocess, sys, time
server = subprocess.Popen(['python3', sys.argv[1], '--pull'], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
def send(message):
    body = json.dumps(dict(message, jsonrpc='2.0')).encode()
    server.stdin.write(b'Content-Length: %d\r\n\r\n' % len(body) + body); server.stdin.flush()
def answer(number):
    while True:
        length = 0
        while (line := server.stdout.readline()) not in (b'\r\n', b''):
            if line.lower().startswith(b'content-length:'): length = int(line.split(b':')[1])
        message = json.loads(server.stdout.read(length))
        if message.get('id') == number: return message
uri = 'file://' + sys.argv[2]
send({'id': 0, 'method': 'initialize', 'params': {'rootPath': '/', 'capabilities': {}}}); answer(0)
send({'method': 'initialized', 'params': {}})
send({'method': 'textDocument/didOpen', 'params': {'textDocument': {'uri': uri, 'version': 1, 'text': open(sys.argv[2]).read()}}})
calls = int(sys.argv[3])
for number in range(1, calls + 3):
    if number == 3: began = time.monotonic()
    position = {'line': 2 * (number % 300) + 1, 'character': 6}
    send({'id': number, 'method': 'textDocument/definition', 'params': {'textDocument': {'uri': uri}, 'position': position}})
    answer(number)
print(int((time.monotonic() - began) / calls * 1e9))
server.kill()
"#;
    let mut command = Command::new("python3");
    command.args(["-c", CLIENT]).arg(&place.server).arg(place.dir.join("ws/a.x")).arg(CALLS.to_string());
    let output = command.output().map_err(|err| format!("python3: {err}"))?;
    let nanos = String::from_utf8_lossy(&output.stdout).trim().parse::<u64>();
    nanos.map(Duration::from_nanos).map_err(|_| String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Edits of a file that a server analyses without findings, compared with edits without a server.
fn edits(haft: &Path, place: &BenchHome) -> Result<(), String> {
    let ws = place.dir.join("ws");
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for _ in 0..small(ROUNDS) {
        for (home, times) in [("with", &mut with), ("without", &mut without)] {
            std::fs::write(ws.join("e.x"), "def number_0\n").map_err(|err| err.to_string())?;
            let calls: Vec<Value> = (0..CALLS + 3)
                .map(|number| match number {
                    0 if home == "with" => json!({"id": "c0", "name": "LSP",
                        "input": {"operation": "documentSymbol", "filePath": "e.x"}}),
                    0 => json!({"id": "c0", "name": "Read", "input": {"file_path": "e.x"}}),
                    1 => json!({"id": "c1", "name": "Read", "input": {"file_path": "e.x"}}),
                    number => json!({"id": format!("c{number}"), "name": "Edit", "input": {"file_path": "e.x",
                        "old_string": format!("number_{}", number - 2), "new_string": format!("number_{}", number - 1)}}),
                })
                .collect();
            let few = place.calls(haft, home, &ws, &calls[..3])?;
            std::fs::write(ws.join("e.x"), "def number_0\n").map_err(|err| err.to_string())?;
            let many = place.calls(haft, home, &ws, &calls)?;
            times.push(many.saturating_sub(few) / CALLS as u32);
        }
    }
    let (with, without) = (median(with), median(without));
    let ratio = with.as_secs_f64() / without.as_secs_f64();
    println!("an edit of a file that a silent server knows, by `haft tool run`, which cannot be told later");
    println!("  with it {with:.1?}, without {without:.1?}, ratio {ratio:.2}");
    Ok(())
}

/// Runs a line in bash, like the tools do.
fn shell(dir: &Path, line: &str) -> Result<(), String> {
    let mut command = std::process::Command::new("bash");
    command.args(["--norc", "-c", line]).current_dir(dir).stdin(std::process::Stdio::null());
    let output = command.output().map_err(|err| format!("bash: {err}"))?;
    if output.status.success() { Ok(()) } else { Err(format!("{line} failed")) }
}

/// Undoable changes of a large repository compared with plain git, and the undo cost of a command there.
fn undo(haft: &Path, place: &BenchHome) -> Result<(), String> {
    let (ws, empty) = (place.dir.join("repository"), place.dir.join("empty"));
    repository(&ws)?;
    std::fs::create_dir_all(&empty).map_err(|err| err.to_string())?;
    let git = |args: &[&str]| super::web::git(&ws, args);
    git(&["config", "user.name", "x"])?;
    git(&["config", "user.email", "x@example.com"])?;
    let write = |number: usize| {
        std::fs::write(ws.join("d1/f1.txt"), format!("changed {number}\n")).map_err(|err| err.to_string())
    };
    // Measures the second of two calls, to exclude the start of the program, the user's shell setup and
    // one-time work per repository.
    let second = |name: &str, input: &Value, dir: &Path| {
        let look = if name == "Git" { json!({"operation": "branch"}) } else { json!({"command": "true"}) };
        let first = json!({"id": "s", "name": name, "input": look});
        let one = place.calls(haft, "without", dir, std::slice::from_ref(&first))?;
        let call = json!({"id": "c", "name": name, "input": input});
        Ok::<_, String>(place.calls(haft, "without", dir, &[first.clone(), call])?.saturating_sub(one))
    };
    let commit = json!({"operation": "commit", "message": "x", "paths": ["d1/f1.txt"]});
    let reset = json!({"operation": "reset", "mode": "hard", "rev": "HEAD"});
    // The effects of this command are unknown, so everything is saved before it.
    let command = json!({"command": "sh ./unknown || true"});
    let [mut committed, mut commits, mut was_reset, mut resets, mut snapshots] = [const { Vec::new() }; 5];
    for round in 0..small(ROUNDS) {
        write(4 * round)?;
        committed.push(second("Git", &commit, &ws)?);
        write(4 * round + 1)?;
        let began = Instant::now();
        shell(&ws, "git commit -q --no-status -m x --only -- d1/f1.txt && git log -1 --stat=100")?;
        commits.push(began.elapsed());
        write(4 * round + 2)?;
        was_reset.push(second("Git", &reset, &ws)?);
        write(4 * round + 3)?;
        let began = Instant::now();
        git(&["reset", "-q", "--hard"])?;
        resets.push(began.elapsed());
        snapshots.push(second("Bash", &command, &ws)?.saturating_sub(second("Bash", &command, &empty)?));
    }
    let (ours, bare) = (median(committed), median(commits));
    println!("changes of a repository of many files that can be taken back, median of {ROUNDS}");
    println!(
        "  commit: Git {ours:.1?}, git in a shell and its log of the commit {bare:.1?}, more {:.1?} (goal 5 ms)",
        ours.saturating_sub(bare)
    );
    let (ours, bare, snapshot) = (median(was_reset), median(resets), median(snapshots));
    let more = ours.saturating_sub(bare);
    let ratio = more.as_secs_f64() / snapshot.as_secs_f64();
    println!(
        "  reset --hard: Git {ours:.1?}, git itself {bare:.1?}, more {more:.1?}, what is kept before a command \
         {snapshot:.1?}, ratio {ratio:.2} (goal 1.3)"
    );
    Ok(())
}
