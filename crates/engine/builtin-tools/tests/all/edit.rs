//! Edit: unchanged text stays byte for byte, and text that was not seen is not changed.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "test code")]

use crate::file_rig;

use std::{fs, path::Path};

use encoding_rs::{EUC_KR, GBK, SHIFT_JIS, WINDOWS_1252};
use file_rig::Rig;
use serde_json::{Value, json};

fn edit(path: &str, old: &str, new: &str) -> Value {
    json!({ "file_path": path, "old_string": old, "new_string": new })
}

#[tokio::test]
async fn edit_replaces_text_and_reports_diff_and_undo_id() {
    let rig = Rig::new(&[("a.rs", "fn main() {\n    one();\n    two();\n}\n")]);
    rig.read("a.rs").await;
    let output = rig.run("Edit", edit("a.rs", "one()", "three()")).await.unwrap();
    assert_eq!(rig.text("a.rs"), "fn main() {\n    three();\n    two();\n}\n");
    let text = output.content.to_text();
    assert!(
        text.contains("@@ -1,4 +1,4 @@\n fn main() {\n-    one();\n+    three();\n     two();\n }"),
        "{text}"
    );
    assert!(text.contains("4 → 4 lines, 36 → 38 bytes") && text.contains("Undo id: "), "{text}");
    assert_eq!(output.data["structuredPatch"][0]["oldStart"], 1);
    assert_eq!(output.data["originalFile"], "fn main() {\n    one();\n    two();\n}\n");
    // The agent's own edit counts as seen, so the next one needs no Read.
    rig.run("Edit", edit("a.rs", "three()", "four()")).await.unwrap();
    rig.undo();
    rig.undo();
    assert_eq!(rig.text("a.rs"), "fn main() {\n    one();\n    two();\n}\n");
}

#[tokio::test]
async fn edit_keeps_the_encoding_of_the_file() {
    let rig = Rig::new(&[]);
    let le =
        |text: &str| [vec![0xff, 0xfe], text.encode_utf16().flat_map(u16::to_le_bytes).collect()].concat();
    let be =
        |text: &str| [vec![0xfe, 0xff], text.encode_utf16().flat_map(u16::to_be_bytes).collect()].concat();
    let in_encoding = |encoding: &'static encoding_rs::Encoding| {
        move |text: &str| -> Vec<u8> { encoding.encode(text).0.into_owned() }
    };
    type Spell<'a> = Box<dyn Fn(&str) -> Vec<u8> + 'a>;
    let rows: Vec<(&str, Spell<'_>, &str)> = vec![
        ("Café à la crème\nkey = old\nfin garçon\n", Box::new(in_encoding(WINDOWS_1252)), "é"),
        ("© Example Corp\r\nkey = old\r\nend\r\n", Box::new(in_encoding(WINDOWS_1252)), "é"),
        ("これは設定です\nkey = old\n終わり\n", Box::new(in_encoding(SHIFT_JIS)), "日本"),
        ("这是一个配置文件\nkey = old\n结束\n", Box::new(in_encoding(GBK)), "日本"),
        ("이것은 설정 파일입니다\nkey = old\n끝\n", Box::new(in_encoding(EUC_KR)), "日本"),
        ("日本\r\nkey = old\r\n", Box::new(le), "日本é"),
        ("日本\nkey = old\n", Box::new(be), "日本é"),
        ("\u{feff}key = old\n", Box::new(|text| text.as_bytes().to_vec()), "日本é"),
    ];
    for (at, (text, spell, insert)) in rows.iter().enumerate() {
        let name = format!("f{at}");
        rig.put(&name, spell(text));
        let shown = rig.read(&name).await;
        assert!(shown.contains(text.trim_start_matches('\u{feff}').lines().next().unwrap()), "{shown}");
        assert!(shown.contains("[Encoding: "), "{shown}");
        rig.run("Edit", edit(&name, "old", insert)).await.unwrap();
        assert_eq!(rig.get(&name), spell(&text.replace("old", insert)), "{text}");
    }
    // Text that cannot be encoded is rejected and named.
    let before = rig.get("f1");
    let said = rig.say("Edit", edit("f1", "key", "日本")).await;
    assert!(said.contains("U+65E5 '日'") && said.contains("windows-1252"), "{said}");
    assert_eq!(rig.get("f1"), before);
    // An invalid byte in UTF-8 is preserved.
    let stray = [&b"na\xc3\xafve \xc3\xa9t\xc3\xa9 stray \xe9 here\nkey = old\n"[..]].concat();
    rig.put("stray", &stray);
    assert!(rig.read("stray").await.contains("1 invalid bytes"));
    rig.run("Edit", edit("stray", "old", "日本")).await.unwrap();
    assert_eq!(rig.get("stray"), [&stray[..stray.len() - 4], "日本\n".as_bytes()].concat());
    rig.run("Edit", edit("stray", "stray \u{fffd} here", "stray \u{fffd} there")).await.unwrap();
    assert!(rig.get("stray").windows(12).any(|it| it == b"stray \xe9 ther"));
}

