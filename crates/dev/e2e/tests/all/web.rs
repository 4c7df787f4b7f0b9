//! Web search: which service is queried, and which is not.
#![allow(clippy::unwrap_used, missing_docs, reason = "test code")]

use std::process::Stdio;

use haft_testkit::{MockModel, ReplyPiece, Script, Turn, UsageReply, signature_of};
use serde_json::{Value, json};

use crate::common::Haft;

/// A provider not known to offer search is not queried; the result names what to set. A provider for
/// which the user enabled it is queried, in a separate request.
#[tokio::test]
async fn only_a_provider_that_searches_is_asked_to() {
    for (settings, asked) in [(json!({}), false), (json!({"web": {"searchProvider": "model"}}), true)] {
        let haft = Haft::new();
        haft.write_home(".haft/settings.json", &settings.to_string());
        let search = Turn::tool("WebSearch", json!({"query": "rust traits"}));
        let turns = [search, Turn::text("Said."), Turn::text("Said."), Turn::text("Said.")];
        let model = MockModel::start(Script { strict: false, ..Script::from_turns(turns) }).await.unwrap();
        let ran = haft
            .async_command()
            .args(["-p", "Search.", "--allowedTools", "WebSearch", "--output-format", "json"])
            .env("ANTHROPIC_BASE_URL", model.url())
            .stdin(Stdio::null())
            .output()
            .await
            .unwrap();
        let noise = String::from_utf8_lossy(&ran.stderr);
        let bodies: Vec<String> =
            model.requests().iter().map(|it| String::from_utf8_lossy(&it.body).into_owned()).collect();
        assert_eq!(bodies.iter().any(|it| it.contains("web_search_20250305")), asked, "{noise} {bodies:#?}");
        let last = bodies.last().unwrap();
        assert_eq!(last.contains("BRAVE_API_KEY"), !asked, "{noise} {last}");
    }
}

fn hit(url: &str, title: &str) -> Value {
    json!({"type": "web_search_result", "url": url, "title": title, "page_age": "3 May 2026",
        "encrypted_content": signature_of(url, "web_search")})
}

fn searching(id: &str, query: &str) -> ReplyPiece {
    ReplyPiece::Block(
        json!({"type": "server_tool_use", "id": id, "name": "web_search", "input": {"query": query}}),
    )
}

fn answered(id: &str, content: Value) -> ReplyPiece {
    ReplyPiece::Block(json!({"type": "web_search_tool_result", "tool_use_id": id, "content": content}))
}

fn cited(text: &str, url: &str, quote: &str) -> ReplyPiece {
    ReplyPiece::Block(json!({"type": "text", "text": text, "citations": [{
        "type": "web_search_result_location", "url": url, "title": "T", "cited_text": quote,
        "encrypted_index": "sealed-index"}]}))
}

fn searches(turn: Turn, count: u64) -> Turn {
    let usage = UsageReply { web_search_requests: count, ..UsageReply::default() };
    Turn { usage: Some(usage), ..turn.when("Search the web for:") }
}

/// A session whose model calls WebSearch once. Returns the result, the requests and the output; `parts`
/// are the provider's answers to the search. Requests are validated as strictly as the provider does.
async fn session(input: Value, parts: Vec<Turn>) -> (Value, Vec<Value>, String) {
    let haft = Haft::new();
    haft.write_home(".haft/settings.json", &json!({"web": {"searchProvider": "model"}}).to_string());
    let mut turns = vec![Turn::tool("WebSearch", input).when("Find it.")];
    turns.extend(parts);
    turns.push(Turn::text("Done."));
    let model = MockModel::start(Script::from_turns(turns)).await.unwrap();
    let ran = haft
        .async_command()
        .args(["-p", "Find it.", "--allowedTools", "WebSearch", "--output-format", "json"])
        .env("ANTHROPIC_BASE_URL", model.url())
        .stdin(Stdio::null())
        .output()
        .await
        .unwrap();
    let noise = String::from_utf8_lossy(&ran.stderr).into_owned();
    let bodies: Vec<Value> =
        model.requests().iter().filter_map(|it| serde_json::from_slice(&it.body).ok()).collect();
    let refused: Vec<_> = model.requests().iter().filter(|it| 300 <= it.status).map(|it| it.status).collect();
    assert!(refused.is_empty(), "{refused:?} {noise} {bodies:#?}");
    let result: Value = serde_json::from_slice(&ran.stdout).unwrap_or_else(|_| panic!("{noise}"));
    let last = bodies.last().unwrap()["messages"].as_array().unwrap().last().unwrap().clone();
    let told = last["content"][0]["content"].to_string();
    (result, bodies, told)
}

