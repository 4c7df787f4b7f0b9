//! Estimates the tokens of a request.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use haft_types::{Block, MessageBlock};
use serde_json::Value;

use super::messages_content::WireMedia;
use crate::{ModelInfo, Request, lint::Linted};

/// Bytes of text and code per token; low, so that estimates are rather too high.
const BYTES_PER_TOKEN: f64 = 3.1;
/// Safety factor on estimates.
const MARGIN: f64 = 1.03;

/// Size of a request for the estimate.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct RequestSize {
    /// Bytes of text.
    pub(crate) text: usize,
    /// Tokens of images and documents.
    pub(crate) media: u64,
}

impl RequestSize {
    #[expect(clippy::cast_precision_loss, reason = "bodies are far below 2^52 bytes")]
    fn raw(self) -> f64 {
        self.text as f64 / BYTES_PER_TOKEN + self.media as f64
    }
}

/// Estimates the tokens of a request.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive and small")]
pub(crate) fn estimate_request(request: &Request) -> u64 {
    let mut size = head_size(request);
    for block in request.messages.iter().flat_map(|message| &message.content) {
        add_block(&mut size, block);
    }
    size.raw().ceil() as u64
}

/// Estimates the tokens of tools and system prompt.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive and small")]
pub(crate) fn estimate_head(request: &Request) -> u64 {
    head_size(request).raw().ceil() as u64
}

fn head_size(request: &Request) -> RequestSize {
    let system = request.system.iter().map(|part| part.text.len()).sum::<usize>();
    RequestSize { text: request.tools.weight() + system, media: 0 }
}

/// Estimates the tokens of a block.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive and small")]
pub(crate) fn tokens_of_block(block: &MessageBlock) -> u64 {
    let mut size = RequestSize::default();
    add_block(&mut size, block);
    size.raw().ceil() as u64
}

/// Bytes added per block for its structure.
const PER_BLOCK: usize = 12;

fn add_block(size: &mut RequestSize, block: &MessageBlock) {
    size.text += PER_BLOCK;
    let mut media = WireMedia::default();
    match block {
        MessageBlock::Text { text } => size.text += text.len(),
        MessageBlock::Thinking { thinking, signature, .. } => size.text += thinking.len() + signature.len(),
        MessageBlock::RedactedThinking { data, .. } => size.text += data.len(),
        MessageBlock::Image { source } => media.add(source, true),
        MessageBlock::Document { source, .. } => media.add(source, false),
        MessageBlock::ToolUse(call) => size.text += call.name.len() + json_length(&call.input),
        MessageBlock::ToolResult { content, .. } => {
            for inner in &content.0 {
                match inner {
                    Block::Text { text } => size.text += text.len(),
                    Block::Image { source } => media.add(source, true),
                    Block::Document { source, .. } => media.add(source, false),
                    Block::ToolReference { tool_name } => size.text += tool_name.len(),
                }
            }
        }
        MessageBlock::Other(value) => size.text += json_length(value),
    }
    size.media += media.tokens;
}

/// Estimates the length of a value as JSON text without serialising it.
fn json_length(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 5,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => 2 + items.iter().map(|item| json_length(item) + 1).sum::<usize>(),
        Value::Object(fields) => {
            2 + fields.iter().map(|(key, item)| key.len() + 4 + json_length(item)).sum::<usize>()
        }
    }
}

/// Correction factor for estimates of whole requests, by model.
#[derive(Debug, Default)]
pub(crate) struct EstimateCalibration(Mutex<HashMap<String, f64>>);

impl EstimateCalibration {
    /// Estimates the tokens of a request, corrected by the model's factor.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "positive and small"
    )]
    pub(crate) fn estimate(&self, request: &Request) -> u64 {
        let factors = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let factor = factors.get(&request.model).copied().unwrap_or(1.0);
        (estimate_request(request) as f64 * factor).ceil() as u64
    }

    /// Updates the model's factor from the actual token count.
    #[expect(clippy::cast_precision_loss, reason = "token counts are far below 2^52")]
    pub(crate) fn learn(&self, request: &Request, tokens: u64) {
        let estimated = estimate_request(request);
        // Small requests are dominated by constant overhead.
        if tokens >= SAYS_LITTLE && estimated >= SAYS_LITTLE {
            let factor = (tokens as f64 / estimated as f64).clamp(0.3, 3.0);
            self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(request.model.clone(), factor);
        }
    }
}

/// Requests below this many tokens do not update the factor.
const SAYS_LITTLE: u64 = 200;

/// Estimates the tokens of encoded requests; the factor of each model is updated from the provider's
/// counts.
#[derive(Debug, Default)]
pub(crate) struct TokenEstimator(Mutex<HashMap<String, f64>>);

impl TokenEstimator {
    /// Estimates the tokens of a request of this size.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive and small")]
    pub(crate) fn estimate(&self, model: &str, size: RequestSize) -> u64 {
        let factors = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let factor = factors.get(model).copied().unwrap_or(1.0);
        (size.raw() * factor).ceil() as u64
    }

    /// Returns the output tokens left in the window after the estimated input.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "positive and small"
    )]
    pub(crate) fn room(&self, model: &str, size: RequestSize, window: u64) -> u64 {
        let input = (self.estimate(model, size) as f64 * MARGIN).ceil() as u64 + 16;
        window.saturating_sub(input)
    }

    /// Returns the `max_tokens` to send: what the request asks for, limited by the model and by the room
    /// in the window. At least 1.
    pub(crate) fn limit(&self, info: &ModelInfo, linted: &Linted, size: RequestSize) -> u64 {
        let request = &linted.request;
        let room = self.room(&request.model, size, info.window);
        let told = linted.max_tokens.unwrap_or(u64::MAX);
        let wanted = u64::from(request.max_tokens).min(info.max_output).min(told);
        // If there is no room at all, the provider reports the error.
        wanted.min(room.max(1)).max(1)
    }

    /// Updates the model's factor from the actual token count.
    #[expect(clippy::cast_precision_loss, reason = "token counts are far below 2^52")]
    pub(crate) fn learn(&self, model: &str, size: RequestSize, tokens: u64) {
        if tokens < SAYS_LITTLE || size.raw() < SAYS_LITTLE as f64 {
            return;
        }
        let factor = (tokens as f64 / size.raw()).clamp(0.3, 3.0);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(model.to_owned(), factor);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_estimate_adapts_to_provider_counts() {
        let meter = TokenEstimator::default();
        let size = RequestSize { text: 31_000, media: 0 };
        assert_eq!(meter.estimate("m", size), 10_000);
        meter.learn("m", size, 7_500);
        assert_eq!(meter.estimate("m", size), 7_500);
        assert_eq!(meter.estimate("other", size), 10_000);
        assert!(meter.room("m", size, 20_000) < 12_500);
        assert_eq!(meter.room("m", size, 5_000), 0);
    }
}
