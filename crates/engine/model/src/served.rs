//! Asks a local model server for the context window of a model.
//!
//! The catalog knows families of models, but the usable window is set when the server is started. The
//! server is asked once per model, before the first request and with a timeout, and only if the user
//! selected a local server; hosted providers are never asked.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use reqwest::{Client, RequestBuilder, header::HeaderMap};
use serde_json::{Value, json};

use crate::{LocalServer, ModelInfo, http_client::LazyClient};

/// Timeout for all queries about a model together.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum bytes of a response.
const MAX_BODY: usize = 4 * 1024 * 1024;
/// Smallest plausible context window in tokens; smaller values are ignored.
const MIN_WINDOW: u64 = 512;
/// Maximum share of the window for one answer: 1/4.
const ANSWER_SHARE: u64 = 4;

/// The context window of a model as reported by the server.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum ServedWindow {
    /// The server runs the model with this many tokens.
    Is(u64),
    /// The model supports this many tokens, but the server may run it with fewer.
    AtMost(u64),
}

/// Context windows reported by a local server, by model.
#[derive(Debug, Default)]
pub(crate) struct ServedModels {
    server: Option<LocalServer>,
    windows: Mutex<HashMap<String, Option<ServedWindow>>>,
}

impl ServedModels {
    /// Creates the store; without a server it never asks.
    pub(crate) fn of(server: Option<LocalServer>) -> Self {
        Self { server, ..Self::default() }
    }

    /// Applies the reported window to `info`. If the user set the window, it is only lowered and
    /// `max_output` is left unchanged; otherwise `max_output` is limited to a quarter of the window.
    pub(crate) fn apply(&self, model: &str, info: &mut ModelInfo, is_of_user: bool) {
        let windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(Some(window)) = windows.get(model) else { return };
        info.window = match *window {
            ServedWindow::Is(tokens) if !is_of_user => tokens,
            ServedWindow::Is(tokens) | ServedWindow::AtMost(tokens) => info.window.min(tokens),
        };
        if !is_of_user {
            info.max_output = info.max_output.min(info.window / ANSWER_SHARE);
        }
    }

    /// Queries the server about a model, unless it was asked before. `base` is the URL that
    /// `/chat/completions` is appended to.
    pub(crate) async fn ask(&self, client: &LazyClient, headers: &HeaderMap, base: &str, model: &str) {
        let Some(server) = self.server.filter(|_| !self.is_asked(model)) else { return };
        let Ok(client) = client.get() else { return };
        let base = base.trim_end_matches('/');
        let root = base.strip_suffix("/v1").unwrap_or(base);
        let asked = Questions { client, headers, root, model };
        let window = tokio::time::timeout(TIMEOUT, asked.window(server.name)).await.unwrap_or_default();
        tracing::debug!(model, server = server.name, ?window, "asked for the window");
        self.windows.lock().unwrap_or_else(PoisonError::into_inner).insert(model.to_owned(), window);
    }

    fn is_asked(&self, model: &str) -> bool {
        self.windows.lock().unwrap_or_else(PoisonError::into_inner).contains_key(model)
    }
}

/// Returns the context window in an entry of `/v1/models`: vLLM's `max_model_len` or llama.cpp's
/// `meta.n_ctx`.
pub fn listed_window(entry: &Value) -> Option<u64> {
    entry["max_model_len"].as_u64().or_else(|| entry["meta"]["n_ctx"].as_u64())
}

/// Sends the queries about one model.
struct Questions<'a> {
    client: &'a Client,
    headers: &'a HeaderMap,
    root: &'a str,
    model: &'a str,
}

impl Questions<'_> {
    async fn window(&self, server: &str) -> Option<ServedWindow> {
        let window = match server {
            "ollama" => self.ollama().await,
            "lmstudio" => self.lmstudio().await,
            // A slot of llama.cpp may have a smaller window than the list says.
            "llamacpp" => match tokio::join!(self.listed(), self.props()) {
                (Some(listed), Some(slot)) => Some(ServedWindow::Is(listed.min(slot))),
                (listed, slot) => listed.or(slot).map(ServedWindow::Is),
            },
            _ => self.listed().await.map(ServedWindow::Is),
        };
        window.filter(|it| {
            let (ServedWindow::Is(tokens) | ServedWindow::AtMost(tokens)) = it;
            MIN_WINDOW <= *tokens
        })
    }

    async fn listed(&self) -> Option<u64> {
        let list = self.get("/v1/models").await?;
        let only = || list["data"].as_array().filter(|it| it.len() == 1)?.first();
        listed_window(self.entry(&list["data"], "id").or_else(only)?)
    }

    async fn props(&self) -> Option<u64> {
        self.get("/props").await?["default_generation_settings"]["n_ctx"].as_u64()
    }

    async fn lmstudio(&self) -> Option<ServedWindow> {
        let list = self.get("/api/v0/models").await?;
        let entry = self.entry(&list["data"], "id")?;
        let loaded = entry["loaded_context_length"].as_u64().map(ServedWindow::Is);
        loaded.or_else(|| entry["max_context_length"].as_u64().map(ServedWindow::AtMost))
    }

    /// Returns the `num_ctx` of the Modelfile, else the window the model is loaded with, else the one it
    /// was trained with.
    async fn ollama(&self) -> Option<ServedWindow> {
        let shown = self.client.post(format!("{}/api/show", self.root)).json(&json!({"model": self.model}));
        let (shown, running) = tokio::join!(self.answer(shown), self.get("/api/ps"));
        let parameters = shown.as_ref().and_then(|it| it["parameters"].as_str()).unwrap_or_default();
        let set =
            parameters.lines().find_map(|line| line.trim().strip_prefix("num_ctx")?.trim().parse().ok());
        let loaded = || self.entry(&running.as_ref()?["models"], "model")?["context_length"].as_u64();
        let trained = || {
            let mut facts = shown.as_ref()?["model_info"].as_object()?.iter();
            facts.find(|(name, _)| name.ends_with(".context_length"))?.1.as_u64()
        };
        set.or_else(loaded).map(ServedWindow::Is).or_else(|| trained().map(ServedWindow::AtMost))
    }

    /// Finds the model's entry in a list.
    fn entry<'v>(&self, list: &'v Value, name: &str) -> Option<&'v Value> {
        let is_it = |it: &str| it == self.model || it.strip_suffix(":latest") == Some(self.model);
        list.as_array()?.iter().find(|entry| entry[name].as_str().is_some_and(is_it))
    }

    async fn get(&self, path: &str) -> Option<Value> {
        self.answer(self.client.get(format!("{}{path}", self.root))).await
    }

    async fn answer(&self, request: RequestBuilder) -> Option<Value> {
        let mut response = request.headers(self.headers.clone()).send().await.ok()?;
        if !response.status().is_success() {
            return None;
        }
        let mut body = Vec::new();
        while let Some(piece) = response.chunk().await.ok()? {
            body.extend_from_slice(&piece);
            if MAX_BODY < body.len() {
                return None;
            }
        }
        serde_json::from_slice(&body).ok()
    }
}
