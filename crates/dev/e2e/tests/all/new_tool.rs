//! `haft new tool` writes a crate that resolves and compiles, whose own tests pass, and whose server
//! answers an MCP client.
//!
//! cargo would rebuild every dependency, because a new workspace has other features and paths. So cargo
//! only resolves the manifest, and the test calls rustc as cargo would, with the libraries built for
//! this test.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    time::SystemTime,
};

use serde_json::{Value, json};

use crate::common::Haft;

/// The source checkout these tests belong to.
const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../..");

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Creates a crate in the project of `haft`; returns its path and cargo's metadata.
fn new_crate(haft: &Haft, name: &str) -> (PathBuf, Value) {
    haft.ok(&["new", "tool", name, "--haft", SOURCE], "");
    let root = haft.ws().join("word-count");
    std::fs::copy(Path::new(SOURCE).join("Cargo.lock"), root.join("Cargo.lock")).unwrap();
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--offline", "--format-version", "1"])
        .current_dir(&root)
        .output()
        .unwrap();
    let known = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", said(&output)));
    (root, known)
}

/// The new crate in cargo's metadata.
fn package(known: &Value) -> &Value {
    known["packages"].as_array().unwrap().iter().find(|it| it["name"] == "word-count").unwrap()
}

#[test]
fn a_new_tool_is_a_crate_of_its_own() {
    let haft = Haft::new();
    let (root, known) = new_crate(&haft, "WordCount");
    for file in ["Cargo.toml", "src/lib.rs", "src/main.rs", "README.md"] {
        let text = std::fs::read_to_string(root.join(file)).unwrap();
        assert!(!text.contains('@') && !text.to_lowercase().contains("template"), "{file}: {text}");
    }
    // Generated code of derive macros names these crates directly.
    let needs = package(&known)["dependencies"].as_array().unwrap();
    for name in ["haft", "schemars", "serde"] {
        assert!(needs.iter().any(|it| it["name"] == name), "{name}: {needs:?}");
    }
    // An existing directory is not overwritten.
    assert_eq!(haft.run(&["new", "tool", "word-count"], "").status.code(), Some(2));
    assert_eq!(haft.run(&["new", "tool", "../out"], "").status.code(), Some(2));
}

/// The rustc beside the cargo that built this test, with the libraries of that build.
struct Compiler {
    program: PathBuf,
    libraries: PathBuf,
}

impl Compiler {
    /// `None`, with a message, if there is none.
    #[expect(clippy::print_stderr, reason = "what is skipped is said")]
    fn found() -> Option<Self> {
        let program = Path::new(env!("CARGO")).with_file_name("rustc");
        if !program.is_file() {
            eprintln!("SKIPPED: no compiler at {}", program.display());
            return None;
        }
        let libraries = std::env::current_exe().unwrap().parent().unwrap().to_owned();
        Some(Self { program, libraries })
    }

    /// All builds of a library, newest first.
    fn builds(&self, name: &str) -> Vec<PathBuf> {
        let start = format!("lib{}-", name.replace('-', "_"));
        let mut builds: Vec<(SystemTime, PathBuf)> = Vec::new();
        for entry in std::fs::read_dir(&self.libraries).unwrap().map(Result::unwrap) {
            let file = entry.file_name().into_string().unwrap_or_default();
            if file.starts_with(&start) && file.ends_with(".rlib") {
                builds.push((entry.metadata().unwrap().modified().unwrap(), entry.path()));
            }
        }
        builds.sort();
        assert!(!builds.is_empty(), "no {start}*.rlib in {}", self.libraries.display());
        builds.into_iter().rev().map(|(_, path)| path).collect()
    }

    fn run(&self, root: &Path, args: &[&str], libraries: &[(String, PathBuf)]) -> Output {
        let mut command = Command::new(&self.program);
        command.args(["--edition", "2024", "--out-dir", ".", "-L"]).current_dir(root);
        command.arg(format!("dependency={}", self.libraries.display())).args(args);
        command.env("CARGO_PKG_VERSION", "0.1.0");
        for (name, path) in libraries {
            command.arg("--extern").arg(format!("{}={}", name.replace('-', "_"), path.display()));
        }
        command.output().unwrap()
    }

    /// The newest build of `haft`, and for other dependencies the builds it was compiled with. Several
    /// builds with different features may exist, and types of a second build would not match.
    fn chosen(&self, names: &[&str]) -> Vec<(String, PathBuf)> {
        let haft = self.builds("haft").swap_remove(0);
        // An rlib contains the hashes of the libraries it was compiled with.
        let inside = String::from_utf8_lossy(&std::fs::read(&haft).unwrap()).into_owned();
        let is_inside = |build: &PathBuf| {
            let stem = build.file_stem().unwrap().to_string_lossy().into_owned();
            stem.rsplit_once('-').is_some_and(|(_, ending)| inside.contains(&format!("-{ending}")))
        };
        let choose = |name: &&str| match *name {
            "haft" => haft.clone(),
            other => {
                self.builds(other).into_iter().find(is_inside).unwrap_or_else(|| panic!("no {other} of haft"))
            }
        };
        names.iter().map(|name| ((*name).to_owned(), choose(name))).collect()
    }
}

#[test]
fn a_new_tool_compiles_and_works() {
    let Some(compiler) = Compiler::found() else { return };
    let haft = Haft::new();
    let (root, known) = new_crate(&haft, "word-count");
    let needs = package(&known)["dependencies"].as_array().unwrap();
    let names: Vec<&str> = needs.iter().map(|it| it["name"].as_str().unwrap()).collect();
    let mut libraries = compiler.chosen(&names);
    let args = ["--crate-name", "word_count", "--crate-type", "lib", "src/lib.rs"];
    let output = compiler.run(&root, &args, &libraries);
    assert!(output.status.success() && !said(&output).contains("warning"), "{}", said(&output));

    let output = compiler.run(&root, &["--crate-name", "own_tests", "--test", "src/lib.rs"], &libraries);
    assert!(output.status.success() && !said(&output).contains("warning"), "{}", said(&output));
    let output = Command::new(root.join("own_tests")).output().unwrap();
    assert!(output.status.success() && said(&output).contains("1 passed"), "{}", said(&output));

    libraries.push((String::from("word_count"), root.join("libword_count.rlib")));
    let output = compiler.run(&root, &["--crate-name", "server", "src/main.rs"], &libraries);
    assert!(output.status.success() && !said(&output).contains("warning"), "{}", said(&output));
    let answers = served(&root.join("server"));
    assert_eq!(answers[0]["result"]["serverInfo"]["name"], "word-count", "{answers:?}");
    assert_eq!(answers[1]["result"]["tools"][0]["name"], "WordCount", "{answers:?}");
    assert_eq!(answers[2]["result"]["content"][0]["text"], "cba", "{answers:?}");
}

/// Responses of the server to a client that lists the tools and makes one call.
fn served(program: &Path) -> Vec<Value> {
    let mut child = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let call = json!({"name": "WordCount", "arguments": {"text": "abc"}});
    for message in [
        json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}),
    ] {
        writeln!(input, "{message}").unwrap();
    }
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let answers = lines.map(|line| serde_json::from_str::<Value>(&line).unwrap());
    let mut answers: Vec<Value> = answers.filter(|it| it["id"].is_u64()).take(3).collect();
    drop(input);
    child.wait().unwrap();
    answers.sort_by_key(|it| it["id"].as_u64());
    answers
}
