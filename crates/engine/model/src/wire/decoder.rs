use serde_json::Value;

use super::{
    ResponseAssembler, chat_events::ChatDecoder, gemini_events::GeminiDecoder,
    messages_events::MessagesDecoder, responses_events::ResponsesDecoder,
};
use crate::{ModelError, ModelEvent};

/// Decoder for one answer, in any wire format.
pub(crate) enum Decoder {
    Messages(MessagesDecoder),
    Chat(ChatDecoder),
    Responses(ResponsesDecoder),
    Gemini(GeminiDecoder),
}

impl Decoder {
    /// Decodes the data of one event.
    pub(crate) fn feed(&mut self, data: &str) -> Result<Vec<ModelEvent>, ModelError> {
        match self {
            Self::Messages(decoder) => decoder.feed(data),
            Self::Chat(decoder) => decoder.feed(data),
            Self::Responses(decoder) => decoder.feed(data),
            Self::Gemini(decoder) => decoder.feed(data),
        }
    }

    /// Handles the end of the body.
    pub(crate) fn end(&mut self) -> Result<Vec<ModelEvent>, ModelError> {
        match self {
            Self::Messages(decoder) => decoder.end(),
            Self::Chat(decoder) => decoder.end(),
            Self::Responses(decoder) => decoder.end(),
            Self::Gemini(decoder) => decoder.end(),
        }
    }

    /// Decodes an answer that arrived as a single JSON object.
    pub(crate) fn whole(&mut self, body: &Value) -> Result<Vec<ModelEvent>, ModelError> {
        match self {
            Self::Messages(decoder) => decoder.whole(body),
            Self::Chat(decoder) => decoder.whole(body),
            Self::Responses(decoder) => decoder.whole(body),
            Self::Gemini(decoder) => decoder.whole(body),
        }
    }

    pub(crate) fn assembler(&mut self) -> &mut ResponseAssembler {
        match self {
            Self::Messages(decoder) => decoder.assembler(),
            Self::Chat(decoder) => decoder.assembler(),
            Self::Responses(decoder) => decoder.assembler(),
            Self::Gemini(decoder) => decoder.assembler(),
        }
    }
}
