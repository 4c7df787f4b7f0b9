//! `haft view` as a server: who gets answers, how a browser treats them, and when it ends.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Stdio},
    time::Duration,
};

use haft_testkit::{MockModel, ReplyPiece, Script, Turn};
use serde_json::{Value, json};

use crate::{common::Haft, editor_kits, view::HOSTILE};

/// A running server and how to query it.
pub struct Served {
    child: Child,
    address: String,
    token: String,
    session: String,
    pub url: String,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Served {
    pub fn start(haft: &Haft, flags: &[&str]) -> Self {
        let mut command = haft.command();
        command.arg("view").args(flags).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
        let url = url.trim().to_owned();
        let (address, said) = url.strip_prefix("http://").unwrap().split_once("/#t=").unwrap();
        let (token, session) = said.split_once("&s=").unwrap_or((said, ""));
        Self { address: address.to_owned(), token: token.to_owned(), session: session.to_owned(), child, url }
    }

    /// Sends a raw request; returns the status and the rest of the response.
    fn raw(&self, request: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).ok();
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let status = answer.split(' ').nth(1).and_then(|it| it.parse().ok()).unwrap_or(0);
        (status, answer)
    }

    fn get(&self, path: &str) -> (u16, String) {
        let (address, token) = (&self.address, &self.token);
        self.raw(&format!(
            "GET {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n"
        ))
    }

