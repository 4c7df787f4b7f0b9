//! `haft` without arguments, at a real terminal, with a scripted model.
#![allow(clippy::unwrap_used, missing_docs, reason = "test code")]

use std::path::Path;

use haft_testkit::{MockModel, ReplyPiece, Script, StreamStall, Turn, haft_binary};
use serde::Serialize;
use serde_json::json;

use crate::common::Haft;

/// Types keys at a terminal with these variables. Fails if an expected text does not appear or the
/// terminal is not restored. Returns the output and the exit code.
pub(crate) async fn typed_with(
    haft: &Haft,
    model: Option<&MockModel>,
    command: &[&str],
    keys: &(impl Serialize + ?Sized),
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
        .env("HAFT", haft_binary())
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

pub(crate) async fn typed(
    haft: &Haft,
    model: Option<&MockModel>,
    args: &[&str],
    keys: &(impl Serialize + ?Sized),
) -> (String, i32) {
    let command: Vec<&str> = std::iter::once(haft_binary()).chain(args.iter().copied()).collect();
    typed_with(haft, model, &command, keys, &[]).await
}

pub(crate) const READY: &str = "? help";
const ARMED: &str = "esc later";
/// Shown as soon as a list accepts Enter. Before that the user cannot have seen the list.
const CHOOSES: &str = "enter chooses";

#[tokio::test]
async fn a_prompt_is_worked_on_a_question_answered_and_the_terminal_given_back() {
    let haft = Haft::new();
    let turns = vec![
        Turn::from_pieces([
            ReplyPiece::text("I make it."),
            ReplyPiece::tool("Bash", json!({"command": "touch made"})),
        ]),
        Turn::text("All **done** now."),
    ];
    let model = MockModel::start(Script::from_turns(turns)).await.unwrap();
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
    let model = MockModel::start(Script::from_turns(turns)).await.unwrap();
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
    let model = MockModel::start(Script::from_turns(turns)).await.unwrap();
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
        let model = MockModel::start(Script::from_turns(Vec::<Turn>::new())).await.unwrap();
        let keys = [(READY, &*format!("!kill -{signal} $PPID\r"))];
        let (shown, code) = typed(&haft, Some(&model), &[], &keys).await;
        assert_eq!(code, want, "{signal}\n{shown}");
        for off in ["\x1b[?2004l", "\x1b[?1004l", "\x1b[<u", "\x1b[?25h", "\x1b[?7h"] {
            assert!(shown.contains(off), "{signal} {off:?}\n{shown}");
        }
    }
}

