use serde_json::Value;

use super::{Assembler, messages_events::MessagesDecoder};
use crate::{Event, ModelError};

/// Reads one answer in one of the forms.
pub(crate) enum Decoder {
    Messages(MessagesDecoder),
}

impl Decoder {
    /// Reads the data of one event.
    pub(crate) fn feed(&mut self, data: &str) -> Result<Vec<Event>, ModelError> {
        match self {
            Self::Messages(decoder) => decoder.feed(data),
        }
    }

    /// The body has ended.
    pub(crate) fn end(&mut self) -> Result<Vec<Event>, ModelError> {
        match self {
            Self::Messages(decoder) => decoder.end(),
        }
    }

    /// Reads an answer that came in one piece.
    pub(crate) fn whole(&mut self, body: &Value) -> Result<Vec<Event>, ModelError> {
        match self {
            Self::Messages(decoder) => decoder.whole(body),
        }
    }

    pub(crate) fn assembler(&mut self) -> &mut Assembler {
        match self {
            Self::Messages(decoder) => decoder.assembler(),
        }
    }
}
