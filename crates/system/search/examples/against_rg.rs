//! Compares the speed of searches with the `rg` binary, as ratios within one run, so that the machine's
//! speed does not matter.
//!
//! `cargo run --release -p haft-search --example against_rg -- LARGE_TREE SMALL_TREE`
#![allow(clippy::print_stdout, clippy::expect_used, reason = "a program for a person")]

use std::{
    env,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use haft_search::{
    GlobPlan, GlobRun, GrepOptions, GrepPage, GrepQuery, GrepRun, Mode, SearchRoot, SearchStop, WalkFilter,
    WalkLimits,
};

const ROUNDS: usize = 9;

fn main() {
    let mut args = env::args().skip(1);
    let large = args.next().expect("a large tree");
    let small = args.next().unwrap_or_else(|| String::from("."));
    for tree in [&large, &small] {
        let tree = Path::new(tree).canonicalize().expect("a directory");
        println!("{}", tree.display());
        for pattern in ["fn main", "no such text anywhere", "TODO|FIXME", r"\bunsafe\s+impl\b", "(?i)error"] {
            for mode in [Mode::Files, Mode::Content] {
                grep(&tree, pattern, mode);
            }
        }
        glob(&tree);
    }
}

fn grep(tree: &Path, pattern: &str, mode: Mode) {
    let ours = || {
        let options = GrepOptions { mode, ..GrepOptions::default() };
        let query = GrepQuery::new(pattern, options).expect("a pattern");
        let root = SearchRoot::open(tree).expect("a directory");
        let filter = WalkFilter::default();
        let run = GrepRun {
            query: &query,
            cwd: tree,
            filter: &filter,
            limits: WalkLimits::default(),
            page: GrepPage { offset: 0, limit: 250 },
            may_show: &|_| true,
            stop: &SearchStop::never(),
        };
        run.run(&root).totals.total_entries
    };
    let flag = if mode == Mode::Files { "-l" } else { "-n" };
    let rg = || run_rg(&[flag, "-e", pattern], tree);
    compare(&format!("Grep {mode:?} {pattern:?}"), ours, rg);
}

fn glob(tree: &Path) {
    let ours = || {
        let plan = GlobPlan::parse("**/*.rs", tree, None).expect("a pattern");
        let root = SearchRoot::open(tree).expect("a directory");
        let filter = WalkFilter { respect_ignore: false, skip_hidden: false, ..WalkFilter::default() };
        let run = GlobRun {
            cwd: tree,
            filter: &filter,
            limits: WalkLimits::default(),
            keep: 100,
            may_show: &|_, _| true,
            stop: &SearchStop::never(),
        };
        run.run(&plan, tree, &root).total
    };
    let rg = || run_rg(&["--files", "--hidden", "--no-ignore", "--sortr", "modified", "-g", "**/*.rs"], tree);
    compare("Glob **/*.rs by time", ours, rg);
    let script = r#"rg --files --hidden --no-ignore -g '**/*.rs' . | sort"#;
    let rg = || {
        let output = Command::new("sh").args(["-c", script]).current_dir(tree).output().expect("a shell");
        output.stdout.iter().filter(|byte| **byte == b'\n').count() as u64
    };
    compare("Glob **/*.rs | sort", ours, rg);
}

fn run_rg(args: &[&str], tree: &Path) -> u64 {
    let output =
        Command::new("rg").args(args).arg(tree).stdin(Stdio::null()).output().expect("rg is installed");
    output.stdout.iter().filter(|byte| **byte == b'\n').count() as u64
}

fn compare(what: &str, ours: impl Fn() -> u64, theirs: impl Fn() -> u64) {
    let (mut a, mut b) = (Vec::new(), Vec::new());
    let mut counts = (0, 0);
    for _ in 0..ROUNDS {
        let start = Instant::now();
        counts.0 = ours();
        a.push(start.elapsed());
        let start = Instant::now();
        counts.1 = theirs();
        b.push(start.elapsed());
    }
    let (a, b) = (median(a), median(b));
    let ratio = a.as_secs_f64() / b.as_secs_f64();
    println!("  {ratio:5.2}x  {a:>10.2?} / {b:>10.2?}  {what}  ({} / {})", counts.0, counts.1);
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
