use std::fmt;

use serde_json::{Map, Value, json};

/// One JSON-RPC message, told apart by its shape.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum JsonRpcMessage {
    /// The other side asks something; `id` is echoed as it came.
    Request { id: Value, method: String, params: Value },
    /// The other side says something.
    Notification { method: String, params: Value },
    /// The answer to the request of that id. Without an id it is the complaint
    /// of a server that did not understand some message of ours.
    Response { id: Option<u64>, answer: Result<Value, RpcError> },
}

/// A JSON-RPC error object, with every field brought into shape.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RpcError {
    pub(crate) code: i64,
    pub(crate) message: String,
    pub(crate) data: Option<Value>,
}

impl RpcError {
    pub(crate) const METHOD_NOT_FOUND: i64 = -32601;
    pub(crate) const INVALID_PARAMS: i64 = -32602;
    pub(crate) const INTERNAL: i64 = -32603;
    /// What the protocol says for a person's no.
    pub(crate) const USER_REJECTED: i64 = -1;

    pub(crate) fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// Servers leave out the message, spell the code as a string, or send a
    /// bare string: all of it is still an answer.
    fn from_value(error: Value) -> Self {
        let Value::Object(mut error) = error else {
            let message = error.as_str().map_or_else(|| error.to_string(), str::to_owned);
            return Self::new(Self::INTERNAL, bounded(message));
        };
        let code = match error.get("code") {
            Some(Value::String(code)) => code.trim().parse().ok(),
            Some(Value::Number(code)) => code.as_i64().or_else(|| code.as_f64().map(|it| it as i64)),
            _ => None,
        };
        let message = match error.get("message") {
            Some(Value::String(message)) => message.clone(),
            _ => Value::Object(error.clone()).to_string(),
        };
        Self { code: code.unwrap_or(Self::INTERNAL), message: bounded(message), data: error.remove("data") }
    }
}

/// More is no message but a page, or an attack.
const MAX_MESSAGE_CHARS: usize = 10_000;

fn bounded(message: String) -> String {
    let head = haft_types::text::head(&message, MAX_MESSAGE_CHARS);
    match message.len() - head.len() {
        0 => message,
        more => format!("{head} […{more} more bytes]"),
    }
}

impl fmt::Display for RpcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (code {})", self.message, self.code)
    }
}

impl JsonRpcMessage {
    /// Which request a message answers, without taking it apart.
    pub(crate) fn answers(value: &Value) -> Option<u64> {
        let is_answer = value.get("result").is_some() || value.get("error").is_some_and(|it| !it.is_null());
        value.get("id").filter(|_| is_answer).and_then(own_id)
    }

    /// Reads one message; `None` for JSON that is no message.
    pub(crate) fn from_value(value: Value) -> Option<Self> {
        let Value::Object(mut object) = value else { return None };
        let error = object.remove("error").filter(|error| !error.is_null());
        // Some servers repeat the method in their answers, so `result` decides.
        if object.contains_key("result") || error.is_some() {
            let result = object.remove("result").unwrap_or(Value::Null);
            let answer = error.map_or(Ok(result), |error| Err(RpcError::from_value(error)));
            return Some(Self::Response { id: object.get("id").and_then(own_id), answer });
        }
        let Some(Value::String(method)) = object.remove("method") else { return None };
        let params = object.remove("params").unwrap_or(Value::Null);
        match object.remove("id") {
            None | Some(Value::Null) => Some(Self::Notification { method, params }),
            Some(id) => Some(Self::Request { id, method, params }),
        }
    }
}

/// Our ids are whole numbers; a server may hand them back as text or as a
/// float.
fn own_id(id: &Value) -> Option<u64> {
    match id {
        Value::Number(number) => number.as_u64().or_else(|| {
            let float = number.as_f64()?;
            (float.fract() == 0.0 && (0.0..9.0e15).contains(&float)).then_some(float as u64)
        }),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

/// A request of ours.
pub(crate) fn request(id: u64, method: &str, params: Map<String, Value>) -> Value {
    message([("id", id.into()), ("method", method.into()), ("params", Value::Object(params))])
}

/// A notification of ours; `params` is left out when there is nothing to say.
pub(crate) fn notification(method: &str, params: Map<String, Value>) -> Value {
    if params.is_empty() {
        message([("method", method.into())])
    } else {
        message([("method", method.into()), ("params", Value::Object(params))])
    }
}

/// Our answer to a request of the other side.
pub(crate) fn response(id: Value, answer: Result<Value, RpcError>) -> Value {
    match answer {
        Ok(result) => message([("id", id), ("result", result)]),
        Err(error) => {
            let mut object = json!({"code": error.code, "message": error.message});
            if let Some(data) = error.data {
                object["data"] = data;
            }
            message([("id", id), ("error", object)])
        }
    }
}

/// Not with `json!`, which copies what it is given: arguments and results are
/// as large as they like.
fn message<const N: usize>(fields: [(&str, Value); N]) -> Value {
    let version = ("jsonrpc", Value::from("2.0"));
    let fields = std::iter::once(version).chain(fields);
    Value::Object(fields.map(|(name, value)| (name.to_owned(), value)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_told_apart_by_shape() {
        let ok = |id, result| Some(JsonRpcMessage::Response { id, answer: Ok(result) });
        let err = |id, code, message: &str| {
            Some(JsonRpcMessage::Response { id, answer: Err(RpcError::new(code, message)) })
        };
        for (text, want) in [
            (r#"{"id":1,"result":{}}"#, ok(Some(1), json!({}))),
            (r#"{"id":"7","result":null}"#, ok(Some(7), Value::Null)),
            (r#"{"id":2.0,"result":1,"error":null}"#, ok(Some(2), json!(1))),
            (r#"{"id":3,"method":"tools/list","result":{}}"#, ok(Some(3), json!({}))),
            (r#"{"id":4,"error":"boom"}"#, err(Some(4), -32603, "boom")),
            (r#"{"id":4,"result":null,"error":{"code":"-5","message":"m"}}"#, err(Some(4), -5, "m")),
            (r#"{"id":5,"error":{"code":1}}"#, err(Some(5), 1, r#"{"code":1}"#)),
            (r#"{"id":null,"error":{"code":-32700,"message":"parse"}}"#, err(None, -32700, "parse")),
            (
                r#"{"method":"ping","id":"x"}"#,
                Some(JsonRpcMessage::Request { id: json!("x"), method: "ping".into(), params: Value::Null }),
            ),
            (
                r#"{"method":"n","params":[1]}"#,
                Some(JsonRpcMessage::Notification { method: "n".into(), params: json!([1]) }),
            ),
            (r#"{"id":1}"#, None),
            (r#""text""#, None),
        ] {
            assert_eq!(JsonRpcMessage::from_value(serde_json::from_str(text).unwrap()), want, "{text}");
        }
    }
}
