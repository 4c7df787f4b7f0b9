//! The commands of the README. Those that need neither a key nor a network are run; of the others every
//! flag is checked. `page_commands` runs those of the other pages.

use std::{os::unix::fs::symlink, path::Path, process::Stdio};

use haft_testkit::haft_binary;

use crate::common::Haft;

/// Prefixes of lines that are only parsed, and what they would need.
const ONLY_PARSED: &[(&str, &str)] =
    &[("haft -p", "a model"), ("git diff | haft -p", "a model"), ("haft login", "a key")];

/// Prefixes of lines that do not run the built program.
const NOT_OURS: &[(&str, &str)] = &[
    ("cargo run --release", "builds the program"),
    ("cargo xtask", "runs this test"),
    ("cargo install", "builds it"),
];

fn readme() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../README.md");
    std::fs::read_to_string(path).unwrap()
}

/// The lines of all shell code blocks, in order, without comments.
fn shell_lines(text: &str) -> Vec<String> {
    let blocks = text.split("```sh\n").skip(1).map(|rest| rest.split("\n```").next().unwrap());
    let lines = blocks.flat_map(str::lines).map(|line| line.split("  #").next().unwrap().trim());
    lines.filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

/// Runs a line in a shell that finds the built program as `haft`.
fn shell(haft: &Haft, line: &str) -> std::process::Output {
    let programs = haft.dir.path().join("bin");
    let path = std::env::join_paths(
        std::iter::once(programs).chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
    );
    std::process::Command::new("sh")
        .args(["-c", line])
        .current_dir(haft.ws())
        .env_clear()
        .env("PATH", path.unwrap())
        .env("HOME", haft.home())
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// Adds `--help` to every `haft` command in the line. Help is printed only if everything before it
/// parses.
fn with_help(line: &str) -> String {
    let parts = line.split(" && ").flat_map(|part| part.split(" | "));
    let ours = parts.filter(|part| part.starts_with("haft "));
    let asked = ours.map(|part| match part.split_once(" -- ") {
        Some((own, _)) => format!("{own} --help"),
        None => format!("{part} --help"),
    });
    asked.collect::<Vec<_>>().join(" && ")
}

#[test]
fn commands_of_the_readme_work() {
    let haft = Haft::new();
    haft.write("README.md", "# A project\n");
    std::fs::create_dir(haft.dir.path().join("bin")).unwrap();
    symlink(haft_binary(), haft.dir.path().join("bin/haft")).unwrap();

    let lines = shell_lines(&readme());
    assert!(5 < lines.len(), "{lines:?}");
    for line in &lines {
        let begins = |table: &[(&str, &str)]| table.iter().any(|(start, _)| line.starts_with(start));
        if begins(NOT_OURS) {
            continue;
        }
        let run = if begins(ONLY_PARSED) { with_help(line) } else { line.clone() };
        let output = shell(&haft, &run);
        let said =
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{run}: {:?}\n{said}", output.status);
        assert!(!said.is_empty(), "{run} says nothing");
    }
}

/// The tutorial, typed word by word into one shell.
#[test]
fn the_first_project_goes_as_it_is_told() {
    let haft = Haft::new();
    std::fs::create_dir(haft.dir.path().join("bin")).unwrap();
    symlink(haft_binary(), haft.dir.path().join("bin/haft")).unwrap();
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/start/tutorial.md");
    let page = std::fs::read_to_string(page).unwrap();
    let blocks: Vec<&str> =
        page.split("```sh\n").skip(1).map(|rest| rest.split("\n```").next().unwrap()).collect();
    // A free port for the session page.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let script = blocks.join("\n").replace("8765", &port.to_string());
    let output = shell(&haft, &script);
    let said = String::from_utf8_lossy(&output.stdout);
    let noise = String::from_utf8_lossy(&output.stderr);
    for part in [
        "The check passes now.",
        "\nfine\n",
        "-echo $(($1 + $2 + 1))\n+echo $(($1 + $2))\n",
        "in effect  Edit",
        "requests 4",
        "I was not allowed to remove the repository.",
        "exit code 3",
        "ask: ",
        "allow: ",
        "allow `Bash(sh check.sh)`",
        "deny `Read(.env)`",
    ] {
        assert!(said.contains(part), "{part}\n{said}\n{noise}");
    }
    assert!(output.status.success() && !noise.contains("unexpected argument"), "{noise}");
    let written = std::fs::read_to_string(haft.ws().join("session.html")).unwrap();
    assert!(written.contains("The check fails. Repair it."));
    // Undone and redone.
    let program = std::fs::read_to_string(haft.ws().join("first/total.sh")).unwrap();
    assert_eq!(program, "echo $(($1 + $2))\n");
}

#[test]
fn wrong_flags_are_found() {
    let haft = Haft::new();
    std::fs::create_dir(haft.dir.path().join("bin")).unwrap();
    symlink(haft_binary(), haft.dir.path().join("bin/haft")).unwrap();
    for (line, is_right) in [
        ("haft -p \"x\" --permission-mode plan", true),
        ("haft -p \"x\" --no-such-flag", false),
        ("haft sandbox run -- npm --no-such-flag", true),
    ] {
        assert_eq!(shell(&haft, &with_help(line)).status.success(), is_right, "{line}");
    }
}
