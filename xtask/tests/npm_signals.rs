//! A signal from the terminal reaches the program behind npm's script exactly once; a second one would
//! end it before it could report its progress.
#![allow(clippy::unwrap_used, clippy::print_stderr, missing_docs, reason = "test code")]

use std::{
    fs,
    io::Write as _,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// A fake program: records each signal, and exits half a second after the first. The shell around it
/// exits on a key and closes the terminal, which sends a hangup.
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

/// Returns the signals the program received after these keys, one per line.
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
fn terminal_key_sends_one_signal() {
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
