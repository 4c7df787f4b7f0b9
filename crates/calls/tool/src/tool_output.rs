use haft_types::{Content, Message};
use serde::Serialize;
use serde_json::Value;

use crate::{CallEffect, ContextChange, Rendering};

/// Successful result of [`crate::Tool::call`].
#[derive(Debug)]
pub struct Outcome<T> {
    /// The typed result.
    pub data: T,
    /// Messages to append to the conversation after the result.
    pub new_messages: Vec<Message>,
    /// Changes to the session; logged, replayed and applied in a fixed order.
    pub changes: Vec<ContextChange>,
    /// Data for clients beside the result (`_meta`, structured content of MCP); not shown to the model.
    pub meta: Option<Value>,
}

impl<T> Outcome<T> {
    /// Adds a change to the session.
    pub fn with_change(mut self, change: ContextChange) -> Self {
        self.changes.push(change);
        self
    }

    /// Adds a record of what was done.
    pub fn with_trace(self, trace: CallEffect) -> Self {
        self.with_change(ContextChange::Trace(trace))
    }

    /// Adds a message after the result.
    pub fn with_message(mut self, message: Message) -> Self {
        self.new_messages.push(message);
        self
    }
}

impl<T> From<T> for Outcome<T> {
    fn from(data: T) -> Self {
        Self { data, new_messages: Vec::new(), changes: Vec::new(), meta: None }
    }
}

/// [`Outcome`] with the type erased.
#[derive(Clone, Debug)]
pub struct Output {
    /// Content for the model.
    pub content: Content,
    /// The structured result, for hooks and programs.
    pub data: Value,
    /// See [`Outcome::new_messages`].
    pub new_messages: Vec<Message>,
    /// See [`Outcome::changes`].
    pub changes: Vec<ContextChange>,
    /// See [`Outcome::meta`].
    pub meta: Option<Value>,
    /// Rendering for users.
    pub rendering: Rendering,
}

impl Output {
    /// A result that consists only of its content.
    pub fn from_content(content: Content) -> Self {
        let text = content.to_text();
        Self {
            data: Value::Null,
            new_messages: Vec::new(),
            changes: Vec::new(),
            meta: None,
            rendering: Rendering::preview_of(text),
            content,
        }
    }
}

/// A string is used unchanged; anything else becomes JSON.
pub(crate) fn content_of(output: &impl Serialize) -> Content {
    match serde_json::to_value(output) {
        Ok(Value::Null) => Content::text("(no output)"),
        Ok(Value::String(text)) => Content::text(text),
        Ok(other) => Content::text(other.to_string()),
        Err(err) => Content::text(format!("(the result could not be serialised: {err})")),
    }
}
