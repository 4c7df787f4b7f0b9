//! Records a run in one file: prompts, answers of the model, results of calls. A recording can be
//! replayed without the model, and optionally without running tools.
//!
//! The format is JSON lines: the [`RecordingHeader`], then prompts, exchanges and calls in order.
//! Directories are replaced by names, secrets are masked, and each request is stored as the difference
//! to the previous one.

mod compare;
mod directories;
mod recorder;
mod transcript;

use std::{
    collections::HashMap,
    fs::File,
    io::{self, BufRead as _, BufReader},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use haft_model::{Catalog, ModelError, Provider, RecordedExchange, ReplayProvider, RequestNormalizer};
use haft_tool::{ContextChange, ErrorKind};
use haft_tool_runtime::CallReport;
use haft_types::{CallId, Content, Message, MessageBlock, ToolUse};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use self::{directories::RecordingDirs, recorder::RunRecorder, transcript::RunTranscript};
use crate::{AgentSettings, SystemPrompt, secret_masker::Masker};

/// Version of the format.
const VERSION: u32 = 1;

/// The first line of a recording: the initial state of the run.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct RecordingHeader {
    /// Version of the format.
    pub haft_cassette: u32,
    /// Request settings.
    pub settings: AgentSettings,
    /// The system prompt.
    pub prompt: SystemPrompt,
    /// JSON Schema of the output, if one was required.
    pub output_schema: Option<Value>,
    /// Names of the available tools.
    pub tools: Vec<String>,
    /// The conversation the run started with.
    pub messages: Vec<Message>,
}

/// An MCP tool in a recording.
#[derive(Clone, Debug)]
pub struct RecordedTool {
    pub name: String,
    /// Its description for the model.
    pub description: String,
    /// Its input schema.
    pub input_schema: Value,
    /// Whether the first request declares it.
    pub is_declared_first: bool,
}

/// A line after the first one.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum RecordingLine {
    /// A prompt.
    Prompt(Vec<MessageBlock>),
    /// A model request and its answer.
    Exchange(RecordedExchange),
    /// A finished call.
    Call(RecordedCall),
}

/// The result of a recorded call.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct RecordedCall {
    id: CallId,
    name: String,
    input: Value,
    content: Content,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<ErrorKind>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    data: Option<Value>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    new_messages: Vec<Message>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    changes: Vec<ContextChange>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stop: Option<String>,
}

impl RecordedCall {
    fn report(&self) -> CallReport {
        let mut report =
            CallReport::refused(self.id.clone(), self.name.clone(), ErrorKind::Failed, String::new());
        report.content = self.content.clone();
        report.error = self.error;
        report.data.clone_from(&self.data);
        report.new_messages.clone_from(&self.new_messages);
        report.changes.clone_from(&self.changes);
        report.stop.clone_from(&self.stop);
        report
    }
}

/// A loaded recording, for a replay in other directories.
#[derive(Debug)]
pub struct RecordedRun {
    pub header: RecordingHeader,
    /// The prompts, in order.
    pub prompts: Vec<Vec<MessageBlock>>,
    exchanges: Vec<RecordedExchange>,
    calls: HashMap<CallId, RecordedCall>,
    places: RecordingDirs,
    /// Recorded ids and the corresponding ids of the replay.
    ids: Mutex<Vec<(String, String)>>,
}

impl RecordedRun {
    /// Loads a recording, for a replay in these directories.
    pub fn load(path: &Path, places: RecordingDirs) -> io::Result<Self> {
        let mut lines = BufReader::new(File::open(path)?).lines();
        let bad = |at: usize, err: String| {
            io::Error::new(io::ErrorKind::InvalidData, format!("line {at} is not of a cassette: {err}"))
        };
        let first = lines.next().transpose()?.unwrap_or_default();
        let header: RecordingHeader = read_line(&first, &places).map_err(|err| bad(1, err))?;
        if header.haft_cassette != VERSION {
            return Err(bad(1, format!("version {} is not known here", header.haft_cassette)));
        }
        let mut cassette = Self {
            header,
            prompts: Vec::new(),
            exchanges: Vec::new(),
            calls: HashMap::new(),
            places: places.clone(),
            ids: Mutex::default(),
        };
        let mut last = Value::Null;
        for (at, line) in lines.enumerate() {
            let line = line?;
            if line.trim().is_empty() {
                continue;
            }
            cassette.take(&line, &mut last).map_err(|err| bad(at + 2, err))?;
        }
        Ok(cassette)
    }

    fn take(&mut self, line: &str, last: &mut Value) -> Result<(), String> {
        let mut value: Value = serde_json::from_str(line).map_err(|err| err.to_string())?;
        if let Some(exchange) = value.get_mut("exchange") {
            // Requests are not converted: they are compared with names instead of paths.
            let request = exchange["request"].take();
            *last = recorder::whole(request, last);
            self.places.to_paths(exchange);
            exchange["request"] = last.clone();
        } else {
            self.places.to_paths(&mut value);
        }
        match serde_json::from_value(value).map_err(|err| err.to_string())? {
            RecordingLine::Prompt(content) => self.prompts.push(content),
            RecordingLine::Exchange(exchange) => self.exchanges.push(exchange),
            RecordingLine::Call(call) => {
                self.calls.insert(call.id.clone(), call);
            }
        }
        Ok(())
    }

