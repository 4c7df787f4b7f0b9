//! Servers that deviate from the documented API, row by row. All deviations were observed at routers and
//! local servers.

use haft_model::{ModelError, Request, StopReason};
use haft_testkit::Turn;
use serde_json::{Value, json};

use crate::support::{Make, ask, chat, gemini, mock, quick, say};

/// Expected outcome of a deviating response.
enum Read {
    /// Text, calls and stop reason.
    Whole(&'static str, Value, StopReason),
    /// No usable content: the request is retried.
    Again,
    /// An error that is returned at once and contains this text.
    Told(fn(&ModelError) -> bool, &'static str),
}

async fn check(make: Make, model: &str, rows: Vec<(&str, String, Read)>) {
    for (what, raw, want) in rows {
        let mock = mock([Turn { raw: Some(raw), ..Turn::default() }, Turn::text("again")]).await;
        let answer = ask(&make(&mock, quick()), Request { model: model.to_owned(), ..say("go") }).await;
        match want {
            Read::Whole(text, calls, stop) => {
                let answer = answer.unwrap_or_else(|err| panic!("{what}: {err}"));
                let found: Vec<Value> = answer.calls().iter().map(|it| json!([it.name, it.input])).collect();
                assert_eq!((answer.text().as_str(), json!(found)), (text, calls), "{what}");
                assert_eq!((answer.stop, mock.count()), (Some(stop), 1), "{what}");
            }
            Read::Again => {
                let answer = answer.unwrap_or_else(|err| panic!("{what}: {err}"));
                assert_eq!((answer.text().as_str(), mock.count()), ("again", 2), "{what}");
            }
            Read::Told(is_it, words) => {
                let error = answer.err().unwrap_or_else(|| panic!("{what}: no error"));
                assert!(is_it(&error) && error.to_string().contains(words), "{what}: {error:?}");
                assert_eq!(mock.count(), 1, "{what}");
            }
        }
    }
}

fn chunk(delta: Value, finish: Value) -> String {
    let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
    format!(
        "data: {}\n\n",
        json!({"id": "r", "object": "chat.completion.chunk", "model": "m", "choices": [choice]})
    )
}

fn said(text: &str) -> String {
    chunk(json!({"role": "assistant", "content": text}), Value::Null)
}

fn stop(reason: &str) -> String {
    chunk(json!({}), json!(reason))
}

fn call(call: Value) -> String {
    chunk(json!({"tool_calls": [call]}), Value::Null)
}

const DONE: &str = "data: [DONE]\n\n";

#[expect(clippy::too_many_lines, reason = "a table")]
#[tokio::test]
async fn deviating_chat_texts_and_calls_are_decoded() {
    let hi = || Read::Whole("hi", json!([]), StopReason::EndTurn);
    let one = || Read::Whole("", json!([["Read", {"a": 1}]]), StopReason::ToolUse);
    let two = || Read::Whole("", json!([["Read", {"a": 1}], ["Bash", {"b": 2}]]), StopReason::ToolUse);
    let whole = json!({"id": "r", "choices": [{"message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}]});
    let rows = vec![
        // Ends of a stream.
        ("no [DONE]", said("hi") + &stop("stop"), hi()),
        ("[DONE] and no reason", said("hi") + DONE, hi()),
        ("neither of them", said("hi"), Read::Again),
        (
            "a reason that is empty until the end",
            chunk(json!({"content": "hi"}), json!("")) + &stop("stop") + DONE,
            hi(),
        ),
        ("a reason that says null in words", chunk(json!({"content": "hi"}), json!("null")) + DONE, hi()),
        ("only empty reasons, and cut", chunk(json!({"content": "hi"}), json!("")), Read::Again),
        ("no blank line at the end", said("hi") + stop("stop").trim_end(), hi()),
        ("one line break at the end", said("hi") + stop("stop").trim_end() + "\n", hi()),
        ("CRLF", (said("hi") + &stop("stop") + DONE).replace('\n', "\r\n"), hi()),
        (
            "comments and pings",
            format!(": OPENROUTER PROCESSING\n\n{}: keep\n\n{}{DONE}", said("hi"), stop("stop")),
            hi(),
        ),
        ("something behind the end", said("hi") + &stop("stop") + DONE + "data: nonsense\n\n", hi()),
        // Whole bodies.
        ("one object that is called a stream", whole.to_string(), hi()),
        ("the same, over several lines", serde_json::to_string_pretty(&whole).unwrap(), hi()),
        ("an object that is no answer", json!({"detail": "starting"}).to_string(), Read::Again),
        ("no answer at all", String::new(), Read::Again),
        // Content fields.
        ("a null content", chunk(json!({"content": null}), Value::Null) + &said("hi") + &stop("stop"), hi()),
        (
            "content in parts",
            chunk(json!({"content": [{"type": "text", "text": "hi"}]}), Value::Null) + &stop("stop"),
            hi(),
        ),
        ("a null delta", chunk(Value::Null, Value::Null) + &said("hi") + &stop("stop"), hi()),
        (
            "no choices in the last chunk",
            said("hi") + &stop("stop") + "data: {\"choices\": [], \"usage\": null}\n\n" + DONE,
            hi(),
        ),
        ("choices that are null", said("hi") + "data: {\"choices\": null}\n\n" + &stop("stop"), hi()),
        (
            "an error that is null",
            said("hi") + "data: {\"error\": null, \"choices\": []}\n\n" + &stop("stop"),
            hi(),
        ),
        (
            "nothing said",
            chunk(json!({"content": ""}), json!("stop")),
            Read::Whole("", json!([]), StopReason::EndTurn),
        ),
        (
            "thoughts only",
            chunk(json!({"reasoning_content": "hm"}), json!("stop")),
            Read::Whole("", json!([]), StopReason::EndTurn),
        ),
        (
            "thoughts in two fields",
            chunk(json!({"reasoning": "hm", "reasoning_content": "hm"}), Value::Null)
                + &said("hi")
                + &stop("stop"),
            hi(),
        ),
        // Tool calls.
        (
            "name and arguments apart",
            call(json!({"index": 0, "id": "x", "function": {"name": "Read", "arguments": ""}}))
                + &call(json!({"index": 0, "function": {"arguments": "{\"a\""}}))
                + &call(json!({"index": 0, "function": {"arguments": ":1}"}}))
                + &stop("tool_calls"),
            one(),
        ),
        (
            "the name again in each piece",
            call(json!({"index": 0, "id": "x", "function": {"name": "Read", "arguments": "{\"a\""}}))
                + &call(json!({"index": 0, "id": "x", "function": {"name": "Read", "arguments": ":1}"}}))
                + &stop("tool_calls"),
            one(),
        ),
        (
            "the same without an index",
            call(json!({"id": "x", "function": {"name": "Read", "arguments": "{\"a\""}}))
                + &call(json!({"id": "x", "function": {"name": "Read", "arguments": ":1}"}}))
                + &stop("tool_calls"),
            one(),
        ),
        (
            "the name again, with nothing",
            call(json!({"index": 0, "function": {"name": "Read", "arguments": "{\"a\":1}"}}))
                + &call(json!({"index": 0, "function": {"name": "Read", "arguments": ""}}))
                + &stop("stop"),
            one(),
        ),
        (
            "two calls, one index, no ids",
            call(json!({"index": 0, "function": {"name": "Read", "arguments": "{\"a\":1}"}}))
                + &call(json!({"index": 0, "function": {"name": "Bash", "arguments": "{\"b\":2}"}}))
                + &stop("tool_calls"),
            two(),
        ),
        (
            "the same in one piece",
            chunk(
                json!({"tool_calls": [{"index": 0, "function": {"name": "Read", "arguments": "{\"a\":1}"}}, {"index": 0, "function": {"name": "Bash", "arguments": {"b": 2}}}]}),
                json!("tool_calls"),
            ),
            two(),
        ),
        (
            "two calls, no index, no ids, in pieces",
            call(json!({"function": {"name": "Read", "arguments": "{\"a\""}}))
                + &call(json!({"function": {"arguments": ":1}"}}))
                + &call(json!({"function": {"name": "Bash", "arguments": "{\"b\":2}"}}))
                + &stop("stop"),
            two(),
        ),
        (
            "empty ids",
            call(json!({"index": 0, "id": "", "function": {"name": "Read", "arguments": "{\"a\":1}"}}))
                + &call(
                    json!({"index": 1, "id": "", "function": {"name": "Bash", "arguments": "{\"b\":2}"}}),
                )
                + &stop("stop"),
            two(),
        ),
        (
            "a null among the calls",
            chunk(json!({"tool_calls": null}), Value::Null)
                + &call(json!({"index": 0, "function": {"name": "Read", "arguments": "{\"a\":1}"}}))
                + &stop("stop"),
            one(),
        ),
        (
            "calls, and no end but [DONE]",
            call(json!({"index": 0, "function": {"name": "Read", "arguments": "{\"a\":1}"}})) + DONE,
            one(),
        ),
    ];
    check(chat, "gpt-4.1", rows).await;
}

#[tokio::test]
async fn errors_inside_streams_map_to_categories() {
    let frame = |error: Value| format!("{}data: {}\n\n", said("hal"), json!({"error": error}));
    let rows = vec![
        ("a router's overload", frame(json!({"code": 502, "message": "Provider disconnected"})), Read::Again),
        ("a router's limit", frame(json!({"code": 429, "message": "slow down"})), Read::Again),
        ("without a code", frame(json!({"message": "out of memory"})), Read::Again),
        ("a plain text", frame(json!("model runner has crashed")), Read::Again),
        (
            "vLLM's old form",
            format!("data: {}\n\n", json!({"object": "error", "message": "engine is dead", "code": 500})),
            Read::Again,
        ),
        (
            "llama.cpp's old form",
            "error: {\"code\": 503, \"message\": \"Loading model\"}\n\n".to_owned(),
            Read::Again,
        ),
        (
            "an error that is called a stream",
            json!({"error": {"code": 503, "message": "Loading model"}}).to_string(),
            Read::Again,
        ),
        (
            "no money",
            frame(json!({"code": 402, "message": "Insufficient credits"})),
            Read::Told(|err| matches!(err, ModelError::Auth { .. }), "Insufficient credits"),
        ),
        (
            "a wrong key, code as text",
            frame(json!({"code": "401", "message": "User not found."})),
            Read::Told(|err| matches!(err, ModelError::Auth { .. }), "User not found"),
        ),
        (
            "vLLM's refusal",
            frame(
                json!({"object": "error", "message": "bad grammar", "type": "BadRequestError", "code": 400}),
            ),
            Read::Told(|err| matches!(err, ModelError::Invalid { .. }), "bad grammar"),
        ),
        (
            "too long",
            frame(
                json!({"code": 400, "message": "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens."}),
            ),
            Read::Told(|err| matches!(err, ModelError::TooLong { window: Some(8192), .. }), "too long"),
        ),
    ];
    check(chat, "gpt-4.1", rows).await;
}

#[tokio::test]
async fn rate_limit_errors_are_retried_or_returned() {
    // (status, body, number of requests)
    for (status, body, requests) in [
        (429, json!({"error": {"message": "slow down", "code": 429}}), 2),
        (
            429,
            json!({"error": {"message": "You exceeded your current quota", "type": "insufficient_quota", "code": "insufficient_quota"}}),
            1,
        ),
        (402, json!({"error": {"message": "Insufficient credits", "code": 402}}), 1),
        // A daily limit whose wait time exceeds the maximum.
        (
            429,
            json!({"error": {"message": "free-models-per-day", "code": 429, "metadata": {"headers": {"X-RateLimit-Reset": "99999999999999"}}}}),
            1,
        ),
        (
            429,
            json!({"error": {"message": "free-models-per-min", "code": 429, "metadata": {"headers": {"X-RateLimit-Reset": "1"}}}}),
            2,
        ),
        (503, json!({"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}}), 2),
        (500, json!({"error": "llama runner process has terminated"}), 2),
    ] {
        let failing = crate::support::answering(status, &body).await;
        let provider = haft_model::HttpProvider::openai_chat(
            &failing.url,
            None,
            haft_model::ChatOptions::default(),
            haft_model::ProviderOptions {
                retry: haft_model::RetryPolicy { most: 1, ..quick().retry },
                ..quick()
            },
        )
        .unwrap();
        let error = ask(&provider, Request { model: "m".to_owned(), ..say("go") }).await.unwrap_err();
        assert_eq!(failing.requests(), requests, "{status} {body}: {error}");
        let words = body["error"]["message"].as_str().or(body["error"].as_str()).unwrap();
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[tokio::test]
async fn deviating_gemini_streams_are_decoded() {
    let frame = |value: Value| format!("data: {value}\n\n");
    let part = |part: Value| frame(json!({"candidates": [{"content": {"role": "model", "parts": [part]}}]}));
    let end = |reason: &str| frame(json!({"candidates": [{"finishReason": reason}]}));
    let text = || part(json!({"text": "hi"}));
    let hi = || Read::Whole("hi", json!([]), StopReason::EndTurn);
    let whole = json!({"candidates": [{"content": {"parts": [{"text": "hi"}]}, "finishReason": "STOP"}]});
    let rows = vec![
        ("no usage", text() + &end("STOP"), hi()),
        ("CRLF", (text() + &end("STOP")).replace('\n', "\r\n"), hi()),
        ("no blank line at the end", text() + end("STOP").trim_end(), hi()),
        ("no end", text(), Read::Again),
        ("one object", whole.to_string(), hi()),
        (
            "parts that are null",
            frame(json!({"candidates": [{"content": {"parts": null}}]})) + &text() + &end("STOP"),
            hi(),
        ),
        (
            "no candidates in a chunk",
            frame(json!({"usageMetadata": {"promptTokenCount": 3}})) + &text() + &end("STOP"),
            hi(),
        ),
        ("nothing said", end("STOP"), Read::Whole("", json!([]), StopReason::EndTurn)),
        (
            "thoughts only",
            part(json!({"text": "hm", "thought": true})) + &end("STOP"),
            Read::Whole("", json!([]), StopReason::EndTurn),
        ),
        (
            "calls of the same id",
            part(json!({"functionCall": {"id": "x", "name": "Read", "args": {"a": 1}}}))
                + &part(json!({"functionCall": {"id": "x", "name": "Bash", "args": null}}))
                + &end("STOP"),
            Read::Whole("", json!([["Read", {"a": 1}], ["Bash", {}]]), StopReason::ToolUse),
        ),
        (
            "overloaded",
            text()
                + &frame(json!({"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}})),
            Read::Again,
        ),
        (
            "a quota",
            frame(json!({"error": {"code": 429, "message": "quota", "status": "RESOURCE_EXHAUSTED"}})),
            Read::Again,
        ),
        (
            "a wrong key",
            frame(
                json!({"error": {"code": 400, "message": "API key not valid.", "status": "INVALID_ARGUMENT"}}),
            ),
            Read::Told(|err| matches!(err, ModelError::Auth { .. }), "API key not valid"),
        ),
    ];
    check(gemini, "gemini-2.5-flash", rows).await;
}
