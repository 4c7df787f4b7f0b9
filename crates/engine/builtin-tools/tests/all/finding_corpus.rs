//! The shared table of file paths: runs the rows about Glob and Grep with the tools themselves.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr, missing_docs, reason = "test code")]

use crate::finding_rig;

use std::{
    collections::HashSet,
    ffi::OsStr,
    fs,
    os::unix::{ffi::OsStrExt, fs::symlink},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use finding_rig::Rig;
use haft_builtin_tools::{glob::Glob, grep::Grep};
use haft_tool::{DynTool, erase};
use serde_json::Value;

fn corpora() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dev/testkit/corpora")
}

struct Row {
    rig: Rig,
    row: Value,
}

impl Row {
    fn new(base: &Value, row: Value) -> Self {
        let rig = Rig::new(&[]);
        let made = Self { rig, row };
        let steps = base.as_array().unwrap().iter().chain(made.row["setup"].as_array().unwrap());
        for step in steps {
            made.make(step);
        }
        made
    }

    fn fill(&self, text: &str) -> String {
        let place = |name: &str| self.rig.ws.with_file_name(name).to_str().unwrap().to_owned();
        text.replace("$WSLINK", &place("wslink"))
            .replace("$WS", self.rig.ws.to_str().unwrap())
            .replace("$HOME", self.rig.home.to_str().unwrap())
            .replace("$OUT", &place("out"))
            .replace("$ADD", &place("add"))
    }

    fn make(&self, step: &Value) {
        let text = |key: &str| self.fill(step[key].as_str().unwrap_or_default());
        let path = PathBuf::from(text("path"));
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).unwrap();
        }
        match step["op"].as_str().unwrap() {
            "dir" => fs::create_dir_all(&path).unwrap(),
            "file" => fs::write(&path, text("content")).unwrap(),
            "symlink" => symlink(text("target"), &path).unwrap(),
            "hardlink" => fs::hard_link(text("target"), &path).unwrap(),
            "rawfile" => {
                let name = step["path_hex"].as_str().unwrap();
                let (hex, rest) = name.split_once('.').unwrap_or((name, ""));
                let bytes: Vec<u8> = (0..hex.len())
                    .step_by(2)
                    .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
                    .collect();
                let name = [bytes, b".".to_vec(), rest.as_bytes().to_vec()].concat();
                fs::write(Path::new(&text("dir")).join(OsStr::from_bytes(&name)), "").unwrap();
            }
            other => panic!("unknown step {other}"),
        }
    }

    /// Whether every path the call accesses is in the workspace or an additional directory, both as
    /// written and resolved.
    fn is_inside(&self, reach: &[PathBuf]) -> bool {
        let mut trees = vec![self.rig.ws.clone()];
        let more = self.row["additional_dirs"].as_array().unwrap();
        trees.extend(more.iter().map(|dir| PathBuf::from(self.fill(dir.as_str().unwrap()))));
        reach.iter().all(|path| {
            let real = haft_paths::real(path).unwrap();
            let inside = |path: &Path| trees.iter().any(|tree| path.starts_with(tree));
            inside(&haft_paths::lexical(path)) && inside(&real)
        })
    }

    fn denied(&self) -> Vec<PathBuf> {
        let rules = self.row["rules"]["deny"].as_array().unwrap().iter().map(|rule| rule.as_str().unwrap());
        rules
            .filter_map(|rule| rule.strip_prefix("Read(")?.strip_suffix(')'))
            .map(|pattern| self.rig.ws.join(pattern.trim_start_matches("./").trim_start_matches("**/")))
            .collect()
    }
}

async fn check(tool: &Arc<dyn DynTool>, mut row: Row) {
    let id = row.row["id"].as_str().unwrap().to_owned();
    let input: Value = serde_json::from_str(&row.fill(&row.row["input"].to_string())).unwrap();
    let reach = row.rig.reach(tool, &input);
    let expect = row.row["expect"].as_str().unwrap();
    assert_eq!(row.is_inside(&reach), !matches!(expect, "ask" | "not_allow" | "deny"), "{id}: {reach:?}");
    row.rig.denied = Arc::new(row.denied());
    let before: HashSet<PathBuf> = fs::read_dir(&row.rig.ws).unwrap().map(|it| it.unwrap().path()).collect();
    let started = Instant::now();
    let text = row.rig.text(tool, input).await;
    let limit = row.row["max_ms"].as_u64().unwrap_or(60_000);
    // Ten times the limit, for busy machines; a hang takes forever.
    assert!(started.elapsed() < Duration::from_millis(10 * limit), "{id}");
    for check in row.row["check"].as_str().unwrap_or_default().split(" and ") {
        if let Some(secret) = check.strip_suffix(" not in result") {
            assert!(!text.contains(secret), "{id}: {text}");
        }
    }
    let after: HashSet<PathBuf> = fs::read_dir(&row.rig.ws).unwrap().map(|it| it.unwrap().path()).collect();
    assert_eq!(before, after, "{id}: something was run or written");
}

#[tokio::test]
async fn glob_and_grep_follow_the_path_table() {
    let corpora = corpora();
    let base: Value =
        serde_json::from_str(&fs::read_to_string(corpora.join("file_paths_base.json")).unwrap()).unwrap();
    let mut rows = 0;
    for line in fs::read_to_string(corpora.join("file_paths.jsonl")).unwrap().lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        let tool = match row["tool"].as_str() {
            Some("Glob") => erase(Glob::default()),
            Some("Grep") => erase(Grep::default()),
            _ => continue,
        };
        rows += 1;
        check(&tool, Row::new(&base, row)).await;
    }
    assert!(0 < rows);
}
