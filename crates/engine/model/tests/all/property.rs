//! Property test: whatever a log contains, the provider accepts the request.

use std::sync::Arc;

use haft_model::{Request, Thinking, ToolDef, ToolLoading, ToolSet};
use haft_testkit::{Script, Turn, signature_of};
use haft_types::{Block, Content, MediaSource, Message, MessageBlock, Role, ToolUse};
use proptest::{prelude::*, test_runner::TestRunner};
use serde_json::{Value, json};

use crate::{
    lint::{base64, png},
    support::{MODEL, Make, anthropic, ask, cases, chat, quick, responses, start},
};

const OTHER: &str = "claude-sonnet-4-6";

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "\\PC{0,20}",
        1 => Just(String::new()),
        1 => Just(" \n ".to_owned()),
        1 => "[\\x00-\\x1f\\x7f-\\x9f ]{1,5}",
        1 => "(\u{1b}\\[[0-9]{1,2}m|\\r|x){1,5}",
    ]
}

fn id() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => (0..6_u8).prop_map(|n| format!("toolu_{n}")),
        1 => (0..2_u8).prop_map(|n| format!("functions.x:{n}")),
        1 => Just(String::new()),
        1 => Just("x".repeat(200)),
    ]
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![Just("Read".to_owned()), Just("late".to_owned()), "\\PC{0,10}", "[a-z]{60,140}"]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec((text(), inner), 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn source() -> impl Strategy<Value = MediaSource> {
    let data = prop_oneof![
        3 => (1..9000_u32, 1..3000_u32).prop_map(|(width, height)| base64(&png(width, height))),
        1 => Just(base64(b"<!DOCTYPE html><html></html>")),
        1 => (1..130_usize).prop_map(|pages| base64(format!("%PDF-1.4 {}", "<</Type/Page>>".repeat(pages)).as_bytes())),
        1 => Just("not base64!".to_owned()),
        1 => Just(String::new()),
        1 => Just(base64(b"plain text")),
    ];
    let kind = prop_oneof![
        Just("image/png"),
        Just("image/jpeg"),
        Just("application/pdf"),
        Just("text/plain"),
        Just("image/bmp"),
        Just(""),
    ];
    (kind, data)
        .prop_map(|(media_type, data)| MediaSource::Base64 { media_type: media_type.to_owned(), data })
}

fn inner() -> impl Strategy<Value = Block> {
    prop_oneof![
        4 => text().prop_map(Block::text),
        2 => source().prop_map(|source| Block::Image { source }),
        1 => source().prop_map(|source| Block::Document { source, title: None }),
        1 => name().prop_map(|tool_name| Block::ToolReference { tool_name }),
    ]
}

fn thinking() -> impl Strategy<Value = MessageBlock> {
    (text(), 0..4_u8).prop_map(|(thinking, kind)| {
        let (signature, model) = match kind {
            0 => (signature_of(&thinking, MODEL), Some(MODEL.to_owned())),
            1 => (signature_of(&thinking, OTHER), Some(OTHER.to_owned())),
            2 => (String::new(), Some(MODEL.to_owned())),
            _ => (String::new(), None),
        };
        MessageBlock::Thinking { thinking, signature, model }
    })
}

fn block() -> impl Strategy<Value = MessageBlock> {
    prop_oneof![
        4 => text().prop_map(|text| MessageBlock::Text { text }),
        2 => thinking(),
        1 => Just(MessageBlock::RedactedThinking { data: "opaque".to_owned(), model: Some(MODEL.to_owned()) }),
        4 => (id(), name(), value())
            .prop_map(|(id, name, input)| MessageBlock::ToolUse(ToolUse { id: id.into(), name, input })),
        4 => (id(), proptest::collection::vec(inner(), 0..4), any::<bool>()).prop_map(|(id, content, is_error)| {
            MessageBlock::ToolResult { tool_use_id: id.into(), content: Content(content), is_error }
        }),
        1 => source().prop_map(|source| MessageBlock::Image { source }),
        1 => (source(), text()).prop_map(|(source, title)| MessageBlock::Document { source, title: Some(title) }),
        1 => prop_oneof![
            Just(json!({"type": "server_tool_use", "id": "srv", "name": "web_search", "input": {"q": "\u{1}"}})),
            Just(json!({"type": "text"})),
            Just(json!({"no": "type"})),
            Just(json!(7)),
        ].prop_map(MessageBlock::Other),
    ]
}

pub fn history() -> impl Strategy<Value = Vec<Message>> {
    let message = (any::<bool>(), proptest::collection::vec(block(), 0..5)).prop_map(|(of_user, content)| {
        Message { role: if of_user { Role::User } else { Role::Assistant }, content }
    });
    proptest::collection::vec(message, 0..8)
}

pub fn tools() -> ToolSet {
    let late =
        ToolDef { loading: ToolLoading::Deferred, ..ToolDef::new("late", "d", json!({"type": "object"})) };
    ToolSet::new([ToolDef::new("Read", "d", json!({"type": "object"})), late])
}

fn check(make: Make, model: &str, usual: u32) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mock = runtime.block_on(start(Script {
        keep_requests: Some(1),
        ..Script::from_turns([Turn::text("ok").always()])
    }));
    let provider = make(&mock, quick());
    let set = Arc::new(tools());
    let thinking = prop_oneof![
        Just(Thinking::Default),
        Just(Thinking::Adaptive),
        Just(Thinking::Budget { tokens: 1500 })
    ];
    let mut runner = TestRunner::new(ProptestConfig {
        cases: cases(usual),
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    runner
        .run(&(history(), thinking, any::<bool>()), |(messages, thinking, with_tools)| {
            let mut asked = Request { thinking, ..Request::new(model, messages) };
            if with_tools {
                asked.tools = Arc::clone(&set);
            }
            let answer = runtime.block_on(ask(&provider, asked));
            prop_assert_eq!(
                answer.map(|answer| answer.text()).map_err(|err| err.to_string()),
                Ok("ok".to_owned())
            );
            prop_assert_eq!(mock.refusals(), Vec::<String>::new());
            Ok(())
        })
        .unwrap();
}

#[test]
fn messages_api_accepts_any_history() {
    check(anthropic, MODEL, 400);
}

#[test]
fn chat_api_accepts_any_history() {
    check(chat, "gpt-4.1", 150);
}

#[test]
fn responses_api_accepts_any_history() {
    check(responses, "gpt-5", 150);
}
