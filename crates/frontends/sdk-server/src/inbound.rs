//! Parses lines from the host.

use haft_session::{Prompt, PromptAuthor};
use haft_types::{MessageBlock, text};
use serde_json::{Value, json};

/// A line from the host.
#[derive(Clone, Debug, PartialEq)]
pub enum InboundLine {
    /// A prompt.
    User(Box<Prompt>),
    /// A control request.
    Control(InboundControl),
    /// The answer to a request that Haft sent.
    Answer {
        /// Id of the request.
        request_id: String,
        /// The answer, or the error of the host.
        answer: Result<Value, String>,
    },
    /// The host cancels a request. Haft answers requests at once, so there is nothing to cancel.
    Cancel,
    /// A message of this unknown type.
    Unknown(String),
    /// A line without effect, such as a keep-alive.
    Nothing,
}

/// A control request of the host.
#[derive(Clone, Debug, PartialEq)]
pub struct InboundControl {
    pub request_id: String,
    /// The request object; see [`ControlRequest`](crate::ControlRequest).
    pub request: Value,
}

impl InboundLine {
    /// Parses a line. Returns `None` if it is not JSON.
    pub fn parse(line: &[u8]) -> Option<Self> {
        if line.trim_ascii().is_empty() {
            return Some(Self::Nothing);
        }
        // Invalid UTF-8 is replaced instead of ending the session.
        let lossy = || serde_json::from_str(&String::from_utf8_lossy(line)).ok();
        let mut frame: Value = serde_json::from_slice(line).ok().or_else(lossy)?;
        Some(match frame["type"].as_str() {
            Some("user") => user(&mut frame).map_or(Self::Nothing, Self::User),
            Some("control_request") => control(&mut frame).map_or(Self::Nothing, Self::Control),
            Some("control_response") => answer(frame["response"].take()),
            Some("control_cancel_request") => Self::Cancel,
            None | Some("keep_alive") => Self::Nothing,
            Some(newer) => Self::Unknown(text::one_line(newer, 80)),
        })
    }
}

fn user(frame: &mut Value) -> Option<Box<Prompt>> {
    let message = frame["message"].take();
    let content = match &message["content"] {
        Value::String(text) => vec![MessageBlock::Text { text: text.clone() }],
        Value::Array(blocks) => blocks.iter().map(block).collect(),
        _ => return None,
    };
    let named = frame["uuid"].as_str().filter(|it| !it.is_empty()).map(str::to_owned);
    Some(Box::new(Prompt {
        is_named: named.is_some(),
        uuid: named.unwrap_or_else(crate::frames::uuid),
        message,
        content,
        wants_answer: frame["shouldQuery"].as_bool().unwrap_or(true),
        is_verbatim: frame["client_composed"].as_bool().unwrap_or(false),
        // Only this origin is accepted from a host.
        speaker: match frame["origin"]["kind"].as_str() {
            Some("human") => PromptAuthor::Human,
            _ => PromptAuthor::Person,
        },
        origin: None,
    }))
}

/// An unknown block is passed to the model as JSON text.
fn block(block: &Value) -> MessageBlock {
    serde_json::from_value(block.clone()).unwrap_or_else(|_| MessageBlock::Text { text: block.to_string() })
}

fn control(frame: &mut Value) -> Option<InboundControl> {
    let request_id = frame["request_id"].as_str()?.to_owned();
    let request = frame["request"].take();
    Some(InboundControl { request_id, request })
}

fn answer(mut response: Value) -> InboundLine {
    let Some(request_id) = response["request_id"].as_str().map(str::to_owned) else {
        return InboundLine::Nothing;
    };
    let answer = match response["subtype"].as_str() {
        Some("success") => Ok(response["response"].take()),
        Some("error") => Err(response["error"].as_str().unwrap_or("no reason given").to_owned()),
        _ => Err(String::from("the answer is neither a success nor an error")),
    };
    InboundLine::Answer { request_id, answer }
}

/// The response to a successful request.
pub fn succeed(request_id: &str, response: Value) -> Value {
    json!({
        "type": "control_response",
        "response": {"subtype": "success", "request_id": request_id, "response": response},
    })
}

/// The response to a failed request.
pub fn fail(request_id: &str, error: &str) -> Value {
    json!({
        "type": "control_response",
        "response": {"subtype": "error", "request_id": request_id, "error": error},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_what_they_say() {
        let text = |text: &str| vec![MessageBlock::Text { text: text.to_owned() }];
        let check = |line: &str, want: Option<InboundLine>| {
            assert_eq!(InboundLine::parse(line.as_bytes()), want, "{line}");
        };
        check("", Some(InboundLine::Nothing));
        check("  \r", Some(InboundLine::Nothing));
        let newer = Some(InboundLine::Unknown(String::from("x")));
        assert_eq!(InboundLine::parse(b"{\"type\":\"x\",\"y\":\"\xff\"}"), newer);
        check("nope", None);
        check("{\"type\":", None);
        check("[1]", Some(InboundLine::Nothing));
        check(r#"{"type":"keep_alive"}"#, Some(InboundLine::Nothing));
        check(r#"{"type":"user"}"#, Some(InboundLine::Nothing));
        check(r#"{"type":"control_request"}"#, Some(InboundLine::Nothing));
        check(r#"{"type":"control_cancel_request","request_id":"r"}"#, Some(InboundLine::Cancel));
        for message in [json!("hi"), json!([{"type": "text", "text": "hi"}])] {
            let line = json!({"type": "user", "message": {"role": "user", "content": message}, "uuid": "u"});
            let Some(InboundLine::User(frame)) = InboundLine::parse(line.to_string().as_bytes()) else {
                panic!("{line}")
            };
            assert_eq!((frame.name(), frame.content.clone()), (Some("u"), text("hi")));
        }
        for (origin, want) in [
            (json!({"kind": "human"}), PromptAuthor::Human),
            (json!({"kind": "task-notification"}), PromptAuthor::Person),
            (json!("human"), PromptAuthor::Person),
            (json!(null), PromptAuthor::Person),
        ] {
            let line =
                json!({"type": "user", "message": {"role": "user", "content": "hi"}, "origin": origin});
            let Some(InboundLine::User(frame)) = InboundLine::parse(line.to_string().as_bytes()) else {
                panic!("{line}")
            };
            assert_eq!(frame.speaker, want, "{line}");
        }
        check(
            r#"{"type":"control_response","response":{"subtype":"error","request_id":"r","error":"no"}}"#,
            Some(InboundLine::Answer { request_id: "r".to_owned(), answer: Err("no".to_owned()) }),
        );
        check(
            r#"{"type":"control_response","response":{"request_id":"r"}}"#,
            Some(InboundLine::Answer {
                request_id: "r".to_owned(),
                answer: Err("the answer is neither a success nor an error".to_owned()),
            }),
        );
    }
}
