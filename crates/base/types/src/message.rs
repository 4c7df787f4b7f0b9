use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::{
    Block, CallId, Content, MediaSource,
    lenient_block::{BlockField, LenientFields, LenientValue},
    tags,
};

/// A tool call as the model wrote it, unvalidated.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct ToolUse {
    /// Links the result to the call.
    pub id: CallId,
    /// Tool name the model used.
    pub name: String,
    /// Raw input.
    pub input: Value,
}

/// Author of a message.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The user; also carries tool results.
    User,
    /// The model.
    Assistant,
}

/// One message of a conversation.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Message {
    /// The author.
    pub role: Role,
    /// The blocks, in order.
    pub content: Vec<MessageBlock>,
}

impl Message {
    /// Creates a user message with one text block.
    pub fn user(text: impl Into<String>) -> Self {
        Self { role: Role::User, content: vec![MessageBlock::Text { text: text.into() }] }
    }

    /// Escapes Haft's own tags in every text ([`crate::tags`]).
    pub fn neutralise(&mut self) {
        for block in &mut self.content {
            match block {
                MessageBlock::Text { text } => _ = tags::neutralise_text(text),
                MessageBlock::Document { title, .. } => _ = title.as_mut().map(tags::neutralise_text),
                MessageBlock::ToolResult { content, .. } => _ = content.neutralise(),
                MessageBlock::Thinking { .. }
                | MessageBlock::RedactedThinking { .. }
                | MessageBlock::Image { .. }
                | MessageBlock::ToolUse(_)
                | MessageBlock::Other(_) => (),
            }
        }
    }

    /// Creates an assistant message.
    pub fn assistant(content: Vec<MessageBlock>) -> Self {
        Self { role: Role::Assistant, content }
    }
}

/// One block of a message, in the format of the Messages API.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum MessageBlock {
    /// Plain text.
    Text {
        /// The text.
        text: String,
    },
    /// Reasoning. Sent back unchanged to the model that wrote it, or not at all.
    Thinking {
        /// The reasoning text. May be empty if the signature alone carries it.
        thinking: String,
        /// The provider's signature of the reasoning. Empty if the response was cut off before it.
        #[serde(default)]
        signature: String,
        /// Model that wrote it. Stored in the log, not sent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
    },
    /// Reasoning that the provider encrypts.
    RedactedThinking {
        /// Opaque data.
        data: String,
        /// Model that wrote it. Stored in the log, not sent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
    },
    /// An image.
    Image {
        /// The image data.
        source: MediaSource,
    },
    /// A document.
    Document {
        /// The document data.
        source: MediaSource,
        /// Display name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        title: Option<String>,
    },
    /// A tool call.
    ToolUse(ToolUse),
    /// The result of a tool call.
    ToolResult {
        /// Id of the call.
        tool_use_id: CallId,
        /// Content for the model.
        content: Content,
        /// Whether the call failed.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
    /// A block of an unknown type (such as a provider's server-side tool): stored and sent back
    /// unchanged.
    #[serde(untagged)]
    Other(Value),
}

/// Written by hand, because a derived deserializer of an untagged type copies every text twice and
/// builds an error containing the whole text for each variant that does not match.
impl<'de> Deserialize<'de> for MessageBlock {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        let mut value = LenientValue::deserialize(reader)?;
        Ok(known_block(&mut value).unwrap_or_else(|| Self::Other(value.into())))
    }
}

impl From<Value> for MessageBlock {
    /// Converts a value to a block; an unknown one becomes `Other`.
    fn from(value: Value) -> Self {
        Self::deserialize(value).unwrap_or(Self::Other(Value::Null))
    }
}

/// Parses a known block. Takes nothing out of a value that is not one.
fn known_block(value: &mut LenientValue) -> Option<MessageBlock> {
    let LenientValue::Object(fields) = value else { return None };
    match fields.get(&BlockField::Type)?.as_str()? {
        "text" => Some(MessageBlock::Text { text: take_text(fields, &BlockField::Text)? }),
        "tool_use" => {
            let id = CallId::from(fields.get(&BlockField::Id)?.as_str()?);
            fields.get(&BlockField::Input)?;
            let name = take_text(fields, &BlockField::Name)?;
            let LenientValue::Other(input) = fields.get_mut(&BlockField::Input)? else { return None };
            Some(MessageBlock::ToolUse(ToolUse { id, name, input: input.take() }))
        }
        "tool_result" => {
            let tool_use_id = CallId::from(fields.get(&BlockField::ToolUseId)?.as_str()?);
            let is_error = match fields.get(&BlockField::IsError) {
                None => false,
                Some(LenientValue::Other(Value::Bool(is_error))) => *is_error,
                Some(_) => return None,
            };
            let content = take_content(fields.get_mut(&BlockField::Content)?)?;
            Some(MessageBlock::ToolResult { tool_use_id, content, is_error })
        }
        "thinking" => {
            let signature = text_or_none(fields, &BlockField::Signature)?.unwrap_or_default();
            let model = text_or_none(fields, &BlockField::Model)?;
            let thinking = take_text(fields, &BlockField::Thinking)?;
            Some(MessageBlock::Thinking { thinking, signature, model })
        }
        "redacted_thinking" => {
            let model = text_or_none(fields, &BlockField::Model)?;
            Some(MessageBlock::RedactedThinking { data: take_text(fields, &BlockField::Data)?, model })
        }
        "image" => Some(MessageBlock::Image { source: media_source(fields)? }),
        "document" => {
            let title = text_or_none(fields, &BlockField::Title)?;
            Some(MessageBlock::Document { source: media_source(fields)?, title })
        }
        _ => None,
    }
}

