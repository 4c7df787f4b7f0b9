//! Programs with the real Agent SDKs, and a scripted model for each case.
#![allow(dead_code, unreachable_pub, reason = "every test file uses its own part")]
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "test code")]

use std::{
    collections::HashMap,
    fs::File,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    path::{Path, PathBuf},
    process::{Command as Blocking, Stdio},
    time::Duration,
};

use haft_testkit::{MockModel, Script, haft_binary};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    process::Command,
};

use crate::common::Haft;

/// The newest SDK versions, pinned.
pub const PYTHON_SDK: &str = "claude-agent-sdk==0.2.184";
/// Needed by one of the SDK's examples.
const TRIO: &str = "trio==0.35.0";
pub const NODE_SDK: [&str; 2] = ["@anthropic-ai/claude-agent-sdk@0.3.327", "zod@4.1.12"];

/// Only a hang takes this long.
const TIMEOUT: Duration = Duration::from_secs(300);

/// A Python interpreter with the SDK, installed once; `None`, with a message, if it cannot be installed.
pub fn python() -> Option<PathBuf> {
    let dir = kit_directory("agent-sdk-python", PYTHON_SDK);
    let python = dir.join("bin/python");
    let make = || {
        runs(Blocking::new("python3").args(["-m", "venv"]).arg(&dir))
            && runs(Blocking::new(&python).args(["-m", "pip", "install", "--quiet", PYTHON_SDK]))
    };
    installed(&dir, PYTHON_SDK, make).then_some(python)
}

/// The executable bundled with the Python SDK.
pub fn bundled(python: &Path) -> Option<PathBuf> {
    let find = "import claude_agent_sdk, os; print(os.path.join(os.path.dirname(claude_agent_sdk.__file__), '_bundled', 'claude'))";
    let found = Blocking::new(python).args(["-c", find]).output().ok()?;
    Some(PathBuf::from(String::from_utf8(found.stdout).ok()?.trim())).filter(|it| it.is_file())
}

/// The unpacked source package of the Python SDK, for its examples. `None`, with a message, if it cannot
/// be downloaded.
pub fn python_examples(python: &Path) -> Option<PathBuf> {
    let dir = kit_directory("agent-sdk-examples", PYTHON_SDK);
    let source = dir.join("source");
    let make = || {
        let mut download = Blocking::new(python);
        download.args(["-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:", PYTHON_SDK]);
        std::fs::create_dir_all(&source).is_ok()
            && runs(Blocking::new(python).args(["-m", "pip", "install", "--quiet", TRIO]))
            && runs(download.arg("--dest").arg(&dir))
            && archive(&dir).is_some_and(|it| {
                runs(
                    Blocking::new("tar")
                        .arg("-xzf")
                        .arg(it)
                        .args(["--strip-components", "1", "-C"])
                        .arg(&source),
                )
            })
    };
    installed(&dir, PYTHON_SDK, make).then_some(source)
}

fn archive(dir: &Path) -> Option<PathBuf> {
    let files = std::fs::read_dir(dir).ok()?.flatten().map(|it| it.path());
    files.into_iter().find(|it| it.to_string_lossy().ends_with(".tar.gz"))
}

/// A directory with the TypeScript SDK for the scripts of one test; `None`, with a message, if it cannot
/// be installed.
pub fn node() -> Option<PathBuf> {
    // The optional packages contain the SDK's own executables, which are not needed.
    node_kit("agent-sdk-node", &["--omit=optional"], &NODE_SDK)
}

