//! Grep, tested through the tool contract.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "test code")]

use crate::finding_rig;

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
    sync::Arc,
    time::Duration,
};

use finding_rig::Rig;
use haft_builtin_tools::{SearchToolSettings, grep::Grep};
use haft_tool::{DynTool, ErrorKind, LineStyle, ReadScope, erase};
use serde_json::{Value, json};

fn grep() -> Arc<dyn DynTool> {
    erase(Grep::default())
}

async fn check(rig: &Rig, input: Value, want: &str) {
    let text = rig.text(&grep(), input.clone()).await;
    assert_eq!(text, want, "{input}");
}

#[tokio::test]
async fn grep_modes_and_flags_match_expected_output() {
    let rig = Rig::new(&[
        ("a.txt", "one\ntwo alpha\nthree\nfour\nfive Alpha alpha\nsix\n"),
        ("b/c.rs", "fn alpha() {\n}\n"),
        ("b/d.py", "def beta():\n"),
    ]);
    for (input, want) in [
        (json!({"pattern": "alpha"}), "a.txt\nb/c.rs"),
        (json!({"pattern": "alpha", "path": "b"}), "b/c.rs"),
        (json!({"pattern": "alpha", "output_mode": "count"}), "a.txt:2\nb/c.rs:1\n[3 matches in 2 files]"),
        (
            json!({"pattern": "alpha", "output_mode": "content"}),
            "a.txt:2:two alpha\na.txt:5:five Alpha alpha\nb/c.rs:1:fn alpha() {",
        ),
        (
            json!({"pattern": "alpha", "output_mode": "content", "-n": false, "glob": "*.rs"}),
            "b/c.rs:fn alpha() {",
        ),
        (
            json!({"pattern": "two", "output_mode": "content", "-C": 1}),
            "a.txt-1-one\na.txt:2:two alpha\na.txt-3-three",
        ),
        (
            json!({"pattern": "one|six", "output_mode": "content", "-A": 1}),
            "a.txt:1:one\na.txt-2-two alpha\n--\na.txt:6:six",
        ),
        (
            json!({"pattern": "six|fn", "output_mode": "content", "-B": 1, "-n": false}),
            "a.txt-five Alpha alpha\na.txt:six\n--\nb/c.rs:fn alpha() {",
        ),
        (json!({"pattern": "alpha", "output_mode": "content", "path": "b/c.rs"}), "1:fn alpha() {"),
        (
            json!({"pattern": "[aA]lpha", "output_mode": "content", "-o": true, "path": "a.txt"}),
            "2:alpha\n5:Alpha\n5:alpha",
        ),
        (json!({"pattern": "ALPHA", "-i": true, "type": "rust"}), "b/c.rs"),
        (json!({"pattern": "two.*three", "multiline": true}), "a.txt"),
        (
            json!({"pattern": "two.*?three", "multiline": true, "output_mode": "content"}),
            "a.txt:2:two alpha\na.txt:3:three",
        ),
        (json!({"pattern": "e", "glob": "!*.txt"}), "b/d.py"),
        (json!({"pattern": "a", "glob": "*.rs,*.py"}), "b/c.rs\nb/d.py"),
        (json!({"pattern": "a", "glob": "d.*", "path": "b"}), "b/d.py"),
        // Relative to the searched directory, or to the working directory.
        (json!({"pattern": "a", "glob": "b/*.py", "path": "b"}), "b/d.py"),
        (json!({"pattern": "a", "glob": "/d.py", "path": "b"}), "b/d.py"),
    ] {
        check(&rig, input, want).await;
    }
}

