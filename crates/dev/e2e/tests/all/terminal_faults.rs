//! `haft` at a terminal: killed, stopped, slow to answer, huge input.
#![allow(clippy::unwrap_used, missing_docs, reason = "test code")]

use haft_testkit::{Turn, haft_binary};
use serde_json::{Value, json};

use crate::{
    common::Haft,
    terminal::{READY, model_of, typed, typed_with},
};

/// The conversation in a request, as text.
fn told(request: &Value) -> String {
    request["messages"].to_string()
}

/// However the process ends, the terminal is restored (the driver checks), and the session can be
/// resumed.
#[tokio::test]
async fn a_session_that_was_cut_off_is_gone_on_with() {
    for (signal, code) in [("ABRT", 250), ("SEGV", 245), ("FPE", 248), ("HUP", 129)] {
        let haft = Haft::new();
        let model = model_of(vec![Turn::text("First-4711."), Turn::text("Second-4712.")]).await;
        let kill = format!("!kill -{signal} $PPID\r");
        let keys = [(READY, "needle one\r"), ("First-4711.", ""), (READY, kill.as_str())];
        let (shown, ended) = typed(&haft, Some(&model), &[], &keys).await;
        assert_eq!(ended, code, "{signal}\n{shown}");
        for off in ["\x1b[?2004l", "\x1b[?1004l", "\x1b[<u", "\x1b[?25h", "\x1b[?7h"] {
            assert!(shown.contains(off), "{signal} {off:?}\n{shown}");
        }
        let keys = [("First-4711.", ""), (READY, "and two\r"), ("Second-4712.", ""), (READY, "\u{4}")];
        let (shown, ended) = typed(&haft, Some(&model), &["-c"], &keys).await;
        assert_eq!(ended, 0, "{signal}\n{shown}");
        let told = told(&model.requests()[1].json());
        assert!(told.contains("needle one") && told.contains("First-4711"), "{signal}: {told}");
    }
}

/// SIGTSTP from outside restores the terminal; SIGCONT redraws the screen.
#[tokio::test]
async fn it_is_stopped_from_outside_and_comes_back() {
    let haft = Haft::new();
    let model = model_of(vec![Turn::text("Heard.")]).await;
    let shell = "\"$HAFT\"; stty -a > modes; echo back-in-the-shell; fg";
    let keys = [
        (READY, "!kill -TSTP $PPID\r"),
        ("back-in-the-shell", ""),
        (READY, "said after it\r"),
        ("Heard.", ""),
        (READY, "\u{4}"),
    ];
    let (shown, _) = typed_with(&haft, Some(&model), &["/bin/sh", "-mc", shell], &keys, &[]).await;
    let modes = std::fs::read_to_string(haft.ws().join("modes")).unwrap();
    assert!(modes.contains(" icanon") && modes.contains(" echo "), "{modes}");
    let away = &shown[shown.find("kill -TSTP").unwrap()..shown.find("back-in-the-shell").unwrap()];
    assert!(away.contains("\x1b[?2004l") && away.contains("\x1b[<u"), "{away:?}");
    assert!(told(&model.requests()[0].json()).contains("said after it"));
}

/// The terminal's reply with its background colour may arrive whole, in pieces, late, in part or never.
/// It never becomes typed text, and a light background is detected.
#[tokio::test]
async fn an_answer_about_the_background_is_never_typing() {
    let rows: [(&[&str], Option<bool>); 8] = [
        (&["\x1b]11;rgb:ffff/ffff/ffff\x1b\\"], Some(true)),
        (&["\x1b]11;rgb:1010/1010/1010\x07"], Some(false)),
        (&["\x1b]11;rgb:ff", "ff/ffff/ffff\x1b\\"], Some(true)),
        (&["\x1b]1", "1;rgb:ffff/ffff/ffff\x07"], Some(true)),
        (&["\x1b]11;rgb:ffff/ffff/ffff\x1b", "\\"], Some(true)),
        (&["", "", "", "\x1b]11;rgb:ffff/ffff/ffff\x1b\\"], Some(true)),
        (&["\x1b]11;rgb:ff"], None),
        (&[], None),
    ];
    for (pieces, light) in rows {
        let haft = Haft::new();
        let model = model_of(vec![Turn::text("Some `code` here-4711.")]).await;
        let mut keys = vec![json!(["\x1b]11;?", ""])];
        keys.extend(pieces.iter().map(|piece| json!(["", piece, {"wait": 0.3}])));
        // A partial reply is discarded a second after it was read.
        keys.extend([
            json!(["", "hello\r", {"wait": 3.0}]),
            json!(["here-4711", ""]),
            json!([READY, "\u{4}"]),
        ]);
        let (shown, code) = typed(&haft, Some(&model), &[], &keys).await;
        assert_eq!(code, 0, "{pieces:?}\n{shown}");
        let said = model.requests()[0].json()["messages"].clone();
        assert!(said.to_string().contains("\"hello\""), "{pieces:?}: {said}");
        let is_light = shown.contains("38;5;90mcode") || shown.contains("38;5;90m code");
        assert_eq!(is_light, light == Some(true), "{pieces:?}\n{shown:?}");
    }
}

