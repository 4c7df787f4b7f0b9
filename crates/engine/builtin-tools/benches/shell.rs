//! Measures the overhead of the shell tool, compared with the cheapest equivalent.
//!
//! Run with `cargo xtask bench shell`. Prints medians of interleaved rounds.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    missing_docs,
    reason = "a benchmark prints, and stops when something is wrong"
)]

use std::{
    hint::black_box,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use haft_bash_analysis::{AnalysisContext, analyse};
use haft_builtin_tools::bash::{
    Bash, BashInspector, BashSettings, CommandConfiner, CommandSnapshots as _, ConfinedCommand,
    ConfinementChoice, PendingCommand,
};
use haft_command_undo::{JournalCommandUndo, SnapshotLimits};
use haft_permission::{BashJudge, Policy};
use haft_shell::{
    run::{Shell, ShellConfig, TaskRegistry},
    sandbox::{
        Confinement, Network, Sandbox, SandboxConfig, SandboxStrictness, WorkspacePolicy, run_if_helper,
    },
};
use haft_tool::{CallContext, CallId, erase};
use haft_tool_runtime::{Gate, ParsedCall, Pipeline, Pool, ResultStore, StoreLimits};
use haft_types::{PermissionMode, ToolUse};
use haft_workspace::{FullContextView, JournalLimits, SessionFiles, Workspace, WorkspaceConfig};
use serde_json::json;

const ROUNDS: usize = 101;

fn main() {
    run_if_helper();
    haft_shell::own::adopt_orphans().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    judging();
    let dir = tempfile::tempdir().unwrap();
    let top = dir.path().canonicalize().unwrap();
    std::fs::create_dir_all(top.join("work")).unwrap();
    // As in a session, calls run on worker threads, not on the thread that waits for them.
    runtime.block_on(async {
        tokio::spawn(running(top.clone())).await.unwrap();
        tokio::spawn(printing(top.clone())).await.unwrap();
        tokio::spawn(looking(top.clone())).await.unwrap();
    });
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// Analyses typical and long command lines.
fn judging() {
    let roots = [PathBuf::from("/home/u/ws")];
    let place = AnalysisContext { cwd: &roots[0], home: Some(Path::new("/home/u")), roots: &roots };
    let typical = "cd packages/app && git diff --stat HEAD~3 | grep -E 'src|test' | head -20 2>/dev/null";
    let long = format!("{}true", "echo one two 'three four' | wc -l && ".repeat(277));
    for (name, line, goal) in [("typical", typical, 50.0), ("10 kB", &long, 5_000.0)] {
        let rounds = if line.len() < 1_000 { 2_000 } else { 101 };
        let once = |_| {
            let started = Instant::now();
            black_box(analyse(black_box(line), place));
            started.elapsed()
        };
        let took = median((0..rounds).map(once).collect()).as_secs_f64() * 1e6;
        println!("  judge {name:<8} ({:>5} bytes) {took:>9.1} µs  (goal {goal} µs)", line.len());
    }
}

struct Walls(Arc<Confinement>);

impl CommandConfiner for Walls {
    fn choose(&self, _about: &ConfinedCommand<'_>) -> ConfinementChoice {
        ConfinementChoice::Walls(Arc::clone(&self.0))
    }
}

struct Bench {
    pipeline: Arc<Pipeline>,
    pool: Pool,
    cx: CallContext,
}

impl Bench {
    fn new(top: &Path, session: &str, confine: Option<Walls>) -> Self {
        let work = top.join("work");
        let mut config = ShellConfig::new(session, top.join("state"));
        config.capture = None;
        let tasks = TaskRegistry::new(Shell::open(config).unwrap());
        let facts = BashInspector { home: None, roots: vec![work.clone()] };
        let roots = Arc::new(vec![work.clone()]);
        let mut bash = Bash::new(tasks, Arc::new(facts), roots, BashSettings::default());
        if let Some(walls) = confine {
            bash = bash.with_confinement(Arc::new(walls));
        }
        let policy = Policy::builder(&work)
            .mode(PermissionMode::BypassPermissions)
            .commands(Arc::new(BashJudge))
            .build();
        let results = ResultStore::new(top.join("results"), StoreLimits::default());
        let pipeline = Arc::new(Pipeline::new(Gate::new(policy), results));
        let pool = Pool::assemble(vec![erase(bash)], Vec::new());
        Self { pipeline, pool, cx: CallContext::detached("call", work.as_path()) }
    }

    async fn call(&self, command: &str) -> Duration {
        let started = Instant::now();
        let input = json!({ "command": command });
        let tool_use = ToolUse { id: "call".into(), name: String::from("Bash"), input };
        let report =
            self.pipeline.run(ParsedCall::parse(&self.pool, tool_use, &self.cx), self.cx.clone()).await;
        assert!(report.error.is_none(), "{:?}", report.error);
        started.elapsed()
    }
}

fn spawn_true() -> Duration {
    let started = Instant::now();
    let quiet = Stdio::null;
    Command::new("/bin/true").stdin(quiet()).stdout(quiet()).stderr(quiet()).status().unwrap();
    started.elapsed()
}

/// Runs `true` through the whole pipeline, with and without the sandbox; the baseline is `posix_spawn`.
async fn running(top: PathBuf) {
    let free = Bench::new(&top, "free", None);
    let scratch = top.join("scratch");
    std::fs::create_dir_all(&scratch).unwrap();
    let mut config = SandboxConfig::new("bench", top.join("sandbox")).unwrap();
    // The helper lies next to the program, as when installed.
    let small = config.helper.ancestors().nth(2).unwrap().join("haft-sandbox-helper");
    if small.is_file() {
        config.helper = small;
    }
    let sandbox = Sandbox::open(config).unwrap();
    let roots = [top.join("work")];
    let policy =
        WorkspacePolicy { roots: &roots, scratch: &scratch, home: None, write: &[], protect: &[], hide: &[] };
    let walls = sandbox.confine(policy.policy(Network::Off), SandboxStrictness::BestEffort);
    let confined = walls.map(|walls| Bench::new(&top, "confined", Some(Walls(walls))));
    let (mut base, mut ours, mut boxed) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        base.push(spawn_true());
        ours.push(free.call("true").await);
        if let Ok(confined) = &confined {
            boxed.push(confined.call("true").await);
        }
    }
    let (base, ours) = (median(base), median(ours));
    let ratio = |time: Duration| time.as_secs_f64() / base.as_secs_f64();
    println!("  posix_spawn /bin/true {base:>9.1?}");
    println!("  Bash true             {ours:>9.1?}  ratio {:.2} (goal 3)", ratio(ours));
    match confined {
        Ok(_) => {
            let boxed = median(boxed);
            println!("  Bash true, confined   {boxed:>9.1?}  ratio {:.2} (goal 10)", ratio(boxed));
        }
        Err(why) => println!("  Bash true, confined: SKIPPED, {why}"),
    }
}

/// Reads 100 MB of output; the baseline is `cat > /dev/null`.
async fn printing(top: PathBuf) {
    let bench = Bench::new(&top, "printing", None);
    let file = top.join("work/large");
    let line = "a line of output that is about as long as lines are, with a number 0123456789\n";
    std::fs::write(&file, line.repeat((100 << 20) / line.len())).unwrap();
    let piped = || {
        let started = Instant::now();
        let script = format!("cat {} | cat > /dev/null", file.display());
        Command::new("sh").args(["-c", &script]).status().unwrap();
        started.elapsed()
    };
    let (mut ours, mut base) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        base.push(piped());
        ours.push(bench.call("cat large").await);
    }
    let (ours, base) = (median(ours), median(base));
    let memory = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = memory.lines().find(|it| it.starts_with("VmHWM")).unwrap_or_default().to_owned();
    let ratio = ours.as_secs_f64() / base.as_secs_f64();
    println!(
        "  100 MB: cat | cat > /dev/null {base:.1?}, Bash {ours:.1?}  ratio {ratio:.2} (goal 2; {peak})"
    );
    std::fs::remove_file(&file).unwrap();
}

