//! Searches against servers that respond as the services document.

use crate::{
    shell_rig::call,
    web_rig::{Site, reply, reply_with},
};

use std::sync::Arc;

use haft_builtin_tools::web_search::{
    AdapterKind, SearchAdapter, SearchAdapterConfig, SearchServices, WebSearch,
};
use haft_tool::{CallContext, DynTool, erase};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;

fn tool(kind: AdapterKind, base: &str) -> Arc<dyn DynTool> {
    let config = SearchAdapterConfig { kind, secret: "the-secret".into(), base: Some(base.into()) };
    let provider = Arc::new(SearchAdapter::new(config).unwrap());
    erase(WebSearch::new(SearchServices { provider: Some(provider), most: None }))
}

async fn said(tool: &Arc<dyn DynTool>, input: Value) -> String {
    match call(tool, input, CallContext::detached("call_1", std::path::Path::new("/"))).await {
        Ok(output) => output.content.to_text(),
        Err(error) => format!("{}: {}", error.kind.name(), error.message),
    }
}

#[test]
fn web_search_texts_match_snapshot() {
    let tool = erase(WebSearch::new(SearchServices::default()));
    let spec = tool.spec();
    insta::assert_json_snapshot!(json!({
        "name": tool.name(), "description": spec.description, "input": spec.input_schema }));
}

/// Parts of the request a service requires, and its response.
fn service(kind: AdapterKind) -> (&'static [&'static str], Value) {
    let hits = |fields: Value| {
        let mut hit = json!({"title": "A <b>title</b> &amp; more", "url": "https://docs.example.com/a"});
        hit.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let other = json!({"title": "Other", "url": "https://other.test/b"});
        let evil = json!({"title": "Evil", "url": "javascript:alert(1)"});
        json!([hit, other, evil])
    };
    match kind {
        AdapterKind::Brave => (
            &["get /res/v1/web/search?q=rust+traits&count=10", "x-subscription-token: the-secret"],
            json!({"web": {"results": hits(json!({"description": "a quote", "page_age": "2026-01-02"}))}}),
        ),
        AdapterKind::Tavily => (
            &["post /search ", "authorization: bearer the-secret", "\"query\":\"rust traits\""],
            json!({"results": hits(json!({"content": "a quote", "published_date": "2026-01-02"}))}),
        ),
        AdapterKind::Exa => (
            &["post /search ", "x-api-key: the-secret", "\"numresults\":10"],
            json!({"results": hits(json!({"text": "a quote", "publishedDate": "2026-01-02"}))}),
        ),
        AdapterKind::Kagi => (
            &["get /api/v0/search?q=rust+traits&limit=10", "authorization: bot the-secret"],
            json!({"data": hits(json!({"t": 0, "snippet": "a quote", "published": "2026-01-02"}))}),
        ),
        AdapterKind::SearXng => (
            &["get /search?q=rust+traits&format=json"],
            json!({"results": hits(json!({"content": "a quote", "publishedDate": "2026-01-02"}))}),
        ),
    }
}

/// Answers every request with one JSON text and records the request bodies.
async fn answering(
    status: u16,
    headers: &'static [(&'static str, &'static str)],
    body: Value,
) -> (Site, Arc<std::sync::Mutex<String>>) {
    let seen = Arc::new(std::sync::Mutex::new(String::new()));
    let note = Arc::clone(&seen);
    let site = Site::with(Arc::new(move |head: String, mut stream| {
        let (note, body) = (Arc::clone(&note), body.to_string());
        Box::pin(async move {
            let lower = head.to_ascii_lowercase();
            let length =
                lower.split("content-length: ").nth(1).and_then(|it| it.split("\r\n").next()?.parse().ok());
            let mut asked = vec![0; length.unwrap_or(0)];
            tokio::io::AsyncReadExt::read_exact(&mut stream, &mut asked).await.ok();
            *note.lock().unwrap() =
                format!("{lower}{}", String::from_utf8_lossy(&asked).to_ascii_lowercase());
            stream.write_all(&reply_with(status, headers, body.as_bytes())).await.ok();
        })
    }))
    .await;
    (site, seen)
}

