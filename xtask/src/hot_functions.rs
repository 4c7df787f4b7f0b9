//! `cargo xtask hot-functions`: records which functions typical sessions execute, in
//! `crates/frontends/cli/hot-functions.txt`. The linker groups them (see the build script beside that
//! file), so that fewer pages of the program are resident. Needs valgrind and nm.
//!
//! Repeat it when dependencies or the compiler change, because symbol names contain hashes of them. An
//! outdated list only costs memory (once, about half as much again), so `cargo xtask tidy` just reports
//! it.

use std::{
    collections::BTreeSet,
    fs,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};

use crate::{
    command, tidy,
    turns::{BYPASSING, Scratch, agent_in, model},
};

/// Crates included as a whole, because they start processes, which valgrind does not support here.
const WHOLE: &[&str] =
    &["haft_bash_analysis", "haft_permission", "haft_process", "haft_sandbox", "haft_shell"];

pub(crate) fn write() -> Result<(), String> {
    command::cargo(&["rustc", "--release", "-p", "haft-cli", "--bin", "haft", "--", "-C", "strip=none"])?;
    let haft = command::target_dir()?.join("release/haft");
    let mut names = whole_crates(&haft)?;
    names.extend(run_by_session(&haft)?);
    for args in [&["--version"][..], &["tool", "list"], &["-p", "go"], &["doctor"]] {
        names.extend(run_by(&haft, |mut command, scratch| {
            command.args(args).current_dir(scratch.ws()).env("HOME", scratch.ws().with_file_name("home"));
            command.output().map(drop).map_err(|err| format!("valgrind: {err}"))
        })?);
    }
    let list: Vec<String> = names.into_iter().collect();
    let path = list_path();
    let text = format!("{}\n{}\n", made_with()?, list.join("\n"));
    fs::write(&path, text).map_err(|err| format!("{}: {err}", path.display()))?;
    println!("{} functions in {}", list.len(), path.display());
    Ok(())
}

/// Whether the list was made with other dependencies.
pub(crate) fn is_too_old() -> Result<bool, String> {
    let path = list_path();
    let list = fs::read_to_string(&path).map_err(|err| format!("{}: {err}", path.display()))?;
    Ok(list.lines().next() != Some(&made_with()?))
}

fn list_path() -> PathBuf {
    tidy::root().join("crates/frontends/cli/hot-functions.txt")
}

/// Returns the first line of the list: a comment that identifies the dependencies.
fn made_with() -> Result<String, String> {
    let lock = fs::read_to_string(tidy::root().join("Cargo.lock")).map_err(|err| err.to_string())?;
    let mut hasher = DefaultHasher::new();
    lock.hash(&mut hasher);
    Ok(format!("# Made with the Cargo.lock of sum {:016x}.", hasher.finish()))
}

/// Returns the functions of the crates included as a whole.
fn whole_crates(haft: &Path) -> Result<BTreeSet<String>, String> {
    let listed = command::output("nm", &["--defined-only", &haft.display().to_string()])?;
    let names = listed.lines().filter_map(|line| {
        let (kind, name) = line.get(17..)?.split_once(' ')?;
        let is_of = |of: &&&str| name.contains(&format!("{}{of}", of.len()));
        (kind.eq_ignore_ascii_case("t") && WHOLE.iter().any(|it| is_of(&it))).then(|| name.to_owned())
    });
    Ok(names.collect())
}

/// Returns the functions executed by a session that reads, searches, writes and edits.
fn run_by_session(haft: &Path) -> Result<BTreeSet<String>, String> {
    let call = |name: &str, input: Value| json!({"reply": [{"tool": {"name": name, "input": input}}]});
    let script = json!({"turns": [
        call("Read", json!({"file_path": "a.txt"})),
        call("Edit", json!({"file_path": "a.txt", "old_string": "line 1 ", "new_string": "changed 1 "})),
        call("Grep", json!({"pattern": "line"})),
        call("Glob", json!({"pattern": "**/*.txt"})),
        call("Write", json!({"file_path": "b.txt", "content": "new\n"})),
        call("TodoWrite", json!({"todos": [{"content": "a", "status": "pending", "activeForm": "b"}]})),
        {"reply": [{"text": "Done."}]},
    ]});
    run_by(haft, |command, scratch| {
        let lines: String = (0..200).map(|number| format!("line {number} of the file\n")).collect();
        fs::write(scratch.ws().join("a.txt"), lines).map_err(|err| err.to_string())?;
        let (mut server, url) = model(haft, scratch, &script)?;
        let ended =
            agent_in(command, scratch, &url, &BYPASSING).status().map_err(|err| format!("valgrind: {err}"));
        server.kill().ok();
        server.wait().ok();
        if ended?.success() { Ok(()) } else { Err(String::from("the session failed under valgrind")) }
    })
}

/// Returns the functions executed by a command; `ran` adds arguments and runs it.
fn run_by(
    haft: &Path,
    ran: impl FnOnce(Command, &Scratch) -> Result<(), String>,
) -> Result<BTreeSet<String>, String> {
    let scratch = Scratch::new("hot-functions")?;
    let profile = scratch.ws().with_file_name("profile");
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--demangle=no", "--quiet"]);
    command.arg(format!("--callgrind-out-file={}", profile.display())).arg(haft);
    ran(command, &scratch)?;
    let profile = fs::read(&profile).map_err(|err| format!("what valgrind saw cannot be read: {err}"))?;
    Ok(String::from_utf8_lossy(&profile).lines().filter_map(function_of).collect())
}

/// Returns the Rust function that a line of a profile introduces.
fn function_of(line: &str) -> Option<String> {
    let named = line.strip_prefix("fn=(").or_else(|| line.strip_prefix("cfn=("))?;
    let name = named.split_once(") ")?.1;
    // Recursive calls have a suffix.
    let name = name.split('\'').next()?;
    (name.starts_with("_Z") || name.starts_with("_R")).then(|| name.to_owned())
}