fn take_text(fields: &mut LenientFields, name: &BlockField) -> Option<String> {
    match fields.get_mut(name)? {
        LenientValue::Text(text) => Some(std::mem::take(text)),
        _ => None,
    }
}

/// An optional text field: `Some(None)` if it is missing, `None` if it is not a string.
fn text_or_none(fields: &LenientFields, name: &BlockField) -> Option<Option<String>> {
    match fields.get(name) {
        None | Some(LenientValue::Other(Value::Null)) => Some(None),
        Some(LenientValue::Text(text)) => Some(Some(text.clone())),
        Some(_) => None,
    }
}

fn media_source(fields: &LenientFields) -> Option<MediaSource> {
    match fields.get(&BlockField::Source)? {
        LenientValue::Other(source) => MediaSource::deserialize(source).ok(),
        _ => None,
    }
}

/// Content of a result: blocks, or a plain string as other programs write it.
fn take_content(value: &mut LenientValue) -> Option<Content> {
    match value {
        LenientValue::Text(text) => Some(Content::text(std::mem::take(text))),
        LenientValue::List(blocks) if blocks.iter().all(is_text_block) => {
            let texts = blocks.iter_mut().filter_map(|it| match it {
                LenientValue::Object(fields) => take_text(fields, &BlockField::Text),
                _ => None,
            });
            Some(Content(texts.map(Block::text).collect()))
        }
        LenientValue::List(blocks) => {
            let blocks = Value::from(LenientValue::List(std::mem::take(blocks)));
            let content = Content::deserialize(&blocks).ok();
            *value = LenientValue::Other(blocks);
            content
        }
        _ => None,
    }
}

fn is_text_block(block: &LenientValue) -> bool {
    let LenientValue::Object(fields) = block else { return false };
    fields.get(&BlockField::Type).and_then(LenientValue::as_str) == Some("text")
        && fields.get(&BlockField::Text).is_some_and(|it| it.as_str().is_some())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn message_blocks_round_trip() {
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

    #[test]
    fn unknown_block_is_kept_unchanged() {
        for wire in [
            json!("text"),
            json!({"text": "no type"}),
            json!({"type": "text", "text": 1}),
            json!({"type": "thinking", "thinking": "t", "signature": 5}),
            json!({"type": "tool_use", "id": "t1", "name": "Read"}),
            json!({"type": "tool_use", "id": 1, "name": "Read", "input": {}}),
            json!({"type": "tool_result", "tool_use_id": "t1"}),
            json!({"type": "tool_result", "tool_use_id": "t1", "content": "x", "is_error": "no"}),
            json!({"type": "tool_result", "tool_use_id": "t1", "content": [
                {"type": "text", "text": "a"}, {"type": "search_result", "title": "b"}]}),
            json!({"type": "image", "source": {"type": "file", "file_id": "f"}}),
            json!({"zeta": [true, -1, 2.5, null, {"is_error": {"b": 1, "a": []}}], "type": "own", "alpha": "x"}),
            json!([[], {}, 1]),
        ] {
            let block: MessageBlock = serde_json::from_value(wire.clone()).unwrap();
            assert_eq!(block, MessageBlock::Other(wire.clone()));
            let block: MessageBlock = serde_json::from_str(&wire.to_string()).unwrap();
            // Field order is preserved.
            assert_eq!(serde_json::to_string(&block).unwrap(), wire.to_string());
        }
    }

    #[test]
    fn tool_result_content_may_be_a_string() {
        let wire = json!({"type": "tool_result", "tool_use_id": "t1", "content": "x", "is_error": true});
        let block: MessageBlock = serde_json::from_value(wire).unwrap();
        let content = Content::text("x");
        assert_eq!(block, MessageBlock::ToolResult { tool_use_id: "t1".into(), content, is_error: true });
    }

    #[test]
    fn duplicate_block_field_takes_last_value() {
        let wire = r#"{"type":"text","text":"a","x":1,"text":"b"}"#;
        let block: MessageBlock = serde_json::from_str(wire).unwrap();
        assert_eq!(block, MessageBlock::Text { text: String::from("b") });
        let wire = r#"{"type":"own","x":1,"y":2,"x":3}"#;
        let block: MessageBlock = serde_json::from_str(wire).unwrap();
        assert_eq!(serde_json::to_string(&block).unwrap(), r#"{"type":"own","x":3,"y":2}"#);
    }
}
