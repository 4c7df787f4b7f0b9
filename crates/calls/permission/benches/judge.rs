//! Measures a decision with 200 rules, compared with one `stat(2)`.
//!
//! `cargo bench -p haft-permission`; as a test (`cargo test --benches`) it runs every case once.
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs, reason = "a measurement, not a product")]

#[path = "../tests/all/common/mod.rs"]
mod common;

use std::{
    hint::black_box,
    path::{Path, PathBuf},
    time::Instant,
};

use common::{Call, context, settings};
use haft_permission::{Behavior, HookOpinion, Policy};
use haft_types::PermissionMode;

/// 200 rules of every kind that do not match the measured calls.
fn rules() -> Vec<(Behavior, String)> {
    let kinds: [fn(usize) -> (Behavior, String); 8] = [
        |n| (Behavior::Allow, format!("Bash(command{n} sub:*)")),
        |n| (Behavior::Deny, format!("Bash(bad{n}:*)")),
        |n| (Behavior::Deny, format!("Read(./secret{n}/**)")),
        |n| (Behavior::Deny, format!("Read(*.secret{n})")),
        |n| (Behavior::Ask, format!("Edit(src/**/gen{n}/*.rs)")),
        |n| (Behavior::Allow, format!("WebFetch(domain:h{n}.test)")),
        |n| (Behavior::Allow, format!("mcp__server{n}")),
        |n| (Behavior::Deny, format!("mcp__server{n}__drop_*")),
    ];
    (0..200).map(|n| kinds[n % kinds.len()](n)).collect()
}

fn policy(workspace: &Path) -> Policy {
    let builder = Policy::builder(workspace).home("/root").mode(PermissionMode::Default);
    let rules = rules();
    rules.iter().fold(builder, |it, (behavior, text)| it.rules(&settings(), *behavior, [&**text])).build()
}

/// Median time per call over some rounds.
fn time(name: &str, rounds: usize, calls: usize, mut run: impl FnMut()) -> f64 {
    let mut medians: Vec<f64> = (0..rounds)
        .map(|_| {
            let start = Instant::now();
            (0..calls).for_each(|_| run());
            start.elapsed().as_secs_f64() * 1e9 / calls as f64
        })
        .collect();
    medians.sort_by(f64::total_cmp);
    let median = medians[medians.len() / 2];
    println!("{name:44} {median:>12.0} ns");
    median
}

fn main() {
    let measured = std::env::args().any(|it| it == "--bench");
    let scale = |calls: usize| if measured { calls } else { 1 };
    let rounds = scale(15);
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    std::fs::create_dir_all(root.join("src/a/b")).unwrap();
    std::fs::write(root.join("src/a/b/file.rs"), "x").unwrap();
    let cx = context(&root, Some(Path::new("/root")));
    let policy = policy(&root);
    assert!(policy.warnings().is_empty(), "{:?}", policy.warnings());
    let judge = |tool: &str, call: &Call| {
        black_box(policy.judge(black_box(tool), black_box(call), &cx, &HookOpinion::None));
    };
    let file = root.join("src/a/b/file.rs");
    let stat = time("stat(2)", rounds, scale(5_000), || {
        black_box(std::fs::metadata(black_box(&file))).unwrap();
    });
    let noop = Call::touching(vec![]);
    let free = time("judge: touches nothing, allowed", rounds, scale(5_000), || judge("Noop", &noop));
    let undeclared = Call::undeclared();
    time("judge: undeclared, asks with a suggestion", rounds, scale(2_000), || {
        judge("mcp__x__y", &undeclared)
    });
    let read = Call::read(&file);
    let reading = time("judge: reads one file", rounds, scale(2_000), || judge("Read", &read));
    let command = Call::command("command0 sub x y");
    time("judge: a command of plain words", rounds, scale(2_000), || judge("Bash", &command));
    let texts = rules();
    time("build a policy of 200 rules", rounds, scale(20), || {
        let builder = Policy::builder(&root);
        let built =
            texts.iter().fold(builder, |it, (behavior, text)| it.rules(&settings(), *behavior, [&**text]));
        black_box(built.build());
    });
    time("first path after a build", rounds, scale(5), || {
        black_box(self::policy(&root).judge("Read", &read, &cx, &HookOpinion::None));
    });
    let files: Vec<PathBuf> =
        (0..scale(50_000)).map(|n| root.join(format!("src/d{}/file{n}.rs", n / 100))).collect();
    for file in &files {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, "").unwrap();
    }
    time("may_read of 50,000 files", scale(5), 1, || {
        let permit = policy.judge("Grep", &Call::read(&root), &cx, &HookOpinion::None).permit().unwrap();
        assert!(files.iter().all(|file| permit.may_read(file)));
    });
    println!("{:44} {:>12.2} x stat", "judge: touches nothing", free / stat);
    println!("{:44} {:>12.2} x stat", "judge: reads one file", reading / stat);
}
