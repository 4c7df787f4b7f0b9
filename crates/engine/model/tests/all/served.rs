//! Context windows reported by local model servers.

use std::sync::{Arc, Mutex};

use haft_model::{Catalog, HttpProvider, KeySettings, Provider, ProviderChoice, ProviderOptions};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

use crate::support::{is_whole, quick, soon};

const MODEL: &str = "qwen2.5-coder:7b";

/// A server that serves these paths and records which were requested.
struct Routes {
    url: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Routes {
    async fn serving(routes: Value) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&asked);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut head = Vec::new();
                while !is_whole(&head) {
                    let mut part = [0; 4096];
                    match stream.read(&mut part).await {
                        Ok(0) | Err(_) => break,
                        Ok(length) => head.extend_from_slice(&part[..length]),
                    }
                }
                let head = String::from_utf8_lossy(&head).into_owned();
                let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
                seen.lock().unwrap().push(path.clone());
                let (status, body) = match routes.get(&path) {
                    Some(body) => (200, body.to_string()),
                    None => (404, String::from("{}")),
                };
                let answer = format!(
                    "HTTP/1.1 {status} x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
                    body.len()
                );
                stream.write_all(answer.as_bytes()).await.ok();
            }
        });
        Self { url, asked }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    fn provider(&self, variables: &[(&str, &str)], common: ProviderOptions) -> HttpProvider {
        let env = |name: &str| match name {
            "HAFT_LOCAL_URL" => Some(self.url.clone()),
            "OPENAI_BASE_URL" => Some(format!("{}/v1", self.url)),
            name => variables.iter().find(|(it, _)| *it == name).map(|(_, value)| (*value).to_owned()),
        };
        ProviderChoice::from_env(&env, &KeySettings::default()).unwrap().build(common).unwrap()
    }
}

#[tokio::test]
async fn local_server_is_asked_once_for_model_window() {
    let list = |entry: Value| json!({"object": "list", "data": [entry]});
    let props = |tokens: u64| json!({"default_generation_settings": {"n_ctx": tokens}});
    let trained = json!({"model_info": {"qwen2.context_length": 65_536}});
    for (server, routes, want) in [
        ("llamacpp", json!({"/v1/models": list(json!({"id": MODEL, "meta": {"n_ctx": 32_768}}))}), 32_768),
        ("llamacpp", json!({"/v1/models": list(json!({"id": "m.gguf", "meta": {"n_ctx": 32_768}}))}), 32_768),
        ("llamacpp", json!({"/props": props(16_384)}), 16_384),
        // Four slots share the listed window.
        (
            "llamacpp",
            json!({"/v1/models": list(json!({"id": MODEL, "meta": {"n_ctx": 32_768}})), "/props": props(8_192)}),
            8_192,
        ),
        ("llamacpp", json!({"/props": props(262_144)}), 262_144),
        ("vllm", json!({"/v1/models": list(json!({"id": MODEL, "max_model_len": 24_576}))}), 24_576),
        (
            "lmstudio",
            json!({"/api/v0/models": list(json!({"id": MODEL, "loaded_context_length": 12_288,
            "max_context_length": 32_768}))}),
            12_288,
        ),
        (
            "lmstudio",
            json!({"/api/v0/models": list(json!({"id": MODEL, "max_context_length": 32_768}))}),
            32_768,
        ),
        (
            "ollama",
            json!({"/api/show": {"parameters": "stop \"x\"\nnum_ctx                        10240",
            "model_info": {"qwen2.context_length": 65_536}}}),
            10_240,
        ),
        (
            "ollama",
            json!({"/api/show": trained,
            "/api/ps": {"models": [{"model": MODEL, "context_length": 4_096}]}}),
            4_096,
        ),
        // Another model is loaded.
        (
            "ollama",
            json!({"/api/show": trained,
            "/api/ps": {"models": [{"model": "other:1b", "context_length": 4_096}]}}),
            65_536,
        ),
        // The window of the training is only an upper bound.
        ("ollama", json!({"/api/show": {"model_info": {"qwen2.context_length": 1_000_000}}}), 131_072),
        // Nothing, nonsense, and an implausible window.
        ("llamacpp", json!({}), 131_072),
        ("vllm", json!({"/v1/models": "no list"}), 131_072),
        ("vllm", json!({"/v1/models": list(json!({"id": MODEL, "max_model_len": 0}))}), 131_072),
    ] {
        let served = Routes::serving(routes.clone()).await;
        let provider = served.provider(&[("HAFT_LOCAL", server)], quick());
        assert_eq!(provider.info(MODEL).window, 131_072, "the list, before anybody is asked");
        soon(provider.prepare(MODEL)).await;
        let info = provider.info(MODEL);
        assert_eq!(info.window, want, "{server} {routes}");
        let is_told = want != 131_072 || routes.to_string().contains("1000000");
        let most = if is_told { 32_768.min(want / 4) } else { 32_768 };
        assert_eq!(info.max_output, most, "{server} {routes}");
        let asked = served.asked().len();
        assert!((1..=2).contains(&asked), "{:?}", served.asked());
        soon(provider.prepare(MODEL)).await;
        assert_eq!(served.asked().len(), asked, "it is asked once");
    }
}

#[tokio::test]
async fn user_window_is_not_enlarged_by_server() {
    for (own, served, want) in [(8_192, 32_768, 8_192), (65_536, 32_768, 32_768)] {
        let routes =
            Routes::serving(json!({"/props": {"default_generation_settings": {"n_ctx": served}}})).await;
        let entry = json!([{"id": "qwen2.5-coder", "window": own, "max_output": 4_000}]).to_string();
        let catalog = Arc::new(Catalog::built_in().with(&entry).unwrap());
        let provider = routes.provider(&[("HAFT_LOCAL", "llamacpp")], ProviderOptions { catalog, ..quick() });
        soon(provider.prepare(MODEL)).await;
        let info = provider.info(MODEL);
        assert_eq!((info.window, info.max_output), (want, 4_000));
    }
}

#[tokio::test]
async fn server_not_marked_local_is_not_queried() {
    let served = Routes::serving(json!({"/props": {"default_generation_settings": {"n_ctx": 4_096}}})).await;
    let provider = served.provider(&[("HAFT_USE_OPENAI", "1")], quick());
    soon(provider.prepare(MODEL)).await;
    assert_eq!((served.asked().len(), provider.info(MODEL).window), (0, 131_072));
}
