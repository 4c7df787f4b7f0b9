//! The shared table of file paths, applied to decisions.
//!
//! Rows that expect `error`, `property` or `never_outside` describe the tool at run time; here only that
//! the decision is not stricter than needed and does not panic. All other rows are checked fully.
#![allow(clippy::unwrap_used, clippy::print_stderr, missing_docs, reason = "test code")]

use crate::common;

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use common::{Call, context};
use haft_permission::{Behavior, Decision, Destination, HookOpinion, Policy, RuleSource};
use haft_tool::Access;
use serde_json::Value;

/// Inputs that the permission engine rejects; the tool rejects the other `error` rows.
const REFUSED_HERE: &[&str] = &["B-odd_input-001", "B-odd_input-002"];

struct Fixture {
    _dir: tempfile::TempDir,
    names: BTreeMap<&'static str, PathBuf>,
}

impl Fixture {
    fn new(base: &Value, row: &Value) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let names = BTreeMap::from([
            ("$ROOT", root.clone()),
            ("$WSLINK", root.join("w/wslink")),
            ("$WS", root.join("w/proj")),
            ("$HOME", root.join("home")),
            ("$OUT", root.join("w/out")),
            ("$ADD", root.join("w/add")),
        ]);
        let fixture = Self { _dir: dir, names };
        fs::create_dir_all(fixture.at("$WS")).unwrap();
        symlink("proj", fixture.at("$WSLINK")).unwrap();
        for step in base.as_array().unwrap().iter().chain(row["setup"].as_array().unwrap()) {
            fixture.make(step);
        }
        fixture
    }

    fn at(&self, name: &str) -> &Path {
        &self.names[name]
    }

    /// Longer names first: `$WSLINK` starts with `$WS`.
    fn fill(&self, text: &str) -> String {
        let mut names: Vec<_> = self.names.iter().collect();
        names.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        names.iter().fold(text.to_owned(), |text, (name, path)| text.replace(**name, path.to_str().unwrap()))
    }

    fn make(&self, step: &Value) {
        let text = |key: &str| step[key].as_str().map(|it| self.fill(it));
        let path = text("path").map(PathBuf::from);
        if let Some(parent) = path.as_ref().and_then(|it| it.parent()) {
            fs::create_dir_all(parent).unwrap();
        }
        match step["op"].as_str().unwrap() {
            "dir" => fs::create_dir_all(path.unwrap()).unwrap(),
            "file" => fs::write(path.unwrap(), text("content").unwrap()).unwrap(),
            "symlink" => symlink(text("target").unwrap(), path.unwrap()).unwrap(),
            "hardlink" => fs::hard_link(text("target").unwrap(), path.unwrap()).unwrap(),
            // The tool rejects special files; a regular file stands in.
            "fifo" | "socket" | "sparse" => fs::write(path.unwrap(), "").unwrap(),
            "rawfile" => (),
            other => panic!("unknown step {other}"),
        }
    }

    fn policy(&self, row: &Value) -> Policy {
        let cwd = self.fill(row["cwd"].as_str().unwrap());
        let mode = row["mode"].as_str().unwrap().parse().unwrap();
        let mut builder = Policy::builder(cwd).home(self.at("$HOME")).mode(mode);
        for dir in row["additional_dirs"].as_array().into_iter().flatten() {
            builder = builder.additional_dir(self.fill(dir.as_str().unwrap()), None);
        }
        let origin = RuleSource::new("table", Destination::CliArg);
        for (name, behavior) in [("allow", Behavior::Allow), ("ask", Behavior::Ask), ("deny", Behavior::Deny)]
        {
            let texts =
                row["rules"][name].as_array().unwrap().iter().map(|it| self.fill(it.as_str().unwrap()));
            builder = builder.rules(&origin, behavior, texts);
        }
        builder.build()
    }

    fn judge(&self, row: &Value, path: Option<&str>) -> Decision {
        let tool = row["tool"].as_str().unwrap();
        let cwd = PathBuf::from(self.fill(row["cwd"].as_str().unwrap()));
        let call = self.call(tool, &row["input"], path);
        let cx = context(&cwd, Some(self.at("$HOME")));
        self.policy(row).judge(tool, &call, &cx, &HookOpinion::None)
    }

    fn call(&self, tool: &str, input: &Value, path: Option<&str>) -> Call {
        let field = |key: &str| input[key].as_str().map(|it| self.fill(it));
        match tool {
            "Read" => Call::read(path.map(str::to_owned).or_else(|| field("file_path")).unwrap()),
            "Grep" => Call::read(field("path").unwrap_or_else(|| String::from("."))),
            "Glob" => {
                let base = field("path").unwrap_or_else(|| String::from("."));
                let start = literal_part(&field("pattern").unwrap());
                Call::read(if start.starts_with("~") { start } else { Path::new(&base).join(start) })
            }
            _ => Call::touching(vec![Access::Write(
                path.map(str::to_owned).or_else(|| field("file_path")).unwrap().into(),
            )]),
        }
    }
}

/// The directories of a glob before its first wildcard, as the tool declares them.
fn literal_part(pattern: &str) -> PathBuf {
    let plain = pattern.split('/').take_while(|part| !part.contains(['*', '?', '[', '{']));
    let joined: Vec<&str> = plain.collect();
    PathBuf::from(joined.join("/"))
}

