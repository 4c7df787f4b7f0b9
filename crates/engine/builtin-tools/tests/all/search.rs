//! Search, tested through the tool contract.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "test code")]

use crate::finding_rig;

use std::{fs, sync::Arc, time::Duration};

use finding_rig::Rig;
use haft_builtin_tools::{SearchToolSettings, search::Search};
use haft_tool::{DynTool, erase};
use serde_json::{Value, json};

fn search() -> Arc<dyn DynTool> {
    erase(Search::default())
}

async fn ask(rig: &Rig, query: &str) -> Vec<String> {
    rig.text(&search(), json!({ "query": query })).await.lines().map(str::to_owned).collect()
}

fn project() -> Rig {
    Rig::new(&[
        (
            "src/config.rs",
            "//! Settings: see load_config.\npub struct Config { retries: u32 }\n\nimpl Config {\n    pub fn load_config(path: &str) -> Config {\n        // load_config reads the file\n        todo(path)\n    }\n}\n",
        ),
        (
            "src/main.rs",
            "use config::Config;\nfn main() {\n    let c = Config::load_config(\"x\");\n    let s = \"load_config\";\n}\n",
        ),
        (
            "web/app.ts",
            "export function loadConfig(p: string) { return fetchWithRetry(p); }\nfunction fetchWithRetry(u: string) { /* exponential backoff between retries */ }\n",
        ),
        ("tests/all/config_test.rs", "fn load_config() {}\n#[test]\nfn works() { load_config(); }\n"),
        (
            "README.md",
            "# Demo\n\nCall `load_config` first.\nRequests are retried with exponential backoff.\n",
        ),
        ("tool.py", "class Loader:\n    def run(self):\n        return 1\n"),
        (".gitignore", "gen/\n"),
        (".git/HEAD", ""),
        ("gen/x.rs", "fn only_generated() {}\n"),
    ])
}

#[tokio::test]
async fn answer_lists_definitions_usages_and_mentions() {
    let rig = project();
    assert_eq!(
        ask(&rig, "load_config").await,
        [
            "Definitions (3):",
            "src/config.rs:5: pub fn load_config(path: &str) -> Config {  (method in Config)",
            "tests/all/config_test.rs:1: fn load_config() {}  (function)",
            "web/app.ts:1: export function loadConfig(p: string) { return fetchWithRetry(p); }  (function)",
            "Usages (2, in 2 files):",
            "src/main.rs:3: let c = Config::load_config(\"x\");",
            "tests/all/config_test.rs:3: fn works() { load_config(); }",
            "Mentions (4):",
            "src/config.rs:1: //! Settings: see load_config.",
            "src/config.rs:6: // load_config reads the file",
            "src/main.rs:4: let s = \"load_config\";",
            "README.md:3: Call `load_config` first.",
        ]
    );
}

#[tokio::test]
async fn questions_names_and_misspellings_find_the_symbol() {
    let rig = project();
    for (query, first) in [
        ("where is Config defined?", "src/config.rs:2: pub struct Config { retries: u32 }  (struct)"),
        (
            "Config::load_config",
            "src/config.rs:5: pub fn load_config(path: &str) -> Config {  (method in Config)",
        ),
        (
            "who calls fetchWithRetry",
            "web/app.ts:2: function fetchWithRetry(u: string) { /* exponential backoff between retries */ }  (function)",
        ),
        ("Loader.run", "tool.py:2: def run(self):  (method in Loader)"),
        ("loader", "tool.py:1: class Loader:  (class)"),
        ("load_confgi", "src/config.rs:5: pub fn load_config(path: &str) -> Config {  (method in Config)"),
        (
            "fetch retry",
            "web/app.ts:2: function fetchWithRetry(u: string) { /* exponential backoff between retries */ }  (function)",
        ),
        ("config.rs", "src/config.rs (file)"),
        ("tool", "tool.py (file)"),
    ] {
        let lines = ask(&rig, query).await;
        assert_eq!(lines.get(1).map_or("", |line| line), first, "{query}: {lines:#?}");
    }
    let lines = ask(&rig, "exponential backoff").await;
    assert_eq!(lines[0], "Mentions (2):", "{lines:#?}");
    assert!(
        lines.contains(&String::from("README.md:4: Requests are retried with exponential backoff.")),
        "{lines:#?}"
    );
    let lines = ask(&rig, "load_confgi").await;
    assert!(
        lines.contains(&String::from("[load_confgi is nowhere; usages and mentions are of load_config]")),
        "{lines:#?}"
    );
    let lines = ask(&rig, "only_generated").await;
    assert_eq!(
        lines,
        [
            "Nothing found for only_generated in 6 files; not searched: 1 ignored, 1 hidden. Grep with include_ignored and include_hidden looks there"
        ]
    );
}

