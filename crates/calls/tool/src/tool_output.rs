use haft_types::{Content, Message};
use serde::Serialize;
use serde_json::Value;

use crate::{CallEffect, ContextChange, Rendering};

/// What [`crate::Tool::call`] returns on success.
#[derive(Debug)]
pub struct Outcome<T> {
    /// The typed result.
    pub data: T,
    /// Messages to add to the conversation right after the result.
    pub new_messages: Vec<Message>,
    /// Changes to the session. Data, not a closure: they can be logged,
    /// replayed and applied in a fixed order.
    pub changes: Vec<ContextChange>,
    /// What the outside wants to see beside the result (`_meta`, structured
    /// content of MCP); the model does not read it.
    pub meta: Option<Value>,
}

impl<T> Outcome<T> {
    /// Adds a change to the session.
    pub fn with_change(mut self, change: ContextChange) -> Self {
        self.changes.push(change);
        self
    }

    /// Adds a trace of what was done.
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
    /// What the model reads.
    pub content: Content,
    /// The structured result, for hooks and programs.
    pub data: Value,
    /// See [`Outcome::new_messages`].
    pub new_messages: Vec<Message>,
    /// See [`Outcome::changes`].
    pub changes: Vec<ContextChange>,
    /// See [`Outcome::meta`].
    pub meta: Option<Value>,
    /// What a person sees.
    pub rendering: Rendering,
}

impl Output {
    /// A result that is its content and nothing else.
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

/// A string is taken as it is; anything else becomes JSON.
pub(crate) fn content_of(output: &impl Serialize) -> Content {
    match serde_json::to_value(output) {
        Ok(Value::Null) => Content::text("(no output)"),
        Ok(Value::String(text)) => Content::text(text),
        Ok(other) => Content::text(other.to_string()),
        Err(err) => Content::text(format!("(the result could not be serialised: {err})")),
    }
}
