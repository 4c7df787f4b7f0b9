//! `haft` without arguments, at a real terminal, with a scripted model.
#![allow(clippy::unwrap_used, missing_docs, reason = "test code")]

use std::path::Path;

use haft_testkit::{MockModel, Piece, Script, Turn};
use serde_json::json;

use crate::common::Haft;

/// Types at a terminal, with these variables; fails if a text does not come or the
/// terminal is not given back. Says what came out and the exit code.
async fn typed_with(
    haft: &Haft,
    model: Option<&MockModel>,
    command: &[&str],
    keys: &[(&str, &str)],
    variables: &[(&str, &str)],
) -> (String, i32) {
    let typist = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/support/typist.py");
    let mut python = tokio::process::Command::new("python3");
    python
        .arg("-IS")
        .arg(typist)
        .arg(json!(keys).to_string())
        .args(command)
        .current_dir(haft.ws())
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", haft.home())
        .env("TERM", "xterm-256color")
        .env("SHELL", "/bin/sh")
        .env("HAFT", HAFT)
        .envs(variables.iter().copied());
    if let Some(model) = model {
        python.env("ANTHROPIC_BASE_URL", model.url());
    }
    let output = python.output().await.unwrap();
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    let problem = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(problem.is_empty(), "{problem}\n{shown}");
    (shown, output.status.code().unwrap_or(-1))
}

const HAFT: &str = env!("CARGO_BIN_EXE_haft");

async fn typed(
    haft: &Haft,
    model: Option<&MockModel>,
    args: &[&str],
    keys: &[(&str, &str)],
) -> (String, i32) {
    let command: Vec<&str> = std::iter::once(HAFT).chain(args.iter().copied()).collect();
    typed_with(haft, model, &command, keys, &[]).await
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
    typed_with(haft, Some(model), &[HAFT], keys, &[("HAFT_ACCESSIBLE", "1")]).await
}

async fn model_of(turns: Vec<Turn>) -> MockModel {
    MockModel::start(Script::of(turns)).await.unwrap()
}

#[tokio::test]
async fn a_list_is_chosen_from_by_number_where_nothing_is_drawn() {
    let haft = Haft::new();
    let model = model_of(Vec::new()).await;
    let keys = [("ready", "/mode\r"), ("Choose with a number", "1\r\u{4}")];
    let (shown, code) = typed_plain(&haft, &model, &keys).await;
    assert_eq!(code, 0, "{shown}");
    assert!(shown.contains("1. default"), "{shown}");
}

#[tokio::test]
async fn a_run_at_a_terminal_draws_markdown_and_a_pipe_gets_the_source() {
    let haft = Haft::new();
    let source = "Some **bold** words.\n\n```rust\nfn main() {}\n```\n";
    let model = model_of(vec![Turn::text(source), Turn::text(source)]).await;
    let (shown, code) = typed(&haft, Some(&model), &["-p", "say it"], &[]).await;
    assert_eq!(code, 0, "{shown}");
    assert!(!shown.contains("```") && !shown.contains("**"), "{shown:?}");
    assert!(shown.contains("\x1b[35mfn") && shown.contains("bold"), "{shown:?}");
    assert_eq!(shown.matches("main()").count(), 1, "the answer stands there once: {shown:?}");
    let piped = "\"$HAFT\" -p 'say it' 2>/dev/null > out.md";
    let (_, code) = typed_with(&haft, Some(&model), &["/bin/sh", "-c", piped], &[], &[]).await;
    assert_eq!(code, 0);
    assert_eq!(std::fs::read_to_string(haft.ws().join("out.md")).unwrap().trim(), source.trim());
}

#[tokio::test]
async fn a_draft_survives_the_shell_and_the_editor() {
    let haft = Haft::new();
    let model = model_of(vec![Turn::text("Heard.")]).await;
    // A shell with job control, as people have it.
    let shell = "\"$HAFT\"; echo back-in-the-shell; fg";
    let keys = [
        (READY, "draft-4711\u{1a}"),
        ("back-in-the-shell", ""),
        ("draft-4711", "\u{7}"),
        ("edited-4712", "\r"),
        ("Heard.", ""),
        (READY, "\u{4}"),
    ];
    let editor = "sh -c 'printf \" edited-4712\" >> \"$1\"' x";
    let (shown, _) =
        typed_with(&haft, Some(&model), &["/bin/sh", "-mc", shell], &keys, &[("EDITOR", editor)]).await;
    let told = model.requests()[0].json()["messages"].to_string();
    assert!(told.contains("draft-4711 edited-4712"), "{told}\n{shown}");
}

