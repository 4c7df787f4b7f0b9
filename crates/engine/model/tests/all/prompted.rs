//! Models whose server does not support tool calls.

use std::sync::Arc;

use haft_model::{
    Catalog, ChatOptions, Effort, HttpProvider, ModelEvent, ProviderOptions, Request, StopReason, Thinking,
};
use haft_testkit::{ReplyPiece, Turn};
use haft_types::{Message, MessageBlock, Role};
use serde_json::json;

use crate::support::{ask, chat, events, mock, quick, say};

const CALL: &str =
    "I look.\n<tool_call>\n{\"name\": \"Read\", \"arguments\": {\"file_path\": \"/a\"}}\n</tool_call>";

fn asked() -> Request {
    let mut asked = Request { model: "tiny:1b".to_owned(), ..say("go") };
    asked.system = vec!["You are brief.".into()];
    asked
}

/// Appends a result for the answer's call.
fn go_on(asked: &mut Request, answer: &haft_model::ModelAnswer) {
    let results = answer.calls().into_iter().map(|call| MessageBlock::ToolResult {
        tool_use_id: call.id.clone(),
        content: "the file".into(),
        is_error: false,
    });
    let results = results.collect();
    asked.messages.push(Arc::new(answer.message()));
    asked.messages.push(Arc::new(Message { role: Role::User, content: results }));
}

#[tokio::test]
async fn server_without_tool_support_gets_tools_as_text() {
    for refusal in [
        "registry.ollama.ai/library/tiny:1b does not support tools",
        "tools param requires --jinja flag",
        "\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set",
    ] {
        let refused = Turn::error(400, "invalid_request_error", refusal);
        let mock = mock([refused, Turn::from_pieces([ReplyPiece::text(CALL)]), Turn::text("done")]).await;
        let provider = chat(&mock, quick());
        let mut asked = asked();
        let (seen, error) = events(&provider, asked.clone()).await;
        assert_eq!(error, None, "{refusal}");
        assert!(
            seen.iter()
                .any(|event| matches!(event, ModelEvent::Repaired(it) if it.detail.contains("in words")))
        );
        let mut answer = haft_model::ModelAnswer::default();
        seen.into_iter().for_each(|event| answer.take(event));
        assert_eq!((answer.text().trim(), answer.stop.clone()), ("I look.", Some(StopReason::ToolUse)));
        assert_eq!(answer.calls()[0].input, json!({"file_path": "/a"}));
        go_on(&mut asked, &answer);
        // The limitation is stored: no second rejection, and the prefix does not change.
        assert_eq!(ask(&provider, asked).await.unwrap().text(), "done");
        let sent: Vec<_> = mock.requests().iter().map(haft_testkit::Recorded::json).collect();
        assert!(sent[0].get("tools").is_some() && sent[1].get("tools").is_none());
        assert_eq!(sent[1]["messages"][0], sent[2]["messages"][0]);
        let system = sent[2]["messages"][0]["content"].as_str().unwrap();
        assert!(system.starts_with("You are brief.\n\n# Tools") && system.contains("\"name\":\"Bash\""));
        let said = sent[2]["messages"][2]["content"].as_str().unwrap();
        assert!(
            said.starts_with("I look.") && said.contains("\n<tool_call>") && said.ends_with("</tool_call>"),
            "{said}"
        );
        let got = sent[2]["messages"][3].clone();
        assert_eq!(got, json!({"role": "user", "content": "<tool_response>\nthe file\n</tool_response>"}));
    }
}

#[tokio::test]
async fn catalog_entry_selects_prompted_tools_at_once() {
    let mock = mock([Turn::from_pieces([ReplyPiece::text(CALL)])]).await;
    let mine = r#"[{"id": "tiny", "window": 8192, "tool_calls": "prompted"}]"#;
    let catalog = Arc::new(Catalog::built_in().with(mine).unwrap());
    let provider = chat(&mock, ProviderOptions { catalog, ..quick() });
    let answer = ask(&provider, asked()).await.unwrap();
    assert_eq!((answer.calls().len(), mock.count()), (1, 1));
}

#[tokio::test]
async fn router_gets_reasoning_object() {
    let options = ChatOptions { reasoning_object: true, ..ChatOptions::default() };
    assert_eq!(ChatOptions::for_server("https://openrouter.ai/api/v1"), options);
    for (model, thinking, effort, want) in [
        ("openai/gpt-5", Thinking::Default, Some(Effort::High), json!({"effort": "high"})),
        ("anthropic/claude-opus-4-6", Thinking::Budget { tokens: 3000 }, None, json!({"max_tokens": 3000})),
        ("anthropic/claude-opus-4-6", Thinking::Adaptive, None, json!({"enabled": true})),
        ("google/gemini-3.6-flash", Thinking::Default, Some(Effort::Max), json!({"effort": "high"})),
        ("qwen/qwen3-coder", Thinking::Default, None, json!(null)),
    ] {
        let mock = mock([Turn::text("x")]).await;
        let provider =
            HttpProvider::openai_chat(&format!("{}/v1", mock.url()), None, options.clone(), quick()).unwrap();
        ask(&provider, Request { model: model.to_owned(), thinking, effort, ..say("go") }).await.unwrap();
        assert_eq!(mock.requests()[0].json()["reasoning"], want, "{model}");
        assert_eq!(mock.refusals(), Vec::<String>::new());
    }
}
