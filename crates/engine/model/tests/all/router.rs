//! Routers such as OpenRouter: their reasoning details are sent back unchanged, and every model gets
//! supported effort and thinking settings.

use std::sync::Arc;

use haft_model::{
    Catalog, ChatOptions, Effort, HttpProvider, KeySource, ModelAnswer, ModelInfo, Request, Thinking,
    ThinkingSupport,
};
use haft_testkit::{MockModel, ReplyPiece, Turn};
use haft_types::{Message, MessageBlock, Role};
use serde_json::{Value, json};

use crate::support::{Make, anthropic, ask, chat, gemini, mock, quick, responses, say};

const MODEL: &str = "anthropic/claude-opus-4-6";

fn router(mock: &MockModel, common: haft_model::ProviderOptions) -> HttpProvider {
    let options = ChatOptions { reasoning_object: true, ..ChatOptions::default() };
    let key = Some(KeySource::value("sk-test"));
    HttpProvider::openai_chat(&format!("{}/v1", mock.url()), key, options, common).unwrap()
}

/// The next request, after the calls of an answer were executed.
fn went_on(asked: &Request, answer: &ModelAnswer) -> Request {
    // As after a resume: what is not in the log's text is lost.
    let logged = serde_json::to_string(&answer.message()).unwrap();
    let mut next = asked.clone();
    next.messages.push(Arc::new(serde_json::from_str(&logged).unwrap()));
    let results = answer.calls().into_iter().map(|call| MessageBlock::ToolResult {
        tool_use_id: call.id.clone(),
        content: "ok".into(),
        is_error: false,
    });
    let content: Vec<_> = results.chain([MessageBlock::Text { text: "go on".to_owned() }]).collect();
    next.messages.push(Arc::new(Message { role: Role::User, content }));
    next
}

#[tokio::test]
async fn router_reasoning_details_are_sent_back_unchanged() {
    let thought = "First I look at the file, and then at the other one.";
    let mock = mock([
        Turn::from_pieces([
            ReplyPiece::thinking(thought),
            ReplyPiece::tool("Read", json!({"file_path": "/a"})),
        ]),
        Turn::from_pieces([
            ReplyPiece::RedactedThinking("c2VjcmV0".to_owned()),
            ReplyPiece::thinking("Now the other."),
            ReplyPiece::text("One moment."),
            ReplyPiece::tool("Read", json!({"file_path": "/b"})),
        ]),
        Turn::text("x").always(),
    ])
    .await;
    let provider = router(&mock, quick());
    let first = Request { model: MODEL.to_owned(), effort: Some(Effort::High), ..say("go") };
    let answer = ask(&provider, first.clone()).await.unwrap();
    // Displayable thinking is emitted.
    let shown = answer
        .message()
        .content
        .iter()
        .any(|block| matches!(block, MessageBlock::Thinking { thinking, .. } if thinking == thought));
    assert!(shown, "{:?}", answer.message());
    let second = went_on(&first, &answer);
    let answer = ask(&provider, second.clone()).await.unwrap();
    let third = went_on(&second, &answer);
    ask(&provider, third.clone()).await.unwrap();
    let sent = mock.requests()[2].json();
    let messages = sent["messages"].as_array().unwrap();
    let answers = messages.iter().filter(|it| it["role"] == "assistant");
    let details: Vec<&Value> = answers.map(|it| &it["reasoning_details"]).collect();
    let kinds = |at: usize| -> Vec<&str> {
        details[at].as_array().unwrap().iter().map(|it| it["type"].as_str().unwrap()).collect()
    };
    assert_eq!(kinds(0), ["reasoning.text"]);
    assert_eq!(details[0][0]["text"], thought);
    assert_eq!(kinds(1), ["reasoning.encrypted", "reasoning.text"]);
    assert_eq!((&details[1][0]["data"], &details[1][1]["index"]), (&json!("c2VjcmV0"), &json!(1)));
    assert_eq!(mock.refusals(), Vec::<String>::new());
    // Reasoning belongs to one model: another one gets the calls without it.
    let other = Request { model: "google/gemini-3.6-flash".to_owned(), ..third.clone() };
    ask(&provider, other).await.unwrap();
    assert!(!mock.requests()[3].json()["messages"].to_string().contains("reasoning_details"));
    // A server that is not a router gets none of it.
    ask(&chat(&mock, quick()), third).await.unwrap();
    assert!(!mock.requests()[4].json()["messages"].to_string().contains("reasoning_details"));
    assert_eq!(mock.refusals(), Vec::<String>::new());
}