    /// The MCP tools that recorded requests declare.
    pub fn server_tools(&self) -> Vec<RecordedTool> {
        let mut found: Vec<RecordedTool> = Vec::new();
        for (at, exchange) in self.exchanges.iter().enumerate() {
            let declared = exchange.request["tools"].as_array().into_iter().flatten();
            for tool in declared.filter(|it| it["origin"] == "external") {
                let name = tool["name"].as_str().unwrap_or_default();
                if found.iter().any(|it| it.name == name) {
                    continue;
                }
                let mut tool = tool.clone();
                self.places.to_paths(&mut tool);
                found.push(RecordedTool {
                    name: name.to_owned(),
                    description: tool["description"].as_str().unwrap_or_default().to_owned(),
                    input_schema: tool["input_schema"].take(),
                    is_declared_first: at == 0,
                });
            }
        }
        // MCP tools that were available but never declared.
        let is_of_server = |it: &&String| it.starts_with("mcp__");
        for name in self.header.tools.iter().filter(is_of_server) {
            if !found.iter().any(|it| it.name == *name) {
                let input_schema = serde_json::json!({"type": "object"});
                let (name, description) = (name.clone(), String::new());
                found.push(RecordedTool { name, description, input_schema, is_declared_first: false });
            }
        }
        found
    }

    /// Number of model requests.
    pub fn exchanges(&self) -> usize {
        self.exchanges.len()
    }

    /// A provider that answers from the recording.
    pub fn model(&self, catalog: Arc<Catalog>) -> ReplayProvider {
        ReplayProvider::new(self.exchanges.clone(), self.normalise(), catalog)
    }

    /// Like [`RecordedRun::model`] for the first `turns` requests; later requests go to `live`.
    pub fn fork(
        &self,
        turns: usize,
        catalog: Arc<Catalog>,
        live: Arc<dyn Provider>,
    ) -> impl Provider + use<> {
        let first = self.exchanges.iter().take(turns).cloned().collect();
        let replay = ReplayProvider::new(first, self.normalise(), catalog);
        recorder::RecordedThenLive::new(replay, turns, live)
    }

    fn normalise(&self) -> RequestNormalizer {
        let (places, masker) = (self.places.clone(), Masker::of_env(std::env::vars()));
        Arc::new(move |request| {
            masker.mask_value(request);
            places.to_names(request);
        })
    }

    /// The recorded result of a call.
    pub(crate) fn call(&self, id: &CallId) -> Option<CallReport> {
        self.calls.get(id).map(RecordedCall::report)
    }

    /// Compares a new result with the recorded one. If they differ in ids and durations only, the
    /// recorded one is used, and recorded ids in later calls are replaced by the new ones.
    pub(crate) fn reconcile(&self, report: &mut CallReport) {
        let Some(recorded) = self.calls.get(&report.id) else { return };
        if recorded.error != report.error || recorded.content.0.len() != report.content.0.len() {
            return;
        }
        let texts = recorded.content.0.iter().zip(&report.content.0).map(|(old, new)| {
            match (old.as_text(), new.as_text()) {
                (Some(old), Some(new)) => compare::same_but_ids(old, new),
                _ => (old == new).then(Vec::new),
            }
        });
        let Some(ids) = texts.collect::<Option<Vec<_>>>() else { return };
        report.content = recorded.content.clone();
        self.ids.lock().unwrap_or_else(PoisonError::into_inner).extend(ids.into_iter().flatten());
    }

    /// Replaces recorded ids in a call by those of this run.
    pub(crate) fn with_new_ids(&self, mut call: ToolUse) -> ToolUse {
        let ids = self.ids.lock().unwrap_or_else(PoisonError::into_inner);
        directories::each_text(&mut call.input, &mut |text| {
            for (old, new) in ids.iter().filter(|(old, _)| text.contains(old.as_str())).collect::<Vec<_>>() {
                *text = text.replace(old.as_str(), new);
            }
        });
        call
    }

    /// The error for a call that was not recorded.
    pub(crate) fn miss(&self, call: &ToolUse) -> ModelError {
        let message = format!(
            "the call {} ({}) was not recorded; run it again with real tools (--tools real)",
            call.id, call.name
        );
        ModelError::ReplayMiss { message }
    }
}

fn read_line<T: serde::de::DeserializeOwned>(line: &str, places: &RecordingDirs) -> Result<T, String> {
    let mut value: Value = serde_json::from_str(line).map_err(|err| err.to_string())?;
    places.to_paths(&mut value);
    serde_json::from_value(value).map_err(|err| err.to_string())
}
