//! `cargo xtask bench peers`: other agents compared with Haft, each given the same work by the same
//! scripted model on loopback.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    io::{Read as _, Write as _},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use self::agents::{AGENTS, MeasuredAgent};
use super::release_binary;
use crate::{
    command, tidy,
    turns::{Scratch, model, wait_for_lines},
};

mod agents;
mod tree;

/// Page that contains the table, and the markers around it.
const PAGE: &str = "docs/concepts/benchmarks.md";
const BEGIN: &str = "<!-- the table begins; cargo xtask bench peers --write makes it -->";
const END: &str = "<!-- the table ends -->";
/// Timeout of one run of an agent.
const TIMEOUT: Duration = Duration::from_secs(180);

/// A row of the table: name, unit, and a value for each agent that has one.
struct PeerRow {
    what: &'static str,
    unit: &'static str,
    found: Vec<Option<f64>>,
}

/// An installed agent, ready to be started.
struct ReadyAgent {
    agent: &'static MeasuredAgent,
    program: Vec<String>,
    installed_bytes: u64,
    /// Its home directory, kept across runs because first runs do extra work.
    home: Scratch,
}

/// Installs the agents, measures them and prints the table; `--write` also updates the page. `--rounds
/// N` and `--turns N` set the amount of work.
pub(crate) fn run(flags: &[String]) -> Result<(), String> {
    let number = |flag: &str, default: usize| {
        let at = flags.iter().position(|it| it == flag);
        at.and_then(|at| flags.get(at + 1)?.parse().ok()).unwrap_or(default)
    };
    let (rounds, turns) = (number("--rounds", 11), number("--turns", 30));
    let haft = release_binary()?;
    let modules = installed()?;
    let mut agents = Vec::new();
    for agent in AGENTS {
        agents.extend(ready(agent, &haft, &modules)?);
    }
    let rows = measured(&haft, &agents, rounds, turns)?;
    let table = format!("{}\n{}", circumstances(&agents, rounds, turns), shown(&agents, &rows));
    println!("\n{table}");
    if flags.iter().any(|it| it == "--write") { written(&table) } else { Ok(()) }
}

/// Returns the directory of installed agents, installing missing ones from npm. An agent that cannot be
/// installed is missing in the table.
fn installed() -> Result<PathBuf, String> {
    let dir = command::target_dir()?.join("peers");
    fs::create_dir_all(&dir).map_err(|err| err.to_string())?;
    let modules = dir.join("node_modules");
    let wanted: BTreeMap<&str, &str> = AGENTS.iter().filter_map(|it| it.package).collect();
    // All at once, because npm removes packages that are not listed.
    let list = json!({"private": true, "optionalDependencies": wanted});
    fs::write(dir.join("package.json"), list.to_string()).map_err(|err| err.to_string())?;
    let is_missing = |(package, version): (&&str, &&str)| {
        let about = fs::read_to_string(modules.join(package).join("package.json")).unwrap_or_default();
        let about: Value = serde_json::from_str(&about).unwrap_or_default();
        about["version"] != **version
    };
    if wanted.iter().any(is_missing) {
        let place = dir.display().to_string();
        let flags = ["install", "--no-audit", "--no-fund", "--no-package-lock", "--prefix", &place];
        command::command("npm", &flags)?;
    }
    for (package, version) in wanted.iter().filter(|it| is_missing(*it)) {
        eprintln!("{package}@{version} cannot be installed; it is missing in the table");
    }
    Ok(modules)
}

fn ready(agent: &'static MeasuredAgent, haft: &Path, modules: &Path) -> Result<Option<ReadyAgent>, String> {
    let Some(program) = agent.program(haft, modules) else { return Ok(None) };
    let installed_bytes = match agent.package {
        None => fs::metadata(haft).map_or(0, |it| it.len()),
        Some((package, _)) => packages_bytes(modules, package),
    };
    let home = Scratch::new(&format!("home-of-{}", agent.name.replace(' ', "-")))?;
    Ok(Some(ReadyAgent { agent, program, installed_bytes, home }))
}

