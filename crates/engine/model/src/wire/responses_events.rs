//! Decodes the events of OpenAI's Responses API.

use std::{collections::HashSet, sync::Arc};

use serde_json::Value;

use super::{ResponseAssembler, chat_events::chunk_error, response_assembler::count, split_surrogates};
use crate::{ModelError, ModelEvent, StopReason, ToolSet};

/// Decoder for one answer.
pub(crate) struct ResponsesDecoder {
    assembler: ResponseAssembler,
    called: bool,
    /// Indices of items of which fragments were received.
    fed: HashSet<usize>,
}

impl ResponsesDecoder {
    pub(crate) fn new(model: &str, tools: Arc<ToolSet>) -> Self {
        Self { assembler: ResponseAssembler::new(model, tools), called: false, fed: HashSet::new() }
    }

    pub(crate) fn assembler(&mut self) -> &mut ResponseAssembler {
        &mut self.assembler
    }

    /// Decodes one event.
    pub(crate) fn feed(&mut self, data: &str) -> Result<Vec<ModelEvent>, ModelError> {
        if data.trim() == "[DONE]" {
            return self.end();
        }
        let event = split_surrogates::parse(data)
            .map_err(|err| ModelError::protocol(format!("an event is no JSON: {err}")))?;
        let index = event["output_index"].as_u64().and_then(|index| usize::try_from(index).ok());
        match (event["type"].as_str().unwrap_or_default(), index) {
            ("response.created", _) => self.started(&event["response"]),
            ("response.output_item.added", Some(index)) => self.added(index, &event["item"])?,
            (
                "response.output_text.delta"
                | "response.refusal.delta"
                | "response.reasoning_summary_text.delta"
                | "response.reasoning_text.delta"
                | "response.function_call_arguments.delta",
                Some(index),
            ) => {
                if !self.assembler.is_open(index) {
                    return Err(ModelError::protocol("a piece belongs to no item"));
                }
                self.piece(index, event["delta"].as_str().unwrap_or_default());
            }
            ("response.reasoning_summary_part.added", Some(index))
                if event["summary_index"].as_u64() > Some(0) =>
            {
                self.piece(index, "\n\n");
            }
            ("response.output_item.done", Some(index)) => self.done(index, &event["item"]),
            ("response.completed" | "response.incomplete", _) => self.finish(&event["response"]),
            ("response.failed", _) => return Err(chunk_error(&event["response"]["error"])),
            ("error", _) => {
                return Err(chunk_error(if event["error"].is_object() { &event["error"] } else { &event }));
            }
            _ => {}
        }
        Ok(self.assembler.drain())
    }

    /// Handles the end of the body.
    pub(crate) fn end(&mut self) -> Result<Vec<ModelEvent>, ModelError> {
        if !self.assembler.is_stopped() {
            return Err(ModelError::protocol("the answer has no end"));
        }
        Ok(self.assembler.drain())
    }

    /// Decodes an answer that arrived as a single JSON object.
    pub(crate) fn whole(&mut self, response: &Value) -> Result<Vec<ModelEvent>, ModelError> {
        if response["error"].is_object() {
            return Err(chunk_error(&response["error"]));
        }
        self.started(response);
        for (index, item) in response["output"].as_array().into_iter().flatten().enumerate() {
            self.added(index, item)?;
            self.done(index, item);
        }
        self.finish(response);
        Ok(self.assembler.drain())
    }

    fn started(&mut self, response: &Value) {
        let text = |name: &str| response[name].as_str().unwrap_or_default();
        self.assembler.started(text("id"), text("model"));
    }

    fn piece(&mut self, index: usize, piece: &str) {
        self.fed.insert(index);
        self.assembler.piece(index, piece);
    }

    fn added(&mut self, index: usize, item: &Value) -> Result<(), ModelError> {
        let text = |name: &str| item[name].as_str().unwrap_or_default();
        match item["type"].as_str() {
            Some("message") => self.assembler.begin_text(index),
            Some("reasoning") => self.assembler.begin_thinking(index),
            Some("function_call") => {
                if text("call_id").is_empty() || text("name").is_empty() {
                    return Err(ModelError::protocol("a call has no id or no name"));
                }
                self.called = true;
                self.assembler.begin_call(index, text("call_id"), text("name"));
            }
            _ => {}
        }
        Ok(())
    }

    /// Ends an item; content that did not arrive in fragments is taken from it.
    fn done(&mut self, index: usize, item: &Value) {
        let whole = match item["type"].as_str() {
            Some("message") => texts(&item["content"]),
            Some("reasoning") => {
                self.assembler.signature(index, &item.to_string());
                texts(&item["summary"])
            }
            Some("function_call") => item["arguments"].as_str().unwrap_or_default().to_owned(),
            _ => return,
        };
        if !self.fed.contains(&index) {
            self.piece(index, &whole);
        }
        // An incomplete item stays open; the stop reason decides what happens to it.
        if item["status"] != "incomplete" {
            self.assembler.end(index);
        }
    }

    fn finish(&mut self, response: &Value) {
        let usage = &response["usage"];
        if let Some(input) = count(usage, "input_tokens") {
            let cached = count(&usage["input_tokens_details"], "cached_tokens").unwrap_or(0).min(input);
            let slot = self.assembler.usage();
            slot.input_tokens = input - cached;
            slot.cache_read_input_tokens = cached;
            slot.output_tokens = count(usage, "output_tokens").unwrap_or(0);
        }
        let reason = match (response["status"].as_str(), response["incomplete_details"]["reason"].as_str()) {
            (Some("incomplete"), Some("max_output_tokens")) => StopReason::MaxTokens,
            (Some("incomplete"), Some("content_filter")) => StopReason::Refusal,
            (Some("incomplete"), other) => StopReason::Other(other.unwrap_or("incomplete").to_owned()),
            _ if self.called => StopReason::ToolUse,
            _ => StopReason::EndTurn,
        };
        self.assembler.stop(reason);
    }
}

fn texts(parts: &Value) -> String {
    let texts = parts
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|part| part["text"].as_str().or(part["refusal"].as_str()));
    texts.collect::<Vec<_>>().join("\n\n")
}
