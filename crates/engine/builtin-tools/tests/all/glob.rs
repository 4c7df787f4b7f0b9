//! Glob, tested through the tool contract.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "test code")]

use crate::finding_rig;

use std::{
    ffi::OsStr,
    fs,
    os::unix::{ffi::OsStrExt, fs::symlink},
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use finding_rig::Rig;
use haft_builtin_tools::{SearchToolSettings, glob::Glob};
use haft_tool::{DynTool, erase};
use serde_json::{Value, json};

fn glob() -> Arc<dyn DynTool> {
    erase(Glob::default())
}

fn age(rig: &Rig, path: &str, seconds: u64) {
    let file = fs::File::options().write(true).open(rig.ws.join(path)).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000 - seconds)).unwrap();
}

async fn check(rig: &Rig, pattern: &str, want: &str) {
    let text = rig.text(&glob(), json!({ "pattern": pattern })).await;
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines.join(" "), want, "{pattern}");
}

#[tokio::test]
async fn glob_finds_names_by_pattern() {
    let rig = Rig::new(&[
        ("README.md", ""),
        (".env", ""),
        ("src/main.rs", ""),
        ("src/deep/er/lib.rs", ""),
        ("target/x.rs", ""),
        (".gitignore", "target"),
        (".git/HEAD", ""),
        ("sub/.git/HEAD", ""),
        ("sub/a.rs", ""),
    ]);
    for (pattern, want) in [
        ("*.rs", "src/deep/er/lib.rs src/main.rs sub/a.rs target/x.rs"),
        ("src/**", "src/deep/er/lib.rs src/main.rs"),
        ("src/*.rs", "src/main.rs"),
        ("./*", ".env .gitignore README.md"),
        ("{src,sub}/*.rs", "src/main.rs sub/a.rs"),
        (".git/*", ".git/HEAD"),
        ("**/.git/HEAD", ".git/HEAD sub/.git/HEAD"),
        ("{src/deep,src}/**/*.rs", "src/deep/er/lib.rs src/main.rs"),
        ("HEAD", "No files match HEAD; not entered: 2 version control"),
        ("src", "No files match src. It is a directory: use LS, or src/**; not entered: 2 version control"),
        ("apps/**", "No files match apps/**: there is no directory apps"),
        (
            "[a",
            "error: `[a` is no usable pattern: error parsing glob '[a': unclosed character class; missing ']'",
        ),
    ] {
        check(&rig, pattern, want).await;
    }
}

#[tokio::test]
async fn glob_lists_the_newest_hundred_files() {
    let rig = Rig::new(&[]);
    for index in 0..130_u64 {
        rig.write(&format!("d{}/f{index}.txt", index % 3), "");
        age(&rig, &format!("d{}/f{index}.txt", index % 3), index);
    }
    let output = rig.run(&glob(), &json!({"pattern": "**/*.txt"}), rig.context()).await.unwrap();
    let text = output.content.to_text();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 101);
    assert_eq!(&lines[..3], ["d0/f0.txt", "d1/f1.txt", "d2/f2.txt"]);
    assert_eq!(
        lines[100],
        "[100 of 130 files, most recently changed first; narrow the pattern or the path to see others]"
    );
    assert_eq!(output.data["numFiles"], 100);
    assert_eq!(output.data["totalMatches"], 130);
    assert_eq!(output.data["truncated"], true);
    assert_eq!(output.data["countIsComplete"], true);
    assert!(output.data.get("timedOut").is_none());
    assert!(output.rendering.make().headline.contains("130 files"));
}

#[tokio::test]
async fn pattern_declares_the_directories_it_reads() {
    let rig = Rig::new(&[("src/a.rs", "")]);
    let out = rig.ws.with_file_name("out");
    fs::create_dir(&out).unwrap();
    fs::write(out.join("secret.txt"), "").unwrap();
    for (input, want) in [
        (json!({"pattern": "*.rs"}), vec![rig.ws.clone()]),
        (json!({"pattern": "../**"}), vec![rig.ws.parent().unwrap().to_owned()]),
        (json!({"pattern": "../out/*"}), vec![out.clone()]),
        (json!({"pattern": "~/.ssh/*"}), vec![rig.home.join(".ssh")]),
        (json!({"pattern": "{src,../out}/*"}), vec![rig.ws.join("src"), out.clone()]),
        (json!({"pattern": "*", "path": "src"}), vec![rig.ws.join("src")]),
        (json!({"pattern": "*", "path": "~"}), vec![rig.home.clone()]),
        (json!({"pattern": "/etc/*", "path": "src"}), vec!["/etc".into()]),
    ] {
        assert_eq!(rig.reach(&glob(), &input), want, "{input}");
    }
    assert_eq!(
        rig.text(&glob(), json!({"pattern": "../out/*"})).await,
        out.join("secret.txt").to_str().unwrap()
    );
}

