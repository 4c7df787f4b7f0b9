//! Fuzzes lines that move, copy, link and unpack files and use names affected by that. Lines allowed in
//! `acceptEdits` mode are run in a temporary tree: nothing outside may be shown or written, no protected
//! file may change, and no program of the tree may start.

use std::{fs, path::Path, process::Command, sync::Arc};

use haft_permission::{BashJudge, Behavior, Destination, HookOpinion, Policy, ReadOnlyEnforced, RuleSource};
use haft_types::PermissionMode;

use super::{number, random::Random, tell};
use crate::common::{Call, context};

/// A workspace with symlinks to outside and to protected files, parts of a repository that would start a
/// program, and archives of both.
const TREE: &str = r#"
set -e
export HOME=$PWD/home GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1
mkdir -p work home outside; echo OUTSIDE-SECRET > outside/s; cd work
mkdir -p d/sub p/sub q r/objects r/refs
echo a > a; echo b > b; echo p > p/s; echo d > d/s; echo d > d/sub/x; echo x > p/sub/x
ln -s ../../outside d/l; ln -s ../.git d/g; ln -s ../../outside/s d/k; ln -s ../p d/i; ln -s ../outside out
printf '#!/bin/sh\n: > %s/MARK\n' "$PWD" > evil; chmod +x evil
echo 'ref: refs/heads/main' > r/HEAD
printf '[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tfsmonitor = ../evil\n[diff]\n\texternal = ../evil\n' > r/config
tar cf d.tar d; tar cf r.tar r
git init -q -b main .; git add a b p; git -c user.name=a -c user.email=b@c commit -qm one; echo more >> a
"#;

const NAMES: &[&str] = &[
    "a",
    "b",
    "d",
    "p",
    "q",
    "e",
    "f",
    "d/l",
    "d/sub",
    "d/k",
    "p/sub",
    "r/HEAD",
    "r/objects",
    "r/refs",
    "r/config",
    "r",
    "out",
];
const PLACES: &[&str] = &["e", "f", "q", "p", ".", "q/e", "e/l", "e/g/hooks", "p/sub", "d", "q/d"];
const USED: &[&str] = &[
    "e/l/s", "e/k", "f/s", "f/l/s", "q/l/s", "q/d/l/s", "q/s", "e", "f", "p/l/s", "p/d/l/s", "e/s", "a",
    "q/e/s", "l/s", "k", "p/sub/s", "e/i/s", "q/out/s", "f/k",
];
const WRITTEN: &[&str] = &[
    "e/g/hooks/x",
    "f/g/config",
    "q/g/hooks/x",
    "q/d/g/x",
    "e/l/new",
    "p/g/x",
    "g/x",
    "e/new",
    "f/k",
    "q/k",
    "e/k",
    "q/new",
];

fn part(random: &mut Random) -> String {
    let (from, to) = (random.pick(NAMES), random.pick(PLACES));
    match random.below(14) {
        0 | 1 => format!("mv {from} {to}"),
        2 => format!("cp {} {from} {to}", random.pick(&["-r", "-a", "-rT", "-rL", "-f"])),
        3 => format!("ln {} {from} {to}", random.pick(&["-s", "-sf", "-sfn", ""])),
        4 => format!("tar {} {}", random.pick(&["xf", "-x -f"]), random.pick(&["d.tar", "r.tar -C q"])),
        5 => format!("mkdir -p {to}"),
        6 => format!("echo x > {}", random.pick(WRITTEN)),
        7 => format!("touch {}", random.pick(WRITTEN)),
        8 => format!("cd {to}"),
        9 => String::from(random.pick(&["git status", "git diff", "git log -p -1", "git -C q status"])),
        10 => format!("cp {} {to}", random.pick(USED)),
        11 => format!("ls {}", random.pick(USED)),
        _ => {
            format!("{} {}", random.pick(&["cat", "head -3", "grep -r S", "cat <", "tac"]), random.pick(USED))
        }
    }
}

/// A part that puts a symlink, or content with symlinks, somewhere, and a part that uses it.
fn pair(random: &mut Random) -> (String, String) {
    let from = random.pick(&["d", "d/l", "d/k", "out", "d/sub", "p"]);
    let to = random.pick(&["e", "f", "q/e", "p/sub/e", "q", "./e"]);
    let way = random.pick(&[
        "mv",
        "mv -T",
        "cp -r",
        "cp -a",
        "cp -rT",
        "ln -s",
        "ln -sfn",
        "ln -sr",
        "mv -t . d/l; mv",
    ]);
    let below = random.pick(&[
        "/l/s",
        "/s",
        "",
        "/k",
        "/d/l/s",
        "/l/../outside/s",
        "/g/hooks/x",
        "/l/new",
        "/g/config",
        "/l/l/s",
    ]);
    let used = format!("{}{below}", random.pick(&[to, to, to, "e", "q/d", "q/l", "*"]));
    let by = random.pick(&[
        "cat",
        "head -3",
        "grep -r S",
        "cat <",
        "echo x >",
        "touch",
        "cp a",
        "mkdir",
        "wc -c",
        "ls",
        "mv a",
        "tac",
    ]);
    (format!("{way} {from} {to}"), format!("{by} {used}"))
}

