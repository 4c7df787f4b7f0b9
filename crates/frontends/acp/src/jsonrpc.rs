//! Parses and builds JSON-RPC 2.0 messages.

use serde::Serialize;
use serde_json::{Value, json};

/// Error codes of JSON-RPC and of the protocol.
pub(crate) const PARSE_ERROR: i64 = -32700;
pub(crate) const INVALID_REQUEST: i64 = -32600;
pub(crate) const METHOD_NOT_FOUND: i64 = -32601;
pub(crate) const INVALID_PARAMS: i64 = -32602;
pub(crate) const INTERNAL_ERROR: i64 = -32603;
pub(crate) const AUTH_REQUIRED: i64 = -32000;
pub(crate) const NOT_FOUND: i64 = -32002;
pub(crate) const CANCELLED: i64 = -32800;

/// A received message.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RpcMessage {
    Request {
        id: Value,
        method: String,
        params: Value,
    },
    Notification {
        method: String,
        params: Value,
    },
    /// Response to a request of this side.
    Answer {
        id: Value,
        answer: Result<Value, AcpError>,
    },
    /// An invalid message that needs an error response.
    Broken {
        id: Value,
        problem: AcpError,
    },
}

/// An error response.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AcpError {
    pub(crate) code: i64,
    pub(crate) message: String,
}

impl AcpError {
    pub(crate) fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    pub(crate) fn params(message: impl Into<String>) -> Self {
        Self::new(INVALID_PARAMS, message)
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(INTERNAL_ERROR, message)
    }

    pub(crate) fn no_session(id: &str) -> Self {
        Self::new(
            NOT_FOUND,
            format!("there is no session {id} here; open it with session/load or session/new"),
        )
    }
}

/// Parses a line: one message, or a batch. An empty line contains none.
pub(crate) fn parse_line(line: &[u8]) -> Vec<RpcMessage> {
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
    if line.trim_ascii().is_empty() {
        return Vec::new();
    }
    // Invalid UTF-8 is replaced, so that the message is not lost.
    let lossy = || serde_json::from_str(&whole_characters(&String::from_utf8_lossy(line))).ok();
    match serde_json::from_slice::<Value>(line).ok().or_else(lossy) {
        None => vec![broken(Value::Null, PARSE_ERROR, "the line is not JSON")],
        Some(Value::Array(batch)) if !batch.is_empty() => batch.into_iter().map(message).collect(),
        Some(one) => vec![message(one)],
    }
}

/// Returns the error for a line that exceeds the maximum length.
pub(crate) fn too_long(most: usize) -> RpcMessage {
    broken(Value::Null, PARSE_ERROR, &format!("the line is longer than {most} bytes"))
}

/// Replaces escapes of lone surrogates. Editors that use UTF-16 send them when the user has cut a
/// character in half.
fn whole_characters(line: &str) -> String {
    let code = |at: &str| at.strip_prefix("\\u").and_then(|it| u16::from_str_radix(it.get(..4)?, 16).ok());
    let (mut out, mut rest) = (String::with_capacity(line.len()), line);
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let second = rest.get(6..).and_then(code);
        let taken = match (code(rest), second) {
            (Some(0xd800..0xdc00), Some(0xdc00..0xe000)) => 12,
            (Some(0xd800..0xe000), _) => {
                out.push('\u{fffd}');
                rest = &rest[6..];
                continue;
            }
            _ => rest.char_indices().nth(2).map_or(rest.len(), |(at, _)| at),
        };
        out.push_str(&rest[..taken]);
        rest = &rest[taken..];
    }
    out.push_str(rest);
    out
}

fn broken(id: Value, code: i64, problem: &str) -> RpcMessage {
    RpcMessage::Broken { id, problem: AcpError::new(code, problem) }
}

fn message(mut value: Value) -> RpcMessage {
    let Some(fields) = value.as_object_mut() else {
        return broken(Value::Null, INVALID_REQUEST, "a message is an object");
    };
    let id = fields.remove("id");
    if let Some(id) = &id
        && !(id.is_string() || id.is_number() || id.is_null())
    {
        return broken(Value::Null, INVALID_REQUEST, "an id is a text or a number");
    }
    let params = fields.remove("params").unwrap_or(Value::Null);
    match (fields.remove("method"), id) {
        (Some(Value::String(method)), Some(id)) => RpcMessage::Request { id, method, params },
        (Some(Value::String(method)), None) => RpcMessage::Notification { method, params },
        (Some(_), id) => broken(id.unwrap_or(Value::Null), INVALID_REQUEST, "`method` is a text"),
        // Some clients send both result and error, one of them null. If both are set, the error counts.
        (None, Some(id))
            if fields.contains_key("result") && fields.get("error").is_none_or(Value::is_null) =>
        {
            RpcMessage::Answer { id, answer: Ok(fields.remove("result").unwrap_or(Value::Null)) }
        }
        (None, Some(id)) if fields.contains_key("error") => {
            let error = fields.remove("error").unwrap_or(Value::Null);
            let code = error["code"].as_i64().unwrap_or(INTERNAL_ERROR);
            let message = error["message"].as_str().unwrap_or("no reason was given");
            RpcMessage::Answer { id, answer: Err(AcpError::new(code, message)) }
        }
        (None, id) => {
            broken(id.unwrap_or(Value::Null), INVALID_REQUEST, "a message has a method, a result or an error")
        }
    }
}

