use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::{
    Block, CallId, Content, MediaSource,
    lenient_block::{BlockField, LenientFields, LenientValue},
    tags,
};

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

    /// Makes tags of Haft in every text neutral ([`crate::tags`]).
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

    /// What the model said.
    pub fn assistant(content: Vec<MessageBlock>) -> Self {
        Self { role: Role::Assistant, content }
    }
}

/// One block of a message, in the shape of the Messages API.
#[derive(Clone, Debug, PartialEq, Serialize)]
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

/// By hand, because a derived reader of such a type copies every text twice and writes
/// an error with the whole text in it for each form that does not fit.
impl<'de> Deserialize<'de> for MessageBlock {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        let mut value = LenientValue::deserialize(reader)?;
        Ok(known_block(&mut value).unwrap_or_else(|| Self::Other(value.into())))
    }
}

impl From<Value> for MessageBlock {
    /// The block a value describes; what describes none is kept as it is.
    fn from(value: Value) -> Self {
        Self::deserialize(value).unwrap_or(Self::Other(Value::Null))
    }
}

/// The block a value describes. Takes nothing out of a value that describes none.
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

/// A text that may be missing; nothing where something else stands in its place.
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

/// The content of a result: blocks, or one text, as other programs write it.
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

    #[test]
    fn what_describes_no_block_is_kept_whole() {
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
            // Names of fields stay in their order.
            assert_eq!(serde_json::to_string(&block).unwrap(), wire.to_string());
        }
    }

    #[test]
    fn a_result_may_be_one_text() {
        let wire = json!({"type": "tool_result", "tool_use_id": "t1", "content": "x", "is_error": true});
        let block: MessageBlock = serde_json::from_value(wire).unwrap();
        let content = Content::text("x");
        assert_eq!(block, MessageBlock::ToolResult { tool_use_id: "t1".into(), content, is_error: true });
    }

    #[test]
    fn a_field_that_is_there_twice_has_its_last_value() {
        let wire = r#"{"type":"text","text":"a","x":1,"text":"b"}"#;
        let block: MessageBlock = serde_json::from_str(wire).unwrap();
        assert_eq!(block, MessageBlock::Text { text: String::from("b") });
        let wire = r#"{"type":"own","x":1,"y":2,"x":3}"#;
        let block: MessageBlock = serde_json::from_str(wire).unwrap();
        assert_eq!(serde_json::to_string(&block).unwrap(), r#"{"type":"own","x":3,"y":2}"#);
    }
}
