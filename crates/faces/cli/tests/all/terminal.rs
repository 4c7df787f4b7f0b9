//! `haft` without arguments, at a real terminal, with a scripted model.
#![allow(clippy::unwrap_used, missing_docs, reason = "test code")]

use std::path::Path;

use haft_testkit::{MockModel, Piece, Script, Turn};
use serde_json::json;

use crate::common::Haft;

/// Types at a terminal; fails if a text does not come or the terminal is not
/// given back. Says what came out and the exit code.
async fn typed(
    haft: &Haft,
    model: Option<&MockModel>,
    args: &[&str],
    keys: &[(&str, &str)],
) -> (String, i32) {
    let typist = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/support/typist.py");
    let mut command = tokio::process::Command::new("python3");
    command
        .arg("-IS")
        .arg(typist)
        .arg(json!(keys).to_string())
        .arg(env!("CARGO_BIN_EXE_haft"))
        .args(args)
        .current_dir(haft.ws())
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", haft.home())
        .env("TERM", "xterm-256color")
        .env("SHELL", "/bin/sh");
    if let Some(model) = model {
        command.env("ANTHROPIC_BASE_URL", model.url());
    }
    let output = command.output().await.unwrap();
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    let problem = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(problem.is_empty(), "{problem}\n{shown}");
    (shown, output.status.code().unwrap_or(-1))
}

const READY: &str = "? help";
const ARMED: &str = "esc later";

#[tokio::test]
async fn a_prompt_is_worked_on_a_question_answered_and_the_terminal_given_back() {
    let haft = Haft::new();
    let turns = vec![
        Turn::of([Piece::text("I make it."), Piece::tool("Bash", json!({"command": "touch made"}))]),
        Turn::text("All **done** now."),
    ];
    let model = MockModel::start(Script::of(turns)).await.unwrap();
    let keys = [(READY, "make it\r"), (ARMED, "y"), (READY, "/quit\r")];
    let (shown, code) = typed(&haft, Some(&model), &[], &keys).await;
    assert_eq!(code, 0, "{shown}");
    assert!(haft.ws().join("made").exists(), "{shown}");
    assert!(shown.contains("go on with: haft --resume"), "{shown}");
    assert!(!shown.contains("\x1b[2J") && !shown.contains("\x1b[?1000h"), "{shown}");
    assert_eq!(model.refusals(), [""; 0]);
}

#[tokio::test]
async fn a_no_with_words_reaches_the_model() {
    let haft = Haft::new();
    let turns = vec![Turn::tool("Bash", json!({"command": "touch made"})), Turn::text("Understood.")];
    let model = MockModel::start(Script::of(turns)).await.unwrap();
    let keys = [(READY, "make it\r"), (ARMED, "n"), ("esc back", "use-4711\r"), (READY, "\u{4}")];
    let (shown, code) = typed(&haft, Some(&model), &[], &keys).await;
    assert_eq!(code, 0, "{shown}");
    assert!(!haft.ws().join("made").exists());
    assert!(model.requests()[1].json().to_string().contains("use-4711"));
}

#[tokio::test]
async fn a_question_to_the_person_is_answered_with_an_option_and_with_words() {
    let haft = Haft::new();
    let option = |label: &str| json!({"label": label, "description": format!("about {label}")});
    let questions = json!([
        {"question": "Which colour?", "header": "Colour", "options": [option("red"), option("blue")]},
        {"question": "Which name?", "header": "Name", "options": [option("one"), option("two")]},
    ]);
    let turns =
        vec![Turn::tool("AskUserQuestion", json!({"questions": questions})), Turn::text("Thank you.")];
    let model = MockModel::start(Script::of(turns)).await.unwrap();
    let keys = [
        (READY, "ask me\r"),
        ("Which colour?", ""),
        (ARMED, "2"),
        ("Which name?", ""),
        (ARMED, "o"),
        ("esc back", "three-4711\r"),
        (READY, "\u{4}"),
    ];
    let (shown, code) = typed(&haft, Some(&model), &[], &keys).await;
    assert_eq!(code, 0, "{shown}");
    let told = model.requests()[1].json()["messages"].to_string();
    assert!(told.contains("three-4711") && told.contains("blue"), "{told}");
}

#[tokio::test]
async fn without_a_key_it_says_what_to_do_and_keeps_what_was_typed() {
    let haft = Haft::new();
    let keys = [("haft demo", "\u{3}"), ("ctrl+c again", "\u{3}")];
    let (shown, code) = typed(&haft, None, &[], &keys).await;
    assert_eq!(code, 0, "{shown}");
    assert!(shown.contains("ANTHROPIC_API_KEY"), "{shown}");
}

#[tokio::test]
async fn whoever_kills_it_gets_the_terminal_back() {
    for (signal, want) in [("TERM", 143), ("HUP", 129), ("QUIT", 131), ("INT", 130)] {
        let haft = Haft::new();
        let model = MockModel::start(Script::of(Vec::<Turn>::new())).await.unwrap();
        let keys = [(READY, &*format!("!kill -{signal} $PPID\r"))];
        let (shown, code) = typed(&haft, Some(&model), &[], &keys).await;
        assert_eq!(code, want, "{signal}\n{shown}");
        for off in ["\x1b[?2004l", "\x1b[?1004l", "\x1b[<u", "\x1b[?25h"] {
            assert!(shown.contains(off), "{signal} {off:?}\n{shown}");
        }
    }
}

#[tokio::test]
async fn lines_only_for_those_who_hear_them() {
    let haft = Haft::new();
    let turns = vec![Turn::tool("Bash", json!({"command": "touch made"})), Turn::text("All done now.")];
    let model = MockModel::start(Script::of(turns)).await.unwrap();
    let keys = [("haft", "make it\r"), ("Answer with a number", "1\r"), ("All done now.", "\u{4}")];
    haft.write_home(".haft/settings.json", r#"{"env": {}}"#);
    let (shown, code) = typed_plain(&haft, &model, &keys).await;
    assert_eq!(code, 0, "{shown}");
    assert!(haft.ws().join("made").exists(), "{shown}");
    assert!(!shown.contains('\u{1b}'), "no control sequences at all: {shown:?}");
}

async fn typed_plain(haft: &Haft, model: &MockModel, keys: &[(&str, &str)]) -> (String, i32) {
    // The variable reaches the program through a shell.
    let program = format!("HAFT_ACCESSIBLE=1 exec {}", env!("CARGO_BIN_EXE_haft"));
    let typist = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/support/typist.py");
    let output = tokio::process::Command::new("python3")
        .arg("-IS")
        .arg(typist)
        .arg(json!(keys).to_string())
        .args(["/bin/sh", "-c", &program])
        .current_dir(haft.ws())
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", haft.home())
        .env("TERM", "xterm-256color")
        .env("ANTHROPIC_BASE_URL", model.url())
        .output()
        .await
        .unwrap();
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    let problem = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(problem.is_empty(), "{problem}\n{shown}");
    (shown, output.status.code().unwrap_or(-1))
}