/// Builds a response.
pub(crate) fn answer_line(id: &Value, answer: &Result<Value, AcpError>) -> Value {
    match answer {
        Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
        Err(error) => {
            json!({"jsonrpc": "2.0", "id": id, "error": {"code": error.code, "message": error.message}})
        }
    }
}

/// Builds a request.
pub(crate) fn request_line(id: u64, method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

/// A notification to be serialised.
#[derive(Serialize)]
pub(crate) struct NotificationLine<'a, P> {
    jsonrpc: &'static str,
    method: &'static str,
    params: &'a P,
}

impl<'a, P> NotificationLine<'a, P> {
    pub(crate) fn new(method: &'static str, params: &'a P) -> Self {
        Self { jsonrpc: "2.0", method, params }
    }
}

/// Parameters of a session update.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionUpdate<'a, U> {
    pub(crate) session_id: &'a str,
    pub(crate) update: &'a U,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_are_parsed_to_messages() {
        let said = |method: &str| RpcMessage::Notification { method: method.to_owned(), params: Value::Null };
        let request = |id: Value| RpcMessage::Request { id, method: "m".into(), params: json!({"a": 1}) };
        for (line, want) in [
            (r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":1}}"#, vec![request(json!(1))]),
            (r#"{"id":"x","method":"m","params":{"a":1},"_meta":{}}"#, vec![request(json!("x"))]),
            (r#"{"method":"n"}"#, vec![RpcMessage::Notification { method: "n".into(), params: Value::Null }]),
            (r#"{"id":3,"result":null}"#, vec![RpcMessage::Answer { id: json!(3), answer: Ok(Value::Null) }]),
            (
                r#"{"id":3,"error":{"code":-1,"message":"no"}}"#,
                vec![RpcMessage::Answer { id: json!(3), answer: Err(AcpError::new(-1, "no")) }],
            ),
            (
                r#"{"id":3,"result":{"outcome":1},"error":{"code":-1,"message":"no"}}"#,
                vec![RpcMessage::Answer { id: json!(3), answer: Err(AcpError::new(-1, "no")) }],
            ),
            (
                r#"{"id":3,"result":7,"error":null}"#,
                vec![RpcMessage::Answer { id: json!(3), answer: Ok(json!(7)) }],
            ),
            (
                r#"[{"method":"n"},{"id":1,"method":"m","params":{"a":1}}]"#,
                vec![RpcMessage::Notification { method: "n".into(), params: Value::Null }, request(json!(1))],
            ),
            ("  ", vec![]),
            ("\u{feff}{\"method\":\"n\"}\r\n", vec![said("n")]),
            // Lone surrogates, pairs, and backslashes that do not start an escape.
            (r#"{"method":"a\ud800b"}"#, vec![said("a\u{fffd}b")]),
            (r#"{"method":"\udc00\ud83d"}"#, vec![said("\u{fffd}\u{fffd}")]),
            (r#"{"method":"\ud800\ud83d\ude00 \\ud800 \n\"é\\"}"#, vec![said("\u{fffd}😀 \\ud800 \n\"é\\")]),
        ] {
            assert_eq!(parse_line(line.as_bytes()), want, "{line}");
        }
        for bad in
            ["{", "1", "[]", "{}", r#"{"id":[],"method":"m"}"#, r#"{"method":1,"id":2}"#, r#"{"id":1}"#]
        {
            let heard = parse_line(bad.as_bytes());
            assert!(matches!(heard.as_slice(), [RpcMessage::Broken { .. }]), "{bad}: {heard:?}");
        }
    }

    proptest! {
        #[test]
        fn any_line_is_parsed_without_panic(line in prop::collection::vec(any::<u8>(), 0..200)) {
            // Every line gives a message, and never more messages than it has bytes.
            let messages = parse_line(&line).len();
            prop_assert!(messages <= line.len().max(1), "{messages}");
        }
    }
}
