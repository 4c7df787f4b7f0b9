//! Resuming another session, and showing its conversation.

use std::{
    collections::{HashMap, VecDeque},
    io::{BufRead as _, BufReader},
    path::Path,
    sync::Arc,
    time::SystemTime,
};

use haft_agent::log::{LogEntry, session_list};
use haft_session::{CallPipeline, Command, EventStream, LogStart, SessionHandle, SessionLogs};
use haft_tool::{CallContext, LineStyle, Rendered, RenderedLine};
use haft_tui::{FinishedCall, PickerRow, UiUpdate};
use haft_types::{CallId, Message, MessageBlock, Role, ToolUse, text};
use serde_json::Value;

use super::{InteractiveSession, UpdateSink, ui_updates::UpdateMapper};

/// Text of the log entry for an interruption by the user.
const INTERRUPTION: &str = "[Request interrupted by user";

/// Number of messages shown of a resumed session, the last ones.
const SHOWN: usize = 40;

/// Number of sessions listed before the rest has been read.
const FIRST_ROWS: usize = 100;
/// Number of sessions added to the list per update.
const MORE_ROWS: usize = 2_000;

/// Shows the sessions of this directory as a list. The newest come first, the others follow while their
/// logs are read.
pub(super) fn pick(face: &InteractiveSession, news: &UpdateSink) {
    let logs = SessionLogs::new(&face.spec.place, &face.spec.log.kept);
    let current = face.handle.as_ref().map(|it| it.id().to_string()).unwrap_or_default();
    let news = news.clone();
    tokio::task::spawn_blocking(move || {
        let mut all: Vec<session_list::SessionInfo> =
            logs.dirs().iter().filter_map(|dir| session_list::untitled(dir).ok()).flatten().collect();
        all.retain(|it| it.id != current);
        all.sort_by_key(|it| std::cmp::Reverse(it.modified));
        if all.is_empty() {
            return news.tell(UiUpdate::Notice(String::from("there is no other session of this directory")));
        }
        // Titles have to be read from the logs, and there may be thousands: show the newest ones first.
        let older = all.split_off(FIRST_ROWS.min(all.len()));
        let (purpose, title) = (String::from("session"), String::from("Go on with"));
        let rows = all.iter_mut().map(session_row).collect();
        news.tell(UiUpdate::Pick { purpose: purpose.clone(), title, rows, previewed: true });
        let mut older = older.into_iter().peekable();
        while older.peek().is_some() {
            let rows = older.by_ref().take(MORE_ROWS).map(|mut it| session_row(&mut it)).collect();
            news.tell(UiUpdate::PickMore { purpose: purpose.clone(), rows });
        }
    });
}

fn session_row(info: &mut session_list::SessionInfo) -> PickerRow {
    info.read_title();
    PickerRow {
        detail: format!("{} · {}", ago(info.modified), info.id.chars().take(8).collect::<String>()),
        title: text::one_line(&info.title, 120),
        id: info.id.clone(),
        preview: Vec::new(),
    }
}

fn ago(then: SystemTime) -> String {
    let seconds = SystemTime::now().duration_since(then).unwrap_or_default().as_secs();
    match seconds {
        0..60 => String::from("just now"),
        60..3_600 => format!("{} min ago", seconds / 60),
        3_600..86_400 => format!("{} h ago", seconds / 3_600),
        _ => format!("{} d ago", seconds / 86_400),
    }
}

/// Closes the current session and resumes the chosen one.
pub(super) async fn take_up(
    face: &mut InteractiveSession,
    id: &str,
    news: &UpdateSink,
) -> Option<EventStream> {
    if let Some(handle) = face.handle.take() {
        handle.close().await;
    }
    face.questions.clear();
    face.said.clear();
    face.agreed.clear();
    face.spec.log.start = LogStart::Session(id.to_owned());
    (face.spec.log.id, face.spec.log.fork, face.spec.log.until) = (None, false, None);
    news.tell(UiUpdate::Notice(format!("going on with session {id}")));
    face.open(news).await
}

