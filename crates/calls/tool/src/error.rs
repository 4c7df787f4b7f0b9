use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A failed call, as data: the pipeline turns it into a `tool_result` with
/// `is_error: true`, so the message is written for the model and says what to
/// do next.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolError {
    /// For hooks, telemetry and programs.
    pub kind: ErrorKind,
    /// For the model: what went wrong and what to do instead.
    pub message: String,
    /// Structured detail for programs, such as the output of a failed command.
    pub data: Option<Box<Value>>,
}

/// Machine-readable reason of a [`ToolError`].
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// No tool of that name.
    UnknownTool,
    /// The input broke the schema or the tool's own checks.
    InvalidInput,
    /// A rule, a hook, the mode or the user said no.
    Denied,
    /// A gate that must answer before the call could not be asked.
    GateFailed,
    /// The turn was interrupted while the call ran; its effects are unknown.
    Interrupted,
    /// The turn was interrupted before the call ran; it had no effect.
    NotStarted,
    /// The call took longer than its limit and was stopped.
    TimedOut,
    /// The tool ran and failed.
    Failed,
    /// The tool panicked or returned something that does not serialise.
    Internal,
}

impl ErrorKind {
    /// The public name.
    pub fn name(self) -> &'static str {
        match self {
            Self::UnknownTool => "unknown_tool",
            Self::InvalidInput => "invalid_input",
            Self::Denied => "denied",
            Self::GateFailed => "gate_failed",
            Self::Interrupted => "interrupted",
            Self::NotStarted => "not_started",
            Self::TimedOut => "timed_out",
            Self::Failed => "failed",
            Self::Internal => "internal",
        }
    }
}

impl ToolError {
    /// Builds an error of the given kind.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), data: None }
    }

    /// The tool ran and failed.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Failed, message)
    }

    /// The input is wrong; the message says how to fix it.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidInput, message)
    }

    /// Adds structured detail for programs.
    pub fn with_data(mut self, data: Value) -> Self {
        self.data = Some(Box::new(data));
        self
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ToolError {}

impl From<String> for ToolError {
    fn from(message: String) -> Self {
        Self::failed(message)
    }
}

impl From<&str> for ToolError {
    fn from(message: &str) -> Self {
        Self::failed(message)
    }
}

impl From<std::io::Error> for ToolError {
    fn from(err: std::io::Error) -> Self {
        Self::failed(err.to_string())
    }
}