#[tokio::test]
async fn lines_only_for_those_who_hear_them() {
    let haft = Haft::new();
    let turns = vec![Turn::tool("Bash", json!({"command": "touch made"})), Turn::text("All done now.")];
    let model = MockModel::start(Script::from_turns(turns)).await.unwrap();
    // Text that arrives together with the prompt is a message, even if it looks like an answer; so is a
    // sentence that begins with a number.
    let keys = json!([
        ["haft", "make it\r"],
        ["Answer with a number", "1\r"],
        ["it is a message", ""],
        ["", "1 thing more\r", {"wait": 0.6}],
        ["Answer with a number", "1\r", {"wait": 0.6}],
        ["All done now.", "\u{4}"],
    ]);
    haft.write_home(".haft/settings.json", r#"{"env": {}}"#);
    let (shown, code) = typed_plain(&haft, &model, &keys).await;
    assert_eq!(code, 0, "{shown}");
    assert!(haft.ws().join("made").exists(), "{shown}");
    assert!(!shown.contains('\u{1b}'), "no control sequences at all: {shown:?}");
}

async fn typed_plain(haft: &Haft, model: &MockModel, keys: &(impl Serialize + ?Sized)) -> (String, i32) {
    typed_with(haft, Some(model), &[haft_binary()], keys, &[("HAFT_ACCESSIBLE", "1")]).await
}

pub(crate) async fn model_of(turns: Vec<Turn>) -> MockModel {
    MockModel::start(Script::from_turns(turns)).await.unwrap()
}

/// In the line interface Ctrl-C has its usual meaning.
#[tokio::test]
async fn ctrl_c_stops_the_work_and_leaves_when_it_comes_twice_also_in_lines() {
    let haft = Haft::new();
    let model = model_of(vec![Turn::from_pieces([
        ReplyPiece::text("Begun-4711."),
        ReplyPiece::Stall(StreamStall::Forever),
    ])])
    .await;
    let keys = [
        ("ready", "go\r"),
        ("Begun-4711.", "\u{3}"),
        ("stopped", ""),
        ("ready", "\u{3}"),
        ("ctrl+c again", "\u{3}"),
    ];
    let (shown, code) = typed_plain(&haft, &model, &keys).await;
    assert_eq!(code, 0, "{shown}");
    assert!(shown.contains("go on with"), "{shown}");
}

#[tokio::test]
async fn a_list_is_chosen_from_by_number_where_nothing_is_drawn() {
    let haft = Haft::new();
    let model = model_of(Vec::new()).await;
    let keys = json!([["ready", "/mode\r"], ["Choose with a number", "1\r\u{4}", {"wait": 0.6}]]);
    let (shown, code) = typed_plain(&haft, &model, &keys).await;
    assert_eq!(code, 0, "{shown}");
    assert!(shown.contains("1. default"), "{shown}");
}

#[tokio::test]
async fn a_run_at_a_terminal_draws_markdown_and_a_pipe_gets_the_source() {
    let haft = Haft::new();
    let source = "Some **bold** words.\n\n```rust\nfn main() {}\n```\n";
    let model = model_of(vec![Turn::text(source), Turn::text(source)]).await;
    let (shown, code) = typed(&haft, Some(&model), &["-p", "say it"], &[(); 0]).await;
    assert_eq!(code, 0, "{shown}");
    assert!(!shown.contains("```") && !shown.contains("**"), "{shown:?}");
    assert!(shown.contains("\x1b[35mfn") && shown.contains("bold"), "{shown:?}");
    assert_eq!(shown.matches("main()").count(), 1, "the answer stands there once: {shown:?}");
    let piped = "\"$HAFT\" -p 'say it' 2>/dev/null > out.md";
    let (_, code) = typed_with(&haft, Some(&model), &["/bin/sh", "-c", piped], &[(); 0], &[]).await;
    assert_eq!(code, 0);
    assert_eq!(std::fs::read_to_string(haft.ws().join("out.md")).unwrap().trim(), source.trim());
}

#[tokio::test]
async fn a_draft_survives_the_shell_and_the_editor() {
    let haft = Haft::new();
    let model = model_of(vec![Turn::text("Heard.")]).await;
    // An interactive shell with job control.
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
        // The driver compares the terminal modes before and after.
        let command = ["/bin/sh", "-c", script];
        let (shown, code) = typed_with(&haft, Some(&model), &command, keys, &[("ROUGHLY", "1")]).await;
        assert_eq!(code, 0, "{shown}");
    }
}