impl InteractiveSession {
    /// Shows the last messages of a resumed session.
    pub(super) async fn show_before(&mut self, handle: &SessionHandle, news: &UpdateSink) {
        let messages = handle.ask(Command::Messages).await.unwrap_or_default();
        let hidden = messages.len().saturating_sub(SHOWN);
        let mut past = PastCalls::of(handle);
        let mut told = |message: &Message| -> Vec<UiUpdate> {
            message.content.iter().flat_map(|block| past.before(message.role, block, &self.maker)).collect()
        };
        if 0 < hidden {
            news.tell(UiUpdate::Earlier(messages.iter().take(hidden).flat_map(&mut told).collect()));
        }
        for it in messages.iter().skip(hidden).flat_map(&mut told) {
            news.tell(it);
        }
        if let Some(log) = super::log_of(handle) {
            self.said = tokio::task::spawn_blocking(move || prompts(&log)).await.unwrap_or_default();
        }
    }
}

/// Reads the user's prompts from a session log: message ids and texts. Blocks.
fn prompts(log: &Path) -> Vec<(String, String)> {
    let mut said = Vec::new();
    let Ok(file) = std::fs::File::open(log) else { return said };
    for line in BufReader::new(file).lines().map_while(Result::ok) {
        if !line.contains("\"user\"") {
            continue;
        }
        let Ok(entry) = serde_json::from_str::<Value>(&line) else { continue };
        let is_said = entry["type"] == "user" && entry["isMeta"] != true && entry["isSidechain"] != true;
        let Some(words) = words_of(&entry["message"]["content"]).filter(|_| is_said) else { continue };
        if let Some(uuid) = entry["uuid"].as_str() {
            said.push((uuid.to_owned(), words));
        }
    }
    said
}

/// Whether the user wrote the text. Heuristic: Haft's notices, which are also user messages, begin with
/// `<`.
fn is_said(text: &str) -> bool {
    !text.trim_start().starts_with('<') && !text.starts_with(INTERRUPTION)
}

/// The text of a user message; `None` for tool results and for Haft's notices to the model.
fn words_of(content: &Value) -> Option<String> {
    let text = match content {
        Value::String(text) => text.clone(),
        _ => {
            let texts = content.as_array()?.iter().filter(|it| it["type"] == "text");
            texts.filter_map(|it| it["text"].as_str()).find(|it| is_said(it))?.to_owned()
        }
    };
    (!text.trim().is_empty() && is_said(&text)).then_some(text)
}

/// Number of messages in the preview of a session, the last ones.
const PREVIEWED: usize = 12;

/// Reads the last messages of a session in the background and shows them as the preview of the selected
/// row.
pub(super) fn preview(face: &InteractiveSession, id: String, news: UpdateSink) {
    let path = SessionLogs::new(&face.spec.place, &face.spec.log.kept).path(&id);
    tokio::task::spawn_blocking(move || {
        let mut said: VecDeque<Vec<RenderedLine>> = VecDeque::new();
        let read = haft_agent::log::read(&path, |entry| {
            let (LogEntry::User(line) | LogEntry::Assistant(line)) = entry else { return };
            let message = &line.message.message;
            for block in &message.content {
                let lines = previewed(message.role, block);
                if !lines.is_empty() {
                    said.push_back(lines);
                }
            }
            while PREVIEWED < said.len() {
                said.pop_front();
            }
        });
        let mut lines: Vec<RenderedLine> = said.into_iter().flatten().collect();
        if let Err(err) = read {
            lines = vec![RenderedLine::new(LineStyle::Error, format!("{}: {err}", path.display()))];
        }
        news.tell(UiUpdate::Preview { id, lines });
    });
}

fn previewed(role: Role, block: &MessageBlock) -> Vec<RenderedLine> {
    match block {
        MessageBlock::Text { text } if role == Role::User && text.starts_with(INTERRUPTION) => {
            vec![RenderedLine::new(LineStyle::Dim, "  · stopped")]
        }
        MessageBlock::Text { text } if role == Role::User && !is_said(text) => Vec::new(),
        MessageBlock::Text { text } if role == Role::User => {
            vec![RenderedLine::new(LineStyle::Hunk, format!("› {}", text::one_line(text, 300)))]
        }
        MessageBlock::Text { text } => {
            text.lines().take(6).map(|line| RenderedLine::new(LineStyle::Plain, line)).collect()
        }
        MessageBlock::ToolUse(call) => {
            let input = text::one_line(&call.input.to_string(), 120);
            vec![RenderedLine::new(LineStyle::Dim, format!("  {} {input}", call.name))]
        }
        _ => Vec::new(),
    }
}

/// The tool calls of a resumed conversation, by id: a result refers to its call only by id.
struct PastCalls {
    port: CallPipeline,
    calls: HashMap<CallId, PastCall>,
}