    fn post(&self, path: &str, body: &Value) -> (u16, String) {
        let (address, token, body) = (&self.address, &self.token, body.to_string());
        self.raw(&format!(
            "POST {path} HTTP/1.1\r\nHost: {address}\r\nOrigin: http://{address}\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        ))
    }
}

/// A session with all kinds of entries; returns its log.
async fn session(haft: &Haft) -> PathBuf {
    haft.write("a.txt", "one\ntwo\n");
    let script = Script::from_turns([
        Turn::from_pieces([
            ReplyPiece::thinking("Let me **see** what is there."),
            ReplyPiece::text(format!(
                "# Plan\n\nFirst `look`, then *change*:\n\n- a\n- b\n\n```rust\nfn main() {{}}\n```\n\n{HOSTILE}"
            )),
            ReplyPiece::tool("Read", json!({"file_path": "a.txt"})),
            ReplyPiece::tool("Grep", json!({"pattern": HOSTILE})),
            ReplyPiece::tool("Glob", json!({"pattern": "**/*.txt"})),
        ]),
        Turn::tool("Edit", json!({"file_path": "a.txt", "old_string": "one", "new_string": "three"})),
        Turn::tool("Bash", json!({"command": "printf '\\033[32mgreen\\033[0m plain\\n'; sleep 0.2"})),
        Turn::tool("Bash", json!({"command": "rm -r a.txt"})),
        Turn::text("All done. The file says three now."),
    ]);
    let model = MockModel::start(script).await.unwrap();
    let ran = haft
        .async_command()
        .args(["-p", "Change one to three", "--permission-mode", "acceptEdits"])
        .args(["--allowedTools", "Bash(printf *)", "--disallowedTools", "Bash(rm *)"])
        .env("ANTHROPIC_BASE_URL", model.url())
        .stdin(Stdio::null())
        .output()
        .await
        .unwrap();
    assert_eq!(ran.status.code(), Some(3), "{}", String::from_utf8_lossy(&ran.stderr));
    crate::view::walk(&haft.home().join(".haft/projects")).remove(0)
}

#[tokio::test]
async fn only_its_own_page_with_the_token_is_answered() {
    let haft = Haft::new();
    let log = session(&haft).await;
    let served = Served::start(&haft, &["--no-open", &log.display().to_string()]);
    let (address, token, key) = (&served.address, &served.token, &served.session);
    assert_eq!(token.len(), 64);
    let port = address.rsplit_once(':').unwrap().1;
    let api = format!("/api/log/{key}");
    let bearer = format!("Authorization: Bearer {token}\r\n");
    let same = format!("Host: {address}\r\n");
    for (path, headers, want) in [
        ("/", same.clone(), 200),
        ("/app.js", same.clone(), 200),
        ("/../../etc/passwd", same.clone(), 404),
        (&api, format!("{same}{bearer}"), 200),
        (&api, format!("Host: localhost:{port}\r\n{bearer}"), 200),
        (&api, format!("Host: [::1]:{port}\r\n{bearer}"), 200),
        (&api, same.clone(), 403),
        (&api, format!("{same}Authorization: Bearer {}\r\n", "0".repeat(64)), 403),
        (&api, format!("{same}Authorization: Bearer {}\r\n", &token[..63]), 403),
        (&api, format!("{same}Authorization: Basic {token}\r\n"), 403),
        (&api, format!("{same}{bearer}{bearer}"), 403),
        (&api, format!("Host: evil.test\r\n{bearer}"), 403),
        (&api, format!("Host: evil.test:{port}\r\n{bearer}"), 403),
        (&api, format!("Host: 127.0.0.1\r\n{bearer}"), 403),
        (&api, format!("Host: 127.0.0.1.evil.test:{port}\r\n{bearer}"), 403),
        (&api, format!("Host: localhost.evil.test:{port}\r\n{bearer}"), 403),
        (&api, format!("Host: 127.0.0.1:{port}.evil.test\r\n{bearer}"), 403),
        (&api, format!("Host: localhost:{}\r\n{bearer}", port.parse::<u16>().unwrap() ^ 1), 403),
        (&api, format!("Host: [::1]\r\n{bearer}"), 403),
        (&api, format!("Host: [::ffff:127.0.0.1]:{port}\r\n{bearer}"), 403),
        (&api, format!("Host: 127.1:{port}\r\n{bearer}"), 403),
        (&api, format!("Host: 0.0.0.0:{port}\r\n{bearer}"), 403),
        (&api, format!("Host: user@{address}\r\n{bearer}"), 403),
        (&api, format!("{same}Host: evil.test\r\n{bearer}"), 403),
        (&api, format!("{same}X-Forwarded-Host: {address}\r\n"), 403),
        (&format!("{api}?token={token}"), same.clone(), 403),
        (&format!("/%61pi/log/{key}"), same.clone(), 404),
        (&format!("//api/log/{key}"), same.clone(), 404),
        (&format!("http://evil.test{api}"), format!("{same}{bearer}"), 403),
        (&format!("http://{address}{api}"), format!("{same}{bearer}"), 200),
        ("/", format!("Host: evil.test:{port}\r\n"), 403),
        (&api, format!("{same}{bearer}Origin: http://{address}\r\n"), 200),
        (&api, format!("{same}{bearer}Origin: http://evil.test\r\n"), 403),
        (&api, format!("{same}{bearer}Origin: null\r\n"), 403),
        (&api, format!("{same}{bearer}Origin: https://{address}\r\n"), 403),
        (&api, format!("{same}{bearer}Sec-Fetch-Site: cross-site\r\n"), 403),
        ("/api/log/0123456789abcdef01234567", format!("{same}{bearer}"), 404),
        ("/api/log/..%2f..%2fetc", format!("{same}{bearer}"), 404),
        (&format!("{api}/row/99999999"), format!("{same}{bearer}"), 200),
        (&format!("{api}/rows?from=18446744073709551615&count=5"), format!("{same}{bearer}"), 200),
        (&format!("{api}/pane/nonsense"), format!("{same}{bearer}"), 404),
    ] {
        let (status, answer) =
            served.raw(&format!("GET {path} HTTP/1.1\r\n{headers}Connection: close\r\n\r\n"));
        assert_eq!(status, want, "{path} {headers}\n{answer}");
        assert!(answer.contains("default-src 'none'; script-src 'self'"), "{answer}");
        assert!(answer.contains("nosniff") && answer.contains("no-referrer"), "{answer}");
        assert!(!answer.contains(token.as_str()), "{answer}");
    }
}

/// Other HTTP methods return no data, and no CORS header permits them.
#[tokio::test]
async fn no_other_method_brings_or_changes_anything() {
    let haft = Haft::new();
    let log = session(&haft).await;
    let served = Served::start(&haft, &["--no-open", &log.display().to_string()]);
    let (address, key) = (&served.address, &served.session);
    let api = format!("/api/log/{key}");
    let bearer = format!("Authorization: Bearer {}\r\n", served.token);
    let same = format!("Host: {address}\r\n");
    let evil = "Origin: http://evil.test\r\nAccess-Control-Request-Method: GET\r\n";
    for (method, origin, want) in [
        ("OPTIONS", evil.to_owned(), 403),
        ("OPTIONS", format!("Origin: http://{address}\r\n"), 405),
        ("DELETE", format!("Origin: http://{address}\r\n"), 405),
        ("PUT", String::new(), 403),
        ("TRACE", String::new(), 403),
        ("HEAD", String::new(), 200),
    ] {
        let asked = format!(
            "{method} {api} HTTP/1.1\r\n{same}{bearer}{origin}Content-Length: 0\r\nConnection: close\r\n\r\n"
        );
        let (status, answer) = served.raw(&asked);
        assert_eq!(status, want, "{method} {origin} {answer}");
        assert!(!answer.to_lowercase().contains("access-control-allow"), "{answer}");
        assert!(!answer.contains("Change one to three"), "{answer}");
    }
    let (status, _) = served.raw(&format!("HEAD {api} HTTP/1.1\r\n{same}Connection: close\r\n\r\n"));
    assert_eq!(status, 403);
    // Undo needs `--allow-undo`, which is accepted for loopback addresses only.
    let undo = format!("{api}/undo");
    assert_eq!(served.post(&undo, &json!({"entry": "x"})).0, 403);
    let (status, _) = served.raw(&format!(
        "POST {undo} HTTP/1.1\r\n{same}{bearer}Content-Type: application/json\r\nContent-Length: 2\r\nConnection: \
         close\r\n\r\n{{}}"
    ));
    assert_eq!(status, 403);
    let refused = haft.run(&["view", "--allow-undo", "--listen", "0.0.0.0:0", "--no-open"], "");
    assert!(!refused.status.success());
}

#[tokio::test]
async fn parts_of_a_session_are_told_and_a_change_is_taken_back() {
    let haft = Haft::new();
    let log = session(&haft).await;
    let served = Served::start(&haft, &["--no-open", "--allow-undo", &log.display().to_string()]);
    let api = format!("/api/log/{}", served.session);
    for (path, parts) in [
        ("", vec!["Change one to three", "\"undo\":true"]),
        (
            "/rows?from=0&count=100",
            vec!["class=\"row person\"", "<code>look</code>", "&lt;script&gt;", "denied"],
        ),
        ("/pane/timeline", vec!["s-run", "6 calls", "<table class=\"waterfall\""]),
        ("/pane/cost", vec!["From cache", "<rect class=\"c-"]),
        ("/pane/window", vec!["of a window of", "<path class=\"w-"]),
        ("/pane/permission", vec!["⊘ denied", "Bash(rm *)"]),
        ("/pane/files", vec!["a.txt", "<span class=\"removed\">-one</span>", "data-undo"]),
        ("/pane/agents", vec!["No other agent"]),
        ("/search?q=GREEN", vec!["\"row\":", "green"]),
        ("/search?q=%22three%22", vec!["\"hits\":["]),
    ] {
        let (status, answer) = served.get(&format!("{api}{path}"));
        assert_eq!(status, 200, "{path} {answer}");
        for part in parts {
            assert!(answer.contains(part), "{path} {part}\n{answer}");
        }
        assert!(!answer.contains("<script>") && !answer.contains("<img src=x"), "{answer}");
    }
    let (_, all) = served.get("/api/dashboard");
    for part in ["Cost per day", "Bash", "Denied, and what would help", "Slowest calls"] {
        assert!(all.contains(part), "{part}\n{all}");
    }
    // The headers contain the time.
    let body = |response: &str| response.split_once("\r\n\r\n").unwrap().1.to_owned();
    assert_eq!(body(&served.get("/api/dashboard").1), body(&all), "what is kept says the same");
    let (_, files) = served.get(&format!("{api}/pane/files"));
    let entry = files.split("data-undo=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    // A preview first, which changes nothing.
    let (status, plan) = served.get(&format!("{api}/undo/{entry}"));
    assert_eq!(status, 200, "{plan}");
    let plan: Value = serde_json::from_str(plan.split("\r\n\r\n").last().unwrap()).unwrap();
    assert_eq!(plan["steps"][0]["what"], "restore");
    assert!(plan["steps"][0]["path"].as_str().unwrap().ends_with("a.txt") && plan["conflicts"] == json!([]));
    let changed = std::fs::read_to_string(haft.ws().join("a.txt")).unwrap();
    assert!(changed.starts_with("three"), "{changed}");
    std::fs::write(haft.ws().join("a.txt"), "by hand").unwrap();
    let (_, plan) = served.get(&format!("{api}/undo/{entry}"));
    assert!(plan.contains("\"steps\":[]") && plan.contains("changed by somebody else since"), "{plan}");
    std::fs::write(haft.ws().join("a.txt"), changed).unwrap();
    let (status, told) = served.post(&format!("{api}/undo"), &json!({"entry": entry}));
    assert_eq!(status, 200, "{told}");
    assert_eq!(std::fs::read_to_string(haft.ws().join("a.txt")).unwrap(), "one\ntwo\n");
    assert_eq!(served.post(&format!("{api}/undo"), &json!({"entry": entry})).0, 409);
}

#[tokio::test]
async fn a_browser_shows_it_to_everybody() {
    let haft = Haft::new();
    let log = session(&haft).await;
    let Some(dir) = editor_kits::browser() else { return };
    let served = Served::start(&haft, &["--no-open", &log.display().to_string()]);
    let script = dir.join("page_live.mjs");
    std::fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/support/page_live.mjs"), &script)
        .unwrap();
    let mut node = std::process::Command::new("node");
    node.arg(script).arg(&served.url).arg(&log).env("HOME", haft.home());
    node.args(std::env::var_os("HAFT_PICTURES"));
    let checked = node.output().unwrap();
    let (said, noise) = (String::from_utf8_lossy(&checked.stdout), String::from_utf8_lossy(&checked.stderr));
    assert!(checked.status.success() && said.starts_with("fine"), "{said}{noise}");
}

/// A large log shows its last rows first; the rest is indexed once.
#[test]
fn the_end_of_a_large_log_comes_before_the_rest() {
    let haft = Haft::new();
    let line = |number: usize| {
        let text = format!("prompt number {number} {}", "x".repeat(4_000));
        json!({"type": "user", "uuid": number.to_string(), "sessionId": "s", "cwd": "/x",
            "timestamp": "2026-11-16T23:10:53.109Z", "message": {"role": "user", "content": text}})
        .to_string()
    };
    let lines: Vec<String> = (0..3_000).map(line).collect();
    haft.write("large.jsonl", &format!("{}\n", lines.join("\n")));
    let log = haft.ws().join("large.jsonl").display().to_string();
    let served = Served::start(&haft, &["--no-open", &log]);
    let api = format!("/api/log/{}", served.session);
    let (status, tail) = served.get(&format!("{api}/tail"));
    assert_eq!(status, 200, "{tail}");
    assert!(tail.contains("\"ready\":false") && tail.contains("prompt number 2999"), "{}", &tail[..300]);
    assert!(!tail.contains("prompt number 2000"), "only the end of it");
    assert!(served.get(&api).1.contains("\"rows\":3000"));
    assert!(served.get(&format!("{api}/tail")).1.contains("\"ready\":true"));
    // A later server uses the stored index.
    drop(served);
    let served = Served::start(&haft, &["--no-open", &log]);
    assert!(served.get(&format!("/api/log/{}/tail", served.session)).1.contains("\"ready\":true"));
}

#[test]
fn it_ends_when_nobody_looks() {
    let haft = Haft::new();
    let mut served = Served::start(&haft, &["--no-open", "--ends-after", "1"]);
    assert!(served.child.wait().unwrap().success());
}