/// A paste of ten megabytes is drawn as one placeholder, and the draft has every byte.
#[tokio::test]
async fn ten_megabytes_are_one_mark_and_none_of_them_is_lost() {
    let haft = Haft::new();
    let line = "a line that was pasted: ä漢👍 and more words, as many as a log line has.\n";
    let text = line.repeat(10_000_000 / line.len());
    haft.write("big.txt", &text);
    let model = model_of(Vec::new()).await;
    let pasted = format!("pasted text 1, {} lines", text.lines().count());
    let keys = json!([
        [READY, "look: "],
        ["enter sends", "", {"paste": haft.ws().join("big.txt")}],
        // The editor gets the text that would be sent; an editor that fails changes nothing.
        [pasted, "\u{7}"],
        ["the draft is as it was", "\u{3}"],
        ["is in the history", "!grep -o 'VmHWM:.*' /proc/$PPID/status\r"],
        [" kB", "\u{4}"],
    ]);
    let editor = [("EDITOR", "sh -c 'cp \"$1\" edited.txt; exit 1' x")];
    let (shown, code) = typed_with(&haft, Some(&model), &[haft_binary()], &keys, &editor).await;
    assert_eq!(code, 0, "{shown}");
    assert!(shown.len() < 20_000, "{} bytes were drawn", shown.len());
    let edited = std::fs::read_to_string(haft.ws().join("edited.txt")).unwrap();
    assert!(edited == format!("look: {text}"), "{} of {} bytes", edited.len(), text.len() + 6);
    let at = shown.rfind("VmHWM:").unwrap();
    let digits = shown[at..].chars().skip_while(|it| !it.is_ascii_digit());
    let most: u64 = digits.take_while(char::is_ascii_digit).collect::<String>().parse().unwrap();
    assert!(most < 200_000, "{most} kB");
    // The huge prompt does not push others out of the history.
    let history = std::fs::read_to_string(haft.home().join(".haft/history.jsonl")).unwrap();
    assert!(history.len() < 200_000 && history.contains("more were sent"), "{} bytes", history.len());
}

/// Whether the output contains a colour sequence.
fn has_colour(shown: &str) -> bool {
    shown.split("\x1b[").skip(1).any(|it| {
        let end = it.find(|it: char| it.is_ascii_alphabetic()).unwrap_or(0);
        let is_colour = |it: &str| it.parse().is_ok_and(|it: u8| matches!(it, 30..=48 | 90..=107));
        it[end..].starts_with('m') && it[..end].split(';').any(is_colour)
    })
}

/// Without colours no colour sequence is sent, and in the line interface no escape sequence at all.
#[tokio::test]
async fn what_a_terminal_cannot_show_is_not_sent_to_it() {
    let answer = "Some `code` and **bold** words.\n\n```rust\nfn main() {}\n```\n\nhere-4711";
    for (variable, draws) in [
        (("NO_COLOR", "1"), true),
        (("TERM", "dumb"), false),
        (("ACCESSIBLE", "1"), false),
        (("LANG", "C"), true),
    ] {
        let haft = Haft::new();
        let model = model_of(vec![Turn::text(answer)]).await;
        let ready = if draws { READY } else { "ready" };
        let keys = [(ready, "go\r"), ("here-4711", ""), (ready, "\u{4}")];
        let (shown, code) = typed_with(&haft, Some(&model), &[haft_binary()], &keys, &[variable]).await;
        assert_eq!(code, 0, "{variable:?}\n{shown}");
        assert_eq!(shown.contains('\x1b'), draws, "{variable:?}\n{shown:?}");
        assert_eq!(has_colour(&shown), variable.0 == "LANG", "{variable:?}\n{shown:?}");
    }
}