#[tokio::test]
async fn edit_keeps_line_endings() {
    let rig = Rig::new(&[]);
    for (raw, want) in [
        (&b"a\r\nb\nc"[..], &b"a\r\nb\nC\nD"[..]),
        (b"a\r\nb\r\nc\r\n", b"a\r\nb\r\nC\r\nD\r\n"),
        (b"a\rb\rc", b"a\rb\rC\rD"),
        (b"\xef\xbb\xbfa\r\nc\r\n", b"\xef\xbb\xbfa\r\nC\r\nD\r\n"),
        (b"a\nc", b"a\nC\nD"),
        (b"x\ry\nc\n", b"x\ry\nC\nD\n"),
    ] {
        rig.put("f", raw);
        rig.read("f").await;
        rig.run("Edit", edit("f", "c", "C\nD")).await.unwrap();
        assert_eq!(rig.get("f"), want, "{}", String::from_utf8_lossy(raw));
    }
    // A changed line ending appears in the diff.
    rig.put("f", "a\r\nb\r\n");
    rig.read("f").await;
    let said = rig.say("Edit", edit("f", "a\nb", "a\nb\nc\r")).await;
    assert!(said.contains('␍'), "{said}");
}

#[tokio::test]
async fn edit_is_rejected_only_if_the_content_changed_since_read() {
    let lines: String = (1..=100).map(|n| format!("line {n}\n")).collect();
    let rig = Rig::new(&[("f", &lines), ("never", "x\n")]);
    let said = rig.say("Edit", edit("never", "x", "y")).await;
    assert!(said.contains("Read it first"), "{said}");
    rig.read("f").await;
    // The file is touched, and rewritten with the same bytes.
    fs::File::options()
        .write(true)
        .open(rig.path("f"))
        .unwrap()
        .set_modified(std::time::SystemTime::now())
        .unwrap();
    rig.run("Edit", edit("f", "line 1\n", "LINE 1\n")).await.unwrap();
    let same = rig.get("f");
    fs::remove_file(rig.path("f")).unwrap();
    rig.put("f", same);
    rig.run("Edit", edit("f", "line 2\n", "LINE 2\n")).await.unwrap();
    // Changed elsewhere in the file: the edit is made, and a note names the change.
    rig.put("f", rig.text("f").replace("line 90\n", "formatted 90\n"));
    let said = rig.say("Edit", edit("f", "line 10\n", "LINE 10\n")).await;
    assert!(said.contains("changed elsewhere") && said.contains("90\tformatted 90"), "{said}");
    // Changed at this place: rejected with the current text; the next attempt works without a Read.
    rig.put("f", rig.text("f").replace("line 50\n", "theirs 50\n"));
    let said = rig.say("Edit", edit("f", "line 50", "mine")).await;
    assert!(
        said.starts_with("error: ") && said.contains("50\ttheirs 50") && said.contains("47\tline 47"),
        "{said}"
    );
    rig.run("Edit", edit("f", "theirs 50", "mine 50")).await.unwrap();
    // The line has changed since it was read, although it still contains the text.
    rig.put("f", rig.text("f").replace("line 60\n", "line 60 but not as you know it\n"));
    let said = rig.say("Edit", edit("f", "line 60", "mine 60")).await;
    assert!(said.contains("changed by someone else"), "{said}");
    rig.run("Edit", edit("f", "line 60", "mine 60")).await.unwrap();
    // Same size, timestamps restored.
    let times = fs::metadata(rig.path("f")).unwrap().modified().unwrap();
    rig.put("f", rig.text("f").replace("line 70\n", "LINE 70\n"));
    fs::File::options().write(true).open(rig.path("f")).unwrap().set_modified(times).unwrap();
    let said = rig.say("Edit", edit("f", "line 70", "x")).await;
    assert!(said.starts_with("error: "), "{said}");
    // A Read always makes the file editable again.
    rig.read("f").await;
    rig.run("Edit", edit("f", "LINE 70", "x")).await.unwrap();
}

