//! What a server of local models says about the window of a model it serves.
//!
//! The list of models knows families; how much fits is decided where the server is
//! started. It is asked once per model, before the first request, for a bounded time,
//! and only where a local server was named: hosted providers are never asked.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use reqwest::{Client, RequestBuilder, header::HeaderMap};
use serde_json::{Value, json};

use crate::{LocalServer, ModelInfo, http_client::LazyClient};

/// Time for all questions about a model together.
const TIMEOUT: Duration = Duration::from_secs(2);
/// More than any answer has.
const MAX_BODY: usize = 4 * 1024 * 1024;
/// No model has a smaller window; a server that says so means something else.
const MIN_WINDOW: u64 = 512;
/// The part of a window that one answer may take.
const ANSWER_SHARE: u64 = 4;

/// What is known about the window of a model.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum ServedWindow {
    /// The server was started with this many tokens.
    Is(u64),
    /// The model has this many; the server may have been started with fewer.
    AtMost(u64),
}

/// The models of a local server, as far as it was asked about them.
#[derive(Debug, Default)]
pub(crate) struct ServedModels {
    server: Option<LocalServer>,
    windows: Mutex<HashMap<String, Option<ServedWindow>>>,
}

impl ServedModels {
    /// For a server of that kind; nobody is asked without one.
    pub(crate) fn of(server: Option<LocalServer>) -> Self {
        Self { server, ..Self::default() }
    }

    /// Puts what the server said into what the list says. A window that the user set
    /// is not made larger, and neither is the length of answers changed then.
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

    /// Asks the server about a model, unless it was asked before. `base` is the address
    /// that `/chat/completions` is appended to.
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

/// The window that an entry of `/v1/models` tells: vLLM's `max_model_len`, llama.cpp's
/// `meta.n_ctx`.
pub fn listed_window(entry: &Value) -> Option<u64> {
    entry["max_model_len"].as_u64().or_else(|| entry["meta"]["n_ctx"].as_u64())
}

/// Questions to a server about a model.
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
            // A slot of llama.cpp may have less than the list tells.
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

    /// What the model was made with, else what it is loaded with, else what it was
    /// trained with.
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

    /// The entry of the model in a list.
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
