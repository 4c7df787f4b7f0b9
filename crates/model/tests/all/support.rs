use std::{sync::Arc, time::Duration};

use futures_util::StreamExt as _;
use haft_model::{
    Answer, AnthropicLogin, ChatOptions, Common, Event, HttpProvider, KeySource, ModelError, Patience,
    Provider, Request, RetryPolicy, ToolDef, ToolSet,
};
use haft_testkit::{MockModel, Script, Turn};
use haft_types::Message;
use serde_json::json;

pub const MODEL: &str = "claude-opus-4-6";

/// Retries without waiting, and gives up on silence soon.
pub fn quick() -> Common {
    Common {
        retry: RetryPolicy { base: Duration::from_millis(1), ..RetryPolicy::default() },
        patience: Patience { first_byte: Duration::from_secs(20), ..Patience::idle(Duration::from_secs(20)) },
        ..Common::default()
    }
}

pub async fn mock(turns: impl IntoIterator<Item = Turn>) -> MockModel {
    start(Script::of(turns)).await
}

pub async fn start(script: Script) -> MockModel {
    MockModel::start(script).await.unwrap()
}

pub fn anthropic(mock: &MockModel, common: Common) -> HttpProvider {
    HttpProvider::anthropic(&mock.url(), AnthropicLogin::ApiKey(KeySource::value("sk-test")), common).unwrap()
}

pub fn chat(mock: &MockModel, common: Common) -> HttpProvider {
    let key = Some(KeySource::value("sk-test"));
    HttpProvider::openai_chat(&format!("{}/v1", mock.url()), key, ChatOptions::default(), common).unwrap()
}

pub fn responses(mock: &MockModel, common: Common) -> HttpProvider {
    HttpProvider::openai_responses(&format!("{}/v1", mock.url()), Some(KeySource::value("sk-test")), common)
        .unwrap()
}

pub type Make = fn(&MockModel, Common) -> HttpProvider;

/// Every way to reach the mock.
pub const FORMS: [(&str, Make); 3] = [("messages", anthropic), ("chat", chat), ("responses", responses)];

pub fn tools() -> Arc<ToolSet> {
    let schema = json!({"type": "object", "properties": {"file_path": {"type": "string"}}});
    Arc::new(ToolSet::new([
        ToolDef::new("Read", "Reads a file.", schema.clone()),
        ToolDef::new("Write", "Writes a file.", schema.clone()),
        ToolDef::new("Bash", "Runs a command.", schema),
    ]))
}

pub fn request(messages: impl IntoIterator<Item = Message>) -> Request {
    Request { tools: tools(), ..Request::new(MODEL, messages) }
}

pub fn say(text: &str) -> Request {
    request([Message::user(text)])
}

/// Nothing in these tests takes longer, unless it hangs.
pub async fn soon<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(60), future).await.expect("hangs")
}

pub async fn ask(provider: &dyn Provider, request: Request) -> Result<Answer, ModelError> {
    soon(Answer::collect(provider.stream(request))).await
}

/// All events until the end, and the error if there is one.
pub async fn events(provider: &dyn Provider, request: Request) -> (Vec<Event>, Option<ModelError>) {
    let mut stream = provider.stream(request);
    let mut out = Vec::new();
    while let Some(event) = soon(stream.next()).await {
        match event {
            Ok(event) => out.push(event),
            Err(error) => return (out, Some(error)),
        }
    }
    (out, None)
}
