//! Wire formats: encoders turn a request into a body, decoders turn frames into events.

#[cfg(test)]
mod allocations;
mod arguments;
pub(crate) mod chat;
pub(crate) mod chat_events;
mod chat_text_tools;
mod decoder;
pub(crate) mod event_framing;
pub(crate) mod gemini;
pub(crate) mod gemini_events;
mod message_cache;
pub(crate) mod messages;
mod messages_content;
pub(crate) mod messages_events;
pub(crate) mod openai;
mod reasoning_details;
mod response_assembler;
pub(crate) mod responses;
pub(crate) mod responses_events;
mod split_surrogates;
pub(crate) mod sse;
#[cfg(test)]
mod tests;
mod token_estimate;

use bytes::Bytes;

#[cfg(test)]
pub(crate) use arguments::parse_arguments;
pub(crate) use decoder::Decoder;
pub(crate) use message_cache::{BodyPiece, MessageCache};
#[cfg(test)]
pub(crate) use messages_content::encode_message as messages_piece;
pub(crate) use response_assembler::ResponseAssembler;
pub(crate) use token_estimate::{
    EstimateCalibration, RequestSize, TokenEstimator, estimate_head, estimate_request, tokens_of_block,
};

/// A request body and its properties.
#[derive(Clone, Debug)]
pub(crate) struct EncodedBody {
    pub(crate) body: Bytes,
    /// Beta features the body needs.
    pub(crate) betas: Vec<String>,
    /// Size for the token estimate.
    pub(crate) size: RequestSize,
    /// Message and block each item of the wire format's list was made from.
    pub(crate) origins: Vec<(usize, Option<usize>)>,
}
