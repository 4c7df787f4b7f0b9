//! Splits the bytes of a body into events.

use reqwest::header::HeaderMap;

#[cfg(feature = "bedrock")]
use super::messages::MessagesHost;
use super::sse::SseParser;
use crate::{ModelError, http_engine::WireForm};

/// How a body is split into events.
pub(crate) enum Framing {
    /// Server-sent events.
    Sse(SseParser),
    /// AWS's binary event stream.
    #[cfg(feature = "bedrock")]
    EventStream(crate::cloud::eventstream::EventStreamParser),
    /// Not split: the body is one JSON object.
    Whole,
}

impl Framing {
    /// Selects the framing by content type, or else by wire format.
    pub(crate) fn for_form(form: &WireForm, headers: &HeaderMap) -> Self {
        let kind = headers.get("content-type").and_then(|value| value.to_str().ok()).unwrap_or_default();
        if kind.starts_with("application/json") {
            return Self::Whole;
        }
        match form {
            #[cfg(feature = "bedrock")]
            WireForm::Messages(MessagesHost::Bedrock) => Self::event_stream(),
            WireForm::Messages(_) | WireForm::Chat(_) | WireForm::Responses | WireForm::Gemini => {
                Self::Sse(SseParser::default())
            }
        }
    }

    #[cfg(feature = "bedrock")]
    pub(crate) fn event_stream() -> Self {
        Self::EventStream(crate::cloud::eventstream::EventStreamParser::default())
    }

    pub(crate) fn is_whole(&self) -> bool {
        matches!(self, Self::Whole)
    }

    /// Handles the end of the body: appends the data of a last, unterminated event.
    pub(crate) fn finish(&mut self, out: &mut Vec<String>) -> Result<(), ModelError> {
        let Self::Sse(parser) = self else { return Ok(()) };
        let mut events = Vec::new();
        let finished = parser.finish(&mut events);
        out.extend(events.into_iter().map(|event| event.data));
        finished
    }

    /// Processes a chunk of the body and appends the data of complete events to `out`, including those
    /// before an error.
    pub(crate) fn feed(&mut self, bytes: &[u8], out: &mut Vec<String>) -> Result<(), ModelError> {
        match self {
            Self::Whole => Ok(()),
            #[cfg(feature = "bedrock")]
            Self::EventStream(parser) => parser.feed(bytes, out),
            Self::Sse(parser) => {
                let mut events = Vec::new();
                let fed = parser.feed(bytes, &mut events);
                out.extend(events.into_iter().map(|event| event.data));
                fed
            }
        }
    }
}
