//! What remains on the screen after a crash.

use std::{path::PathBuf, process::Command};

/// Types keys at a program that crashes; fails if the terminal is not restored. Returns the output and
/// exit code.
fn breaks(keys: &str) -> (String, Option<i32>) {
    let crates = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    // In the directory of this test binary.
    let tests = std::env::current_exe().unwrap();
    let program = tests.parent().unwrap().with_file_name("examples").join("breaking_terminal");
    assert!(program.exists(), "cargo builds examples with tests: {}", program.display());
    let output = Command::new("python3")
        .arg("-IS")
        .arg(crates.join("../dev/e2e/tests/all/support/typist.py"))
        .args([keys, &program.display().to_string()])
        .env("TERM", "xterm-256color")
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    let problem = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(problem.is_empty(), "{problem}\n{shown}");
    (shown, output.status.code())
}

#[test]
fn crash_restores_terminal_and_shows_message() {
    for (how, said, code) in [
        ("thread", "broken-4711 in the thread", 101),
        ("main", "broken-4711 in main", 101),
        // Killed by a signal: 128 plus its number, as in shells.
        ("abort", "broken-4711 by a library", 250),
        ("stack", "has overflowed its stack", 250),
    ] {
        let keys = format!(r#"[["? help", "{how}\r"]]"#);
        let (shown, ended) = breaks(&keys);
        assert_eq!(ended, Some(code), "{how}\n{shown}");
        for off in ["\x1b[?2004l", "\x1b[?1004l", "\x1b[<u", "\x1b[?25h", "\x1b[?7h"] {
            assert!(shown.contains(off), "{how} {off:?}\n{shown}");
        }
        // On a row of its own, with nothing of the interface below or behind it.
        let mut emulator = avt::Terminal::with_scrollback(80, 24, None).unwrap();
        emulator.feed(shown.as_str());
        let rows: Vec<String> =
            emulator.screen().all_lines().map(|it| it.text().trim_end().to_owned()).collect();
        let at = rows.iter().position(|row| row.contains(said)).unwrap_or_else(|| panic!("{how}: {rows:#?}"));
        assert!(!rows[at].contains('›'), "{how}: {rows:#?}");
        assert!(!rows[at..].iter().any(|row| row.contains("? help")), "{how}: {rows:#?}");
        assert_eq!(how == "thread", shown.contains("farewell-4712"), "{how}: {rows:#?}");
    }
}