#[tokio::test]
async fn changed_files_are_reindexed_before_answering() {
    let rig = project();
    let tool = search();
    let first = |query: &'static str| {
        let (rig, tool) = (&rig, &tool);
        async move {
            rig.text(tool, json!({ "query": query })).await.lines().nth(1).unwrap_or_default().to_owned()
        }
    };
    assert!(first("Loader").await.starts_with("tool.py:1:"));
    // Same size, same second, same timestamp.
    let path = rig.ws.join("tool.py");
    let modified = fs::metadata(&path).unwrap().modified().unwrap();
    for name in ["Loader", "Reader", "Leader", "Ladder"] {
        rig.write("tool.py", format!("class {name}:\n    def run(self):\n        return 1\n"));
        fs::File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();
        let text = rig.text(&tool, json!({ "query": name })).await;
        assert!(text.contains(&format!("tool.py:1: class {name}:")), "{text}");
    }
    assert!(!rig.text(&tool, json!({"query": "Loader"})).await.contains("tool.py:1: class Loader"));
    fs::rename(&path, rig.ws.join("moved.py")).unwrap();
    assert!(first("Ladder").await.starts_with("moved.py:1:"));
    fs::remove_file(rig.ws.join("moved.py")).unwrap();
    assert!(rig.text(&tool, json!({"query": "Ladder"})).await.starts_with("Nothing found"));
    rig.write("deep/er/new.go", "package a\n\nfunc Ladder() {}\n");
    assert!(first("Ladder").await.starts_with("deep/er/new.go:3:"));
    rig.write(".gitignore", "gen/\ndeep/\n");
    assert!(rig.text(&tool, json!({"query": "Ladder"})).await.starts_with("Nothing found"));
}

#[tokio::test]
async fn denied_files_are_not_found() {
    let mut rig = project();
    rig.deny(&["src"]);
    let text = rig.text(&search(), json!({"query": "load_config"})).await;
    assert!(!text.contains("src/") && text.contains("tests/all/config_test.rs:1"), "{text}");
    let denied = rig.text(&search(), json!({"query": "retries"})).await;
    assert!(!denied.contains("src/"), "{denied}");
}

#[tokio::test]
async fn limit_path_and_glob_restrict_the_answer() {
    let rig = project();
    for index in 0..60 {
        rig.write(
            &format!("many/f{index:02}.rs"),
            "fn f() { popular(); popular(); }\nfn g() { popular(); }\n",
        );
    }
    rig.write("many/def.rs", "pub fn popular() {}\n");
    let text = rig.text(&search(), json!({"query": "popular"})).await;
    assert!(text.lines().count() <= 45, "{text}");
    assert!(text.contains("Usages (20 of 120, in 60 files):"), "{text}");
    let text = rig.text(&search(), json!({"query": "popular", "limit": 10})).await;
    assert!(text.lines().count() <= 14, "{text}");
    let text = rig.text(&search(), json!({"query": "load_config", "path": "tests"})).await;
    assert!(text.contains("tests/all/config_test.rs:1") && !text.contains("src/"), "{text}");
    let text = rig.text(&search(), json!({"query": "load_config", "glob": "*.md"})).await;
    assert_eq!(text, "Mentions (1):\nREADME.md:3: Call `load_config` first.");
}

#[tokio::test]
async fn concurrent_searches_return_the_same_answer() {
    let rig = project();
    let tool = search();
    let asked = || rig.text(&tool, json!({"query": "load_config"}));
    let (a, b, c, d) = tokio::join!(asked(), asked(), asked(), asked());
    assert!(a == b && b == c && c == d, "{a}\n{b}");
}

#[tokio::test]
async fn invalid_queries_fail_and_timeout_is_reported() {
    let rig = project();
    for (input, want) in [
        (json!({"query": "{}()"}), "no word in the query"),
        (json!({"query": "x", "path": "README.md"}), "is a file"),
        (json!({"query": "x", "path": "gone"}), "does not exist"),
        (json!({"query": "x", "glob": "[a"}), "glob is not valid"),
        (json!({"query": ""}), "query"),
    ] {
        let text = rig.text(&search(), input.clone()).await;
        assert!(text.starts_with("error: ") && text.contains(want), "{input}: {text}");
    }
    let tool =
        erase(Search::new(SearchToolSettings { timeout: Duration::ZERO, ..SearchToolSettings::default() }));
    let output = rig.run(&tool, &json!({"query": "load_config"}), rig.context()).await.unwrap();
    assert_eq!(output.data["timedOut"], true);
    assert!(output.content.to_text().contains("this is not everything"));
}

#[test]
fn search_description_matches_snapshot() {
    let tool = search();
    let spec = tool.spec();
    insta::assert_json_snapshot!(json!({
        "description": spec.description,
        "input": spec.input_schema,
        "output": tool.output_schema().unwrap_or(Value::Null),
    }));
}