fn line(random: &mut Random) -> String {
    let (change, using) = pair(random);
    let mut parts = vec![change, using];
    if random.chance(3) {
        parts = vec![part(random), part(random)];
    }
    if random.chance(6) {
        parts.reverse();
    }
    for _ in 0..random.below(4) {
        let more = part(random);
        parts.insert(random.below(parts.len() + 1), more);
    }
    let mut line = parts.remove(0);
    for part in parts {
        line.push_str(random.pick(&[" && ", "; ", "\n", "; ", " | ", " & ", " || "]));
        line.push_str(&part);
    }
    match random.below(8) {
        0 => format!("for i in 1 2; do {line}\ndone"),
        1 => format!("({line}\n)"),
        _ => line,
    }
}

/// Forbidden effects of a line.
fn violations(root: &Path, line: &str) -> Vec<String> {
    let work = root.join("work");
    let protected = |root: &Path| {
        let git = root.join("work/.git");
        let hooks = fs::read_dir(git.join("hooks")).map_or(0, Iterator::count);
        (
            hooks,
            fs::read(git.join("config")).ok(),
            fs::read_dir(root.join("outside")).map_or(0, Iterator::count),
        )
    };
    let before = protected(root);
    let script = format!("ulimit -t 2; exec 2>&1; {line}\nwait");
    let output = Command::new("timeout")
        .args(["5", "bash", "--norc", "--noprofile", "-c", &script])
        .current_dir(&work)
        .env_clear()
        .envs([("PATH", "/usr/bin:/bin"), ("HOME", "/nonexistent"), ("GIT_OPTIONAL_LOCKS", "0")])
        .output()
        .unwrap();
    let mut found = Vec::new();
    if output.stdout.windows(14).any(|it| it == b"OUTSIDE-SECRET") {
        found.push(String::from("showed what is outside"));
    }
    if protected(root) != before
        || fs::read(root.join("outside/s")).ok().as_deref() != Some(b"OUTSIDE-SECRET\n")
    {
        found.push(String::from("changed what is protected or outside"));
    }
    if work.join("MARK").exists() {
        found.push(String::from("started a program of the tree"));
    }
    found
}

fn is_free(root: &Path, line: &str) -> bool {
    let (work, home) = (root.join("work"), root.join("home"));
    let origin = RuleSource::new("test", Destination::Session).rooted(work.as_path());
    let rules = ["Bash(mv *)", "Bash(ln *)", "Bash(tar *)"].map(String::from);
    let policy = Policy::builder(&work)
        .mode(PermissionMode::AcceptEdits)
        .commands(Arc::new(BashJudge))
        .reading(ReadOnlyEnforced::Yes)
        .rules(&origin, Behavior::Allow, rules)
        .home(&home)
        .build();
    let cx = context(&work, Some(&home));
    policy.judge("Bash", &Call::command(line), &cx, &HookOpinion::None).behavior == Behavior::Allow
}

#[test]
fn fuzzed_edit_lines_stay_inside_and_start_no_program() {
    let (most, seed) = (number("HAFT_FUZZ_LINES", 4_000) / 20, number("HAFT_FUZZ_SEED", 1));
    let dir = tempfile::tempdir().unwrap();
    let template = dir.path().canonicalize().unwrap();
    let made = Command::new("bash").args(["-c", TREE]).current_dir(&template).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let mut random = Random::new(seed);
    let (mut ran, mut found) = (0_u64, Vec::new());
    for _ in 0..most {
        let line = line(&mut random);
        if !is_free(&template, &line) {
            continue;
        }
        ran += 1;
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let copied = Command::new("cp").arg("-a").arg(template.join(".")).arg(&root).status().unwrap();
        assert!(copied.success());
        let violations = violations(&root, &line);
        if !violations.is_empty() {
            found.push(format!("{line:?}: {violations:?}"));
        }
    }
    tell(&format!("seed {seed}: {most} lines made, {ran} were free and ran, {} broke it", found.len()));
    assert!(found.is_empty(), "{} lines:\n{}", found.len(), found.join("\n"));
    assert!(most / 100 < ran, "only {ran} of {most} lines were free");
}