/// A past call as its tool describes it.
struct PastCall {
    name: String,
    headline: String,
    /// The diff of the file change the call proposed.
    diff: Vec<RenderedLine>,
}

impl PastCalls {
    fn of(handle: &SessionHandle) -> Self {
        Self { port: handle.calls().clone(), calls: HashMap::new() }
    }

    /// Translates a block of a past message into the updates the UI got when it was new.
    fn before(&mut self, role: Role, block: &MessageBlock, maker: &UpdateMapper) -> Vec<UiUpdate> {
        match block {
            MessageBlock::Text { text } if role == Role::User => {
                if is_said(text) {
                    vec![UiUpdate::SaidBefore(text.clone())]
                } else if text.starts_with(INTERRUPTION) {
                    vec![UiUpdate::Notice(String::from("stopped"))]
                } else {
                    // Haft's notices to the model are not shown to the user.
                    Vec::new()
                }
            }
            MessageBlock::Text { text } => vec![UiUpdate::Text(text.clone()), UiUpdate::BlockEnded],
            MessageBlock::ToolUse(call) => {
                let past = self.read(call, maker);
                let (id, name, headline) = (call.id.to_string(), past.name.clone(), past.headline.clone());
                self.calls.insert(call.id.clone(), past);
                vec![UiUpdate::CallBegan { id, agent: None, name, headline }]
            }
            MessageBlock::ToolResult { tool_use_id, content, is_error } => {
                let said = content.to_text();
                let first = text::one_line(said.lines().next().unwrap_or_default(), 200);
                let style = if *is_error { LineStyle::Error } else { LineStyle::Dim };
                let (name, headline, diff) = match self.calls.remove(tool_use_id) {
                    Some(call) => (call.name, call.headline, call.diff),
                    None => (String::from("result"), String::new(), Vec::new()),
                };
                let lines = if diff.is_empty() || *is_error {
                    vec![RenderedLine::new(style, maker.shortened(&first))]
                } else {
                    diff
                };
                vec![UiUpdate::CallEnded(Box::new(FinishedCall {
                    id: tool_use_id.to_string(),
                    agent: None,
                    name,
                    headline,
                    failed: *is_error,
                    rendered: Rendered { lines, ..Rendered::default() },
                    whole: None,
                }))]
            }
            _ => Vec::new(),
        }
    }

    /// Renders a past call as it was shown while it ran, or as raw input if the tool no longer exists.
    fn read(&self, call: &ToolUse, maker: &UpdateMapper) -> PastCall {
        let state = &self.port.state;
        let cx = CallContext {
            home: state.home.clone(),
            ..CallContext::detached(call.id.clone(), Arc::clone(&state.cwd))
        };
        let tool = self.port.pool.get().get(&call.name).cloned();
        let Some(parsed) = tool.and_then(|tool| tool.parse(call.input.clone(), &cx).ok()) else {
            let headline = text::one_line(&call.input.to_string(), 200);
            return PastCall { name: call.name.clone(), headline, diff: Vec::new() };
        };
        let mut lines = parsed.render().lines;
        let is_diff = lines.iter().any(|it| matches!(it.style, LineStyle::Added | LineStyle::Removed));
        if !is_diff {
            lines.clear();
        }
        PastCall {
            name: call.name.clone(),
            headline: maker.shortened(&text::one_line(&parsed.describe(), 200)),
            diff: lines,
        }
    }
}

/// Exports a conversation as Markdown.
pub(super) fn as_markdown(messages: &[Message]) -> String {
    let mut page = String::new();
    for message in messages {
        for block in &message.content {
            match block {
                MessageBlock::Text { text } if message.role == Role::User => {
                    page.push_str(&format!("\n## {}\n\n", text::one_line(text, 100)));
                    if 100 < text.len() || text.contains('\n') {
                        page.push_str(&format!("{text}\n"));
                    }
                }
                MessageBlock::Text { text } => page.push_str(&format!("\n{text}\n")),
                MessageBlock::ToolUse(call) => {
                    let input = serde_json::to_string_pretty(&call.input).unwrap_or_default();
                    page.push_str(&format!("\n**{}**\n\n```json\n{input}\n```\n", call.name));
                }
                MessageBlock::ToolResult { content, .. } => {
                    let said = content.to_text().replace("```", "` ` `");
                    page.push_str(&format!("\n```\n{said}\n```\n"));
                }
                _ => (),
            }
        }
    }
    page
}