#[tokio::test]
async fn a_terminal_that_was_left_raw_is_repaired() {
    let haft = Haft::new();
    let model = model_of(Vec::new()).await;
    for (script, keys) in
        [("stty raw -echo; \"$HAFT\" reset", &[][..]), ("stty raw -echo; \"$HAFT\"", &[(READY, "\u{4}")])]
    {
        // The typist compares the modes before and after.
        let (shown, code) = typed_with(&haft, Some(&model), &["/bin/sh", "-c", script], keys, &[]).await;
        assert_eq!(code, 0, "{shown}");
    }
}

#[tokio::test]
async fn a_session_is_found_looked_at_and_gone_on_with() {
    let haft = Haft::new();
    let model = model_of(vec![Turn::text("The needle is in the hay."), Turn::text("Again.")]).await;
    let keys = [(READY, "find the needle\r"), ("in the hay", ""), (READY, "\u{4}")];
    typed(&haft, Some(&model), &[], &keys).await;
    let keys = [
        (READY, "/resume\r"),
        ("type to search", ""),
        ("in the hay", "\r"),
        ("going on with session", ""),
        ("in the hay", "and now\r"),
        ("Again.", ""),
        (READY, "\u{4}"),
    ];
    let (shown, code) = typed(&haft, Some(&model), &[], &keys).await;
    assert_eq!(code, 0, "{shown}");
    let told = model.requests()[1].json()["messages"].to_string();
    assert!(told.contains("find the needle") && told.contains("and now"), "{told}");
}

#[tokio::test]
async fn going_back_shows_the_change_first_and_brings_files_and_talk_back() {
    let haft = Haft::new();
    haft.write("a.txt", "first\n");
    let path = haft.ws().join("a.txt");
    let edit = json!({"file_path": path, "content": "second-4711\n"});
    let read = json!({"file_path": path});
    let turns = vec![
        Turn::tool("Read", read),
        Turn::tool("Write", edit),
        Turn::text("Written."),
        Turn::text("Anew."),
    ];
    let model = model_of(turns).await;
    let args = ["--permission-mode", "acceptEdits"];
    let keys = [(READY, "change it\r"), ("Written.", ""), (READY, "\u{4}")];
    typed(&haft, Some(&model), &args, &keys).await;
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "second-4711\n");
    // Also in a session that was taken up again; Enter on the first row changes nothing.
    let keys = [
        (READY, "/rewind\r"),
        ("(stay here)", "\r"),
        (READY, "/rewind\r"),
        ("(stay here)", "\u{1b}[B"),
        ("-second-4711", "\r"),
        ("files and talk", "\u{1b}[B\r"),
        ("it is the draft now", ""),
        ("change it", "\u{3}"),
        (READY, "\u{4}"),
    ];
    let args = ["-c", "--permission-mode", "acceptEdits"];
    let (shown, code) = typed(&haft, Some(&model), &args, &keys).await;
    assert_eq!(code, 0, "{shown}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "first\n", "{shown}");
}

#[tokio::test]
async fn a_line_of_the_person_stands_below_the_prompt() {
    let haft = Haft::new();
    let command = "read -r told; case $told in *claude*) printf '\\033[32mmine-4711\\033[0m';; esac";
    haft.write_home(".haft/settings.json", &json!({"statusLine": {"command": command}}).to_string());
    let model = model_of(vec![Turn::text("Heard.")]).await;
    let keys = [(READY, "hello\r"), ("mine-4711", "\u{4}")];
    let (shown, code) = typed(&haft, Some(&model), &[], &keys).await;
    assert_eq!(code, 0, "{shown}");
    assert!(!shown.contains("[32mmine"), "its colours are ours: {shown:?}");
}

#[tokio::test]
async fn a_screen_of_its_own_is_left_with_the_last_rows_in_the_scrollback() {
    let haft = Haft::new();
    let model = model_of(vec![Turn::text("An answer to keep.")]).await;
    let settings = r#"{"terminal": {"screen": "alternate"}}"#;
    let keys = [("\x1b[?1049h", ""), (READY, "hello\r"), ("to keep", ""), (READY, "\u{4}")];
    let (shown, code) = typed(&haft, Some(&model), &["--settings", settings], &keys).await;
    assert_eq!(code, 0, "{shown}");
    let after = shown.rsplit("\x1b[?1049l").next().unwrap();
    assert!(after.contains("An answer to keep.") && after.contains("go on with"), "{after:?}");
}

#[tokio::test]
async fn every_size_and_what_is_typed_before_the_prompt_is_kept() {
    let haft = Haft::new();
    let model = model_of(vec![Turn::text("Early.")]).await;
    // Typed by a shell before the program takes the terminal.
    let script = "sleep 0.2; exec \"$HAFT\"";
    let keys = [("", "typed-4711"), ("new line", "\r"), ("Early.", ""), (READY, "\u{4}")];
    let (shown, code) = typed_with(&haft, Some(&model), &["/bin/sh", "-c", script], &keys, &[]).await;
    assert_eq!(code, 0, "{shown}");
    assert!(model.requests()[0].json()["messages"].to_string().contains("typed-4711"), "{shown}");
}