#[tokio::test]
async fn mock_rejects_what_router_rejects() {
    let mock = mock([
        Turn::from_pieces([ReplyPiece::thinking("why"), ReplyPiece::tool("Read", json!({}))]),
        Turn::text("x").always(),
    ])
    .await;
    let provider = router(&mock, quick());
    let first = Request { model: MODEL.to_owned(), effort: Some(Effort::Low), ..say("go") };
    let answer = ask(&provider, first.clone()).await.unwrap();
    for spoil in ["[]", "[{\"type\":\"reasoning.text\",\"text\":\"other\",\"signature\":\"x\"}]"] {
        let mut next = went_on(&first, &answer);
        let mut spoilt = Message::clone(&next.messages[1]);
        for block in &mut spoilt.content {
            if let MessageBlock::Thinking { signature, .. } = block {
                spoil.clone_into(signature);
            }
        }
        next.messages[1] = Arc::new(spoilt);
        ask(&provider, next).await.ok();
    }
    let refusals = mock.refusals().join("\n");
    assert!(refusals.contains("must be passed back unmodified"), "{refusals}");
    assert!(refusals.contains("Invalid `signature`"), "{refusals}");
}

/// Returns the effort in a body of this wire format, if any.
fn effort_in(form: &str, body: &Value) -> Option<String> {
    let value = match form {
        "anthropic" => &body["output_config"]["effort"],
        "chat" => &body["reasoning_effort"],
        "gemini" => &body["generationConfig"]["thinkingConfig"]["thinkingLevel"],
        _ => &body["reasoning"]["effort"],
    };
    value.as_str().map(str::to_owned)
}

/// The wire formats in which a catalog model is requested.
fn forms_of(info: &ModelInfo) -> Vec<(&'static str, Make, String)> {
    let id = info.id.clone();
    let own: Vec<(&'static str, Make)> = match id.as_str() {
        it if it.starts_with("claude") => vec![("anthropic", anthropic)],
        it if it.starts_with("gemini") => vec![("gemini", gemini)],
        // Their tools are refused on Chat Completions.
        it if ["gpt-5.5", "gpt-5.6", "gpt-6"].iter().any(|line| it.starts_with(line)) => {
            vec![("responses", responses)]
        }
        it if it.starts_with("gpt") => vec![("chat", chat), ("responses", responses)],
        _ => vec![("chat", chat)],
    };
    let mut forms: Vec<_> = own.into_iter().map(|(name, make)| (name, make, id.clone())).collect();
    forms.push(("router", router, format!("vendor/{id}")));
    forms
}

#[tokio::test]
async fn every_catalog_model_gets_supported_effort() {
    let mock = mock([Turn::text("x").always()]).await;
    let order = [Effort::Low, Effort::Medium, Effort::High, Effort::Xhigh, Effort::Max];
    let catalog = Catalog::built_in();
    let mut rows = 0;
    for info in catalog.models() {
        for (form, make, model) in forms_of(info) {
            let provider = make(&mock, quick());
            for effort in [None].into_iter().chain(order.map(Some)) {
                for thinking in
                    [Thinking::Default, Thinking::Off, Thinking::Adaptive, Thinking::Budget { tokens: 2000 }]
                {
                    let asked = Request { model: model.clone(), effort, thinking, ..say("go") };
                    let what = format!("{form} {model} {effort:?} {thinking:?}");
                    ask(&provider, asked).await.unwrap_or_else(|err| panic!("{what}: {err}"));
                    let body = mock.requests()[rows].json();
                    rows += 1;
                    let nearest = order.iter().rev().find(|it| {
                        effort.is_some_and(|most| **it <= most)
                            && info.efforts.iter().any(|known| known == it.as_str())
                    });
                    let want = nearest.map(|it| it.as_str().to_owned());
                    // Models without levels get a budget; a router gets one of the two.
                    let by_level = form != "gemini" || info.thinking == ThinkingSupport::Effort;
                    if by_level {
                        assert_eq!(effort_in(form, &body), want, "{what}: {body}");
                    }
                }
            }
        }
    }
    assert!(1000 < rows, "{rows}");
    assert_eq!(mock.refusals(), Vec::<String>::new());
}
