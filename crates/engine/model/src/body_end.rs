//! The end of a response body.

use serde_json::Value;

use crate::{
    ModelError, ModelEvent,
    event_stream::Emitter,
    wire::{Decoder, event_framing::Framing},
};

/// Handles the end of a body: flushes the decoder, and parses a body that was a single JSON object (no
/// event stream) as a whole.
pub(crate) fn finish_body(
    frames: &mut Framing,
    decoder: &mut Decoder,
    unframed: Option<&[u8]>,
    emitter: &Emitter,
) -> Result<Vec<ModelEvent>, ModelError> {
    if let Some(body) = unframed.and_then(|body| serde_json::from_slice::<Value>(body).ok()) {
        return decoder.whole(&body);
    }
    let mut data = Vec::new();
    frames.finish(&mut data)?;
    for data in data {
        let events = decoder.feed(&data)?;
        if decoder.assembler().is_stopped() {
            return Ok(events);
        }
        events.into_iter().for_each(|event| emitter.emit(event));
    }
    decoder.end()
}
