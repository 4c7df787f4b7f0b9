//! What is typed at a terminal reaches the program behind npm's script once:
//! a second signal would end it before it could say how far it came.
#![allow(clippy::unwrap_used, clippy::print_stderr, missing_docs, reason = "test code")]

use std::{
    fs,
    io::Write as _,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// Stands in for the program: writes down each signal, and ends half a second after the
/// first. A shell around it that a key ends takes the terminal along, which hangs up.
const PROGRAM: &str = r#"#!/bin/sh
trap '' HUP
trap 'echo INT >> "$SEEN"' INT
trap 'echo QUIT >> "$SEEN"' QUIT
echo ready > "$SEEN"
while [ "$(wc -l < "$SEEN")" -lt 2 ]; do sleep 0.05; done
for _ in 1 2 3 4 5 6 7 8 9 10; do sleep 0.05; done
"#;

fn there(program: &str) -> bool {
    let found = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if found.is_err() {
        eprintln!("SKIPPED: {program} is not on this machine");
    }
    found.is_ok()
}

/// What the program saw after this was typed, line by line.
fn seen(dir: &Path, line: &str, typed: &[u8]) -> String {
    let seen = dir.join("seen");
    let _ = fs::remove_file(&seen);
    let mut terminal = Command::new("script")
        .args(["-qec", line, "/dev/null"])
        .current_dir(dir)
        .env("SEEN", &seen)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut keys = terminal.stdin.take().unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    while !seen.is_file() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    keys.write_all(typed).unwrap();
    keys.flush().unwrap();
    while fs::read_to_string(&seen).unwrap().lines().count() < 2 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(keys);
    terminal.wait().unwrap();
    fs::read_to_string(seen).unwrap()
}

#[test]
fn a_key_of_the_terminal_is_one_signal() {
    if !there("node") || !there("script") {
        return;
    }
    let dir = std::env::temp_dir().join(format!("haft-npm-signals-{}", std::process::id()));
    let platform = if cfg!(target_arch = "aarch64") { "haft-linux-arm64" } else { "haft-linux-x64" };
    let platform = dir.join("node_modules").join(platform);
    fs::create_dir_all(platform.join("bin")).unwrap();
    fs::write(platform.join("package.json"), "{}").unwrap();
    fs::write(platform.join("bin/haft"), PROGRAM).unwrap();
    fs::set_permissions(platform.join("bin/haft"), fs::Permissions::from_mode(0o755)).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/npm/haft.js");
    fs::copy(script, dir.join("haft.js")).unwrap();
    for (line, typed, wanted) in [
        ("node haft.js", &b"\x03"[..], "ready\nINT\n"),
        ("true | node haft.js", b"\x03", "ready\nINT\n"),
        ("node haft.js", b"\x1c", "ready\nQUIT\n"),
        ("true | node haft.js", b"\x1c", "ready\nQUIT\n"),
    ] {
        assert_eq!(seen(&dir, line, typed), wanted, "{line} {typed:?}");
    }
    fs::remove_dir_all(&dir).unwrap();
}