fn questions(bodies: &[Value]) -> Vec<&Value> {
    bodies.iter().filter(|it| it["tools"][0]["type"] == "web_search_20250305").collect()
}

#[tokio::test]
async fn the_provider_searches_and_what_it_found_is_told_counted_and_paid_for() {
    let (one, two) = ("https://docs.example.com/traits", "https://blog.example.com/x");
    let answer = Turn::from_pieces([
        ReplyPiece::text("I look."),
        searching("srvtoolu_1", "rust traits"),
        answered("srvtoolu_1", json!([hit(one, "Traits"), hit(two, "A blog")])),
        searching("srvtoolu_2", "rust traits again"),
        answered("srvtoolu_2", json!([hit(one, "Traits")])),
        cited(" Traits are shared behaviour.", one, "A trait defines shared behaviour"),
    ]);
    let input = json!({"query": "rust traits", "allowed_domains": ["example.com"]});
    let (result, bodies, told) = session(input, vec![searches(answer, 2)]).await;
    let asked = questions(&bodies);
    assert_eq!(asked.len(), 1, "{bodies:#?}");
    let tool = &asked[0]["tools"][0];
    assert_eq!(
        (&tool["name"], &tool["max_uses"], &tool["allowed_domains"]),
        (&json!("web_search"), &json!(8), &json!(["example.com"]))
    );
    assert!(tool.get("blocked_domains").is_none() && asked[0]["tools"].as_array().unwrap().len() == 1);
    for want in [
        "1. Traits (3 May 2026)",
        one,
        "A trait defines shared behaviour",
        "2. A blog",
        "Traits are shared behaviour.",
    ] {
        assert!(told.contains(want), "{want}: {told}");
    }
    assert_eq!(told.matches(one).count(), 1, "a page is named once: {told}");
    assert!(!told.contains("sig-") && !told.contains("sealed-index"), "{told}");
    let used = result["modelUsage"].as_object().unwrap();
    let counted: u64 = used.values().filter_map(|it| it["webSearchRequests"].as_u64()).sum();
    assert_eq!(counted, 2, "{result:#}");
    assert!(0.02 <= result["total_cost_usd"].as_f64().unwrap(), "searches cost a cent each: {result:#}");
}

/// The provider pauses its answer, once during its search and once after it; Haft sends the answer back
/// unchanged, and it continues.
#[tokio::test]
async fn an_answer_that_the_provider_pauses_goes_on() {
    let url = "https://a.test/1";
    let waits =
        Turn::from_pieces([ReplyPiece::text("I look."), searching("srvtoolu_1", "q")]).stop("pause_turn");
    let more =
        Turn::from_pieces([answered("srvtoolu_1", json!([hit(url, "One")])), searching("srvtoolu_2", "q2")]);
    let last = Turn::from_pieces([
        answered("srvtoolu_2", json!([hit("https://b.test/2", "Two")])),
        ReplyPiece::text("Both."),
    ]);
    let parts = vec![searches(waits, 0), searches(more.stop("pause_turn"), 1), searches(last, 1)];
    let (result, bodies, told) =
        session(json!({"query": "what", "blocked_domains": ["c.test"]}), parts).await;
    let asked = questions(&bodies);
    assert_eq!(asked.len(), 3, "{bodies:#?}");
    for (at, request) in asked.iter().enumerate() {
        let messages = request["messages"].as_array().unwrap();
        assert_eq!(messages.len(), 1 + usize::from(at != 0), "{request:#}");
        assert_eq!(request["tools"][0]["blocked_domains"], json!(["c.test"]), "{request:#}");
    }
    let echoed = &asked[2]["messages"][1];
    assert_eq!(echoed["role"], "assistant");
    let kinds: Vec<&str> =
        echoed["content"].as_array().unwrap().iter().map(|it| it["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["text", "server_tool_use", "web_search_tool_result", "server_tool_use"]);
    assert_eq!(echoed["content"][2]["content"][0], hit(url, "One"));
    assert!(told.contains("1. One") && told.contains("2. Two") && told.contains("Both."), "{told}");
    let used = result["modelUsage"].as_object().unwrap();
    assert_eq!(used.values().filter_map(|it| it["webSearchRequests"].as_u64()).sum::<u64>(), 2, "{result:#}");
}

/// Errors of the provider's search are data in a successful answer: the model reads what to do next.
#[tokio::test]
async fn errors_of_the_providers_search_say_what_to_do_next() {
    for (code, want) in [
        ("too_many_requests", "enough questions for now"),
        ("max_uses_exceeded", "enough questions for now"),
        ("unavailable", "Try again later"),
        ("query_too_long", "fewer and plainer words"),
        ("request_too_large", "fewer and plainer words"),
        ("invalid_tool_input", "fewer and plainer words"),
        ("next_year", "next_year"),
    ] {
        let error = json!({"type": "web_search_tool_result_error", "error_code": code});
        let answer = Turn::from_pieces([
            searching("srvtoolu_1", "q"),
            answered("srvtoolu_1", error),
            ReplyPiece::text("No."),
        ]);
        let (_, _, told) = session(json!({"query": "what"}), vec![searches(answer, 1)]).await;
        assert!(told.contains(want), "{code}: {told}");
    }
}

/// A local server that counts its requests.
fn dev_server() -> (u16, std::sync::Arc<std::sync::atomic::AtomicUsize>) {
    use std::{
        io::{Read as _, Write as _},
        net::TcpListener,
        sync::atomic::Ordering,
    };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let asked = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = std::sync::Arc::clone(&asked);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = [0; 4096];
            let _ = stream.read(&mut head).unwrap_or_default();
            count.fetch_add(1, Ordering::SeqCst);
            stream
                .write_all(
                    b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 9\r\n\r\nlocal dev",
                )
                .ok();
        }
    });
    (port, asked)
}