#[tokio::test]
async fn each_service_gets_its_own_request_format() {
    for kind in AdapterKind::ALL {
        let (wants, answer) = service(kind);
        let (site, seen) = answering(200, &[], answer).await;
        let tool = tool(kind, &site.url(""));
        let text = said(&tool, json!({"query": "rust traits"})).await;
        let asked = seen.lock().unwrap().clone();
        for want in wants {
            assert!(asked.contains(want), "{kind:?}: {want} is not in {asked}");
        }
        for want in ["1. A title & more (2026-01-02)", "https://docs.example.com/a", "a quote", "2. Other"] {
            assert!(text.contains(want), "{kind:?}: {text}");
        }
        assert!(!text.contains("javascript"), "{text}");
        let only = said(&tool, json!({"query": "rust traits", "allowed_domains": ["example.com"]})).await;
        assert!(
            only.contains("docs.example.com") && !only.contains("other.test") && only.contains("left out"),
            "{only}"
        );
        assert!(seen.lock().unwrap().contains("example.com"), "{kind:?} is told the domains");
        let without = said(&tool, json!({"query": "rust traits", "blocked_domains": ["example.com"]})).await;
        assert!(!without.contains("docs.example.com") && without.contains("other.test"), "{without}");
    }
}

#[tokio::test]
async fn search_errors_are_reported_without_the_key() {
    for (status, headers, body, want) in [
        (401, &[][..], json!({"error": "bad key the-secret"}), "refuses the key or the request: 401"),
        (429, &[("Retry-After", "30")], json!({}), "Try again in 30 s"),
        (402, &[], json!({}), "enough questions"),
        (500, &[], json!({}), "did not answer: 500"),
        (200, &[], json!({"web": {"results": []}}), "Nothing was found"),
        (200, &[], json!("nonsense"), "brave did not answer: its answer has another form than expected"),
        (302, &[("Location", "https://evil.test/")], json!({}), "did not answer: 302"),
    ] {
        let (site, _) = answering(status, headers, body).await;
        let text = said(&tool(AdapterKind::Brave, &site.url("")), json!({"query": "xx"})).await;
        assert!(text.contains(want) && !text.contains("the-secret"), "{status}: {text}");
    }
    let gone = said(&tool(AdapterKind::Exa, "http://127.0.0.1:1/"), json!({"query": "xx"})).await;
    assert!(gone.contains("exa did not answer"), "{gone}");
    let nobody = erase(WebSearch::new(SearchServices::default()));
    let text = said(&nobody, json!({"query": "xx"})).await;
    assert!(text.contains("BRAVE_API_KEY") && text.contains("SEARXNG_URL"), "{text}");
    for (input, want) in [
        (json!({"query": "x"}), "query"),
        (json!({"query": "xx", "allowed_domains": ["a.test"], "blocked_domains": ["b.test"]}), "not both"),
        (json!({"query": "xx", "allowed_domains": ["https://a.test/"]}), "is no domain"),
    ] {
        let text = said(&nobody, input).await;
        assert!(text.starts_with("invalid_input") && text.contains(want), "{text}");
    }
}

/// A documented error of a service: status, headers, body, and the text the model reads.
type Failure = (u16, &'static [(&'static str, &'static str)], Value, &'static str);