/// Returns the bytes of a package and its platform-specific packages.
fn packages_bytes(modules: &Path, package: &str) -> u64 {
    let about = fs::read_to_string(modules.join(package).join("package.json")).unwrap_or_default();
    let about: Value = serde_json::from_str(&about).unwrap_or_default();
    let named = ["dependencies", "optionalDependencies"];
    let more = named.iter().filter_map(|field| about[*field].as_object()).flat_map(|it| it.keys());
    std::iter::once(&package.to_owned()).chain(more).map(|name| directory_bytes(&modules.join(name))).sum()
}

fn directory_bytes(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| Some((entry.path(), entry.metadata().ok()?)))
        .map(|(path, about)| if about.is_dir() { directory_bytes(&path) } else { about.len() })
        .sum()
}

/// Measures all agents in each round, so that load spikes affect all of them.
fn measured(haft: &Path, agents: &[ReadyAgent], rounds: usize, turns: usize) -> Result<Vec<PeerRow>, String> {
    let mut all: Vec<Collected> = agents.iter().map(|_| Collected::default()).collect();
    for ready in agents {
        println!("a first run: {}", ready.agent.name);
        if let Err(problem) = played(haft, ready, &[], Watched::Clock) {
            eprintln!("{}: {problem}", ready.agent.name);
        }
    }
    for round in 0..rounds {
        for (ready, found) in agents.iter().zip(&mut all) {
            println!("round {} of {rounds}: {}", round + 1, ready.agent.name);
            if let Err(problem) = one_round(haft, ready, turns, found) {
                eprintln!("{}: {problem}", ready.agent.name);
            }
        }
    }
    let milliseconds = |pick: fn(&Collected) -> &Vec<f64>| all.iter().map(|it| middle(pick(it))).collect();
    let sizes = agents.iter().map(|it| Some(it.installed_bytes as f64 / 1e6)).collect();
    Ok(vec![
        PeerRow { what: "`--version`, start to exit", unit: "ms", found: milliseconds(|it| &it.version) },
        PeerRow {
            what: "start to the first request to the model",
            unit: "ms",
            found: milliseconds(|it| &it.first),
        },
        PeerRow { what: "one answer, start to exit", unit: "ms", found: milliseconds(|it| &it.answer) },
        PeerRow { what: "looking at a file, turn gap", unit: "ms", found: milliseconds(|it| &it.read_gap) },
        PeerRow { what: "running `echo`, turn gap", unit: "ms", found: milliseconds(|it| &it.command_gap) },
        PeerRow { what: "processor time of that run", unit: "ms", found: milliseconds(|it| &it.processor) },
        PeerRow { what: "most memory in that run", unit: "MB", found: milliseconds(|it| &it.memory) },
        PeerRow { what: "first request", unit: "kB", found: milliseconds(|it| &it.request) },
        PeerRow { what: "installed", unit: "MB", found: sizes },
    ])
}

/// Values of one agent, one per round.
#[derive(Default)]
struct Collected {
    version: Vec<f64>,
    first: Vec<f64>,
    answer: Vec<f64>,
    read_gap: Vec<f64>,
    command_gap: Vec<f64>,
    processor: Vec<f64>,
    memory: Vec<f64>,
    request: Vec<f64>,
}

fn one_round(haft: &Path, ready: &ReadyAgent, turns: usize, found: &mut Collected) -> Result<(), String> {
    let agent = ready.agent;
    let scratch = Scratch::new("peer")?;
    let started = Instant::now();
    ended(&mut started_program(ready, &["--version"], &scratch, "").spawn().map_err(|err| err.to_string())?)?;
    found.version.push(started.elapsed().as_secs_f64() * 1e3);
    found.first.push(first_request(ready)?.as_secs_f64() * 1e3);
    let whole = played(haft, ready, &[], Watched::Clock)?;
    found.answer.push(whole.milliseconds);
    found.request.extend(whole.first_bytes.map(|bytes| bytes / 1e3));
    let reads: Vec<Value> = (0..turns).map(|turn| (agent.read)(&format!("f{turn}.txt"))).collect();
    found.read_gap.extend(middle(&played(haft, ready, &reads, Watched::Clock)?.gaps));
    let commands: Vec<Value> = (0..turns).map(|turn| (agent.command)(&format!("echo {turn}"))).collect();
    let before = tree::children_milliseconds();
    let run = played(haft, ready, &commands, Watched::Clock)?;
    found.command_gap.extend(middle(&run.gaps));
    found.processor.push(run.processor_since(before));
    found.memory.push(played(haft, ready, &commands, Watched::Memory)?.kilobytes as f64 / 1e3);
    Ok(())
}