#[tokio::test]
async fn grep_results_are_paged() {
    let rig = Rig::new(&[]);
    for index in 0..12 {
        rig.write(&format!("f{index:02}.txt"), "x\nx\n");
    }
    for (input, want) in [
        (json!({"head_limit": 2}), "f00.txt\nf01.txt\n[files 1-2 of 12; next page: offset 2]"),
        (json!({"head_limit": 2, "offset": 10}), "f10.txt\nf11.txt"),
        (json!({"head_limit": 2, "offset": u64::MAX}), "No entries at this offset: there are 12 files"),
        (json!({"head_limit": 2, "offset": 12}), "No entries at this offset: there are 12 files"),
        (
            json!({"head_limit": 3, "offset": 1, "output_mode": "content"}),
            "f00.txt:2:x\nf01.txt:1:x\nf01.txt:2:x\n[lines 2-4 of 24; next page: offset 4]",
        ),
        (
            json!({"head_limit": 1, "output_mode": "count"}),
            "f00.txt:2\n[files 1-1 of 12; next page: offset 1]\n[24 matches in 12 files]",
        ),
    ] {
        let mut input = input;
        input["pattern"] = json!("x");
        check(&rig, input, want).await;
    }
    let all = rig.text(&grep(), json!({"pattern": "x", "head_limit": 0, "output_mode": "content"})).await;
    assert_eq!(all.lines().count(), 24);
    let input = json!({"pattern": "x", "output_mode": "content", "head_limit": 5, "offset": 3});
    let data = rig.run(&grep(), &input, rig.context()).await.unwrap().data;
    let want = json!({"mode": "content", "numFiles": 3, "filenames": ["f01.txt", "f02.txt", "f03.txt"],
        "content": "f01.txt:2:x\nf02.txt:1:x\nf02.txt:2:x\nf03.txt:1:x\nf03.txt:2:x", "numLines": 5,
        "numMatches": 24, "totalFiles": 12, "totalLines": 24, "appliedLimit": 5, "appliedOffset": 3,
        "searchedFiles": 12, "skipped": {"ignored": 0, "hidden": 0, "binary": 0, "unreadable": 0}});
    assert_eq!(data, want);
}

