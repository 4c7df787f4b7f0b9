//! AWS's binary event stream, as far as Bedrock uses it.

use aws_smithy_eventstream::frame::read_message_from;
use aws_smithy_types::event_stream::Message;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::{Buf as _, BytesMut};
use serde_json::Value;

use crate::{ModelError, failure};

/// The shortest message: lengths and two checksums.
const SHORTEST: usize = 16;
/// More than any message has.
const LONGEST: usize = 32 * 1024 * 1024;

/// Takes bytes, gives the data of events.
#[derive(Debug, Default)]
pub(crate) struct EventStreamParser {
    buffer: BytesMut,
}

impl EventStreamParser {
    pub(crate) fn feed(&mut self, bytes: &[u8], out: &mut Vec<String>) -> Result<(), ModelError> {
        self.buffer.extend_from_slice(bytes);
        while let Some(head) = self.buffer.first_chunk::<4>() {
            let length = u32::from_be_bytes(*head) as usize;
            if !(SHORTEST..=LONGEST).contains(&length) {
                return Err(ModelError::protocol("a message has an impossible length"));
            }
            if self.buffer.len() < length {
                break;
            }
            let mut frame = self.buffer.split_to(length).freeze();
            let message = read_message_from(&mut frame)
                .map_err(|err| ModelError::protocol(format!("a message cannot be read: {err}")))?;
            if frame.has_remaining() {
                return Err(ModelError::protocol("a message is shorter than it says"));
            }
            out.extend(data_of(&message)?);
        }
        Ok(())
    }
}

/// The event in a message; `None` for kinds that carry none.
fn data_of(message: &Message) -> Result<Option<String>, ModelError> {
    let header = |name: &str| {
        let found = message.headers().iter().find(|header| header.name().as_str() == name)?;
        found.value().as_string().ok().map(|text| text.as_str().to_owned())
    };
    let payload: Value = serde_json::from_slice(message.payload()).unwrap_or(Value::Null);
    match header(":message-type").as_deref() {
        Some("event") => {}
        Some("exception") => {
            return Err(exception(&header(":exception-type").unwrap_or_default(), message.payload()));
        }
        _ => {
            let words = header(":error-message").unwrap_or_else(|| "no message".to_owned());
            return Err(ModelError::Server { status: 500, message: words });
        }
    }
    let Some(data) = payload["bytes"].as_str() else { return Ok(None) };
    let bytes = STANDARD.decode(data).map_err(|_| ModelError::protocol("an event is not base64"))?;
    let text = String::from_utf8(bytes).map_err(|_| ModelError::protocol("an event is not UTF-8"))?;
    Ok(Some(text))
}

/// An error in the middle of a stream, by AWS's name for it.
fn exception(kind: &str, payload: &[u8]) -> ModelError {
    let status = match kind {
        "throttlingException" | "serviceQuotaExceededException" => 429,
        "validationException" => 400,
        "accessDeniedException" => 403,
        "resourceNotFoundException" => 404,
        "serviceUnavailableException" => 503,
        _ => 500,
    };
    failure::of_status(status, payload)
}
