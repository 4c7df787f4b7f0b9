//! Sub-agents of a session: their tasks, and where their own logs are.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use haft_model::Catalog;
use serde_json::Value;

use crate::{log_index::LogIndex, log_locations::LogLocations};

/// Maximum number of agents shown.
const MOST: usize = 500;

/// A sub-agent.
#[derive(Debug)]
pub(crate) struct ShownAgent {
    pub(crate) id: String,
    pub(crate) parent: Option<String>,
    pub(crate) kind: String,
    pub(crate) description: String,
    pub(crate) status: String,
    pub(crate) model: String,
    pub(crate) calls: usize,
    pub(crate) micros: Option<u64>,
    pub(crate) usd: f64,
    /// Key of the page for its own log.
    pub(crate) key: Option<String>,
}

impl ShownAgent {
    /// Returns the agents whose logs are stored beside the session's log. With `places`, their logs get
    /// pages.
    pub(crate) fn all(index: &LogIndex, places: Option<&LogLocations>) -> Vec<Self> {
        let mut logs = agent_logs(index);
        logs.sort();
        let catalog = Catalog::built_in();
        let read = |path: &PathBuf| Self::read(path, Arc::clone(&catalog), places);
        logs.iter().take(MOST).filter_map(read).collect()
    }

    fn read(path: &Path, catalog: Arc<Catalog>, places: Option<&LogLocations>) -> Option<Self> {
        let index = LogIndex::read(path, catalog).ok()?;
        let meta = std::fs::read(path.with_extension("meta.json")).ok();
        let meta: Value = meta.and_then(|it| serde_json::from_slice(&it).ok()).unwrap_or(Value::Null);
        let word = |key: &str| meta[key].as_str().unwrap_or_default().to_owned();
        let id = index.id().strip_prefix("agent-").map_or_else(|| index.id(), str::to_owned);
        let span = index.last.zip(index.began).and_then(|(last, began)| u64::try_from(last - began).ok());
        let status = match (meta["status"].as_str(), &meta["finished"]) {
            (Some(status), _) => status.to_owned(),
            (None, Value::Bool(true)) => String::from("finished"),
            (None, Value::Bool(false)) => String::from("not finished"),
            _ => String::from("logged"),
        };
        let model = index.requests.last().map(|it| it.model.clone()).filter(|it| !it.is_empty());
        Some(Self {
            parent: meta["parentAgentId"].as_str().map(str::to_owned),
            kind: Some(word("agentType"))
                .filter(|it| !it.is_empty())
                .unwrap_or_else(|| String::from("agent")),
            description: Some(word("description"))
                .filter(|it| !it.is_empty())
                .unwrap_or_else(|| index.name()),
            status,
            model: model.unwrap_or_else(|| word("model")),
            calls: index.calls.len(),
            micros: span.and_then(|it| it.checked_mul(1000)),
            usd: index.usd(),
            key: places.map(|it| it.add(path)),
            id,
        })
    }
}

fn agent_logs(index: &LogIndex) -> Vec<PathBuf> {
    let dir = index.path().with_extension("").join("subagents");
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|it| it.path());
    entries
        .filter(|it| it.extension().is_some_and(|it| it == "jsonl") && it.is_file())
        .filter(|it| is_agent(it))
        .collect()
}

fn is_agent(path: &Path) -> bool {
    path.file_name().is_some_and(|it| it.to_string_lossy().starts_with("agent-"))
}
