//! Updates of a session, as the protocol spells them. What a long conversation is full
//! of has types that borrow; everything else is JSON.

use std::{borrow::Cow, path::Path};

use haft_types::CallId;
use serde::Serialize;
use serde_json::{Value, json};

/// What is told about a session.
#[derive(Debug, Serialize)]
#[serde(tag = "sessionUpdate", rename_all = "snake_case")]
pub(crate) enum AcpUpdate<'a> {
    UserMessageChunk(ChunkUpdate<'a>),
    AgentMessageChunk(ChunkUpdate<'a>),
    AgentThoughtChunk(ChunkUpdate<'a>),
    ToolCall(CallAnnounced<'a>),
    ToolCallUpdate(CallChange<'a>),
    /// All others, with their kind in them.
    #[serde(untagged)]
    Other(Value),
}

impl AcpUpdate<'_> {
    /// The same, for whoever keeps it or looks into it.
    pub(crate) fn into_value(self) -> Value {
        match self {
            Self::Other(value) => value,
            typed => json!(typed),
        }
    }
}

/// A piece of what somebody says.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ChunkUpdate<'a> {
    pub(crate) content: ContentBlock<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) message_id: Option<Cow<'a, str>>,
}

/// A text, a picture, a link.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum ContentBlock<'a> {
    Text {
        text: Cow<'a, str>,
    },
    /// All others, with their type in them.
    #[serde(untagged)]
    Other(Value),
}

/// The update by which the editor hears of a call.
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

/// A change of a call that the editor has heard of.
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

/// Something a call has to show.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum CallContent<'a> {
    Content {
        content: ContentBlock<'a>,
    },
    /// All others, with their type in them: diffs.
    #[serde(untagged)]
    Other(Value),
}

/// A place an editor may follow.
#[derive(Debug, Serialize)]
pub(crate) struct CallLocation<'a> {
    pub(crate) path: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) line: Option<u64>,
}

impl<'a> CallChange<'a> {
    /// That the call has got this far.
    pub(crate) fn new(call: &'a CallId, status: &'static str) -> Self {
        Self { tool_call_id: call, status, content: None, locations: Vec::new() }
    }

    /// And shows one text instead of what it showed before.
    pub(crate) fn showing(self, words: ContentBlock<'a>) -> Self {
        Self { content: Some(vec![CallContent::Content { content: words }]), ..self }
    }
}

impl<'a> CallLocation<'a> {
    pub(crate) fn new(path: &'a Path, line: Option<u64>) -> Self {
        Self { path: path.to_string_lossy(), line }
    }
}