#[tokio::test]
async fn a_session_is_found_looked_at_and_gone_on_with() {
    let haft = Haft::new();
    let model = model_of(vec![Turn::text("The needle is in the hay."), Turn::text("Again.")]).await;
    let keys = [(READY, "find the needle\r"), ("in the hay", ""), (READY, "\u{4}")];
    typed(&haft, Some(&model), &[], &keys).await;
    let keys = json!([
        [READY, "/resume\r"],
        [["in the hay", CHOOSES], "\r"],
        ["going on with session", ""],
        ["in the hay", "and now\r"],
        ["Again.", ""],
        [READY, "\u{4}"],
    ]);
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
    // Also in a resumed session; Enter on the first row changes nothing.
    let keys = [
        (READY, "/rewind\r"),
        ("(stay here)", ""),
        (CHOOSES, "\r"),
        // The terminal restores the previous screen itself, so nothing is printed again.
        ("\u{1b}[?1049l", "/rewind\r"),
        ("(stay here)", ""),
        (CHOOSES, "\u{1b}[B"),
        ("-second-4711", "\r"),
        ("files and talk", ""),
        (CHOOSES, "\u{1b}[B\r"),
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
    // Typed before the program takes over the terminal.
    let script = "sleep 0.2; exec \"$HAFT\"";
    let keys = [("", "typed-4711"), ("new line", "\r"), ("Early.", ""), (READY, "\u{4}")];
    let (shown, code) = typed_with(&haft, Some(&model), &["/bin/sh", "-c", script], &keys, &[]).await;
    assert_eq!(code, 0, "{shown}");
    assert!(model.requests()[0].json()["messages"].to_string().contains("typed-4711"), "{shown}");
}

#[tokio::test]
async fn a_server_cannot_write_over_the_screen() {
    let haft = Haft::new();
    let noise = "import sys, json\n\
        sys.stderr.write('NOISE-ERR\\n'); sys.stderr.flush()\n\
        try: open('/dev/tty', 'w').write('NOISE-TTY\\n')\n\
        except OSError: sys.stderr.write('NO-TTY\\n')\n\
        for line in sys.stdin:\n\
        \x20 asked = json.loads(line)\n\
        \x20 if 'id' not in asked: continue\n\
        \x20 about = {'name': 'noisy', 'version': '1'}\n\
        \x20 result = {'tools': []}\n\
        \x20 if asked['method'] == 'initialize':\n\
        \x20   version = asked['params']['protocolVersion']\n\
        \x20   result = {'protocolVersion': version, 'capabilities': {'tools': {}}, 'serverInfo': about}\n\
        \x20 print(json.dumps({'jsonrpc': '2.0', 'id': asked['id'], 'result': result}), flush=True)\n";
    let program = haft.ws().join("noisy.py");
    std::fs::write(&program, noise).unwrap();
    let config = json!({"mcpServers": {"noisy": {"command": "python3", "args": [program]}}}).to_string();
    let model = model_of(vec![Turn::text("all-done-4711")]).await;
    let keys = [(READY, "go\r"), ("all-done-4711", ""), (READY, "/quit\r")];
    let (shown, code) = typed(&haft, Some(&model), &["--mcp-config", &config], &keys).await;
    assert_eq!(code, 0, "{shown}");
    assert!(!shown.contains("NOISE"), "{shown}");
    let log = std::fs::read_to_string(haft.home().join(".haft/mcp/logs/noisy.log")).unwrap();
    assert!(log.contains("NOISE-ERR") && log.contains("NO-TTY"), "{log}");
}

#[tokio::test]
async fn all_that_a_command_printed_is_one_key_away() {
    let haft = Haft::new();
    let print = json!({"command": "seq -f 'out %.0f' 25000"});
    let model = model_of(vec![Turn::tool("Bash", print), Turn::text("all-done-4711")]).await;
    let keys = [
        (READY, "go\r"),
        ("24988 more lines", ""),
        ("all-done-4711", ""),
        (READY, "\u{f}"),
        ("Transcript", "/out 17777\r"),
        ("out 17777", "q"),
        ("\u{1b}[?1049l", "/quit\r"),
    ];
    let args = ["--permission-mode", "bypassPermissions"];
    let (shown, code) = typed(&haft, Some(&model), &args, &keys).await;
    assert_eq!(code, 0, "{shown}");
    assert!(!shown.contains("use Read with offset"), "{shown}");
}

#[tokio::test]
async fn a_terminal_that_takes_nothing_holds_up_no_work() {
    let haft = Haft::new();
    let answer: String = (0..4_000).map(|row| format!("row-{row:04} of a long answer.\n\n")).collect();
    let touch = ReplyPiece::tool("Bash", json!({"command": "touch made"}));
    let mut script = Script::from_turns(vec![
        Turn::from_pieces([ReplyPiece::text(&answer), touch]),
        Turn::text("all-done-4711"),
    ]);
    // One row per delta: a partial row would be written in two pieces.
    script.delta_chars = "row-0000 of a long answer.\n\n".len();
    let model = MockModel::start(script).await.unwrap();
    let made = haft.ws().join("made");
    let keys = json!([
        [READY, "go\r", {"deaf_until": made}],
        ["all-done-4711", ""],
        [READY, "/quit\r"],
    ]);
    let args = ["--permission-mode", "bypassPermissions"];
    let (shown, code) = typed(&haft, Some(&model), &args, &keys).await;
    assert_eq!(code, 0, "{shown}");
    let mut from = 0;
    for row in 0..4_000 {
        let found = shown[from..].find(&format!("row-{row:04} of a long answer."));
        from += found.unwrap_or_else(|| panic!("row {row} is not there, or not in its place"));
    }
}

#[tokio::test]
async fn much_output_over_many_turns_is_not_kept_in_memory() {
    let haft = Haft::new();
    let turn = |number: usize| {
        let print = format!("yes 'output of turn {number}' | head -c 1000000");
        Turn::tool("Bash", json!({"command": print}))
    };
    let turns = (0..25).map(turn).chain([Turn::text("all-done-4711")]);
    let model = model_of(turns.collect()).await;
    let look = "!grep -o 'RssAnon:.*' /proc/$PPID/status\r";
    let keys = json!([[READY, "go\r"], ["all-done-4711", ""], [READY, look], [" kB", "/quit\r"]]);
    let args = ["--permission-mode", "bypassPermissions"];
    let (shown, code) = typed(&haft, Some(&model), &args, &keys).await;
    assert_eq!(code, 0, "{shown}");
    let at = shown.rfind("RssAnon:").unwrap();
    let digits: String =
        shown[at..].chars().skip_while(|it| !it.is_ascii_digit()).take_while(char::is_ascii_digit).collect();
    assert!(digits.parse::<u64>().unwrap() < 36_000, "{digits} kB after 25 MB of output");
}

/// With a server that never answers and many sessions, the prompt appears, accepts text and Enter, and
/// the message is sent when the model is ready.
#[tokio::test]
async fn nothing_slow_is_waited_for_before_one_can_type() {
    let haft = Haft::new();
    let slug = haft.ws().display().to_string().replace(|it: char| !it.is_ascii_alphanumeric(), "-");
    for number in 0..2000 {
        let id = format!("00000000-0000-4000-8000-{number:012}");
        haft.write_home(&format!(".haft/projects/{slug}/{id}.jsonl"), "{}\n");
    }
    let config = json!({"mcpServers": {"mute": {"command": "sleep", "args": ["1000"]}}}).to_string();
    let model = model_of(vec![Turn::text("Heard-4711.")]).await;
    let keys = [("", "said early\r"), ("said early", ""), ("Heard-4711.", ""), (READY, "\u{4}")];
    let variables = [("MCP_TIMEOUT", "500")];
    let command = [haft_binary(), "--mcp-config", &config];
    let (shown, code) = typed_with(&haft, Some(&model), &command, &keys, &variables).await;
    assert_eq!(code, 0, "{shown}");
}

/// A sent prompt is in the history of other processes, even if this one was killed.
#[tokio::test]
async fn what_was_sent_is_found_after_a_kill() {
    let haft = Haft::new();
    let model = model_of(vec![Turn::text("Heard.")]).await;
    let keys = [(READY, "needle-4711 in the hay\r"), ("Heard.", ""), (READY, "!kill -KILL $PPID\r")];
    let script = "\"$HAFT\"; \"$HAFT\" reset";
    let command = ["/bin/sh", "-c", script];
    let (shown, _) = typed_with(&haft, Some(&model), &command, &keys, &[("ROUGHLY", "1")]).await;
    assert!(shown.contains("needle-4711"), "{shown}");
    let keys = [(READY, "\u{12}needle-47"), ("in the hay", "\u{1b}"), (READY, "\u{4}")];
    let (shown, code) = typed(&haft, Some(&model), &[], &keys).await;
    assert_eq!(code, 0, "{shown}");
}

#[tokio::test]
async fn resumed_session_shows_calls_with_names_paths_and_diffs() {
    let haft = Haft::new();
    haft.write("a.txt", "first\n");
    let path = haft.ws().join("a.txt");
    let edit = json!({"file_path": path, "old_string": "first", "new_string": "second-4711"});
    let turns = vec![
        Turn::tool("Read", json!({"file_path": path})),
        Turn::tool("Edit", edit),
        Turn::tool("Bash", json!({"command": "cat gone-4711.txt"})),
        Turn::text("Edited it."),
    ];
    let model = model_of(turns).await;
    let args = ["--permission-mode", "acceptEdits"];
    let keys = [(READY, "change it\r"), ("Edited it.", ""), (READY, "\u{4}")];
    typed(&haft, Some(&model), &args, &keys).await;
    let keys = [("Edited it.", ""), (READY, "\u{4}")];
    let (shown, code) = typed(&haft, Some(&model), &["--continue"], &keys).await;
    assert_eq!(code, 0, "{shown}");
    for want in ["Read", "Edit", "a.txt", "-first", "+second-4711", "Bash", "cat gone-4711.txt"] {
        assert!(shown.contains(want), "{want} is missing in {shown}");
    }
    assert!(!shown.contains(&haft.ws().display().to_string()) || !shown.contains("file_path"), "{shown}");
}
