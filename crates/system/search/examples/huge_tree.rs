//! Measures globs in a huge tree, and how quickly a search stops after cancellation or its deadline.
//!
//! `cargo run --release -p haft-search --example huge_tree -- TREE 'apps/**/tsconfig.json'`
#![allow(clippy::print_stdout, clippy::expect_used, reason = "a program for a person")]

use std::{
    env,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use haft_search::{GlobPlan, GlobResult, GlobRun, SearchRoot, SearchStop, WalkFilter, WalkLimits};

fn main() {
    let mut args = env::args().skip(1);
    let tree = args.next().expect("a tree");
    let tree = Path::new(&tree).canonicalize().expect("a directory");
    for pattern in args {
        let started = Instant::now();
        let found = glob(&tree, &pattern, &SearchStop::never());
        println!(
            "{pattern}: {} files, {} directories, {:.0?}",
            found.total,
            found.tally.dirs,
            started.elapsed()
        );
    }
    let started = Instant::now();
    let stop = SearchStop::after(Duration::from_millis(100));
    let found = glob(&tree, "**/*", &stop);
    println!("deadline of 100 ms: {} files after {:.0?}", found.total, started.elapsed());
    let stop = SearchStop::never();
    let canceller = stop.clone();
    let cancelled = thread::spawn(move || {
        thread::sleep(Duration::from_millis(100));
        canceller.cancel();
        Instant::now()
    });
    let found = glob(&tree, "**/*", &stop);
    let ended = Instant::now();
    let cancelled = cancelled.join().expect("a time");
    println!(
        "cancelled: {} files, ended {:.1?} later",
        found.total,
        ended.saturating_duration_since(cancelled)
    );
}

fn glob(tree: &Path, pattern: &str, stop: &SearchStop) -> GlobResult {
    let plan = GlobPlan::parse(pattern, tree, None).expect("a pattern");
    let root = plan.roots().next().expect("a place").to_owned();
    let filter = WalkFilter { respect_ignore: false, skip_hidden: false, ..WalkFilter::default() };
    let run = GlobRun {
        cwd: tree,
        filter: &filter,
        limits: WalkLimits::default(),
        keep: 100,
        may_show: &|_, _| true,
        stop,
    };
    run.run(&plan, &root, &SearchRoot::open(&root).expect("a directory"))
}
