//! HTTP hooks with a loopback server controlled by the test.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "test code")]

use crate::common;

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use common::{Rig, with};
use haft_hooks::{HookDecision, HookRunResult};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

/// Sends the same bytes to every request and records the requests.
struct Server {
    url: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// `answer` is the raw response; `None` for no response.
    async fn answering(answer: Option<Vec<u8>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (answer, seen) = (answer.clone(), Arc::clone(&seen));
                tokio::spawn(async move {
                    let request = read_request(&mut stream).await;
                    seen.lock().unwrap().push(request);
                    match answer {
                        Some(answer) => {
                            let _ = stream.write_all(&answer).await;
                            let _ = stream.shutdown().await;
                        }
                        None => std::future::pending().await,
                    }
                });
            }
        });
        Self { url, requests }
    }

    async fn saying(status: &str, body: &str) -> Self {
        let length = body.len();
        let answer =
            format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}");
        Self::answering(Some(answer.into_bytes())).await
    }

    fn hook(&self) -> Value {
        json!({"type": "http", "url": self.url, "timeout": 60})
    }
}

async fn read_request(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length =
                head.lines().find_map(|it| it.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
            if length.unwrap_or(0) <= body.len() {
                return text;
            }
        }
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return text,
            Ok(read) => bytes.extend_from_slice(&buffer[..read]),
        }
    }
}

#[tokio::test]
async fn http_hook_decides_only_by_json_in_successful_response() {
    let rig = Rig::default();
    let deny = r#"{"hookSpecificOutput":{"permissionDecision":"deny","permissionDecisionReason":"server"}}"#;
    let redirect = "302 Found\r\nlocation: http://127.0.0.1:1/";
    for (status, body, want) in [
        ("200 OK", deny, "said no"),
        ("201 Created", r#"{"decision":"block","reason":"server"}"#, "said no"),
        ("204 No Content", "", "ran"),
        ("200 OK", "{}", "ran"),
        ("200 OK", "fine", "ran"),
        ("200 OK", "{broken", "broke"),
        ("500 Internal Server Error", deny, "broke"),
        ("403 Forbidden", deny, "broke"),
        (redirect, "", "broke"),
    ] {
        let server = Server::saying(status, body).await;
        let outcome = rig.ask(&rig.gate(with(server.hook(), "on_error", "open"))).await;
        let got = match &outcome.reports[0].happened {
            HookRunResult::Ran => "ran",
            HookRunResult::SaidNo => "said no",
            HookRunResult::Broke { .. } => "broke",
            HookRunResult::InBackground => "later",
        };
        assert_eq!(got, want, "{status} {body}: {:?}", outcome.reports[0]);
        assert_eq!(
            matches!(outcome.decision, HookDecision::Block { .. }),
            want == "said no",
            "{status} {body}"
        );
        let closed = rig.ask(&rig.gate(server.hook())).await;
        assert_eq!(closed.decision == HookDecision::NoOpinion, want == "ran", "{status} {body}");
    }
}

#[tokio::test]
async fn http_hook_headers_contain_only_allowed_variables() {
    let mut rig = Rig::default();
    rig.ports.environment.set = vec![
        ("TOKEN".into(), "secret".into()),
        ("OTHER".into(), "hidden".into()),
        ("THIRD".into(), "more".into()),
    ];
    rig.ports.http.allowed_env_vars = Some(vec!["TOKEN".into(), "OTHER".into()]);
    let server = Server::saying("200 OK", "{}").await;
    let headers = json!({"Authorization": "Bearer $TOKEN", "X-Other": "<${OTHER}>", "X-Third": "<$THIRD>"});
    let hook = with(with(server.hook(), "headers", headers), "allowedEnvVars", json!(["TOKEN", "THIRD"]));
    let input = rig.pre("Bash", json!({"command": "ls"}));
    assert_eq!(rig.gate(hook).run(&input).await.reports[0].happened, HookRunResult::Ran);
    let request = server.requests.lock().unwrap()[0].clone();
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    let head = head.to_lowercase();
    assert!(head.starts_with("post /hook http/1.1"), "{head}");
    for line in
        ["authorization: bearer secret", "x-other: <>", "x-third: <>", "content-type: application/json"]
    {
        assert!(head.lines().any(|it| it == line), "{line}: {head}");
    }
    assert_eq!(serde_json::from_str::<Value>(body).unwrap(), input.to_json());
}

#[tokio::test]
async fn http_hook_with_disallowed_url_is_not_requested() {
    let mut rig = Rig::default();
    let server = Server::saying("200 OK", "{}").await;
    for (pattern, asked) in [("http://127.0.0.1:*/hook", true), ("https://hooks.example/*", false)] {
        rig.ports.http.allowed_urls = Some(vec![pattern.to_owned()]);
        let before = server.requests.lock().unwrap().len();
        let outcome = rig.ask(&rig.gate(server.hook())).await;
        assert_eq!(outcome.decision == HookDecision::NoOpinion, asked, "{pattern}");
        assert_eq!(server.requests.lock().unwrap().len() - before, usize::from(asked), "{pattern}");
    }
    rig.ports.http.allowed_urls = None;
    for url in ["file:///etc/passwd", "not a url"] {
        let outcome = rig.ask(&rig.gate(json!({"type": "http", "url": url}))).await;
        assert!(matches!(outcome.decision, HookDecision::Block { .. }), "{url}");
    }
}

#[tokio::test]
async fn unreachable_http_hook_is_a_failed_gate() {
    let rig = Rig::default();
    let silent = Server::answering(None).await;
    let started = Instant::now();
    let outcome = rig.ask(&rig.gate(with(silent.hook(), "timeout", 0.3))).await;
    assert!(matches!(outcome.decision, HookDecision::Block { .. }));
    assert!(outcome.reports[0].notice().unwrap().contains("within 0.3 s"));
    assert!(started.elapsed() < Duration::from_secs(60));
    // An unused port.
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let outcome = rig.ask(&rig.gate(json!({"type": "http", "url": format!("http://{free}/")}))).await;
    assert!(outcome.reports[0].notice().unwrap().contains("refused"), "{:?}", outcome.reports[0]);
    let half =
        Server::answering(Some(b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n{\"decision\":".to_vec()))
            .await;
    let outcome = rig.ask(&rig.gate(half.hook())).await;
    assert!(matches!(outcome.reports[0].happened, HookRunResult::Broke { .. }));
}

#[tokio::test]
async fn http_hook_response_is_bounded() {
    let rig = Rig::default();
    let body = "x".repeat(9 << 20);
    let server = Server::saying("200 OK", &body).await;
    let outcome = rig.ask(&rig.gate(server.hook())).await;
    assert!(outcome.reports[0].notice().unwrap().contains("8 MiB"));
}