fn table() -> (Value, Vec<Value>) {
    let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dev/testkit/corpora");
    let read = |name: &str| fs::read_to_string(corpora.join(name)).unwrap();
    let rows = read("file_paths.jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (serde_json::from_str(&read("file_paths_base.json")).unwrap(), rows)
}

#[test]
fn file_path_table_rows_are_decided_as_expected() {
    let (base, rows) = table();
    assert!(50 < rows.len());
    let mut failures = Vec::new();
    for row in &rows {
        let fixture = Fixture::new(&base, row);
        let decision = fixture.judge(row, None);
        if let Err(problem) = check_row(&fixture, row, decision) {
            failures.push(format!("{} {}: {problem}", row["id"], row["why"]));
        }
    }
    assert!(failures.is_empty(), "{} of {}:\n{}", failures.len(), rows.len(), failures.join("\n"));
}

fn check_row(fixture: &Fixture, row: &Value, decision: Decision) -> Result<(), String> {
    let got = decision.behavior;
    let shown = format!("{decision:?}");
    let must = |holds: bool| if holds { Ok(()) } else { Err(shown.clone()) };
    match row["expect"].as_str().unwrap() {
        "allow" => must(got == Behavior::Allow),
        "ask" => must(got == Behavior::Ask),
        "deny" => must(got == Behavior::Deny),
        "not_allow" => must(got != Behavior::Allow),
        "error" if REFUSED_HERE.contains(&row["id"].as_str().unwrap()) => must(got == Behavior::Deny),
        "error" | "property" | "never_outside" => must(got != Behavior::Deny),
        "filtered" => {
            must(got == Behavior::Allow)?;
            let permit = decision.permit().map_err(|it| it.reason)?;
            let ws = fixture.at("$WS");
            for hidden in [ws.join(".env"), ws.join("dir/secret.txt"), fixture.at("$OUT").join("secret.txt")]
            {
                let concerned =
                    row["check"].as_str().unwrap().contains(hidden.file_name().unwrap().to_str().unwrap())
                        || hidden.starts_with(fixture.at("$OUT"))
                        || row["check"].as_str().unwrap().contains("TOKEN") && hidden.ends_with(".env");
                must(!concerned || !permit.may_read(&hidden))?;
            }
            must(permit.may_read(&ws.join("README.md")) && permit.may_read(&ws.join("src/main.py")))
        }
        other => Err(format!("unknown expectation {other}")),
    }
}

/// Other spellings of the same path. The second list leads there through symlinks, so that only the real
/// path shows it.
fn neighbours(fixture: &Fixture, path: &str) -> (Vec<String>, Vec<String>) {
    let (ws, home) = (fixture.at("$WS"), fixture.at("$HOME"));
    let absolute = match path.strip_prefix("~/") {
        Some(rest) => home.join(rest),
        None => ws.join(path),
    };
    let full = haft_paths::lexical(&absolute);
    let text = full.to_str().unwrap();
    let (dir, name) = (full.parent().unwrap().to_str().unwrap(), full.file_name().unwrap().to_str().unwrap());
    let mut words = vec![
        text.to_owned(),
        format!("{dir}//{name}"),
        format!("{dir}/./{name}"),
        format!("{dir}/nothing/../{name}"),
        format!("{dir}/a/b/../../{name}"),
        format!("/..{text}"),
        format!("{text}/."),
        format!("{text}/"),
    ];
    if let Ok(rest) = full.strip_prefix(ws) {
        let rest = rest.to_str().unwrap();
        words.extend([
            rest.to_owned(),
            format!("./{rest}"),
            format!("src/../{rest}"),
            format!("../proj/{rest}"),
        ]);
    }
    let chain = ws.join("chain");
    for step in 0..5 {
        let target = if step == 4 { full.clone() } else { PathBuf::from(format!("chain{}", step + 1)) };
        let _ = symlink(target, ws.join(format!("chain{step}")));
    }
    let _ = symlink("chain0", &chain);
    let _ = symlink(dir, ws.join("parent"));
    let _ = symlink("..", ws.join("src/up"));
    let mut links = vec![
        String::from("chain"),
        format!("parent/{name}"),
        format!("/proc/self/root{text}"),
        String::from("/proc/self/cwd/chain"),
        format!("/proc/thread-self/root{text}"),
        String::from("src/up/chain"),
    ];
    // If the directory itself is a symlink, `..` leads elsewhere.
    if let Some(above) = Path::new(dir).file_name().filter(|_| !Path::new(dir).is_symlink()) {
        links.push(format!("parent/../{}/{name}", above.to_str().unwrap()));
    }
    (words, links)
}

#[test]
fn file_path_table_rows_hold_for_other_spellings() {
    let (base, rows) = table();
    let mut failures = Vec::new();
    let mut checked = 0;
    for row in &rows {
        let expect = row["expect"].as_str().unwrap();
        let Some(path) = row["input"]["file_path"].as_str() else { continue };
        if !matches!(expect, "allow" | "ask" | "deny") || path.contains("proc/self/cwd") {
            continue;
        }
        let fixture = Fixture::new(&base, row);
        let (words, links) = neighbours(&fixture, &fixture.fill(path));
        let mut check = |path: &str, exact: bool| {
            checked += 1;
            let got = fixture.judge(row, Some(path)).behavior;
            let fine = match expect {
                "allow" => !exact || got == Behavior::Allow,
                "deny" => got == Behavior::Deny,
                // A symlink to this path may be evaluated more strictly, never less.
                _ => got != Behavior::Allow && (!exact || got == Behavior::Ask),
            };
            if !fine {
                failures.push(format!("{} {path}: {got}, not {expect}", row["id"]));
            }
        };
        for path in words {
            check(&path, true);
        }
        for path in links {
            check(&path, false);
        }
    }
    assert!(failures.is_empty(), "{} of {checked}:\n{}", failures.len(), failures.join("\n"));
    assert!(500 < checked, "{checked}");
}