/// A directory of this process in which Node finds these packages. Node resolves modules relative to the
/// script, and scripts of concurrent tests must not overwrite each other.
pub fn node_kit(name: &str, options: &[&str], packages: &[&str]) -> Option<PathBuf> {
    let what = packages.join(" ");
    let kit = kit_directory(name, &what);
    let make = || {
        std::fs::write(kit.join("package.json"), r#"{"private":true,"type":"module"}"#).is_ok()
            && runs(Blocking::new("npm").arg("install").args(options).args(packages).current_dir(&kit))
    };
    if !installed(&kit, &what, make) {
        return None;
    }
    let scripts = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    std::fs::create_dir_all(&scripts).unwrap();
    let modules = scripts.join("node_modules");
    std::fs::remove_file(&modules).ok();
    std::os::unix::fs::symlink(kit.join("node_modules"), &modules).unwrap();
    Some(scripts)
}

/// The directory of a kit in exactly this version. It is in the user's cache, like the other test
/// programs (`xtask/src/install_tools.rs`), so that a clean clone does not install it again.
pub fn kit_directory(name: &str, what: &str) -> PathBuf {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|it| it.is_absolute());
    let cache = variable("XDG_CACHE_HOME").or_else(|| variable("HOME").map(|it| it.join(".cache")));
    let cache = cache.map_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")), |it| it.join("haft-tests"));
    let mut version = DefaultHasher::new();
    what.hash(&mut version);
    let dir = cache.join(format!("{name}-{:016x}", version.finish()));
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

/// Installs the kit unless it exists; a lock admits one process at a time. Returns whether it exists.
pub fn installed(dir: &Path, what: &str, make: impl Fn() -> bool) -> bool {
    let ready = dir.join("ready");
    let lock = File::create(dir.with_extension("lock")).unwrap();
    lock.lock().unwrap();
    if std::fs::read_to_string(&ready).is_ok_and(|it| it == what) {
        return true;
    }
    let made = make() && std::fs::write(&ready, what).is_ok();
    if !made {
        eprintln!("SKIPPED: {what} cannot be installed here");
    }
    made
}

pub fn runs(command: &mut Blocking) -> bool {
    command.output().is_ok_and(|it| it.status.success())
}

/// The executable under test; `HAFT_SDK_CLI` names another one for comparison.
pub fn executable() -> String {
    std::env::var("HAFT_SDK_CLI").unwrap_or_else(|_| haft_binary().to_owned())
}

struct Stage {
    _haft: Haft,
    model: MockModel,
}

/// Runs a program of test cases; the error lists what failed, case by case.
pub async fn run_cases(mut program: Command) -> Result<usize, String> {
    let mut child = program
        .env("HAFT_SDK_CLI", executable())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|err| err.to_string())?;
    let mut input = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let (mut stages, mut passed, mut problems) = (HashMap::new(), 0, Vec::new());
    loop {
        let line = tokio::time::timeout(TIMEOUT, lines.next_line()).await;
        let Ok(Ok(Some(line))) = line else {
            problems.push(String::from("the program ended early, or hangs"));
            break;
        };
        let message: Value = serde_json::from_str(&line).unwrap();
        let case = message["case"].as_str().unwrap_or_default().to_owned();
        match message["op"].as_str().unwrap() {
            "begin" => {
                let (stage, mut answer) = begin(&message).await;
                stages.insert(case, stage);
                answer["id"] = message["id"].clone();
                input.write_all(format!("{answer}\n").as_bytes()).await.unwrap();
            }
            "requests" => {
                let stage: &Stage = &stages[&case];
                let bodies: Vec<Value> = stage.model.requests().iter().map(|it| it.json()).collect();
                let answer = json!({"id": message["id"], "requests": bodies});
                input.write_all(format!("{answer}\n").as_bytes()).await.unwrap();
            }
            "done" => match judged(&message, stages.get(&case)) {
                None => passed += 1,
                Some(problem) => problems.push(format!("--- {case}\n{problem}")),
            },
            _ => break,
        }
    }
    if problems.is_empty() { Ok(passed) } else { Err(problems.join("\n")) }
}

/// Creates the model and directories of a case.
async fn begin(message: &Value) -> (Stage, Value) {
    let haft = Haft::new();
    let ws = haft.ws();
    let text = message["turns"].to_string().replace("$WS", &ws.to_string_lossy());
    let script = Script {
        turns: serde_json::from_str(&text).unwrap(),
        // The compared executable may send requests that Haft never would.
        strict: std::env::var_os("HAFT_SDK_CLI").is_none(),
        ..Script::default()
    };
    for (name, text) in message["files"].as_object().into_iter().flatten() {
        haft.write(name, text.as_str().unwrap());
    }
    let model = MockModel::start(script).await.unwrap();
    let answer = json!({"url": model.url(), "ws": ws, "home": haft.home()});
    (Stage { _haft: haft, model }, answer)
}

/// What failed in a finished case; `None` if it passed.
fn judged(message: &Value, stage: Option<&Stage>) -> Option<String> {
    if let Some(problem) = message["problem"].as_str() {
        return Some(format!("{problem}\nstandard error: {}", message["stderr"]));
    }
    // Some cases name an unknown style, which is reported on standard error.
    let is_expected = |line: &&str| line.is_empty() || line.starts_with("haft: there is no output style");
    let noise = message["stderr"].as_str().unwrap_or_default();
    if !noise.lines().all(|it| is_expected(&it)) && std::env::var_os("HAFT_SDK_CLI").is_none() {
        return Some(format!("standard error: {noise}"));
    }
    let refused = stage.map(|it| it.model.refusals()).unwrap_or_default();
    // A case may provoke a refusal of the model; any other refusal is a fault of Haft.
    let refused: Vec<String> = refused.into_iter().filter(|it| !it.contains("bad thing")).collect();
    (!refused.is_empty()).then(|| format!("the model refused: {refused:?}"))
}
