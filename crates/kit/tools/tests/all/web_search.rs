//! Searching, against servers that answer as the services document.

use crate::{
    shell_rig::call,
    web_rig::{Site, reply, reply_with},
};

use std::sync::Arc;

use haft_tool::{CallContext, DynTool, erase};
use haft_tools::web_search::{AdapterKind, SearchAdapter, SearchAdapterConfig, SearchServices, WebSearch};
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
fn what_the_model_is_told() {
    let tool = erase(WebSearch::new(SearchServices::default()));
    let spec = tool.spec();
    insta::assert_json_snapshot!(json!({
        "name": tool.name(), "description": spec.description, "input": spec.input_schema }));
}

/// What a service must be asked with, and what it answers.
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

/// Answers every request with one JSON text, and keeps the bodies that came.
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
async fn every_service_is_asked_in_its_own_form() {
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
async fn what_goes_wrong_is_said_and_no_key_is_shown() {
    for (status, headers, body, want) in [
        (401, &[][..], json!({"error": "bad key the-secret"}), "refuses the key or the request: 401"),
        (429, &[("Retry-After", "30")], json!({}), "Try again in 30 s"),
        (402, &[], json!({}), "enough questions"),
        (500, &[], json!({}), "did not answer: 500"),
        (200, &[], json!({"web": {"results": []}}), "Nothing was found"),
        (200, &[], json!("nonsense"), "Nothing was found"),
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

#[tokio::test]
async fn a_session_has_so_many_searches() {
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
