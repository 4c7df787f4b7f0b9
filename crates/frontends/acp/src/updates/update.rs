//! Updates in the protocol's format. Frequent kinds have borrowing types; all others are JSON.

use std::{borrow::Cow, path::Path};

use haft_types::CallId;
use serde::Serialize;
use serde_json::{Value, json};

/// A session update.
#[derive(Debug, Serialize)]
#[serde(tag = "sessionUpdate", rename_all = "snake_case")]
pub(crate) enum AcpUpdate<'a> {
    UserMessageChunk(ChunkUpdate<'a>),
    AgentMessageChunk(ChunkUpdate<'a>),
    AgentThoughtChunk(ChunkUpdate<'a>),
    ToolCall(CallAnnounced<'a>),
    ToolCallUpdate(CallChange<'a>),
    /// Any other update, as JSON.
    #[serde(untagged)]
    Other(Value),
}

impl AcpUpdate<'_> {
    /// Converts to JSON.
    pub(crate) fn into_value(self) -> Value {
        match self {
            Self::Other(value) => value,
            typed => json!(typed),
        }
    }
}

/// A chunk of a message.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ChunkUpdate<'a> {
    pub(crate) content: ContentBlock<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) message_id: Option<Cow<'a, str>>,
}

/// A text, image or link.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum ContentBlock<'a> {
    Text {
        text: Cow<'a, str>,
    },
    /// Any other block, as JSON.
    #[serde(untagged)]
    Other(Value),
}

/// The update that announces a call.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CallAnnounced<'a> {
    pub(crate) tool_call_id: &'a CallId,
    pub(crate) title: Cow<'a, str>,
    pub(crate) name: &'a str,
    pub(crate) kind: &'static str,
    pub(crate) status: &'static str,
    pub(crate) raw_input: Cow<'a, Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) locations: Vec<CallLocation<'a>>,
}

/// An update of an announced call.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CallChange<'a> {
    pub(crate) tool_call_id: &'a CallId,
    pub(crate) status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) content: Option<Vec<CallContent<'a>>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) locations: Vec<CallLocation<'a>>,
}

/// Content displayed for a call.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum CallContent<'a> {
    Content {
        content: ContentBlock<'a>,
    },
    /// Other content, such as diffs, as JSON.
    #[serde(untagged)]
    Other(Value),
}

/// A location an editor may follow.
#[derive(Debug, Serialize)]
pub(crate) struct CallLocation<'a> {
    pub(crate) path: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) line: Option<u64>,
}

impl<'a> CallChange<'a> {
    /// Creates an update with a new status.
    pub(crate) fn new(call: &'a CallId, status: &'static str) -> Self {
        Self { tool_call_id: call, status, content: None, locations: Vec::new() }
    }

    /// Replaces the displayed content by a text.
    pub(crate) fn showing(self, words: ContentBlock<'a>) -> Self {
        Self { content: Some(vec![CallContent::Content { content: words }]), ..self }
    }
}

impl<'a> CallLocation<'a> {
    pub(crate) fn new(path: &'a Path, line: Option<u64>) -> Self {
        Self { path: path.to_string_lossy(), line }
    }
}
