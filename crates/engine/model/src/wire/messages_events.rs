//! Decodes the events of Anthropic's Messages API.

use std::sync::Arc;

use haft_types::Usage;
use serde_json::Value;

use super::{
    ResponseAssembler,
    response_assembler::{as_text, count},
    split_surrogates,
};
use crate::{ModelError, ModelEvent, StopReason, ToolSet, http_error};

/// Decoder for one answer.
pub(crate) struct MessagesDecoder {
    assembler: ResponseAssembler,
    reason: Option<StopReason>,
}

impl MessagesDecoder {
    pub(crate) fn new(model: &str, tools: Arc<ToolSet>) -> Self {
        Self { assembler: ResponseAssembler::new(model, tools), reason: None }
    }

    pub(crate) fn assembler(&mut self) -> &mut ResponseAssembler {
        &mut self.assembler
    }

    /// Decodes one event.
    pub(crate) fn feed(&mut self, data: &str) -> Result<Vec<ModelEvent>, ModelError> {
        let event = split_surrogates::parse(data)
            .map_err(|err| ModelError::protocol(format!("an event is no JSON: {err}")))?;
        let index = || event["index"].as_u64().and_then(|index| usize::try_from(index).ok());
        match event["type"].as_str().unwrap_or_default() {
            "message_start" => self.message_start(&event["message"]),
            "content_block_start" => {
                let index = index().ok_or_else(|| ModelError::protocol("a block has no index"))?;
                self.block_start(index, &event["content_block"])?;
            }
            "content_block_delta" => {
                let index = index().ok_or_else(|| ModelError::protocol("a piece has no index"))?;
                self.delta(index, &event["delta"])?;
            }
            "content_block_stop" => {
                let index = index().ok_or_else(|| ModelError::protocol("an end has no index"))?;
                self.assembler.end(index);
            }
            "message_delta" => {
                update_usage(self.assembler.usage(), &event["usage"]);
                if let Some(reason) = event["delta"]["stop_reason"].as_str() {
                    self.reason = Some(stop_reason(reason));
                }
            }
            "message_stop" => self.finish()?,
            "error" => return Err(stream_error(&event["error"])),
            // Pings and unknown future events.
            _ => {}
        }
        Ok(self.assembler.drain())
    }

    /// Handles the end of the body.
    pub(crate) fn end(&mut self) -> Result<Vec<ModelEvent>, ModelError> {
        if !self.assembler.is_stopped() {
            self.finish()?;
        }
        Ok(self.assembler.drain())
    }

    fn finish(&mut self) -> Result<(), ModelError> {
        let reason = self.reason.take().ok_or_else(|| ModelError::protocol("the answer has no end"))?;
        self.assembler.stop(reason);
        Ok(())
    }

    fn message_start(&mut self, message: &Value) {
        let text = |name: &str| message[name].as_str().unwrap_or_default();
        self.assembler.started(text("id"), text("model"));
        update_usage(self.assembler.usage(), &message["usage"]);
        self.assembler.tell_usage();
    }

    fn block_start(&mut self, index: usize, block: &Value) -> Result<(), ModelError> {
        let text = |name: &str| block[name].as_str().unwrap_or_default();
        match block["type"].as_str() {
            Some("text") => {
                self.assembler.begin_text(index);
                self.assembler.piece(index, text("text"));
                for citation in block["citations"].as_array().into_iter().flatten() {
                    self.assembler.citation(index, citation);
                }
            }
            Some("thinking") => {
                self.assembler.begin_thinking(index);
                self.assembler.piece(index, text("thinking"));
                self.assembler.signature(index, text("signature"));
            }
            Some("redacted_thinking") => self.assembler.begin_redacted(index, text("data")),
            Some("tool_use") => {
                if text("id").is_empty() || text("name").is_empty() {
                    return Err(ModelError::protocol("a call has no id or no name"));
                }
                self.assembler.begin_call(index, text("id"), text("name"));
                // Some gateways send the whole input at once.
                if block["input"].as_object().is_some_and(|input| !input.is_empty()) {
                    self.assembler.piece(index, &as_text(&block["input"]));
                }
            }
            Some(_) => self.assembler.begin_other(index, block.clone()),
            None => return Err(ModelError::protocol("a block has no type")),
        }
        Ok(())
    }

    fn delta(&mut self, index: usize, delta: &Value) -> Result<(), ModelError> {
        if !self.assembler.is_open(index) {
            return Err(ModelError::protocol("a piece belongs to no block"));
        }
        let text = |name: &str| delta[name].as_str().unwrap_or_default();
        match delta["type"].as_str() {
            Some("text_delta") => self.assembler.piece(index, text("text")),
            Some("thinking_delta") => self.assembler.piece(index, text("thinking")),
            Some("signature_delta") => self.assembler.signature(index, text("signature")),
            Some("citations_delta") => self.assembler.citation(index, &delta["citation"]),
            Some("input_json_delta") => self.assembler.piece(index, text("partial_json")),
            _ => {}
        }
        Ok(())
    }

    /// Decodes an answer that arrived as a single JSON object.
    pub(crate) fn whole(&mut self, message: &Value) -> Result<Vec<ModelEvent>, ModelError> {
        if message["type"] == "error" {
            return Err(stream_error(&message["error"]));
        }
        self.message_start(message);
        for (index, block) in message["content"].as_array().into_iter().flatten().enumerate() {
            self.block_start(index, block)?;
            self.assembler.end(index);
        }
        self.reason = message["stop_reason"].as_str().map(stop_reason);
        self.finish()?;
        Ok(self.assembler.drain())
    }
}

fn stop_reason(name: &str) -> StopReason {
    match name {
        "end_turn" => StopReason::EndTurn,
        "tool_use" => StopReason::ToolUse,
        "max_tokens" => StopReason::MaxTokens,
        "stop_sequence" => StopReason::StopSequence,
        "pause_turn" => StopReason::Pause,
        "refusal" => StopReason::Refusal,
        "model_context_window_exceeded" => StopReason::ContextFull,
        other => StopReason::Other(other.to_owned()),
    }
}

/// Replaces the counts that are present; they are totals, not increments.
fn update_usage(usage: &mut Usage, new: &Value) {
    let set = |slot: &mut u64, name: &str| {
        if let Some(value) = count(new, name) {
            *slot = value;
        }
    };
    set(&mut usage.input_tokens, "input_tokens");
    set(&mut usage.output_tokens, "output_tokens");
    set(&mut usage.cache_creation_input_tokens, "cache_creation_input_tokens");
    set(&mut usage.cache_read_input_tokens, "cache_read_input_tokens");
    if let Some(hour) = count(&new["cache_creation"], "ephemeral_1h_input_tokens") {
        usage.cache_creation_1h_input_tokens = hour;
    }
    if let Some(searches) = count(&new["server_tool_use"], "web_search_requests") {
        usage.web_search_requests = searches;
    }
}

/// Converts an error event in the middle of a stream.
fn stream_error(error: &Value) -> ModelError {
    let message = error["message"].as_str().unwrap_or("no message").to_owned();
    match error["type"].as_str().unwrap_or_default() {
        "rate_limit_error" => ModelError::RateLimited { message, retry_after: None },
        "invalid_request_error" => http_error::of_refusal(message),
        "authentication_error" | "permission_error" => ModelError::Auth { message },
        "not_found_error" => ModelError::UnknownModel { message },
        "overloaded_error" => ModelError::Server { status: 529, message },
        _ => ModelError::Server { status: 500, message },
    }
}