/// A local server is fetched over plain http only if the user's prompt names it with its port: a rule
/// alone is not enough, and a project cannot name one.
#[test]
fn a_dev_server_is_fetched_only_where_the_person_named_it() {
    let (port, asked) = dev_server();
    let entry =
        |host: &str, port: u16| json!({"web": {"allowPrivateHosts": [format!("{host}:{port}")]}}).to_string();
    let loopback = format!("http://127.0.0.1:{port}/x");
    for (home, project, url, reached) in [
        (None, None, loopback.clone(), false),
        (None, Some(entry("127.0.0.1", port)), loopback.clone(), false),
        (Some(entry("127.0.0.1", port + 1)), None, loopback.clone(), false),
        (Some(entry("127.0.0.1", port)), None, loopback.clone(), true),
        (Some(entry("127.0.0.1", port)), None, format!("http://2130706433:{port}/"), true),
        (Some(entry("127.0.0.1", port)), None, format!("http://localhost:{port}/"), false),
        (Some(entry("localhost", port)), None, format!("http://LOCALHOST:{port}/"), true),
        (Some(entry("localhost", port)), None, loopback.clone(), false),
    ] {
        let haft = Haft::new();
        if let Some(settings) = &home {
            haft.write_home(".haft/settings.json", settings);
        }
        if let Some(settings) = &project {
            haft.write(".haft/settings.json", settings);
        }
        let before = asked.load(std::sync::atomic::Ordering::SeqCst);
        let call = json!({"id": "c1", "name": "WebFetch", "input": {"url": url}});
        let got = haft.reports(&["--allowedTools", "WebFetch"], &[call])[0].to_string();
        assert_eq!(got.contains("local dev"), reached, "{home:?} {project:?} {url}: {got}");
        assert_eq!(got.contains("web.allowPrivateHosts"), !reached, "{home:?} {project:?} {url}: {got}");
        let times = asked.load(std::sync::atomic::Ordering::SeqCst) - before;
        assert_eq!(times, usize::from(reached), "{home:?} {project:?} {url}");
    }
}

/// Stored prompts in a project's files are not run, and a message says so.
#[tokio::test]
async fn a_project_that_brings_prompts_is_told_of() {
    let haft = Haft::new();
    haft.write(
        ".claude/scheduled_tasks.json",
        r#"{"tasks":[{"id":"a","cron":"* * * * *","prompt":"evil"},{"id":"b","cron":"* * * * *","prompt":"evil"}]}"#,
    );
    let model = MockModel::start(Script::from_turns([Turn::text("Hello.")])).await.unwrap();
    let ran = haft
        .async_command()
        .args(["-p", "Hello."])
        .env("ANTHROPIC_BASE_URL", model.url())
        .stdin(Stdio::null())
        .output()
        .await
        .unwrap();
    let noise = String::from_utf8_lossy(&ran.stderr);
    assert!(noise.contains("2 scheduled prompts of this project") && noise.contains("do not run"), "{noise}");
    assert_eq!(model.requests().len(), 1);
    assert!(!String::from_utf8_lossy(&model.requests()[0].body).contains("evil"));
}
