//! Records a run.

use std::{
    fs::{File, OpenOptions},
    io::{self, BufRead as _, BufReader, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use haft_model::{
    ModelError, ModelEvent, ModelInfo, ModelStream, Provider, ProviderFuture, RecordedExchange,
    RecordingProvider, ReplayProvider, Request,
};
use haft_tool_runtime::CallReport;
use haft_types::{MessageBlock, ToolUse};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{RecordedCall, RecordingDirs, RecordingHeader, RecordingLine};
use crate::secret_masker::Masker;

/// Writes a recording.
pub struct RunRecorder {
    inner: Mutex<TapeInner>,
    places: RecordingDirs,
    masker: Masker,
}

struct TapeInner {
    file: File,
    /// The last request that was written.
    last: Value,
    failed: Option<io::Error>,
}

impl RunRecorder {
    /// Creates a recording. Fails if the file exists and is not a recording.
    pub fn create(
        path: &Path,
        header: &RecordingHeader,
        places: RecordingDirs,
        masker: Masker,
    ) -> io::Result<Arc<Self>> {
        if let Some(first) = first_line(path)?
            && !first.contains("\"haft_cassette\"")
        {
            let problem = "the file exists and is no cassette; name another one";
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, problem));
        }
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
        let tape =
            Self { inner: Mutex::new(TapeInner { file, last: Value::Null, failed: None }), places, masker };
        tape.write(header);
        match tape.take_error() {
            Some(err) => Err(err),
            None => Ok(Arc::new(tape)),
        }
    }

    /// Wraps a provider so that its requests are recorded.
    pub(crate) fn provider(self: &Arc<Self>, inner: Arc<dyn Provider>) -> Arc<dyn Provider> {
        let (normaliser, sink) = (Arc::clone(self), Arc::clone(self));
        let normalise = Arc::new(move |request: &mut Value| {
            normaliser.masker.mask_value(request);
            normaliser.places.to_names(request);
        });
        Arc::new(RecordingProvider::new(inner, normalise, move |exchange| sink.exchange(exchange)))
    }

    /// The error that stopped the recording, once.
    pub(crate) fn take_error(&self) -> Option<io::Error> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).failed.take()
    }

    pub(crate) fn prompt(&self, content: &[MessageBlock]) {
        self.write(&RecordingLine::Prompt(content.to_vec()));
    }

    pub(crate) fn call(&self, call: &ToolUse, report: &CallReport) {
        self.write(&RecordingLine::Call(RecordedCall {
            id: report.id.clone(),
            name: report.name.clone(),
            input: call.input.clone(),
            content: report.content.clone(),
            error: report.error,
            data: report.data.clone(),
            new_messages: report.new_messages.clone(),
            changes: report.changes.clone(),
            stop: report.stop.clone(),
        }));
    }

    fn exchange(&self, mut exchange: RecordedExchange) {
        // Streamed pieces are only for display, and a path can be split between two of them.
        let is_piece = |event: &ModelEvent| {
            matches!(
                event,
                ModelEvent::Text(_)
                    | ModelEvent::Thinking(_)
                    | ModelEvent::ToolStarted { .. }
                    | ModelEvent::ToolInput { .. }
            )
        };
        exchange.events.retain(|event| !is_piece(event));
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let request = std::mem::take(&mut exchange.request);
        exchange.request = added(&request, &inner.last);
        inner.last = request;
        drop(inner);
        self.write(&RecordingLine::Exchange(exchange));
    }

    fn write(&self, line: &impl Serialize) {
        let mut value = serde_json::to_value(line).unwrap_or_default();
        self.masker.mask_value(&mut value);
        self.places.to_names(&mut value);
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(err) = inner.file.write_all(format!("{value}\n").as_bytes()) {
            inner.failed.get_or_insert(err);
        }
    }
}

fn first_line(path: &Path) -> io::Result<Option<String>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(err) => return Err(err),
    };
    let mut first = Vec::new();
    BufReader::new(io::Read::take(file, 4096)).read_until(b'\n', &mut first)?;
    Ok(Some(String::from_utf8_lossy(&first).into_owned()).filter(|it| !it.is_empty()))
}

/// The difference of a request to the previous one: changed fields, and of lists only what follows the
/// common prefix.
fn added(request: &Value, last: &Value) -> Value {
    let (Value::Object(fields), Value::Object(before)) = (request, last) else { return request.clone() };
    let mut new = Map::new();
    for (name, value) in fields {
        match (value, before.get(name)) {
            (value, Some(old)) if value == old => (),
            (Value::Array(items), Some(Value::Array(old))) => {
                let same = items.iter().zip(old).take_while(|(a, b)| a == b).count();
                new.insert(name.clone(), json!({"same": same, "then": items[same..]}));
            }
            (value, _) => {
                new.insert(name.clone(), json!({"is": value}));
            }
        }
    }
    let gone: Vec<&String> = before.keys().filter(|name| !fields.contains_key(*name)).collect();
    json!({"differs": new, "gone": gone})
}

/// Restores a request from [`added`].
pub(super) fn whole(added: Value, last: &Value) -> Value {
    let (Some(differs), Value::Object(before)) = (added.get("differs").and_then(Value::as_object), last)
    else {
        return added;
    };
    let gone: Vec<&str> = added["gone"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let mut fields: Map<String, Value> = before.clone();
    fields.retain(|name, _| !gone.contains(&name.as_str()));
    for (name, change) in differs {
        let value = match (change.get("is"), change["same"].as_u64()) {
            (Some(value), _) => value.clone(),
            (None, Some(same)) => {
                let old = before.get(name).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
                let same = usize::try_from(same).unwrap_or(usize::MAX).min(old.len());
                let then = change["then"].as_array().into_iter().flatten();
                Value::Array(old[..same].iter().chain(then).cloned().collect())
            }
            (None, None) => Value::Null,
        };
        fields.insert(name.clone(), value);
    }
    Value::Object(fields)
}

/// A provider that answers from the recording for a number of requests, then asks another provider.
pub(super) struct RecordedThenLive {
    replay: ReplayProvider,
    turns: usize,
    live: Arc<dyn Provider>,
    asked: AtomicUsize,
}

impl RecordedThenLive {
    pub(super) fn new(replay: ReplayProvider, turns: usize, live: Arc<dyn Provider>) -> Self {
        Self { replay, turns, live, asked: AtomicUsize::new(0) }
    }
}

impl Provider for RecordedThenLive {
    fn name(&self) -> &str {
        self.live.name()
    }

    fn info(&self, model: &str) -> ModelInfo {
        self.live.info(model)
    }

    fn stream(&self, request: Request) -> ModelStream {
        if self.asked.fetch_add(1, Ordering::Relaxed) < self.turns {
            self.replay.stream(request)
        } else {
            self.live.stream(request)
        }
    }

    fn count_tokens(&self, request: Request) -> ProviderFuture<'_, Result<u64, ModelError>> {
        self.live.count_tokens(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_added_gives_the_whole_again() {
        let requests = [
            json!({"model": "a", "system": ["x"], "messages": [1, 2]}),
            json!({"model": "a", "system": ["x"], "messages": [1, 2, 3]}),
            json!({"model": "b", "system": ["x"], "messages": [1, 9], "effort": "low"}),
            json!({"model": "b", "messages": []}),
            json!({"model": "b", "messages": {"same": 1}}),
        ];
        let (mut before, mut read) = (Value::Null, Value::Null);
        for request in requests {
            let line = added(&request, &before);
            read = whole(line, &read);
            assert_eq!(read, request);
            before = request;
        }
    }
}