/// Takes the undo snapshot of a workspace of 20,000 files.
async fn looking(top: PathBuf) {
    let root = top.join("work");
    for number in 0..20_000 {
        let dir = root.join(format!("d{}", number % 200));
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join(format!("f{number}")), format!("content {number}\n").repeat(20)).unwrap();
    }
    let state_dir = top.join("journal");
    let config = WorkspaceConfig { state_dir, root: root.clone(), limits: JournalLimits::default() };
    let workspace = Arc::new(Workspace::open(config).unwrap());
    let files = Arc::new(SessionFiles::new(workspace, None, FullContextView));
    let snapshots = JournalCommandUndo::new(
        files,
        None,
        SnapshotLimits::default(),
        <haft_builtin_tools::git::Git as haft_tool::Tool>::NAME,
    );
    let call = CallId::from("call");
    let about = PendingCommand {
        call: &call,
        tool: "Bash",
        command: "./script",
        cwd: &root,
        reading: None,
        reads_only: false,
    };
    tokio::time::sleep(Duration::from_millis(100)).await;
    let mut times = Vec::new();
    for _ in 0..6 {
        let started = Instant::now();
        snapshots.before(about).await.unwrap();
        times.push(started.elapsed());
    }
    let first = times.remove(0);
    println!("  snapshot of 20,000 files: first {first:.0?}, then {:.0?} (goal 200 ms)", median(times));
}