fn failures(kind: AdapterKind) -> Vec<Failure> {
    let brave = |status: u16, code: &str, detail: &str| {
        json!({"type": "ErrorResponse", "time": 1, "error":
            {"id": "x", "status": status, "code": code, "detail": detail, "meta": {}}})
    };
    let tavily = |text: &str| json!({"detail": {"error": text}});
    let exa = |text: &str, tag: &str| json!({"requestId": "r", "error": text, "tag": tag});
    let kagi = |code: u32, text: &str| {
        json!({"meta": {"id": "i", "node": "n", "ms": 1}, "data": null,
            "error": [{"code": code, "msg": text, "ref": null}]})
    };
    match kind {
        AdapterKind::Brave => vec![
            (422, &[], brave(422, "SUBSCRIPTION_TOKEN_INVALID", "the-secret is no token"), "brave refuses"),
            (
                429,
                &[("X-RateLimit-Reset", "7, 1419704")],
                brave(429, "RATE_LIMITED", "Request rate limit exceeded for plan."),
                "Try again in 7 s",
            ),
            (200, &[], json!({"type": "search", "query": {"original": "xx"}}), "Nothing was found"),
        ],
        AdapterKind::Tavily => vec![
            (401, &[], tavily("Unauthorized: missing or invalid API key."), "tavily refuses"),
            (429, &[("Retry-After", "60")], tavily("excessive requests"), "Try again in 60 s"),
            (432, &[], tavily("This request exceeds your plan's set usage limit."), "enough questions"),
            (433, &[], tavily("This request exceeds the pay-as-you-go limit."), "enough questions"),
            (200, &[], json!({"query": "xx", "results": null}), "another form"),
        ],
        AdapterKind::Exa => vec![
            (401, &[], exa("Invalid API key", "INVALID_API_KEY"), "exa refuses"),
            (402, &[], exa("You have exceeded your credits limit", "NO_MORE_CREDITS"), "enough questions"),
            (429, &[], json!({"error": "You've exceeded your Exa rate limit"}), "enough questions"),
            (200, &[], json!({"requestId": "r"}), "another form"),
        ],
        AdapterKind::Kagi => vec![
            (401, &[], kagi(2, "Unauthorized"), "kagi refuses the key or the request: 401"),
            (200, &[], kagi(101, "Insufficient credit to perform this request."), "Insufficient credit"),
            (429, &[], kagi(1, "Too many requests"), "enough questions"),
        ],
        AdapterKind::SearXng => vec![
            (403, &[], json!("Forbidden"), "`search.formats` with json"),
            (429, &[], json!("Too Many Requests"), "enough questions"),
            (
                200,
                &[],
                json!({"results": [], "unresponsive_engines": [["google", "timeout"], ["bing", "CAPTCHA"]]}),
                "its engines did not answer: google (timeout), bing (CAPTCHA)",
            ),
            (200, &[], json!({"results": [], "unresponsive_engines": []}), "Nothing was found"),
        ],
    }
}

/// Every service with its documented errors, and with undocumented ones.
#[tokio::test]
async fn documented_service_errors_are_explained() {
    for kind in AdapterKind::ALL {
        let mut rows = failures(kind);
        rows.extend([
            (500, &[][..], json!({"error": "the-secret"}), "did not answer: 500"),
            (503, &[("Retry-After", "5")], json!({}), "did not answer: 503"),
            (200, &[], json!([]), "another form"),
            (200, &[], json!(null), "another form"),
        ]);
        for (status, headers, body, want) in rows {
            let (site, _) = answering(status, headers, body.clone()).await;
            let text = said(&tool(kind, &site.url("")), json!({"query": "xx"})).await;
            assert!(text.contains(want), "{kind:?} {status} {body}: {text}");
            // The URL of the user's own server is not secret.
            let hides = kind == AdapterKind::SearXng || !text.contains("the-secret");
            assert!(hides, "{kind:?} {status}: {text}");
        }
        // Not JSON, truncated, or much too long.
        for bytes in [
            reply(200, "text/html", b"<html>Just a moment...</html>"),
            b"HTTP/1.1 200 X\r\nContent-Length: 900\r\n\r\n{\"results\": [".to_vec(),
            reply(200, "application/json", &vec![b' '; 5 << 20]),
        ] {
            let bytes = Arc::new(bytes);
            let site = Site::with(Arc::new(move |_head: String, mut stream| {
                let bytes = Arc::clone(&bytes);
                Box::pin(async move {
                    stream.write_all(&bytes).await.ok();
                    stream.shutdown().await.ok();
                })
            }))
            .await;
            let text = said(&tool(kind, &site.url("")), json!({"query": "xx"})).await;
            assert!(text.starts_with("failed: ") && text.contains("did not answer: "), "{kind:?}: {text}");
        }
    }
}

