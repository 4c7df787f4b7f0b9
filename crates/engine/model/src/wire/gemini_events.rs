//! Decodes the chunks of Google's Gemini API.
//!
//! A call arrives complete, in one part. Its signature is stored as a thinking block before it.

use std::{collections::HashSet, sync::Arc};

use serde_json::Value;

use super::{
    ResponseAssembler,
    response_assembler::{as_text, count},
    split_surrogates,
};
use crate::{ModelError, ModelEvent, StopReason, ToolSet, http_error};

/// Decoder for one answer.
pub(crate) struct GeminiDecoder {
    assembler: ResponseAssembler,
    started: bool,
    id: String,
    /// The block in progress.
    open: Option<(usize, OpenPart)>,
    next: usize,
    ids: HashSet<String>,
    calls: usize,
    reason: Option<StopReason>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum OpenPart {
    Text,
    Thought,
}

impl GeminiDecoder {
    pub(crate) fn new(model: &str, tools: Arc<ToolSet>) -> Self {
        Self {
            assembler: ResponseAssembler::new(model, tools),
            started: false,
            id: String::new(),
            open: None,
            next: 0,
            ids: HashSet::new(),
            calls: 0,
            reason: None,
        }
    }

    pub(crate) fn assembler(&mut self) -> &mut ResponseAssembler {
        &mut self.assembler
    }

    /// Decodes one chunk.
    pub(crate) fn feed(&mut self, data: &str) -> Result<Vec<ModelEvent>, ModelError> {
        if data.trim() == "[DONE]" {
            return self.end();
        }
        let chunk = split_surrogates::parse(data)
            .map_err(|err| ModelError::protocol(format!("a chunk is no JSON: {err}")))?;
        self.chunk(&chunk)?;
        Ok(self.assembler.drain())
    }

    /// Handles the end of the body.
    pub(crate) fn end(&mut self) -> Result<Vec<ModelEvent>, ModelError> {
        if !self.assembler.is_stopped() {
            let reason = self.reason.take().ok_or_else(|| ModelError::protocol("the answer has no end"))?;
            self.stop(reason);
        }
        Ok(self.assembler.drain())
    }

    /// Decodes an answer that arrived at once: a chunk, or an array of them.
    pub(crate) fn whole(&mut self, body: &Value) -> Result<Vec<ModelEvent>, ModelError> {
        match body {
            Value::Array(chunks) => chunks.iter().try_for_each(|chunk| self.chunk(chunk))?,
            chunk => self.chunk(chunk)?,
        }
        self.end()
    }

    fn chunk(&mut self, chunk: &Value) -> Result<(), ModelError> {
        if let Some(error) = chunk.get("error").filter(|error| !error.is_null()) {
            return Err(chunk_error(error));
        }
        if self.assembler.is_stopped() {
            return Ok(());
        }
        if !std::mem::replace(&mut self.started, true) {
            let text = |name: &str| chunk[name].as_str().unwrap_or_default();
            text("responseId").clone_into(&mut self.id);
            self.assembler.started(text("responseId"), text("modelVersion"));
        }
        let candidate = &chunk["candidates"][0];
        for part in candidate["content"]["parts"].as_array().into_iter().flatten() {
            self.part(part)?;
        }
        if chunk["promptFeedback"]["blockReason"].is_string() {
            self.reason = Some(StopReason::Refusal);
        }
        if let Some(name) = candidate["finishReason"].as_str() {
            self.reason = Some(self.stop_reason(name)?);
        }
        // Usage arrives with the last chunk or after it.
        let told = self.usage(&chunk["usageMetadata"]);
        if told && let Some(reason) = self.reason.take() {
            self.stop(reason);
        }
        Ok(())
    }

    fn part(&mut self, part: &Value) -> Result<(), ModelError> {
        if part["functionCall"].is_object() {
            return self.call(&part["functionCall"], part["thoughtSignature"].as_str().unwrap_or_default());
        }
        let Some(text) = part["text"].as_str().filter(|text| !text.is_empty()) else { return Ok(()) };
        let kind = if part["thought"] == true { OpenPart::Thought } else { OpenPart::Text };
        let index = match self.open {
            Some((index, open)) if open == kind => index,
            _ => self.begin(kind),
        };
        self.assembler.piece(index, text);
        Ok(())
    }

