//! Content of rows, read from the log on demand.

use haft_agent::log::LogEntry;
use haft_types::{Content, MediaSource, MessageBlock, text};
use serde_json::Value;

use crate::{
    log_index::LogIndex,
    row::{IndexedCall, LogRange, RowKind},
};

/// Content of a row.
#[derive(Debug)]
pub(crate) enum RowContent {
    Words(String),
    /// An image.
    Picture(MediaSource),
    /// Input of a call.
    Call(Value),
    /// Unreadable.
    Nothing,
}

/// Result of a call.
#[derive(Debug, Default)]
pub(crate) struct CallResultView {
    pub(crate) content: Option<Content>,
    pub(crate) data: Option<Value>,
}

impl LogIndex {
    fn entry(&self, spot: LogRange) -> Option<LogEntry> {
        let line = self.line_at(spot).ok()?;
        let start = line.iter().position(|it| *it != 0)?;
        serde_json::from_slice(line[start..].trim_ascii()).ok()
    }

    /// Reads the content of a row.
    pub(crate) fn content(&self, row: usize) -> RowContent {
        let Some(row) = self.rows.get(row) else { return RowContent::Nothing };
        if row.kind == RowKind::Compacted {
            return RowContent::Nothing;
        }
        let line = match self.entry(row.spot) {
            Some(LogEntry::User(line) | LogEntry::Assistant(line)) => line,
            Some(LogEntry::Attachment(line)) => return RowContent::Words(attachment(&line.attachment)),
            _ => return RowContent::Nothing,
        };
        let block = line.message.message.content.into_iter().nth(usize::from(row.spot.block));
        match block {
            Some(MessageBlock::Text { text }) => RowContent::Words(text),
            Some(MessageBlock::Thinking { thinking, .. }) => RowContent::Words(thinking),
            Some(MessageBlock::ToolUse(call)) => RowContent::Call(call.input),
            Some(MessageBlock::Image { source }) => RowContent::Picture(source),
            Some(MessageBlock::Document { .. }) => RowContent::Words(String::from("[a document]")),
            _ => RowContent::Nothing,
        }
    }

    /// Reads the result of a call.
    pub(crate) fn result(&self, call: &IndexedCall) -> CallResultView {
        let Some(spot) = call.result else { return CallResultView::default() };
        let Some(LogEntry::User(line)) = self.entry(spot) else { return CallResultView::default() };
        let block = line.message.message.content.into_iter().nth(usize::from(spot.block));
        match block {
            Some(MessageBlock::ToolResult { content, .. }) => {
                CallResultView { content: Some(content), data: line.tool_use_result }
            }
            _ => CallResultView::default(),
        }
    }

    /// Returns the session's title: its name, else the first words, else its id.
    pub(crate) fn name(&self) -> String {
        if let Some(title) = self.title.as_ref().filter(|it| !it.trim().is_empty()) {
            return text::one_line(title, 120);
        }
        let first = (0..self.rows.len()).take(200).find(|row| self.rows[*row].kind == RowKind::Person);
        match first.map(|row| self.content(row)) {
            Some(RowContent::Words(words)) if !words.trim().is_empty() => text::one_line(words.trim(), 80),
            _ => self.id(),
        }
    }

    /// Returns the total cost in US dollars of requests with a known price.
    pub(crate) fn usd(&self) -> f64 {
        self.requests.iter().filter_map(|it| it.usd).fold(0.0, |sum, usd| sum + usd)
    }
}

fn attachment(value: &Value) -> String {
    let named = ["filename", "path", "displayPath", "type"].iter().find_map(|key| value[*key].as_str());
    let content = &value["content"];
    let words = content["file"]["content"].as_str().or_else(|| content.as_str()).unwrap_or_default();
    format!("{}\n{words}", named.unwrap_or("attached")).trim_end().to_owned()
}

/// Returns the most significant value of an input on one line.
pub(crate) fn telling(input: &Value) -> String {
    let named = [
        "command",
        "file_path",
        "notebook_path",
        "path",
        "pattern",
        "query",
        "url",
        "description",
        "subject",
        "skill",
        "to",
        "prompt",
    ];
    let found = named.iter().find_map(|key| input[*key].as_str());
    let words = found.map_or_else(|| all_fields(input), str::to_owned);
    text::one_line(&words, 160)
}

/// Returns all fields of an input on one line; lists are shown as their length.
fn all_fields(input: &Value) -> String {
    let Some(fields) = input.as_object() else { return input.to_string() };
    let words = fields.iter().map(|(name, value)| match value {
        Value::Array(list) => format!("{name}: {}", list.len()),
        Value::String(words) => format!("{name}: {words}"),
        other => format!("{name}: {other}"),
    });
    words.collect::<Vec<_>>().join(", ")
}
