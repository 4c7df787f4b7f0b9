use std::{sync::Arc, time::Duration};

use futures_util::StreamExt as _;
use haft_model::{
    AnthropicLogin, ChatOptions, HttpProvider, KeySource, ModelAnswer, ModelError, ModelEvent, Provider,
    ProviderOptions, Request, RetryPolicy, StreamTimeouts, ToolDef, ToolSet,
};
use haft_testkit::{MockModel, Script, Turn};
use haft_types::Message;
use serde_json::json;

pub const MODEL: &str = "claude-opus-4-6";

/// No delay between retries, and short timeouts.
pub fn quick() -> ProviderOptions {
    ProviderOptions {
        retry: RetryPolicy { base: Duration::from_millis(1), ..RetryPolicy::default() },
        patience: StreamTimeouts {
            first_byte: Duration::from_secs(20),
            ..StreamTimeouts::idle(Duration::from_secs(20))
        },
        ..ProviderOptions::default()
    }
}

pub async fn mock(turns: impl IntoIterator<Item = Turn>) -> MockModel {
    start(Script::from_turns(turns)).await
}

pub async fn start(script: Script) -> MockModel {
    MockModel::start(script).await.unwrap()
}

pub fn anthropic(mock: &MockModel, common: ProviderOptions) -> HttpProvider {
    HttpProvider::anthropic(&mock.url(), AnthropicLogin::ApiKey(KeySource::value("sk-test")), common).unwrap()
}

pub fn chat(mock: &MockModel, common: ProviderOptions) -> HttpProvider {
    let key = Some(KeySource::value("sk-test"));
    HttpProvider::openai_chat(&format!("{}/v1", mock.url()), key, ChatOptions::default(), common).unwrap()
}

pub fn responses(mock: &MockModel, common: ProviderOptions) -> HttpProvider {
    HttpProvider::openai_responses(&format!("{}/v1", mock.url()), Some(KeySource::value("sk-test")), common)
        .unwrap()
}

pub fn gemini(mock: &MockModel, common: ProviderOptions) -> HttpProvider {
    HttpProvider::gemini(&mock.url(), Some(KeySource::value("sk-test")), common).unwrap()
}

pub fn foundry(mock: &MockModel, common: ProviderOptions) -> HttpProvider {
    let login = haft_model::FoundryLogin::ApiKey(KeySource::value("sk-test"));
    HttpProvider::foundry(&format!("{}/anthropic", mock.url()), login, common).unwrap()
}

pub fn vertex(mock: &MockModel, common: ProviderOptions) -> HttpProvider {
    let place = haft_model::VertexLocation {
        project: "p1".to_owned(),
        region: "global".to_owned(),
        base_url: Some(mock.url()),
    };
    HttpProvider::vertex(place, haft_model::VertexLogin::Token(KeySource::value("sk-test")), common).unwrap()
}

#[cfg(feature = "bedrock")]
pub fn bedrock(mock: &MockModel, common: ProviderOptions) -> HttpProvider {
    let login = haft_model::AwsLogin::Keys {
        access_key: "AKIDEXAMPLE".to_owned(),
        secret_key: haft_model::SecretString::new("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"),
        session_token: Some(haft_model::SecretString::new("token")),
    };
    HttpProvider::bedrock("us-east-1", Some(&mock.url()), login, common).unwrap()
}

pub type Make = fn(&MockModel, ProviderOptions) -> HttpProvider;

/// Every provider type against the mock.
pub fn forms() -> Vec<(&'static str, &'static str, Make)> {
    vec![
        ("anthropic", MODEL, anthropic),
        ("foundry", MODEL, foundry),
        ("vertex", "claude-opus-4-6@20260101", vertex),
        #[cfg(feature = "bedrock")]
        ("bedrock", "us.anthropic.claude-opus-4-6-v1:0", bedrock),
        ("chat", "gpt-5", chat),
        ("responses", "gpt-5", responses),
        ("gemini", "gemini-3.1-pro-preview", gemini),
        ("gemini", "gemini-2.5-flash", gemini),
    ]
}

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

/// Fails a test that hangs.
pub async fn soon<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(60), future).await.expect("hangs")
}

pub async fn ask(provider: &dyn Provider, request: Request) -> Result<ModelAnswer, ModelError> {
    soon(ModelAnswer::collect(provider.stream(request))).await
}

/// Collects all events to the end, and the error if there is one.
pub async fn events(provider: &dyn Provider, request: Request) -> (Vec<ModelEvent>, Option<ModelError>) {
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

/// Number of cases of a property test; an environment variable raises it.
pub fn cases(usual: u32) -> u32 {
    std::env::var("HAFT_TEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// A server that answers every request with the same status and body.
pub struct Answering {
    pub url: String,
    count: Arc<std::sync::atomic::AtomicUsize>,
}

impl Answering {
    pub fn requests(&self) -> usize {
        self.count.load(std::sync::atomic::Ordering::SeqCst)
    }
}

pub async fn answering(status: u16, body: &serde_json::Value) -> Answering {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let count = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let answer = format!(
        "HTTP/1.1 {status} x\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.to_string().len()
    );
    let seen = Arc::clone(&count);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            seen.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            // Read the whole request before answering, or the client gets a connection reset.
            let (mut all, mut piece) = (Vec::new(), [0; 65536]);
            while let Ok(read @ 1..) = stream.read(&mut piece).await {
                all.extend_from_slice(&piece[..read]);
                if is_whole(&all) {
                    break;
                }
            }
            stream.write_all(answer.as_bytes()).await.ok();
            stream.shutdown().await.ok();
        }
    });
    Answering { url, count }
}

/// Whether a request including its body was received completely.
pub fn is_whole(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length =
        head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
    length.unwrap_or(0) <= body.len()
}
