//! `haft` in tmux, which re-wraps rows on resize, has a scrollback, and can be queried.
#![allow(clippy::unwrap_used, missing_docs, reason = "test code")]

use std::{
    path::PathBuf,
    process::Command,
    time::{Duration, Instant},
};

use haft_testkit::{MockModel, ReplyPiece, Script, Turn, haft_binary};
use serde_json::json;

use crate::common::Haft;

/// A separate tmux server with one window.
struct Tmux {
    socket: PathBuf,
    /// Directory of the server's files; the server ends with the test.
    dir: tempfile::TempDir,
}

impl Tmux {
    /// Runs haft in a window of this size. `None` without tmux.
    fn start(haft: &Haft, model: &MockModel, size: (u16, u16), args: &str) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let tmux = Self { socket: dir.path().join("tmux"), dir };
        let program = format!(
            "exec env -i PATH='{}' HOME='{}' TERM=tmux-256color SHELL=/bin/sh ANTHROPIC_API_KEY=x \
             ANTHROPIC_BASE_URL='{}' TMUX=\"$TMUX\" '{}' {args}",
            std::env::var("PATH").unwrap_or_default(),
            haft.home().display(),
            model.url(),
            haft_binary(),
        );
        let started = Command::new("tmux")
            .args(["-u", "-f", "/dev/null", "-S"])
            .arg(&tmux.socket)
            .args(["new-session", "-d", "-s", "it", "-x", &size.0.to_string(), "-y", &size.1.to_string()])
            .args(["-c", &haft.ws().display().to_string(), &program])
            .env("LC_ALL", "C.UTF-8")
            .output();
        match started {
            Ok(output) if output.status.success() => {
                tmux.run(&["set-option", "-g", "history-limit", "50000"]);
                Some(tmux)
            }
            Ok(output) => panic!("{}", String::from_utf8_lossy(&output.stderr)),
            Err(_) => None,
        }
    }

    fn run(&self, args: &[&str]) -> String {
        let output = Command::new("tmux").arg("-S").arg(&self.socket).args(args).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Evaluates a tmux format string for the window.
    fn says(&self, format: &str) -> String {
        self.run(&["display-message", "-p", "-t", "it", format]).trim_end_matches('\n').to_owned()
    }

    fn screen(&self) -> String {
        self.run(&["capture-pane", "-p", "-t", "it"])
    }

    /// Scrollback and screen, with wrapped rows joined.
    fn lines(&self) -> String {
        self.run(&["capture-pane", "-p", "-J", "-S", "-", "-t", "it"])
    }

    fn keys(&self, keys: &[&str]) {
        self.run(&[&["send-keys", "-t", "it"], keys].concat());
    }

    /// Waits until the condition holds.
    async fn until(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(120);
        while !is_so(self) {
            assert!(Instant::now() < deadline, "never: {what}\n{}", self.lines());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn shows(&self, words: &str) {
        self.until(words, |it| it.screen().contains(words)).await;
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        self.run(&["kill-server"]);
    }
}

/// Prints every string of a file at column 0 and records the cursor column that the terminal reports.
const MEASURE: &str = r#"
import json, os, sys, termios, tty
strings = json.load(open(sys.argv[1]))
tty.setraw(0)
columns = []
for it in strings:
    os.write(1, b"\r\x1b[K" + it.encode() + b"\x1b[6n")
    answer = b""
    while not answer.endswith(b"R"):
        answer += os.read(0, 1)
    columns.append(int(answer.split(b";")[-1][:-1]) - 1)
with open(sys.argv[2] + ".part", "w") as out:
    json.dump(columns, out)
os.rename(sys.argv[2] + ".part", sys.argv[2])
"#;

impl Tmux {
    /// tmux's cursor column after each of these strings.
    async fn measured(&self, strings: &[String]) -> Vec<usize> {
        let file = |name: &str| self.dir.path().join(name).display().to_string();
        std::fs::write(file("measure.py"), MEASURE).unwrap();
        std::fs::write(file("strings.json"), serde_json::to_string(strings).unwrap()).unwrap();
        let program =
            format!("python3 {} {} {}", file("measure.py"), file("strings.json"), file("columns.json"));
        self.run(&["new-window", "-d", "-n", "measure", &program]);
        self.until("widths", |_| std::path::Path::new(&file("columns.json")).exists()).await;
        serde_json::from_str(&std::fs::read_to_string(file("columns.json")).unwrap()).unwrap()
    }
}

/// Strings whose width terminals and programs compute differently, and ordinary ones.
fn odd_strings() -> Vec<String> {
    let pieces = [
        "a",
        "é",
        "e\u{301}",
        "漢字",
        "ｆｕｌｌ",
        "한국어",
        "ไทย",
        "مرحبا",
        "שלום",
        "👍",
        "👍🏽",
        "🇩🇪",
        "→",
        "…",
        "½",
        "ﬁ",
        "“”",
        "❤\u{fe0f}",
        "⚠\u{fe0f}",
        "1\u{fe0f}\u{20e3}",
        "👩\u{200d}👧",
        "🧑\u{200d}💻",
        "🏳\u{fe0f}\u{200d}🌈",
        "क्षि",
        "நி",
        "\u{1112}\u{1161}\u{11ab}",
    ];
    let mut all: Vec<String> = pieces.iter().map(|it| (*it).to_owned()).collect();
    for first in pieces {
        all.extend(["x", "漢", "é", "👍🏽", "b c", "❤\u{fe0f}", "ｆ"].map(|second| format!("{first}{second}")));
    }
    all
}

/// Numbered lines, each unique.
fn markers(from: usize, to: usize) -> String {
    (from..to)
        .map(|number| {
            format!("Line <{number:03}> with some words behind it, more than forty columns of them.\n\n")
        })
        .collect()
}

fn not_once(tmux: &Tmux, count: usize) -> Vec<(usize, usize)> {
    let all = tmux.lines();
    let seen = |number: usize| all.matches(&format!("<{number:03}>")).count();
    (0..count).map(|number| (number, seen(number))).filter(|it| it.1 != 1).collect()
}

/// Prints markers, waits for a file, then prints more.
async fn model_that_waits(haft: &Haft) -> MockModel {
    let waits = json!({"command": "while [ ! -e go ]; do sleep 0.02; done", "timeout": 600_000});
    let mut script = Script::from_turns(vec![
        Turn::from_pieces([ReplyPiece::text(markers(0, 150)), ReplyPiece::tool("Bash", waits)]),
        Turn::text(format!("{}The end-4711.", markers(150, 300))),
    ]);
    script.delta_chars = 7;
    drop(std::fs::remove_file(haft.ws().join("go")));
    MockModel::start(script).await.unwrap()
}

const ARGS: &str = "--allowedTools Bash";

#[tokio::test]
async fn who_reads_further_up_is_not_disturbed() {
    let haft = Haft::new();
    let model = model_that_waits(&haft).await;
    let Some(tmux) = Tmux::start(&haft, &model, (80, 24), ARGS) else {
        return eprintln!("SKIPPED: there is no tmux");
    };
    tmux.shows("? help").await;
    tmux.keys(&["go on", "Enter"]);
    tmux.shows("running Bash").await;
    tmux.run(&["copy-mode", "-t", "it"]);
    tmux.keys(&["-X", "-N", "100", "scroll-up"]);
    let place = "#{scroll_position} #{copy_cursor_line}";
    let before = tmux.says(place);
    assert!(before.starts_with("100 "), "{before}");
    std::fs::write(haft.ws().join("go"), "").unwrap();
    tmux.until("the turn ends", |it| {
        it.lines().contains("end-4711") && !it.says("#{pane_title}").contains('…')
    })
    .await;
    assert_eq!(tmux.says(place), before, "the place one reads at stays");
    tmux.keys(&["-X", "cancel"]);
    tmux.shows("end-4711").await;
    tmux.until("every line once", |it| not_once(it, 300).is_empty()).await;
}

#[tokio::test]
async fn every_line_is_there_once_however_often_the_window_changes() {
    let haft = Haft::new();
    let model = model_that_waits(&haft).await;
    let Some(tmux) = Tmux::start(&haft, &model, (80, 24), ARGS) else {
        return eprintln!("SKIPPED: there is no tmux");
    };
    tmux.shows("? help").await;
    tmux.keys(&["go on", "Enter"]);
    tmux.shows("running Bash").await;
    std::fs::write(haft.ws().join("go"), "").unwrap();
    let sizes = [(60, 24), (120, 30), (40, 20), (100, 24), (100, 12), (100, 40), (72, 16), (80, 24)];
    for (columns, rows) in sizes.into_iter().cycle().take(24) {
        tmux.run(&["resize-window", "-t", "it", "-x", &columns.to_string(), "-y", &rows.to_string()]);
        let wide = format!("{columns}");
        // Wait for the prompt before the next resize.
        tmux.until("the prompt", |it| it.says("#{pane_width}") == wide && it.screen().contains('›')).await;
    }
    tmux.until("the turn ends", |it| {
        it.lines().contains("end-4711") && !it.says("#{pane_title}").contains('…')
    })
    .await;
    tmux.until("every line once", |it| not_once(it, 300).is_empty()).await;
    let prompts = |it: &Tmux| it.screen().lines().filter(|line| line.trim_end() == "›").count();
    tmux.until("one prompt", |it| prompts(it) == 1).await;
    // A wrapped paragraph is copied as one line.
    let line = "Line <299> with some words behind it, more than forty columns of them.";
    assert!(tmux.lines().lines().any(|it| it.trim_end() == line), "{}", tmux.lines());
}

/// The cursor is in the column that tmux computes for the same text.
#[tokio::test]
async fn the_caret_is_where_tmux_puts_its_cursor() {
    let haft = Haft::new();
    let model = MockModel::start(Script::from_turns(Vec::<Turn>::new())).await.unwrap();
    let Some(tmux) = Tmux::start(&haft, &model, (80, 24), "") else {
        return eprintln!("SKIPPED: there is no tmux");
    };
    let strings = odd_strings();
    assert!(200 <= strings.len());
    let columns = tmux.measured(&strings).await;
    tmux.shows("? help").await;
    for (text, columns) in strings.iter().zip(columns) {
        tmux.run(&["set-buffer", "--", text]);
        tmux.run(&["paste-buffer", "-p", "-t", "it"]);
        let want = format!("{}", columns + 2);
        let what = format!("{text:?} ends in column {want}");
        tmux.until(&what, |it| it.says("#{cursor_x}") == want && !it.screen().contains("? help")).await;
        tmux.keys(&["C-u"]);
        tmux.shows("? help").await;
    }
}

/// Text wrapped for a narrow window is wrapped again for the new width when it is redrawn.
#[tokio::test]
async fn drawing_anew_uses_the_width_there_is() {
    let haft = Haft::new();
    let item = "an item of a list with so many words in it that forty columns are far too few";
    let model =
        MockModel::start(Script::from_turns(vec![Turn::text(format!("- {item}\n\nThe end-4711.\n"))]))
            .await
            .unwrap();
    let Some(tmux) = Tmux::start(&haft, &model, (40, 24), "") else {
        return eprintln!("SKIPPED: there is no tmux");
    };
    tmux.shows("? help").await;
    tmux.keys(&["go on", "Enter"]);
    tmux.shows("end-4711").await;
    assert!(!tmux.screen().contains(item), "{}", tmux.screen());
    tmux.run(&["resize-window", "-t", "it", "-x", "120", "-y", "24"]);
    tmux.until("the width", |it| it.screen().lines().any(|line| line.contains("of context"))).await;
    tmux.keys(&["C-l"]);
    tmux.shows(item).await;
    // So is the transcript.
    tmux.keys(&["C-o"]);
    tmux.until("the transcript", |it| {
        let screen = it.screen();
        screen.contains("Transcript") && screen.contains(item)
    })
    .await;
}

/// Number of voluntary context switches of all threads of a process.
fn sleeps(pid: &str) -> Option<u64> {
    let mut all = 0;
    for thread in std::fs::read_dir(format!("/proc/{pid}/task")).ok()? {
        let status = std::fs::read_to_string(thread.ok()?.path().join("status")).ok()?;
        let line = status.lines().find(|it| it.starts_with("voluntary_ctxt_switches"))?;
        all += line.split_whitespace().nth(1)?.parse::<u64>().ok()?;
    }
    Some(all)
}

/// An idle session causes no wake-ups at all.
#[tokio::test]
async fn nothing_wakes_up_when_nothing_happens() {
    let haft = Haft::new();
    let model = MockModel::start(Script::from_turns(vec![Turn::text("The end-4711.")])).await.unwrap();
    let Some(tmux) = Tmux::start(&haft, &model, (80, 24), "") else {
        return eprintln!("SKIPPED: there is no tmux");
    };
    tmux.shows("? help").await;
    tmux.keys(&["go on", "Enter"]);
    tmux.shows("end-4711").await;
    tmux.shows("? help").await;
    let pid = tmux.says("#{pane_pid}");
    let Some(mut before) = sleeps(&pid) else { return eprintln!("SKIPPED: there is no /proc") };
    // Work left by the turn ends eventually; then there is an interval without any.
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        tokio::time::sleep(Duration::from_secs(3)).await;
        // A thread that exits in between counts as activity.
        let after = sleeps(&pid).unwrap_or(0);
        if after == before {
            return;
        }
        assert!(Instant::now() < deadline, "{before} wake-ups, three seconds later {after}");
        before = after;
    }
}

/// The window is closed during an answer: the process exits, and the session can be resumed.
#[tokio::test]
async fn a_window_that_is_closed_loses_nothing() {
    let haft = Haft::new();
    let model = model_that_waits(&haft).await;
    let Some(tmux) = Tmux::start(&haft, &model, (80, 24), ARGS) else {
        return eprintln!("SKIPPED: there is no tmux");
    };
    tmux.shows("? help").await;
    tmux.keys(&["needle-4713", "Enter"]);
    tmux.shows("running Bash").await;
    let pid = tmux.says("#{pane_pid}");
    tmux.run(&["new-window", "-d", "sleep 1000"]);
    tmux.run(&["kill-pane", "-t", "it:0"]);
    tmux.until("the end of the program", |_| !std::path::Path::new(&format!("/proc/{pid}")).exists()).await;
    drop(tmux);
    let Some(tmux) = Tmux::start(&haft, &model, (80, 24), "-c --allowedTools Bash") else { return };
    tmux.shows("? help").await;
    tmux.until("what was said", |it| it.lines().contains("needle-4713") && it.lines().contains("<149>"))
        .await;
}