/// Copied text equals the model's text, and mouse wheel reports are on only in the alternate screen.
#[tokio::test]
async fn an_answer_is_copied_as_it_was_written() {
    use base64::Engine as _;
    let haft = Haft::new();
    let source = "Some **bold** words of the answer.\n\n```rust\nfn main() {}\n```";
    let model = model_of(vec![Turn::text(source)]).await;
    let coded = base64::engine::general_purpose::STANDARD.encode(source);
    let copied = format!("\x1b]52;c;{coded}\x07");
    let keys = [
        (READY, "go\r"),
        ("of the answer", ""),
        (READY, "/copy\r"),
        (copied.as_str(), "\u{f}"),
        ("\x1b[?1007h", "q"),
        ("\x1b[?1007l", "\u{4}"),
    ];
    let (shown, code) = typed(&haft, Some(&model), &[], &keys).await;
    assert_eq!(code, 0, "{shown}");
    for never in ["\x1b[?1000h", "\x1b[?1002h", "\x1b[?1003h", "\x1b[?1006h"] {
        assert!(!shown.contains(never), "{never:?}");
    }
}

/// A pasted path of an image that does not exist here is reported at once and stays as text.
#[tokio::test]
async fn a_picture_that_is_elsewhere_is_said() {
    let haft = Haft::new();
    let model = model_of(Vec::new()).await;
    let pasted = "\x1b[200~/Users/me/shot.png\x1b[201~";
    let keys = [(READY, pasted), ("is not on this machine: copy it here", "\u{3}"), (READY, "\u{4}")];
    let command = [haft_binary()];
    let (shown, code) = typed_with(&haft, Some(&model), &command, &keys, &[("SSH_TTY", "/dev/pts/9")]).await;
    assert_eq!(code, 0, "{shown}");
    assert!(shown.contains("/Users/me/shot.png"), "{shown}");
}

/// A rewind can be redone, and files that others changed since are named and left unchanged.
#[tokio::test]
async fn going_back_loses_nothing() {
    for is_changed in [false, true] {
        let haft = Haft::new();
        haft.write("a.txt", "first\n");
        let path = haft.ws().join("a.txt");
        let write = json!({"file_path": path, "content": "second-4711\n"});
        let turns = vec![
            Turn::tool("Read", json!({"file_path": path})),
            Turn::tool("Write", write),
            Turn::text("Written."),
        ];
        let model = model_of(turns).await;
        let change = if is_changed {
            "!echo third > a.txt; printf %s mark- 4714\r"
        } else {
            "!printf %s mark- 4714\r"
        };
        let (done, then) =
            if is_changed { ("left as they are", "\u{4}") } else { ("files are as they were", "/redo\r") };
        let mut keys = vec![
            json!([READY, "change it\r"]),
            json!(["Written.", ""]),
            json!([READY, change]),
            json!(["mark-4714", "/rewind\r"]),
            json!([["(stay here)", "enter chooses"], "\x1b[B\r"]),
            json!([["files only", "enter chooses"], "\x1b[B\x1b[B\x1b[B\r"]),
            json!([done, then]),
        ];
        if !is_changed {
            keys.push(json!(["brought back", "\u{4}"]));
        }
        let args = ["--permission-mode", "acceptEdits"];
        let (shown, code) = typed(&haft, Some(&model), &args, &keys).await;
        assert_eq!(code, 0, "{is_changed}\n{shown}");
        let want = if is_changed { "third\n" } else { "second-4711\n" };
        assert_eq!(std::fs::read_to_string(&path).unwrap(), want, "{shown}");
    }
}

/// Before a rule is saved the user sees it, the file it goes to, and other commands it would allow. A
/// rule wider than the call has to be confirmed twice.
#[tokio::test]
async fn a_rule_is_read_before_it_is_kept() {
    let haft = Haft::new();
    haft.write("x/a.txt", "x");
    let turns = vec![Turn::tool("Bash", json!({"command": "touch x/b.txt"})), Turn::text("Done-4711.")];
    let model = model_of(turns).await;
    let keys = [
        (READY, "go\r"),
        ("Bash(touch *)", ""),
        ("also runs", ""),
        ("kept in the local", ""),
        ("esc later", "a"),
        ("once more", "x"),
        ("stopped", ""),
        (READY, "\u{4}"),
    ];
    let (shown, code) = typed(&haft, Some(&model), &[], &keys).await;
    assert_eq!(code, 0, "{shown}");
    assert!(
        !haft.ws().join("x/b.txt").exists() && !haft.ws().join(".haft/settings.local.json").exists(),
        "{shown}"
    );
}
