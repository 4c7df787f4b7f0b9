//! Lines of attackers and everyday lines, evaluated in an untrusted tree.
//!
//! `never.txt` lists lines that must never be allowed, with or without the read-only sandbox;
//! `always.txt` lists lines that must be allowed with it. Prefixes of a line: `{a=RULE}` allows,
//! `{d=RULE}` denies, `{m=MODE}` sets the mode, `{cd=DIR}` the working directory. `⏎` is a line break,
//! `→` a tab, `$ROOT` the parent directory of the workspace.

use std::{path::Path, process::Command, sync::Arc};

use haft_permission::{BashJudge, Behavior, Destination, HookOpinion, Policy, ReadOnlyEnforced, RuleSource};
use haft_types::PermissionMode;

use crate::common::{Call, context};

const TREE: &str = include_str!("tree.sh");

/// A row with its parsed prefixes.
struct Row {
    mode: PermissionMode,
    rules: Vec<(Behavior, String)>,
    cwd: String,
    line: String,
}

impl Row {
    fn new(text: &str, root: &Path) -> Self {
        let mut row = Self {
            mode: PermissionMode::Default,
            rules: Vec::new(),
            cwd: String::new(),
            line: String::new(),
        };
        let mut rest = text;
        while let Some(((key, value), tail)) = option(rest) {
            rest = tail;
            match key {
                "a" => row.rules.push((Behavior::Allow, value.to_owned())),
                "d" => row.rules.push((Behavior::Deny, value.to_owned())),
                "cd" => value.clone_into(&mut row.cwd),
                "m" => {
                    row.mode = match value {
                        "acceptEdits" => PermissionMode::AcceptEdits,
                        _ => PermissionMode::Plan,
                    }
                }
                _ => unreachable!("{key}"),
            }
        }
        let root = root.display().to_string();
        row.line = rest.replace('⏎', "\n").replace('→', "\t").replace("$ROOT", &root);
        row
    }

    fn judge(&self, root: &Path, held: ReadOnlyEnforced) -> Behavior {
        let (ws, home) = (root.join("ws"), root.join("home"));
        let origin = RuleSource::new("test", Destination::Session).rooted(ws.as_path());
        let mut builder =
            Policy::builder(&ws).mode(self.mode).commands(Arc::new(BashJudge)).reading(held).home(&home);
        for (behavior, text) in &self.rules {
            builder = builder.rules(&origin, *behavior, [text.clone()]);
        }
        let cx = context(&ws.join(&self.cwd), Some(&home));
        builder.build().judge("Bash", &Call::command(&self.line), &cx, &HookOpinion::None).behavior
    }
}

/// The first `{key=value}` and the rest.
fn option(text: &str) -> Option<((&str, &str), &str)> {
    let (option, rest) = text.strip_prefix('{')?.split_once("} ")?;
    let pair = option.split_once('=').filter(|(key, _)| ["a", "d", "m", "cd"].contains(key))?;
    Some((pair, rest))
}

fn tree() -> (tempfile::TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let made = Command::new("bash").args(["-c", TREE]).current_dir(&root).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    (dir, root)
}

fn rows(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.is_empty() && !line.starts_with("##"))
}

#[test]
fn attack_lines_are_never_allowed() {
    let (_dir, root) = tree();
    let free: Vec<String> = rows(include_str!("never.txt"))
        .flat_map(|text| [ReadOnlyEnforced::Yes, ReadOnlyEnforced::No].map(|held| (text, held)))
        .filter(|(text, held)| Row::new(text, &root).judge(&root, *held) == Behavior::Allow)
        .map(|(text, held)| format!("{held:?}: {text}"))
        .collect();
    assert!(free.is_empty(), "{} are free:\n{}", free.len(), free.join("\n"));
}

#[test]
fn everyday_lines_are_allowed() {
    let (_dir, root) = tree();
    let asked: Vec<&str> = rows(include_str!("always.txt"))
        .filter(|text| Row::new(text, &root).judge(&root, ReadOnlyEnforced::Yes) != Behavior::Allow)
        .collect();
    assert!(asked.is_empty(), "{} ask:\n{}", asked.len(), asked.join("\n"));
}
