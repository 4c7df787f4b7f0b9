//! What a log holds, in the order it is shown.

use std::{collections::HashMap, io, path::Path};

use haft_agent::log::{Asked, CallLine, Entry, Line, State, read};
use haft_types::{Content, MessageBlock};
use serde_json::Value;

/// A session, as its log tells it.
#[derive(Debug, Default)]
pub struct LoggedSession {
    /// The name somebody gave it, or its first words.
    pub title: String,
    /// Its id.
    pub id: String,
    /// Where it worked first.
    pub cwd: String,
    /// When it began, as the log spells it.
    pub began: String,
    /// What was said and done.
    pub rows: Vec<LoggedRow>,
    /// What the model was asked.
    pub requests: Vec<LoggedRequest>,
    /// Lines that could not be read.
    pub unread: usize,
}

/// Something that was said or done.
#[derive(Debug)]
pub enum LoggedRow {
    /// The person, or the program in their place, said something.
    Person {
        /// What.
        text: String,
        /// Whether the program said it.
        ours: bool,
    },
    /// The model said something.
    Model(String),
    /// The model thought something.
    Thought(String),
    /// A call.
    Call(Box<LoggedCall>),
    /// The conversation was summed up.
    Compacted,
}

/// A call and what came of it.
#[derive(Debug, Default)]
pub struct LoggedCall {
    /// Its id.
    pub id: String,
    /// The tool.
    pub tool: String,
    /// What it was called with.
    pub input: Value,
    /// What the model read; none while there is no result.
    pub result: Option<Content>,
    /// Whether it failed.
    pub failed: bool,
    /// The structured result.
    pub data: Option<Value>,
    /// How it went: times, decision, journal.
    pub line: Option<CallLine>,
    /// Whether a sub-agent made it.
    pub of_child: bool,
}

/// A request to a model.
#[derive(Debug)]
pub struct LoggedRequest(pub Asked);

impl LoggedSession {
    /// Reads a log. What cannot be read is counted and left out.
    pub fn read(path: &Path) -> io::Result<Self> {
        let mut session = Self { id: stem(path), ..Self::default() };
        let mut calls: HashMap<String, usize> = HashMap::new();
        let report = read(path, |entry| session.take(entry, &mut calls))?;
        session.unread = report.unreadable;
        if session.title.is_empty() {
            let first = session.rows.iter().find_map(|row| match row {
                LoggedRow::Person { text, ours: false } => Some(haft_types::text::one_line(text, 80)),
                _ => None,
            });
            session.title = first.unwrap_or_else(|| session.id.clone());
        }
        Ok(session)
    }

    fn take(&mut self, entry: Entry, calls: &mut HashMap<String, usize>) {
        match entry {
            Entry::User(line) => self.user(line, calls),
            Entry::Assistant(line) => self.assistant(line, calls),
            Entry::System(line) if line.subtype == "compact_boundary" => self.rows.push(LoggedRow::Compacted),
            Entry::CustomTitle { custom_title, .. } => self.title = custom_title,
            Entry::Haft(State::Asked(asked)) => self.requests.push(LoggedRequest(*asked)),
            Entry::Haft(State::Call(line)) => {
                if let Some(call) = self.call(&line.call.to_string(), calls) {
                    call.line = Some(*line);
                }
            }
            _ => (),
        }
    }

    fn call(&mut self, id: &str, calls: &HashMap<String, usize>) -> Option<&mut LoggedCall> {
        match self.rows.get_mut(*calls.get(id)?) {
            Some(LoggedRow::Call(call)) => Some(call),
            _ => None,
        }
    }

    fn begin(&mut self, line: &Line) {
        if self.began.is_empty() {
            self.began.clone_from(&line.head.timestamp);
            self.cwd.clone_from(&line.head.cwd);
        }
    }

    fn user(&mut self, line: Line, calls: &HashMap<String, usize>) {
        self.begin(&line);
        for block in line.message.message.content {
            match block {
                MessageBlock::ToolResult { tool_use_id, content, is_error } => {
                    let data = line.tool_use_result.clone();
                    if let Some(call) = self.call(tool_use_id.as_str(), calls) {
                        (call.result, call.failed, call.data) = (Some(content), is_error, data);
                    }
                }
                MessageBlock::Text { text } => self.rows.push(LoggedRow::Person { text, ours: line.is_meta }),
                MessageBlock::Image { .. } | MessageBlock::Document { .. } => {
                    let text = String::from("[a picture or a document]");
                    self.rows.push(LoggedRow::Person { text, ours: line.is_meta });
                }
                _ => (),
            }
        }
    }

    fn assistant(&mut self, line: Line, calls: &mut HashMap<String, usize>) {
        self.begin(&line);
        for block in line.message.message.content {
            match block {
                MessageBlock::Text { text } => self.rows.push(LoggedRow::Model(text)),
                MessageBlock::Thinking { thinking, .. } if !thinking.is_empty() => {
                    self.rows.push(LoggedRow::Thought(thinking));
                }
                MessageBlock::ToolUse(call) => {
                    let id = call.id.to_string();
                    calls.insert(id.clone(), self.rows.len());
                    let of_child = line.head.is_sidechain;
                    let (tool, input) = (call.name, call.input);
                    let made = LoggedCall { id, tool, input, of_child, ..LoggedCall::default() };
                    self.rows.push(LoggedRow::Call(Box::new(made)));
                }
                _ => (),
            }
        }
    }

    /// All calls, in order.
    pub fn calls(&self) -> impl Iterator<Item = &LoggedCall> {
        self.rows.iter().filter_map(|row| match row {
            LoggedRow::Call(call) => Some(&**call),
            _ => None,
        })
    }
}

fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}