#[tokio::test]
async fn symbolic_links_are_listed_but_not_followed() {
    let mut rig = Rig::new(&[("a.txt", ""), ("secret/k.txt", "")]);
    let out = rig.ws.with_file_name("out");
    fs::create_dir(&out).unwrap();
    fs::write(out.join("secret.txt"), "").unwrap();
    symlink(&out, rig.ws.join("dir")).unwrap();
    symlink(".", rig.ws.join("loop")).unwrap();
    symlink("a.txt", rig.ws.join("l.txt")).unwrap();
    symlink("gone", rig.ws.join("broken.txt")).unwrap();
    symlink("secret/k.txt", rig.ws.join("k2.txt")).unwrap();
    check(&rig, "**/*.txt", "a.txt k2.txt l.txt secret/k.txt").await;
    rig.deny(&["secret"]);
    check(&rig, "**/*.txt", "a.txt l.txt").await;
    // A symbolic link named in the pattern is followed, its target is declared as an access, and results
    // keep the requested path.
    check(&rig, "dir/*", "dir/secret.txt").await;
    let denied_through = {
        rig.denied = Arc::new(vec![out.clone()]);
        rig.text(&glob(), json!({"pattern": "dir/*"})).await
    };
    assert_eq!(denied_through, "No files match dir/*");
}

#[tokio::test]
async fn file_names_with_special_bytes_are_distinguishable() {
    let rig = Rig::new(&[(r"\xffA.bin", ""), ("new\nline.bin", "")]);
    fs::write(rig.ws.join(OsStr::from_bytes(b"\xffA.bin")), "").unwrap();
    fs::write(rig.ws.join("cafe\u{301}.bin"), "").unwrap();
    fs::write(rig.ws.join("caf\u{e9}.bin"), "").unwrap();
    check(&rig, "*.bin", "$'\\xffA.bin' $'new\\nline.bin' \\xffA.bin cafe\u{301}.bin caf\u{e9}.bin").await;
}

#[tokio::test]
async fn brace_bombs_are_harmless() {
    let rig = Rig::new(&[("abababababababababababab", "")]);
    let started = Instant::now();
    check(&rig, &"{a,b}".repeat(24), &"ab".repeat(12)).await;
    let text = rig.text(&glob(), json!({"pattern": "{a/,b/}".repeat(24)})).await;
    assert!(text.starts_with("error: ") && text.contains("more than 64 places"), "{text}");
    assert!(started.elapsed() < Duration::from_secs(60));
}

#[tokio::test]
async fn settings_control_hidden_and_ignored_files() {
    let rig =
        Rig::new(&[("a.rs", ""), (".b.rs", ""), ("t/c.rs", ""), (".gitignore", "t"), (".git/HEAD", "")]);
    for (hidden, ignored, want) in [
        (true, true, ".b.rs a.rs t/c.rs"),
        (false, true, "a.rs t/c.rs"),
        (true, false, ".b.rs a.rs"),
        (false, false, "a.rs"),
    ] {
        let tool = erase(Glob::new(SearchToolSettings {
            glob_hidden: hidden,
            glob_ignored: ignored,
            ..SearchToolSettings::default()
        }));
        let text = rig.text(&tool, json!({"pattern": "**/*.rs"})).await;
        let mut lines: Vec<&str> = text.lines().collect();
        lines.sort_unstable();
        assert_eq!(lines.join(" "), want);
    }
}

#[tokio::test]
async fn timeout_and_interrupt_return_partial_results() {
    let rig = Rig::new(&[("a.rs", "")]);
    let tool =
        erase(Glob::new(SearchToolSettings { timeout: Duration::ZERO, ..SearchToolSettings::default() }));
    let output = rig.run(&tool, &json!({"pattern": "*.rs"}), rig.context()).await.unwrap();
    assert_eq!(output.data["timedOut"], true);
    assert_eq!(output.data["countIsComplete"], false);
    assert!(output.content.to_text().contains("[stopped after 0 s: there may be more"));
    let cx = rig.context();
    cx.cancel.cancel();
    let text = rig.run(&glob(), &json!({"pattern": "*.rs"}), cx).await.map(|it| it.content.to_text());
    assert!(
        text.as_ref().map_or_else(
            |err| err.message.contains("interrupted"),
            |text| text.contains("a.rs") || text.contains("[interrupted")
        ),
        "{text:?}"
    );
}

#[tokio::test]
async fn glob_rejects_invalid_paths_and_patterns() {
    let rig = Rig::new(&[("a.rs", "")]);
    for (input, want) in [
        (json!({"pattern": "*", "path": "gone"}), "gone does not exist"),
        (json!({"pattern": "*", "path": "a.rs"}), "a.rs is a file"),
        (json!({"pattern": "*", "path": "/proc"}), "/proc cannot be searched: it belongs to the kernel"),
        (json!({"pattern": ""}), "the path is empty"),
        (json!({"pattern": "a\u{0}b"}), "NUL"),
        (json!({"pattern": "*/../x"}), "cannot follow a wildcard"),
        (json!({"pattern": "*", "colour": 1}), "colour"),
    ] {
        let text = rig.text(&glob(), input.clone()).await;
        assert!(text.starts_with("error: ") && text.contains(want), "{input}: {text}");
    }
}

#[test]
fn glob_description_matches_snapshot() {
    let tool = glob();
    let spec = tool.spec();
    insta::assert_json_snapshot!(json!({
        "description": spec.description,
        "input": spec.input_schema,
        "output": tool.output_schema().unwrap_or(Value::Null),
    }));
}
