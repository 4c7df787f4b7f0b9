//! The wire forms: a request becomes a body, frames become events.

#[cfg(test)]
mod allocations;
mod arguments;
mod assembler;
mod cache;
pub(crate) mod chat;
pub(crate) mod chat_events;
mod chat_prompted;
mod decoder;
mod estimate;
pub(crate) mod framing;
pub(crate) mod gemini;
pub(crate) mod gemini_events;
pub(crate) mod messages;
mod messages_content;
pub(crate) mod messages_events;
pub(crate) mod openai;
mod reasoning_details;
pub(crate) mod responses;
pub(crate) mod responses_events;
pub(crate) mod sse;
mod surrogates;
#[cfg(test)]
mod tests;

use bytes::Bytes;

#[cfg(test)]
pub(crate) use arguments::parse_arguments;
pub(crate) use assembler::ResponseAssembler;
pub(crate) use cache::{BodyPiece, MessageCache};
pub(crate) use decoder::Decoder;
pub(crate) use estimate::{
    EstimateCalibration, RequestSize, TokenEstimator, estimate_head, estimate_request, tokens_of_block,
};
#[cfg(test)]
pub(crate) use messages_content::encode_message as messages_piece;

/// A body and what is known about it.
#[derive(Clone, Debug)]
pub(crate) struct EncodedBody {
    pub(crate) body: Bytes,
    /// Beta features it needs.
    pub(crate) betas: Vec<String>,
    /// How large it is for the model.
    pub(crate) size: RequestSize,
    /// Which message and block each item of the wire's own list came from.
    pub(crate) origins: Vec<(usize, Option<usize>)>,
}
