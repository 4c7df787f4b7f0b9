use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{CallId, Content, MediaSource};

/// A tool call as the model wrote it: nothing about it has been checked.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct ToolUse {
    /// Ties the result to the call.
    pub id: CallId,
    /// Name the model used.
    pub name: String,
    /// Raw input.
    pub input: Value,
}

/// Who speaks.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The person, and the results of tools.
    User,
    /// The model.
    Assistant,
}

/// One message of a conversation.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said, in order.
    pub content: Vec<MessageBlock>,
}

impl Message {
    /// A line from the person.
    pub fn user(text: impl Into<String>) -> Self {
        Self { role: Role::User, content: vec![MessageBlock::Text { text: text.into() }] }
    }

    /// What the model said.
    pub fn assistant(content: Vec<MessageBlock>) -> Self {
        Self { role: Role::Assistant, content }
    }
}

/// One block of a message, in the shape of the Messages API.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum MessageBlock {
    /// Plain text.
    Text {
        /// The text.
        text: String,
    },
    /// Reasoning; goes back untouched or not at all.
    Thinking {
        /// The reasoning.
        thinking: String,
        /// The provider's signature over it.
        signature: String,
    },
    /// Reasoning the provider does not show.
    RedactedThinking {
        /// Opaque.
        data: String,
    },
    /// A picture.
    Image {
        /// Where its bytes are.
        source: MediaSource,
    },
    /// A document.
    Document {
        /// Where its bytes are.
        source: MediaSource,
        /// What to call it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        title: Option<String>,
    },
    /// A call.
    ToolUse(ToolUse),
    /// What came of a call.
    ToolResult {
        /// Which call.
        tool_use_id: CallId,
        /// What the model reads.
        content: Content,
        /// Whether the call failed.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
}