/// Returns the time from process start to the head of the first model request.
fn first_request(ready: &ReadyAgent) -> Result<Duration, String> {
    let scratch = Scratch::new("peer-first")?;
    let listener = TcpListener::bind("127.0.0.1:0").map_err(|err| err.to_string())?;
    let url = format!("http://{}", listener.local_addr().map_err(|err| err.to_string())?);
    ready.agent.settle(&ready.home.home(), &url)?;
    let started = Instant::now();
    let mut child = started_program(ready, ready.agent.arguments, &scratch, &url)
        .spawn()
        .map_err(|err| err.to_string())?;
    let took = loop {
        let (mut stream, _) = listener.accept().map_err(|err| err.to_string())?;
        let mut head = [0; 5];
        stream.read_exact(&mut head).map_err(|err| err.to_string())?;
        if &head == b"POST " {
            break started.elapsed();
        }
        // Some agents first check whether the server is reachable.
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").ok();
    };
    child.kill().ok();
    child.wait().ok();
    Ok(took)
}

/// What is observed while an agent runs; sampling memory disturbs it.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Watched {
    Clock,
    Memory,
}

/// Result of one run.
struct PlayedRun {
    milliseconds: f64,
    gaps: Vec<f64>,
    kilobytes: u64,
    first_bytes: Option<f64>,
    processor_after: u64,
}

impl PlayedRun {
    fn processor_since(&self, before: u64) -> f64 {
        (self.processor_after - before) as f64
    }
}

/// Plays these calls, one per turn, and a final answer.
fn played(haft: &Path, ready: &ReadyAgent, calls: &[Value], watched: Watched) -> Result<PlayedRun, String> {
    let scratch = Scratch::new("peer-turns")?;
    let lines: String = (0..200).map(|number| format!("line {number} of the file\n")).collect();
    for number in 0..calls.len() {
        fs::write(scratch.ws().join(format!("f{number}.txt")), &lines).map_err(|err| err.to_string())?;
    }
    // Auxiliary requests, such as for a title, get separate answers.
    let side = json!({"when": {"system": {"regex": "(?i)\\btitle\\b.{0,40}\\b(generator|conversation|session)|generate a (short|concise) title"}},
                      "times": "always", "reply": [{"text": "A title"}]});
    let mut list = vec![side];
    list.extend(calls.iter().map(|call| json!({"reply": [call]})));
    list.push(json!({"reply": [{"text": "Done."}]}));
    let (mut server, url) = model(haft, &scratch, &json!({"strict": false, "turns": list}))?;
    let outcome = asked(ready, &scratch, &url, watched);
    let requests = scratch.0.join("requests.jsonl");
    let all_came = outcome.is_ok().then(|| wait_for_lines(&requests, calls.len() + 1));
    server.kill().ok();
    server.wait().ok();
    let (milliseconds, kilobytes, processor_after) = outcome?;
    all_came.unwrap_or(Ok(()))?;
    let text = fs::read_to_string(&requests).map_err(|err| err.to_string())?;
    let all: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let own: Vec<&Value> =
        all.iter().filter(|it| it["turn"].as_u64().is_some_and(|turn| turn != 0)).collect();
    if own.len() != calls.len() + 1 {
        return Err(format!("{} of {} turns were asked for", own.len(), calls.len() + 1));
    }
    let gap = |pair: &[&Value]| Some(pair[1]["received_ms"].as_f64()? - pair[0]["answered_ms"].as_f64()?);
    let gaps = own.windows(2).filter_map(gap).collect();
    let first_bytes = own.first().and_then(|it| it["bytes"].as_f64());
    Ok(PlayedRun { milliseconds, gaps, kilobytes, first_bytes, processor_after })
}

