//! Parses lines of a log.

use std::fmt;

use memchr::memmem;
use serde::{
    Deserialize, Deserializer,
    de::{self, Error as _, MapAccess, Visitor},
};
use serde_json::{Map, Value};

use super::{ConversationLine, LineHeader, LogEntry, LogState, LoggedMessage};

/// Prefix of lines about calls, as Haft writes them.
const CALL: &[u8] = br#"{"type":"haft","kind":"call","#;
const STARTED: &[u8] = br#"{"type":"haft","kind":"started","#;

/// Whether a line only describes how a call went, which is not needed to display a conversation. Does
/// not parse the line.
pub(super) fn is_about_call(line: &[u8]) -> bool {
    line.starts_with(CALL) || line.starts_with(STARTED)
}

/// Parses a line. Conversation and call lines, which make up most of a log, are parsed directly; a
/// derived deserialiser would buffer each line to find its type. All other lines use the derived one.
pub(super) fn parse_entry(line: &[u8]) -> serde_json::Result<LogEntry> {
    if line.starts_with(b"{\"type\":\"haft\"") {
        // A line with a duplicate type is invalid.
        let rest = line.get(CALL.len()..).unwrap_or_default();
        let is_plain =
            || ["\"type\"", "\"kind\""].iter().all(|it| memmem::find(rest, it.as_bytes()).is_none());
        if line.starts_with(CALL) && is_plain() {
            return serde_json::from_slice(line).map(|it| LogEntry::Haft(LogState::Call(it)));
        }
        return serde_json::from_slice(line);
    }
    match serde_json::from_slice::<MessageLine>(line) {
        Ok(MessageLine(entry)) => Ok(entry),
        Err(_) => serde_json::from_slice(line),
    }
}

struct MessageLine(LogEntry);

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "camelCase")]
enum MessageField {
    Type,
    Uuid,
    ParentUuid,
    SessionId,
    Timestamp,
    Cwd,
    IsSidechain,
    Version,
    Message,
    IsMeta,
    ToolUseResult,
    Other(String),
}

/// Author of a message.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum MessageAuthor {
    User,
    Assistant,
}

/// Fields of a line read so far.
#[derive(Default)]
struct MessageParts {
    by: Option<MessageAuthor>,
    uuid: Option<String>,
    parent_uuid: Option<Option<String>>,
    session_id: Option<String>,
    timestamp: Option<String>,
    cwd: Option<String>,
    is_sidechain: Option<bool>,
    version: Option<String>,
    message: Option<LoggedMessage>,
    is_meta: Option<bool>,
    tool_use_result: Option<Option<Value>>,
    rest: Map<String, Value>,
}

impl<'de> Deserialize<'de> for MessageLine {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        struct LineVisitor;

        impl<'de> Visitor<'de> for LineVisitor {
            type Value = MessageLine;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a line of the conversation")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<MessageLine, A::Error> {
                let mut parts = MessageParts::default();
                while let Some(name) = fields.next_key()? {
                    parts.take(name, &mut fields)?;
                }
                parts.line()
            }
        }

        reader.deserialize_map(LineVisitor)
    }
}

impl MessageParts {
    fn take<'de, A: MapAccess<'de>>(&mut self, name: MessageField, fields: &mut A) -> Result<(), A::Error> {
        match name {
            MessageField::Type => once(&mut self.by, fields),
            MessageField::Uuid => once(&mut self.uuid, fields),
            MessageField::ParentUuid => once(&mut self.parent_uuid, fields),
            MessageField::SessionId => once(&mut self.session_id, fields),
            MessageField::Timestamp => once(&mut self.timestamp, fields),
            MessageField::Cwd => once(&mut self.cwd, fields),
            MessageField::IsSidechain => once(&mut self.is_sidechain, fields),
            MessageField::Version => once(&mut self.version, fields),
            MessageField::Message => once(&mut self.message, fields),
            MessageField::IsMeta => once(&mut self.is_meta, fields),
            MessageField::ToolUseResult => once(&mut self.tool_use_result, fields),
            MessageField::Other(name) => {
                self.rest.insert(name, fields.next_value()?);
                Ok(())
            }
        }
    }

    fn line<E: de::Error>(self) -> Result<MessageLine, E> {
        let missing = |name| move || E::missing_field(name);
        let head = LineHeader {
            uuid: self.uuid.ok_or_else(missing("uuid"))?,
            parent_uuid: self.parent_uuid.flatten(),
            session_id: self.session_id.ok_or_else(missing("sessionId"))?,
            timestamp: self.timestamp.unwrap_or_default(),
            cwd: self.cwd.unwrap_or_default(),
            is_sidechain: self.is_sidechain.unwrap_or_default(),
            version: self.version.unwrap_or_default(),
        };
        let line = ConversationLine {
            head,
            message: self.message.ok_or_else(missing("message"))?,
            is_meta: self.is_meta.unwrap_or_default(),
            tool_use_result: self.tool_use_result.flatten(),
            rest: self.rest,
        };
        match self.by.ok_or_else(missing("type"))? {
            MessageAuthor::User => Ok(MessageLine(LogEntry::User(line))),
            MessageAuthor::Assistant => Ok(MessageLine(LogEntry::Assistant(line))),
        }
    }
}

