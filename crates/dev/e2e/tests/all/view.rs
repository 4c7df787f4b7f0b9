//! `haft view`: a session as a page and as a trace.

use haft_testkit::{MockModel, ReplyPiece, Script, Turn};
use serde_json::{Value, json};

use crate::{common::Haft, editor_kits};

/// Text with a script, a remote image, and closing tags.
pub const HOSTILE: &str = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'></pre></style>&amp;\u{1b}[31m javascript:alert(1)";

fn view(haft: &Haft, session: &str) -> (String, Value) {
    haft.ok(&["view", session, "--html", "page.html", "--perfetto", "trace.json"], "");
    let page = std::fs::read_to_string(haft.ws().join("page.html")).unwrap();
    let trace = std::fs::read_to_string(haft.ws().join("trace.json")).unwrap();
    (page, serde_json::from_str(&trace).unwrap())
}

/// Every tag and attribute of the page is on a fixed list.
fn check_markup(page: &str) {
    let body = page.split_once("</style>").unwrap().1;
    for tag in
        ["<script", "<img src=x", "onerror=alert(1)>", "<iframe", "</pre></style>", "href=\"javascript"]
    {
        assert!(!body.contains(tag), "{tag}");
    }
    assert!(!page.contains('\u{1b}'));
    assert!(page.contains("default-src 'none'; style-src 'sha256-"));
    assert_eq!(page.matches("<style>").count(), 1);
    for link in page.split("href=\"").skip(1) {
        assert!(link.starts_with('#'), "{}", &link[..20]);
    }
}

#[tokio::test]
async fn a_run_is_shown_with_calls_changes_times_and_cost() {
    let haft = Haft::new();
    haft.write("a.txt", "one\ntwo\n");
    let script = Script::from_turns([
        Turn::from_pieces([
            ReplyPiece::thinking("hm"),
            ReplyPiece::text(HOSTILE),
            ReplyPiece::tool("Read", json!({"file_path": "a.txt"})),
            ReplyPiece::tool("Grep", json!({"pattern": HOSTILE})),
        ]),
        Turn::tool("Edit", json!({"file_path": "a.txt", "old_string": "one", "new_string": HOSTILE})),
        Turn::tool("Bash", json!({"command": "rm -r a.txt"})),
        Turn::text("Done."),
    ]);
    let model = MockModel::start(script).await.unwrap();
    let ran = haft
        .async_command()
        .args(["-p", HOSTILE, "--permission-mode", "acceptEdits", "--disallowedTools", "Bash(rm *)"])
        .env("ANTHROPIC_BASE_URL", model.url())
        .stdin(std::process::Stdio::null())
        .output()
        .await
        .unwrap();
    assert_eq!(ran.status.code(), Some(3), "{}", String::from_utf8_lossy(&ran.stderr));
    haft.ok(&["view", "--html", "newest.html"], "");
    let logs: Vec<_> = walk(&haft.home().join(".haft/projects"));
    let (page, trace) = view(&haft, &logs[0].display().to_string());
    check_markup(&page);
    assert_eq!(page, std::fs::read_to_string(haft.ws().join("newest.html")).unwrap());
    for part in [
        "<span class=\"tool\">Edit</span>",
        "<span class=\"removed\">-one</span>",
        "&lt;script&gt;alert(1)&lt;/script&gt;",
        "haft undo ",
        "<dt>Denied by</dt><dd>rule</dd>",
        "⊘ denied",
        "4 calls",
        "4 requests, $0.",
        "<rect",
    ] {
        assert!(page.contains(part), "{part}\n{page}");
    }
    check_in_browser(&haft);
    let events = trace["traceEvents"].as_array().unwrap();
    let calls: Vec<&str> =
        events.iter().filter(|it| it["cat"] == "call").map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(calls.len(), 4, "{calls:?}");
    for stage in events.iter().filter(|it| it["cat"] == "stage") {
        assert!(0 <= stage["ts"].as_i64().unwrap() && 0 < stage["dur"].as_i64().unwrap(), "{stage}");
    }
}

/// The page in a real browser: no requests, no scripts from the text, no findings of axe, in light and
/// dark mode.
fn check_in_browser(haft: &Haft) {
    let Some(dir) = editor_kits::browser() else { return };
    let script = dir.join("page_check.mjs");
    let source = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/support/page_check.mjs");
    std::fs::copy(source, &script).unwrap();
    let profile = haft.home();
    let checked = std::process::Command::new("node")
        .arg(script)
        .arg(haft.ws().join("page.html"))
        .env("HOME", profile)
        .output()
        .unwrap();
    let (said, noise) = (String::from_utf8_lossy(&checked.stdout), String::from_utf8_lossy(&checked.stderr));
    assert!(checked.status.success() && said.trim() == "fine", "{said}{noise}");
}

#[test]
fn logs_that_are_cut_garbled_hostile_or_of_another_make_are_shown() {
    let haft = Haft::new();
    let head = |uuid: &str, kind: &str| json!({"type": kind, "uuid": uuid, "parentUuid": null, "sessionId": HOSTILE, "timestamp": HOSTILE, "cwd": HOSTILE, "version": "2"});
    let mut user = head("u", "user");
    user["message"] = json!({"role": "user", "content": HOSTILE});
    let mut call = head("a", "assistant");
    call["message"] = json!({"role": "assistant", "model": HOSTILE, "id": "m", "content": [
        {"type": "tool_use", "id": HOSTILE, "name": HOSTILE, "input": {"command": HOSTILE}}]});
    let mut result = head("r", "user");
    let picture = json!({"type": "image", "source": {"type": "base64", "media_type": "image/svg+xml", "data": HOSTILE}});
    result["message"] = json!({"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": HOSTILE, "content": [{"type": "text", "text": HOSTILE}, picture]}]});
    result["toolUseResult"] =
        json!({"filePath": HOSTILE, "structuredPatch": [{"lines": [HOSTILE, format!("+{HOSTILE}"), 7]}]});
    let title = json!({"type": "custom-title", "customTitle": HOSTILE, "sessionId": "x"});
    let lines = [user, call, result, title].map(|it| it.to_string()).join("\n");
    for (name, log) in [
        ("whole.jsonl", lines.clone()),
        ("garbled.jsonl", format!("{{\"type\":\u{0}\nnonsense\n{lines}\n[1,2\n")),
        ("cut.jsonl", lines[..lines.len() - 30].to_owned()),
        ("empty.jsonl", String::new()),
    ] {
        haft.write(name, &log);
        let (page, _) = view(&haft, name);
        check_markup(&page);
        assert_eq!(page.contains("&lt;script&gt;"), name != "empty.jsonl", "{name}");
    }
    let refused = haft.run(&["view", "nobody", "--html", "x.html"], "");
    assert_eq!(refused.status.code(), Some(2));
    assert_eq!(haft.run(&["view", "nobody", "--no-open"], "").status.code(), Some(2));
}

pub fn walk(dir: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|it| it.path());
    let found = entries.flat_map(|it| if it.is_dir() { walk(&it) } else { vec![it] });
    found.filter(|it| it.extension().is_some_and(|it| it == "jsonl")).collect()
}