#[tokio::test]
async fn answer_without_matches_names_what_was_not_searched() {
    let rig = Rig::new(&[
        ("a.txt", "x\n"),
        (".git/HEAD", "needle\n"),
        (".gitignore", "build\n*.log\n"),
        ("build/o1", "needle\n"),
        ("build/sub/o2", "x\n"),
        ("build/.hid", "needle\n"),
        ("y.log", "needle\n"),
        (".cfg/a", "x\n"),
        (".env", "x\n"),
    ]);
    rig.write("bin", b"\0needle");
    rig.write("bin2", b"\0");
    fs::create_dir(rig.ws.join("locked")).unwrap();
    fs::set_permissions(rig.ws.join("locked"), fs::Permissions::from_mode(0o0)).unwrap();
    let can_read_anyway = fs::read_dir(rig.ws.join("locked")).is_ok();
    let unreadable = if can_read_anyway { "" } else { ", 1 unreadable (locked: permission denied)" };
    let text = rig.text(&grep(), json!({"pattern": "needle"})).await;
    let want = format!(
        "0 matches in 1 file; skipped: 3 gitignored (2 of them match), 3 hidden, 1 gitignored and hidden (1 of \
         them match), 2 binary (1 of them match){unreadable} — include_ignored: true, include_hidden: true"
    );
    fs::set_permissions(rig.ws.join("locked"), fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(text.replace(".gitignore", ""), want);
    for (input, want) in [
        (json!({"include_ignored": true}), "build/o1\ny.log"),
        (json!({"include_ignored": true, "include_hidden": true}), "build/.hid\nbuild/o1\ny.log"),
        // An ignored directory that is named is searched.
        (json!({"path": "build"}), "build/o1"),
        (json!({"path": "build/sub"}), "0 matches in 1 file"),
        (json!({"path": "y.log"}), "y.log"),
        (json!({"path": ".git"}), ".git/HEAD"),
        (json!({"path": "bin"}), "bin"),
    ] {
        let mut input = input;
        input["pattern"] = json!("needle");
        check(&rig, input, want).await;
    }
    let data = rig.run(&grep(), &json!({"pattern": "needle"}), rig.context()).await.unwrap().data;
    assert_eq!(data["skipped"]["matching"], 4);
}

/// With few matches, a note mentions matching ignored files; with many it does not.
#[tokio::test]
async fn few_matches_add_a_note_about_matching_ignored_files() {
    let rig = Rig::new(&[
        (".git/HEAD", ""),
        (".gitignore", "dist\n"),
        ("src/a.ts", "port: rare common\n"),
        ("src/b.ts", "common\n"),
        ("src/c.ts", "common\n"),
        ("dist/a.js", "port: rare common\n"),
        ("dist/.map", "rare\n"),
        (".env", "rare\n"),
    ]);
    let left_out = "src/a.ts\n[left out, but matching: 1 gitignored, 1 gitignored and hidden — include_ignored: true, include_hidden: true]";
    check(&rig, json!({"pattern": "rare"}), left_out).await;
    let one = "src/a.ts\n[left out, but matching: 1 gitignored — include_ignored: true]";
    check(&rig, json!({"pattern": "port:"}), one).await;
    check(&rig, json!({"pattern": "common"}), "src/a.ts\nsrc/b.ts\nsrc/c.ts").await;
}

#[tokio::test]
async fn ignored_directory_is_searched_when_named() {
    let rig = Rig::new(&[
        (".git/HEAD", ""),
        ("venv/.gitignore", "*\n"),
        ("venv/lib/x.py", "needle\n"),
        (".gitignore", "/out/**\n"),
        ("out/a.txt", "needle\n"),
    ]);
    check(&rig, json!({"pattern": "needle", "path": "venv"}), "venv/lib/x.py").await;
    check(&rig, json!({"pattern": "needle", "path": "venv/lib"}), "venv/lib/x.py").await;
    check(&rig, json!({"pattern": "needle", "path": "out"}), "out/a.txt").await;
    let text = rig.text(&grep(), json!({"pattern": "needle"})).await;
    assert!(text.contains("2 of them match"), "{text}");
}

#[tokio::test]
async fn grep_errors_name_the_next_step() {
    let rig = Rig::new(&[("a.txt", "x\n")]);
    for (input, want) in [
        (json!({"pattern": "a("}), "unclosed group"),
        (json!({"pattern": "a("}), "put a backslash before"),
        (json!({"pattern": "(?=x)"}), "without it"),
        (json!({"pattern": r"a\nb"}), "multiline: true"),
        (json!({"pattern": "a{1000}{1000}{1000}"}), "smaller repetitions"),
        (json!({"pattern": "x", "glob": "[z"}), "unclosed character class"),
        (json!({"pattern": "x", "type": "rusty"}), "Did you mean"),
        (json!({"pattern": "x", "path": "gone"}), "gone does not exist"),
        (json!({"pattern": "x", "output_mode": "lines"}), "output_mode"),
    ] {
        let error = rig.run(&grep(), &input, rig.context()).await.unwrap_err();
        assert!(error.message.contains(want), "{input}: {}", error.message);
    }
    let wrong = rig.run(&grep(), &json!({"pattern": "a("}), rig.context()).await.unwrap_err();
    assert_eq!(wrong.kind, ErrorKind::InvalidInput);
}

#[tokio::test]
async fn pattern_starting_with_a_dash_is_no_option() {
    let rig = Rig::new(&[
        ("payload.sh", "#!/bin/sh\ntouch pwned\n"),
        (".ripgreprc", "--pre=./payload.sh\n"),
        ("a.txt", "--pre=./payload.sh\n"),
        ("--pre=.", "x\n"),
    ]);
    fs::set_permissions(rig.ws.join("payload.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    check(&rig, json!({"pattern": "--pre=./payload.sh"}), "a.txt").await;
    check(&rig, json!({"pattern": "x", "path": "--pre=."}), "--pre=.").await;
    let text = rig.text(&grep(), json!({"pattern": "x", "glob": "--pre=./payload.sh"})).await;
    assert!(text.starts_with("0 matches in 0 files") && text.contains("no file fits"), "{text}");
    assert!(!rig.ws.join("pwned").exists());
}

#[tokio::test]
async fn denied_files_never_appear_in_results() {
    let mut rig = Rig::new(&[
        (".env", "TOKEN=1\n"),
        ("a.txt", "x\n"),
        ("d/secret", "TOKEN=2\n"),
        (".gitignore", ".env\n"),
    ]);
    rig.deny(&[".env", "d/secret"]);
    for input in [
        json!({"pattern": "TOKEN"}),
        json!({"pattern": "TOKEN", "include_hidden": true, "include_ignored": true}),
        json!({"pattern": "TOKEN", "path": "d", "output_mode": "content"}),
    ] {
        let hit = rig.text(&grep(), input.clone()).await;
        let mut other = input.clone();
        other["pattern"] = json!("no such text");
        // The answer about a denied file does not depend on its content.
        assert_eq!(hit, rig.text(&grep(), other).await, "{input}");
        assert!(!hit.contains("match)") && hit.starts_with("0 matches"), "{hit}");
    }
}

#[tokio::test]
async fn grep_searches_files_in_other_encodings() {
    let rig = Rig::new(&[]);
    let texts = [
        ("sjis", "shift_jis", "これは日本の文書です。テスト\n"),
        ("gbk", "gbk", "这是中文文档，日本也在里面\n"),
        ("euckr", "euc-kr", "한국어 문서입니다 시험\n"),
        ("latin1", "windows-1252", "un café très bon\n"),
        ("cyr", "windows-1251", "Привет, мир, как дела сегодня\n"),
    ];
    for (name, label, text) in texts {
        let (bytes, ..) = encoding_rs::Encoding::for_label(label.as_bytes()).unwrap().encode(text);
        rig.write(name, bytes);
    }
    let utf16: Vec<u8> = "\u{feff}sixteen 日本\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    rig.write("utf16le", &utf16);
    let utf16: Vec<u8> = "\u{feff}sixteen 日本\n".encode_utf16().flat_map(u16::to_be_bytes).collect();
    rig.write("utf16be", &utf16);
    let bare: Vec<u8> = "plain sixteen\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    rig.write("utf16bare", &bare);
    rig.write(
        "stray",
        b"good UTF-8 \xc3\xbc\xc3\xbc\xc3\xbc\xc3\xbc\xc3\xbc\xc3\xbc\xc3\xbc\xc3\xbc \xe9 stray\n",
    );
    for (pattern, want) in [
        ("日本", "gbk\nsjis\nutf16be\nutf16le"),
        ("한국어", "euckr"),
        ("café", "latin1"),
        ("caf.", "latin1"),
        ("мир", "cyr"),
        ("sixteen", "utf16bare\nutf16be\nutf16le"),
        ("stray$", "stray"),
        // The second byte of a Japanese character equals `e` or `X`.
        ("^[eX]", ""),
    ] {
        let text = rig.text(&grep(), json!({"pattern": pattern})).await;
        let files: Vec<&str> =
            text.lines().filter(|line| !line.starts_with('[') && !line.starts_with('0')).collect();
        assert_eq!(files.join("\n"), want, "{pattern}");
    }
    check(
        &rig,
        json!({"pattern": "文書", "output_mode": "content"}),
        "sjis:1:これは日本の文書です。テスト\n[sjis was read as Shift_JIS]",
    )
    .await;
    check(
        &rig,
        json!({"pattern": "stray", "output_mode": "content"}),
        "stray:1:good UTF-8 üüüüüüüü \\xe9 stray",
    )
    .await;
}

#[tokio::test]
async fn control_characters_in_matches_are_escaped() {
    let rig = Rig::new(&[]);
    let long = format!("{}needle{}\n", "x".repeat(300_000), "y".repeat(300_000));
    rig.write("min.js", &long);
    rig.write("esc", "needle \u{1b}[2J\u{1b}]52;c;AAAA\u{7} \u{202e}end\r\n");
    rig.write(
        "big.bin",
        [b"1\nneedle\n".to_vec(), b"text\n".repeat(400_000), b"\0needle\n".to_vec()].concat(),
    );
    let text = rig.text(&grep(), json!({"pattern": "needle", "output_mode": "content"})).await;
    assert!(text.len() < 3000, "{}", text.len());
    assert!(text.contains("needleyyy") && text.contains("[columns 299901-300400 of 600006]"), "{text}");
    assert!(text.contains("esc:1:needle \\x1b[2J\\x1b]52;c;AAAA\\x07 \\u{202e}end\n"), "{text}");
    assert!(text.contains("big.bin:2:needle\n"), "{text}");
    assert!(text.contains("[big.bin is binary from offset 2000009 on; not searched further]"), "{text}");
    let named =
        rig.text(&grep(), json!({"pattern": "needle", "output_mode": "content", "path": "big.bin"})).await;
    assert!(named.starts_with("2:needle\n") && named.contains("1 matching line behind"), "{named}");
}

#[tokio::test]
async fn pipes_links_and_loops_are_skipped() {
    let rig = Rig::new(&[("a/x.txt", "needle\n")]);
    rustix::fs::mknodat(rustix::fs::CWD, rig.ws.join("pipe"), rustix::fs::FileType::Fifo, 0o644.into(), 0)
        .unwrap();
    symlink("..", rig.ws.join("a/up")).unwrap();
    symlink("/etc", rig.ws.join("etc")).unwrap();
    symlink("a/x.txt", rig.ws.join("l.txt")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(rig.ws.join("sock")).unwrap();
    let both = |input: Value| {
        let rig = &rig;
        async move { tokio::time::timeout(Duration::from_secs(100), rig.text(&grep(), input)).await.unwrap() }
    };
    assert_eq!(both(json!({"pattern": "needle"})).await, "a/x.txt");
    assert_eq!(both(json!({"pattern": "needle", "path": "l.txt"})).await, "l.txt");
    for path in ["pipe", "sock", "/dev/zero", "/proc/self/mem"] {
        let text = both(json!({"pattern": "x", "path": path})).await;
        assert!(text.starts_with("error: "), "{path}: {text}");
    }
    let text = both(json!({"pattern": "nothing at all"})).await;
    assert_eq!(text, "0 matches in 1 file; skipped: 3 symbolic links (give one as path)");
}

#[tokio::test]
async fn search_stops_on_timeout_and_interrupt() {
    let rig = Rig::new(&[("a.txt", "x\n")]);
    let tool =
        erase(Grep::new(SearchToolSettings { timeout: Duration::ZERO, ..SearchToolSettings::default() }));
    let output = rig.run(&tool, &json!({"pattern": "x"}), rig.context()).await.unwrap();
    assert_eq!(output.data["timedOut"], true);
    let text = output.content.to_text();
    assert!(text.contains("[stopped after 0 s") && text.contains("not everything"), "{text}");
}

/// Signals that it was called, and answers when released.
struct Slow {
    asked: tokio::sync::Notify,
    let_go: std::sync::Mutex<std::sync::mpsc::Receiver<()>>,
}

impl ReadScope for Slow {
    fn may_read(&self, _path: &Path) -> bool {
        self.asked.notify_one();
        self.let_go.lock().unwrap().recv().ok();
        true
    }
}

#[tokio::test]
async fn hanging_disk_does_not_block_the_call() {
    let mut rig = Rig::new(&[("a.txt", "x\n")]);
    let (let_go, receiver) = std::sync::mpsc::channel();
    let slow = Arc::new(Slow { asked: tokio::sync::Notify::new(), let_go: std::sync::Mutex::new(receiver) });
    rig.scope = Some(Arc::clone(&slow) as Arc<dyn ReadScope>);
    let cx = rig.context();
    let (tool, input, cancel) = (grep(), json!({"pattern": "x"}), cx.cancel.clone());
    let call = rig.run(&tool, &input, cx);
    let cancelled = async {
        slow.asked.notified().await;
        cancel.cancel();
    };
    let (result, ()) = tokio::join!(call, cancelled);
    assert_eq!(result.unwrap_err().kind, ErrorKind::Interrupted);
    drop(let_go);
}

#[tokio::test]
async fn rendered_matches_are_grouped_by_file() {
    let rig = Rig::new(&[("a.txt", "one\nx\nthree\n"), ("b.txt", "x\n")]);
    let input = json!({"pattern": "x", "output_mode": "content", "-C": 1});
    let rendered = rig.run(&grep(), &input, rig.context()).await.unwrap().rendering.make();
    assert_eq!(rendered.headline, "2 matches in 2 files");
    let lines: Vec<(LineStyle, &str)> = rendered.lines.iter().map(|it| (it.style, &*it.text)).collect();
    assert_eq!(
        lines,
        [
            (LineStyle::Hunk, "a.txt"),
            (LineStyle::Dim, "  1  one"),
            (LineStyle::Plain, "  2  x"),
            (LineStyle::Dim, "  3  three"),
            (LineStyle::Hunk, "b.txt"),
            (LineStyle::Plain, "  1  x"),
        ]
    );
}

#[test]
fn grep_description_matches_snapshot() {
    let tool = grep();
    let spec = tool.spec();
    insta::assert_json_snapshot!(json!({"description": spec.description, "input": spec.input_schema}));
}
