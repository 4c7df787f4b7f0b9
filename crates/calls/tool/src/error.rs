use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A failed call. The runtime turns it into a `tool_result` with `is_error: true`, so the message is for
/// the model and should say what to do next.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolError {
    /// Category for hooks, telemetry and programs.
    pub kind: ErrorKind,
    /// For the model: what went wrong and what to do instead.
    pub message: String,
    /// Structured details for programs, such as the output of a failed command.
    pub data: Option<Box<Value>>,
}

/// Category of a [`ToolError`].
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// There is no tool of that name.
    UnknownTool,
    /// The input violates the schema or the tool's own checks.
    InvalidInput,
    /// Denied by a rule, a hook, the mode or the user.
    Denied,
    /// A gate (such as a hook) that must approve the call could not run.
    GateFailed,
    /// The turn was interrupted while the call ran; its effects are unknown.
    Interrupted,
    /// The turn was interrupted before the call ran; it had no effect.
    NotStarted,
    /// The call exceeded its timeout and was stopped.
    TimedOut,
    /// The tool ran and failed.
    Failed,
    /// The tool panicked or returned a value that cannot be serialised.
    Internal,
}

impl ErrorKind {
    /// Public name.
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
    /// Creates an error of the given kind.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), data: None }
    }

    /// An error of kind [`ErrorKind::Failed`].
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Failed, message)
    }

    /// An error of kind [`ErrorKind::InvalidInput`]; the message should say how to fix the input.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidInput, message)
    }

    /// Adds structured details for programs.
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