fn asked(
    ready: &ReadyAgent,
    scratch: &Scratch,
    url: &str,
    watched: Watched,
) -> Result<(f64, u64, u64), String> {
    ready.agent.settle(&ready.home.home(), url)?;
    let started = Instant::now();
    let mut child =
        started_program(ready, ready.agent.arguments, scratch, url).spawn().map_err(|err| err.to_string())?;
    let kilobytes = match watched {
        Watched::Clock => {
            ended(&mut child)?;
            0
        }
        Watched::Memory => match tree::peak_kilobytes(&mut child)? {
            (status, kilobytes) if status.success() => kilobytes,
            (status, _) => return Err(format!("it ended with {status}")),
        },
    };
    Ok((started.elapsed().as_secs_f64() * 1e3, kilobytes, tree::children_milliseconds()))
}

/// Returns the command of an agent with its own home and workspace and a clean environment.
fn started_program(ready: &ReadyAgent, arguments: &[&str], scratch: &Scratch, url: &str) -> Command {
    let mut command = Command::new(&ready.program[0]);
    command
        .args(&ready.program[1..])
        .args(arguments)
        .current_dir(scratch.ws())
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", ready.home.home())
        .envs(ready.agent.variables(url))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// Waits for a program with a timeout; it must succeed.
fn ended(child: &mut Child) -> Result<(), String> {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        match child.try_wait().map_err(|err| err.to_string())? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(format!("it ended with {status}")),
            None if Instant::now() < deadline => std::thread::sleep(Duration::from_micros(200)),
            None => {
                child.kill().ok();
                child.wait().ok();
                return Err(format!("it did not end within {TIMEOUT:?}"));
            }
        }
    }
}

fn middle(numbers: &[f64]) -> Option<f64> {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied()
}

/// Describes in a paragraph where and how it was measured.
fn circumstances(agents: &[ReadyAgent], rounds: usize, turns: usize) -> String {
    let processor = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let processor = processor.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let processor = processor.map_or("an unknown processor", |(_, name)| name).to_owned();
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or_default().to_owned();
    let versions = agents.iter().filter_map(|it| Some((it.agent.name, it.agent.package?.1)));
    let versions: Vec<String> = versions.map(|(name, version)| format!("{name} {version}")).collect();
    format!(
        "{cores} cores of {processor}, load {load} at the end; medians of {rounds} rounds, {turns} turns a run; {}.\n",
        versions.join(", ")
    )
}

/// Formats the table as Markdown, with the ratio to Haft's value after each value of another agent.
fn shown(agents: &[ReadyAgent], rows: &[PeerRow]) -> String {
    let mut out = String::from("| |");
    for it in agents {
        let _ = write!(out, " {} |", it.agent.name);
    }
    let _ = write!(out, "\n|---|{}", "---:|".repeat(agents.len()));
    for row in rows {
        let _ = write!(out, "\n| {}, {} |", row.what, row.unit);
        let ours = row.found.first().copied().flatten();
        for (at, found) in row.found.iter().enumerate() {
            let _ = match (found, ours) {
                (None, _) => write!(out, " did not work |"),
                (Some(found), Some(ours)) if 0 < at && 0.0 < ours => {
                    write!(out, " {} ({:.1} ×) |", rounded(*found), found / ours)
                }
                (Some(found), _) => write!(out, " {} |", rounded(*found)),
            };
        }
    }
    out.push('\n');
    out
}

fn rounded(number: f64) -> String {
    if number < 10.0 { format!("{number:.1}") } else { format!("{number:.0}") }
}

/// Writes the table to its page.
fn written(table: &str) -> Result<(), String> {
    let path = tidy::root().join(PAGE);
    let page = fs::read_to_string(&path).map_err(|err| format!("{PAGE}: {err}"))?;
    let (before, rest) = page.split_once(BEGIN).ok_or(format!("{PAGE} has no place for the table"))?;
    let (_, after) = rest.split_once(END).ok_or(format!("the table of {PAGE} has no end"))?;
    let page = format!("{before}{BEGIN}\n\n{table}\n{END}{after}");
    fs::write(&path, page).map_err(|err| format!("{PAGE}: {err}"))
}