#[tokio::test]
async fn edit_errors_name_the_next_step() {
    let rig =
        Rig::new(&[("a.py", "def f():\n    say(‘hi’)\n\ndef g():\n    say(‘ho’)\n"), ("src/main.rs", "x\n")]);
    rig.read("a.py").await;
    for (input, parts) in [
        (edit("a.py", "say(", "tell("), &["matches 2 places (lines 2, 5)", "replace_all"][..]),
        (edit("a.py", "    say('hx')", "x"), &["U+0069 'i'", "U+0078 'x'", "2\t    say(‘hi’)"]),
        (edit("a.py", "    say('hi');", "x"), &["nearest", "2\t"]),
        (edit("a.py", "zzzz qqqq wwww", "x"), &["not found", "Grep"]),
        (edit("a.py", "x", "x"), &["the same"]),
        (edit("b.py", "x", "y"), &["does not exist", "a.py", "Write"]),
        (edit("src", "x", "y"), &["is a directory"]),
        (edit("src/main.rx", "x", "y"), &["Did you mean $WS/src/main.rs"]),
        (edit("a.py", "", "x"), &["old_string is empty"]),
        (edit("/proc/self/mem", "x", "y"), &["kernel interface"]),
        (edit("/dev/null", "x", "y"), &["a device"]),
        (edit("", "x", "y"), &["path is empty"]),
        (edit("a\0b", "x", "y"), &["NUL"]),
    ] {
        let said = rig.say("Edit", input.clone()).await;
        assert!(said.starts_with("error: "), "{input}: {said}");
        for part in parts {
            let found = said.to_lowercase().contains(&part.to_lowercase());
            assert!(found, "{input}: {part:?} not in {said}");
        }
    }
    assert_eq!(rig.litter(), Vec::<std::path::PathBuf>::new());
}

#[tokio::test]
async fn inexact_matches_apply_with_a_note() {
    let rig = Rig::new(&[("a.go", "func f() {\n\tif x {\n\t\treturn ‘a’\n\t}\n}\n")]);
    rig.read("a.go").await;
    let said = rig
        .say(
            "Edit",
            edit("a.go", "    if x {\n        return 'a'\n    }", "    if y {\n        return 'b'\n    }"),
        )
        .await;
    assert!(said.contains("matched ignoring indentation, how characters are written"), "{said}");
    assert_eq!(rig.text("a.go"), "func f() {\n\tif y {\n\t\treturn ‘b’\n\t}\n}\n");
    let said = rig.say("Edit", edit("a.go", "func f() {", "func f() { // it’s")).await;
    assert!(!said.contains("ignoring"), "{said}");
    assert!(rig.get("a.go").windows(3).any(|it| it == b"\xe2\x80\x99"));
}

#[tokio::test]
async fn replace_all_replaces_every_occurrence() {
    let rig = Rig::new(&[("f", "a b a\na\n")]);
    rig.read("f").await;
    let output = rig
        .run(
            "Edit",
            json!({ "file_path": "f", "old_string": "a", "new_string": "xx", "replace_all": "true" }),
        )
        .await
        .unwrap();
    assert_eq!(output.data["replacements"], 3);
    assert_eq!(rig.text("f"), "xx b xx\nxx\n");
}

#[tokio::test]
async fn empty_old_string_creates_or_fills_a_file() {
    let rig = Rig::new(&[("empty", "")]);
    rig.run("Edit", edit("new/f", "", "hello\n")).await.unwrap();
    assert_eq!(rig.text("new/f"), "hello\n");
    rig.run("Edit", edit("empty", "", "filled\n")).await.unwrap();
    assert_eq!(rig.text("empty"), "filled\n");
    rig.undo();
    rig.undo();
    assert_eq!(rig.text("empty"), "");
    assert!(!rig.path("new").exists());
}

#[tokio::test]
async fn edit_rejects_invalid_settings() {
    let rig = Rig::new(&[(".claude/settings.json", "{\n  \"permissions\": { \"allow\": [\"Read\"] }\n}\n")]);
    rig.read(".claude/settings.json").await;
    for (old, new, want) in
        [("[\"Read\"]", "[\"Read\"", "valid JSON"), ("[\"Read\"]", "\"Read\"", "permissions.allow")]
    {
        let said = rig.say("Edit", edit(".claude/settings.json", old, new)).await;
        assert!(said.contains(want), "{said}");
    }
    rig.run("Edit", edit(".claude/settings.json", "[\"Read\"]", "[\"Read\", \"Grep\"]")).await.unwrap();
}

#[tokio::test]
async fn edit_writes_through_symbolic_links() {
    let rig = Rig::new(&[("real/f", "old\n")]);
    let link = |target: &str, name: &str| std::os::unix::fs::symlink(target, rig.path(name)).unwrap();
    link("real/f", "one");
    link("one", "two");
    link("two", "three");
    link("loop", "loop");
    link("gone", "dangling");
    rig.read("three").await;
    rig.run("Edit", edit("three", "old", "new")).await.unwrap();
    assert_eq!(rig.text("real/f"), "new\n");
    assert_eq!(fs::read_link(rig.path("three")).unwrap(), Path::new("two"));
    // Read under one path, edited under another.
    rig.run("Edit", edit("real/f", "new", "newer")).await.unwrap();
    assert!(rig.say("Edit", edit("loop", "x", "y")).await.contains("loop of symbolic links"));
    rig.run("Edit", edit("dangling", "", "made\n")).await.unwrap();
    assert_eq!(rig.text("gone"), "made\n");
}