/// Reads the value of a field that may occur once.
fn once<'de, T: Deserialize<'de>, A: MapAccess<'de>>(
    part: &mut Option<T>,
    fields: &mut A,
) -> Result<(), A::Error> {
    match part.replace(fields.next_value()?) {
        None => Ok(()),
        Some(_) => Err(A::Error::custom("a field is there twice")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// What is read at once is what a derived reader reads, and what it does not read
    /// is not read.
    #[test]
    fn lines_are_read_as_they_are_declared() {
        let said = |more: Value| {
            let mut line = json!({"uuid": "u", "parentUuid": null, "sessionId": "s", "type": "user",
                "message": {"role": "user", "content": "hi", "stop_reason": null}});
            line.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            line.to_string()
        };
        let without = |name: &str| {
            let mut line: Value = serde_json::from_str(&said(json!({}))).unwrap();
            line.as_object_mut().unwrap().remove(name);
            line.to_string()
        };
        let call = |more: Value| {
            let mut line =
                json!({"type": "haft", "kind": "call", "call": "c", "tool": "Bash", "agent": "main"});
            line.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            line.to_string()
        };
        let blocks = json!([{"type": "text", "text": "a\nb"}, {"type": "other", "n": [1, -2, 3.5, null]}]);
        let lines = [
            said(json!({})),
            said(
                json!({"parentUuid": "p", "isMeta": true, "isSidechain": true, "cwd": "/x", "version": "1"}),
            ),
            said(json!({"type": "assistant", "message": {"role": "assistant", "id": "m", "model": "o",
                "content": blocks, "usage": {"input_tokens": 3, "output_tokens": 4}}})),
            said(
                json!({"toolUseResult": {"b": 1, "a": [{"z": 0.1}]}, "requestId": "r", "isCompactSummary": true}),
            ),
            said(json!({"toolUseResult": null, "zeta": 1, "alpha": {"k": "v"}})),
            said(json!({"timestamp": 5})),
            said(json!({"isMeta": "yes"})),
            said(json!({"uuid": null})),
            said(json!({"type": "attachment", "attachment": {"type": "file"}})),
            said(json!({"type": "unknown"})),
            said(json!({"message": {"role": "nobody", "content": []}})),
            without("uuid"),
            without("parentUuid"),
            without("sessionId"),
            without("message"),
            without("type"),
            said(json!({})).replacen("\"uuid\":\"u\"", "\"uuid\":\"u\",\"uuid\":\"v\"", 1),
            said(json!({})).replacen("\"type\":\"user\"", "\"type\":\"user\",\"type\":\"user\"", 1),
            said(json!({"a": 1})).replacen("\"a\":1", "\"a\":1,\"b\":2,\"a\":3", 1),
            json!({"type": "haft", "kind": "cost", "usage": {}, "usd": 0.5}).to_string(),
            call(json!({})),
            call(
                json!({"error": "denied", "denied_by": "rule", "journal": "j", "runId": "r", "left_for_later": true,
                "agent": "a1", "micros": {"run": 3, "odd": []}, "odd": {"x": [1]}, "decision": {"behavior": "ask",
                "source": "none", "way_out": "w", "asked": {"who": "nobody", "said": "deny"}}}),
            ),
            call(
                json!({"decision": {"behavior": "ask", "source": "rule", "asked": {"who": "person", "said": "deny"}}}),
            ),
            call(json!({"decision": {"behavior": "ask", "source": "rule", "kind": "x", "type": "y"}})),
            call(json!({"micros": {"run": -1}})),
            call(json!({"error": "no such kind"})),
            call(json!({"tool": null})),
            call(json!({})).replacen("\"tool\":\"Bash\"", "\"x\":1", 1),
            call(json!({})).replacen("\"tool\":", "\"tool\":\"a\",\"tool\":", 1),
            call(json!({})).replacen("\"tool\":", "\"kind\":\"cost\",\"tool\":", 1),
            call(json!({})).replacen("\"tool\":", "\"type\":\"user\",\"tool\":", 1),
            call(json!({})).replacen("\"call\"", "\"started\"", 1),
            json!({"type": "custom-title", "customTitle": "t", "sessionId": "s"}).to_string(),
            json!({"type": "system", "subtype": "x", "uuid": "u", "sessionId": "s"}).to_string(),
            String::from("[]"),
            String::from("{\"type\":\"user\""),
        ];
        let mut read = 0;
        for line in lines {
            let declared = serde_json::from_str::<LogEntry>(&line).ok();
            let found = parse_entry(line.as_bytes()).ok();
            assert_eq!(found, declared, "{line}");
            let orders = found.as_ref().map(|it| serde_json::to_string(it).unwrap());
            assert_eq!(orders, declared.map(|it| serde_json::to_string(&it).unwrap()), "{line}");
            read += usize::from(found.is_some());
        }
        assert!(14 <= read, "{read}");
    }
}
