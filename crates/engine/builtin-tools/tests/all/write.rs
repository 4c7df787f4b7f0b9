//! Write: unseen content is never overwritten.
#![allow(
    clippy::type_complexity,
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    reason = "test code"
)]

use crate::file_rig;

use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf};

use file_rig::Rig;
use serde_json::{Value, json};

fn write(path: &str, content: &str) -> Value {
    json!({ "file_path": path, "content": content })
}

fn lines(count: usize) -> String {
    (1..=count).map(|n| format!("line {n}\n")).collect()
}

#[tokio::test]
async fn write_creates_and_replaces_files() {
    let rig = Rig::new(&[("old.txt", "one\ntwo\n")]);
    let output = rig.run("Write", write("new/deep/f.txt", "hello\n")).await.unwrap();
    assert_eq!((output.data["type"].as_str(), output.data["originalFile"].as_str()), (Some("create"), None));
    assert!(output.content.to_text().contains("Created"));
    assert_eq!(rig.text("new/deep/f.txt"), "hello\n");
    rig.read("old.txt").await;
    let output = rig.run("Write", write("old.txt", "one\nTWO\nthree\n")).await.unwrap();
    assert_eq!(output.data["type"], "update");
    let text = output.content.to_text();
    assert!(text.contains("2 → 3 lines, 8 → 14 bytes") && text.contains("-two\n+TWO\n+three"), "{text}");
    // Written content counts as seen.
    rig.run("Write", write("old.txt", "four\n")).await.unwrap();
    rig.undo();
    rig.undo();
    assert_eq!(rig.text("old.txt"), "one\ntwo\n");
}

#[tokio::test]
async fn write_rejects_unseen_content() {
    let rig = Rig::new(&[("g.txt", &lines(3000)), ("unread", "x\n"), ("empty", "")]);
    let said = rig.say("Write", write("unread", "y\n")).await;
    assert!(said.contains("has not been read") && said.contains("Edit"), "{said}");
    rig.say("Read", json!({ "file_path": "g.txt", "limit": 20 })).await;
    let forty = lines(40);
    for (content, want) in [(forty.as_str(), "only 20 of its 3000 lines"), ("", "only 20 of its 3000 lines")]
    {
        let said = rig.say("Write", write("g.txt", content)).await;
        assert!(said.starts_with("error: ") && said.contains(want), "{said}");
    }
    rig.read("g.txt").await;
    rig.say("Read", json!({ "file_path": "g.txt", "offset": 2001 })).await;
    let numbered: String = (1..=40).map(|n| format!("{n}→line {n}\n")).collect();
    for (content, want) in [
        ("", "would erase the file"),
        ("  \n", "would erase the file"),
        ("line 1\n[lines 21-3000 not shown]\n", "stands for text that is left out"),
        (
            "line 1\n[PARTIAL view: lines 1-20 of 3000. Continue with offset=21]\n",
            "stands for text that is left out",
        ),
        (numbered.as_str(), "line number"),
        ("line 1\n// … rest of code unchanged\n", "stands for text that is left out"),
    ] {
        let said = rig.say("Write", write("g.txt", content)).await;
        assert!(said.starts_with("error: ") && said.contains(want), "{said}");
        assert_eq!(rig.text("g.txt"), lines(3000));
    }
    let said = rig.say("Write", write("g.txt", &forty)).await;
    assert!(said.contains("3,000 → 40 lines") && said.contains("Undo id:"), "{said}");
    // Changed by another program.
    fs::write(rig.path("g.txt"), "theirs\n").unwrap();
    let said = rig.say("Write", write("g.txt", "mine\n")).await;
    assert!(said.contains("changed by someone else") && said.contains("+theirs"), "{said}");
    rig.read("g.txt").await;
    rig.run("Write", write("g.txt", "mine\n")).await.unwrap();
    // The same for a file that this session only read.
    rig.read("unread").await;
    fs::write(rig.path("unread"), "x\nand more\n").unwrap();
    let said = rig.say("Write", write("unread", "y\n")).await;
    assert!(said.contains("since you read it") && said.contains(" x\n+and more"), "{said}");
    rig.run("Write", write("empty", "filled\n")).await.unwrap();
    assert_eq!(rig.litter(), Vec::<PathBuf>::new());
}

#[tokio::test]
async fn write_keeps_encoding_and_line_endings() {
    let rig = Rig::new(&[]);
    let rows: [(&[u8], &str, Option<&[u8]>); 8] = [
        (b"a\r\nb\r\n", "a\nc\n", Some(b"a\r\nc\r\n")),
        (b"a\r\nb\nc\r\n", "a\nb\nc\nd\n", Some(b"a\r\nb\nc\r\nd\r\n")),
        (b"\xef\xbb\xbfa\n", "b\n", Some(b"\xef\xbb\xbfb\n")),
        (b"\xef\xbb\xbfa\n", "\u{feff}b\n", Some(b"\xef\xbb\xbfb\n")),
        (b"a\n", "b\r\n", Some(b"b\r\n")),
        (b"a\r\n", "b\r\nc\n", Some(b"b\r\nc\n")),
        (b"caf\xe9 cr\xe8me\nold\n", "café crème\nnaïf\n", Some(b"caf\xe9 cr\xe8me\nna\xeff\n")),
        (b"caf\xe9 cr\xe8me\nold\n", "café crème\n日本\n", None),
    ];
    for (old, content, want) in rows {
        rig.put("f", old);
        rig.read("f").await;
        let said = rig.say("Write", write("f", content)).await;
        match want {
            Some(want) => assert_eq!(rig.get("f"), want, "{content:?}: {said}"),
            None => {
                assert!(said.contains("U+65E5"), "{said}");
                assert_eq!(rig.get("f"), old);
            }
        }
    }
}

#[tokio::test]
async fn failed_write_leaves_the_file_unchanged() {
    let rig = Rig::new(&[("ro", "x\n"), ("dir/f", "x\n")]);
    fs::set_permissions(rig.path("ro"), fs::Permissions::from_mode(0o444)).unwrap();
    rig.read("ro").await;
    for (path, want) in
        [("ro", "read-only"), ("dir", "directory"), ("dir/f/x", "not a directory"), ("/dev/null", "device")]
    {
        let said = rig.say("Write", write(path, "y\n")).await;
        assert!(said.starts_with("error: ") && said.contains(want), "{said}");
    }
    assert_eq!(rig.text("ro"), "x\n");
}

#[tokio::test]
async fn overwriting_a_binary_file_requires_a_read() {
    let rig = Rig::new(&[]);
    rig.put("b", [0, 1, 2, 255]);
    assert!(rig.say("Write", write("b", "text\n")).await.starts_with("error: "));
    rig.read("b").await;
    rig.run("Write", write("b", "text\n")).await.unwrap();
    assert_eq!(rig.text("b"), "text\n");
    rig.undo();
    assert_eq!(rig.get("b"), [0, 1, 2, 255]);
}
