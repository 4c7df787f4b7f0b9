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
    /// Reasoning; goes back untouched to who wrote it, or not at all.
    Thinking {
        /// The reasoning. May be empty: a signature alone can hold it.
        thinking: String,
        /// The provider's signature over it. Empty when the answer was cut
        /// before it came.
        #[serde(default)]
        signature: String,
        /// Which model wrote it. Kept in the log, not sent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
    },
    /// Reasoning the provider does not show.
    RedactedThinking {
        /// Opaque.
        data: String,
        /// Which model wrote it. Kept in the log, not sent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
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
    /// A block this version does not know (a provider's own tools, what comes
    /// next year): kept as it came and sent back as it came.
    #[serde(untagged)]
    Other(Value),
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn blocks_keep_their_wire_form() {
        for wire in [
            json!({"type": "text", "text": "hi"}),
            json!({"type": "thinking", "thinking": "", "signature": "s"}),
            json!({"type": "thinking", "thinking": "t", "signature": "s", "model": "m"}),
            json!({"type": "redacted_thinking", "data": "d"}),
            json!({"type": "tool_use", "id": "t1", "name": "Read", "input": {"a": [1, 2.5, null]}}),
            json!({"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "x"}]}),
            json!({"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "q"}}),
        ] {
            let block: MessageBlock = serde_json::from_value(wire.clone()).unwrap();
            assert_eq!(serde_json::to_value(&block).unwrap(), wire);
            assert_eq!(matches!(block, MessageBlock::Other(_)), wire["type"] == "server_tool_use");
        }
    }
}