#[tokio::test]
async fn edit_changes_a_file_too_large_to_repeat() {
    let line = "0123456789 abcdefghijklmnopqrstuvwxyz\n";
    let mut text = line.repeat(400_000);
    text.insert_str(7_000_000 / line.len() * line.len(), "the needle\n");
    let rig = Rig::new(&[]);
    rig.put("big", &text);
    let at = text.find("the needle").unwrap() / line.len() + 1;
    let shown = rig.say("Read", json!({ "file_path": "big", "offset": at, "limit": 2 })).await;
    assert!(shown.contains(&format!("{at}\tthe needle")), "{shown}");
    let output = rig.run("Edit", edit("big", "the needle", "a pin")).await.unwrap();
    assert_eq!(output.data["originalFile"], Value::Null);
    assert_eq!(rig.text("big"), text.replace("the needle", "a pin"));
}

/// Returns the mark of a line as Read shows it.
async fn mark(rig: &Rig, path: &str, number: usize) -> String {
    let shown = rig.say("Read", json!({ "file_path": path, "marks": true })).await;
    let line = shown.lines().find(|line| line.starts_with(&format!("{number}:"))).unwrap();
    line.split('\t').next().unwrap().to_owned()
}

#[tokio::test]
async fn edit_finds_lines_by_their_marks() {
    let rig = Rig::new(&[]);
    // File, first and last line, `old_string`, `new_string`, expected file.
    for (raw, first, last, old, new, want) in [
        ("a\nb\nc\n", 2, 2, "", "B", "a\nB\nc\n"),
        ("a\nb\nc\n", 2, 3, "", "B\nC\nD", "a\nB\nC\nD\n"),
        ("a\r\nb\r\nc", 2, 3, "", "B\nC", "a\r\nB\r\nC"),
        // Removed lines include their line ends.
        ("a\nb\nc\n", 2, 2, "", "", "a\nc\n"),
        ("a\nb\nc", 3, 3, "", "", "a\nb"),
        ("a\n", 1, 1, "", "", ""),
        ("a\n\nb\n", 2, 2, "", "x", "a\nx\nb\n"),
        // Ambiguous text is searched only within the named lines.
        ("x = 1\nx = 1\n", 2, 2, "1", "2", "x = 1\nx = 2\n"),
        ("\tx = ‘1’\n\tx = ‘1’\n", 1, 1, "    x = '1'", "    x = '2'", "\tx = ‘2’\n\tx = ‘1’\n"),
    ] {
        rig.put("f", raw);
        let lines = format!("{}-{}", mark(&rig, "f", first).await, mark(&rig, "f", last).await);
        let input = json!({ "file_path": "f", "old_string": old, "new_string": new, "lines": lines });
        let said = rig.say("Edit", input).await;
        assert_eq!(rig.text("f"), want, "{raw:?} {lines}: {said}");
        rig.undo();
        assert_eq!(rig.text("f"), raw);
    }
    // Lines were inserted before: the marked lines are found by their hash.
    rig.put("f", "one\ntwo\nthree\n");
    let two = mark(&rig, "f", 2).await;
    rig.put("f", "zero\none\ntwo\nthree\n");
    let edit = |lines: &str, new: &str| json!({ "file_path": "f", "old_string": "", "new_string": new, "lines": lines });
    let said = rig.say("Edit", edit(&two, "TWO")).await;
    assert!(said.contains("now lines 3-3") && rig.text("f") == "zero\none\nTWO\nthree\n", "{said}");
    // The lines have changed: rejected, with the current marks.
    let said = rig.say("Edit", edit(&two, "again")).await;
    let now = mark(&rig, "f", 3).await;
    assert!(said.starts_with("error: ") && said.contains(&format!("{now}\tTWO")), "{said}");
    rig.run("Edit", edit(&now, "again")).await.unwrap();
    // Invalid marks, text outside the named lines, and a file that was not read.
    let said = rig.say("Edit", edit("3", "x")).await;
    assert!(said.contains("are no marks"), "{said}");
    let now = mark(&rig, "f", 3).await;
    let said = rig
        .say("Edit", json!({ "file_path": "f", "old_string": "zero", "new_string": "x", "lines": now }))
        .await;
    assert!(said.starts_with("error: ") && said.contains("not found"), "{said}");
    assert_eq!(rig.text("f"), "zero\none\nagain\nthree\n");
}