    fn begin(&mut self, kind: OpenPart) -> usize {
        self.close();
        let index = self.take_index();
        match kind {
            OpenPart::Text => self.assembler.begin_text(index),
            OpenPart::Thought => self.assembler.begin_thinking(index),
        }
        self.open = Some((index, kind));
        index
    }

    fn close(&mut self) {
        if let Some((index, _)) = self.open.take() {
            self.assembler.end(index);
        }
    }

    fn take_index(&mut self) -> usize {
        let index = self.next;
        self.next += 1;
        index
    }

    fn call(&mut self, call: &Value, signature: &str) -> Result<(), ModelError> {
        let name = call["name"].as_str().unwrap_or_default();
        if name.is_empty() {
            return Err(ModelError::protocol("a call has no name"));
        }
        if !signature.is_empty() {
            let index = match self.open {
                Some((index, OpenPart::Thought)) => index,
                _ => self.begin(OpenPart::Thought),
            };
            self.assembler.signature(index, signature);
        }
        self.close();
        let id = self.unique_id(call["id"].as_str());
        let index = self.take_index();
        self.assembler.begin_call(index, &id, name);
        self.assembler.piece(index, &as_text(&call["args"]));
        self.assembler.end(index);
        self.calls += 1;
        Ok(())
    }

    /// Returns the API's id, or a generated one if it is missing or already used.
    fn unique_id(&mut self, id: Option<&str>) -> String {
        let own = format!("call_{}_{}", crate::tool_wire_name::short_hash(&self.id), self.calls);
        let id = id.filter(|id| !id.is_empty() && !self.ids.contains(*id)).map_or(own, str::to_owned);
        self.ids.insert(id.clone());
        id
    }

    fn stop_reason(&self, name: &str) -> Result<StopReason, ModelError> {
        Ok(match name {
            "STOP" | "FINISH_REASON_UNSPECIFIED" if self.calls > 0 => StopReason::ToolUse,
            "STOP" | "FINISH_REASON_UNSPECIFIED" => StopReason::EndTurn,
            "MAX_TOKENS" => StopReason::MaxTokens,
            "SAFETY" | "RECITATION" | "LANGUAGE" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII" => {
                StopReason::Refusal
            }
            // The API could not parse the model's call; a retry usually helps.
            "MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL" | "MISSING_THOUGHT_SIGNATURE" => {
                return Err(ModelError::protocol(format!(
                    "the service could not read the model's call ({name})"
                )));
            }
            other => StopReason::Other(other.to_ascii_lowercase()),
        })
    }

    fn stop(&mut self, reason: StopReason) {
        self.close();
        self.assembler.stop(reason);
    }

    fn usage(&mut self, usage: &Value) -> bool {
        let Some(input) = count(usage, "promptTokenCount") else { return false };
        let of = |name: &str| count(usage, name).unwrap_or(0);
        let input = input + of("toolUsePromptTokenCount");
        let cached = of("cachedContentTokenCount").min(input);
        let slot = self.assembler.usage();
        slot.input_tokens = input - cached;
        slot.cache_read_input_tokens = cached;
        slot.output_tokens = of("candidatesTokenCount") + of("thoughtsTokenCount");
        true
    }
}

/// Converts an error object that replaces a chunk.
fn chunk_error(error: &Value) -> ModelError {
    let message = error["message"].as_str().or(error.as_str()).unwrap_or("no message").to_owned();
    match error["code"].as_u64().and_then(|code| u16::try_from(code).ok()) {
        Some(status @ 400..) => http_error::of_status(status, error_body(error).as_bytes()),
        _ => ModelError::Server { status: 500, message },
    }
}

fn error_body(error: &Value) -> String {
    serde_json::json!({"error": error}).to_string()
}