/// Returns why a strict service rejects a request: it answers 400 to any undocumented parameter.
fn objection(kind: AdapterKind, asked: &str) -> Option<String> {
    let (head, body) = asked.split_once("\r\n\r\n")?;
    let mut words = head.lines().next()?.split(' ');
    let (method, target) = (words.next()?, words.next()?);
    let url = url::Url::parse("http://x").unwrap().join(target).unwrap();
    let query: Vec<(String, String)> = url.query_pairs().into_owned().collect();
    let header = |name: &str| {
        let mut lines = head.lines().skip(1).filter_map(|it| it.split_once(": "));
        lines.find(|it| it.0.eq_ignore_ascii_case(name)).map(|it| it.1.to_owned())
    };
    let wrong = |what: &str| Some(format!("{what} in {asked}"));
    let (want_method, path, key, value, fields): (_, _, _, _, &[&str]) = match kind {
        AdapterKind::Brave => {
            ("GET", "/res/v1/web/search", "x-subscription-token", "the-secret", &["q", "count"])
        }
        AdapterKind::Tavily => (
            "POST",
            "/search",
            "authorization",
            "Bearer the-secret",
            &["query", "max_results", "include_domains", "exclude_domains"],
        ),
        AdapterKind::Exa => (
            "POST",
            "/search",
            "x-api-key",
            "the-secret",
            &["query", "numResults", "contents", "includeDomains", "excludeDomains"],
        ),
        AdapterKind::Kagi => ("GET", "/api/v0/search", "authorization", "Bot the-secret", &["q", "limit"]),
        AdapterKind::SearXng => ("GET", "/search", "accept", "application/json", &["q", "format"]),
    };
    if method != want_method || url.path() != path {
        return wrong("another method or path");
    }
    if header(key).as_deref() != Some(value) {
        return wrong("no key");
    }
    let given: Vec<String> = match method {
        "GET" if !body.is_empty() => return wrong("a body"),
        "GET" => query.iter().map(|it| it.0.clone()).collect(),
        _ if header("content-type").as_deref() != Some("application/json") => return wrong("no JSON"),
        _ => serde_json::from_str::<serde_json::Map<String, Value>>(body).ok()?.keys().cloned().collect(),
    };
    if let Some(unknown) = given.iter().find(|it| !fields.contains(&it.as_str())) {
        return wrong(unknown);
    }
    let question = query.iter().find(|it| it.0 == "q").map(|it| it.1.chars().count()).unwrap_or(0);
    (kind == AdapterKind::Brave && 400 < question).then(|| format!("a question of {question} characters"))
}

#[tokio::test]
async fn strict_services_accept_the_requests() {
    let domains: Vec<String> = (0..40).map(|it| format!("very-long-name-{it}.example.com")).collect();
    for kind in AdapterKind::ALL {
        for input in [
            json!({"query": "rust traits & \"quotes\" größe"}),
            json!({"query": "x".repeat(400)}),
            json!({"query": "many", "allowed_domains": domains}),
            json!({"query": "x".repeat(390), "blocked_domains": domains}),
        ] {
            let (_, answer) = service(kind);
            let site = Site::with(Arc::new(move |head: String, mut stream| {
                let answer = answer.to_string();
                Box::pin(async move {
                    let length = head.to_ascii_lowercase();
                    let length = length.split("content-length: ").nth(1);
                    let length = length.and_then(|it| it.split("\r\n").next()?.parse().ok()).unwrap_or(0);
                    let mut body = vec![0; length];
                    tokio::io::AsyncReadExt::read_exact(&mut stream, &mut body).await.ok();
                    let asked = format!("{head}{}", String::from_utf8_lossy(&body));
                    let bytes = match objection(kind, &asked) {
                        Some(why) => reply(400, "text/plain", why.as_bytes()),
                        None => reply(200, "application/json", answer.as_bytes()),
                    };
                    stream.write_all(&bytes).await.ok();
                })
            }))
            .await;
            let text = said(&tool(kind, &site.url("")), input.clone()).await;
            let fine = text.starts_with("Results for") || text.starts_with("Nothing was found");
            assert!(fine, "{kind:?} {input}: {text}");
        }
    }
}

#[tokio::test]
async fn searches_per_session_are_limited() {
    let site =
        Site::raw(vec![("/search?q=xx&format=json", reply(200, "application/json", br#"{"results": []}"#))])
            .await;
    let config = SearchAdapterConfig { kind: AdapterKind::SearXng, secret: site.url(""), base: None };
    let provider = Arc::new(SearchAdapter::new(config).unwrap());
    let tool = erase(WebSearch::new(SearchServices { provider: Some(provider), most: Some(2) }));
    for want in ["Nothing was found", "Nothing was found", "has made 2 searches"] {
        let text = said(&tool, json!({"query": "xx"})).await;
        assert!(text.contains(want), "{text}");
    }
    assert_eq!(site.requests(), 2);
}
