//! Decodes the chunks of OpenAI's Chat Completions API.
//!
//! Servers deviate from it: ids are missing or the same for every call, indices have gaps or are always
//! 0, arguments arrive as an object, no finish reason is sent. Calls are emitted at the end of the
//! answer only, because nothing earlier says that a call is complete.

use std::{collections::HashSet, sync::Arc};

use serde_json::Value;

use super::{
    ResponseAssembler,
    reasoning_details::ReasoningDetails,
    response_assembler::{as_text, count},
    split_surrogates,
};
use crate::{
    ModelError, ModelEvent, StopReason, ToolSet, http_error,
    text_tool_calls::{recover, showable},
};

const THINKING: usize = 0;
const TEXT: usize = 1;
const FIRST_CALL: usize = 2;

/// Decoder for one answer.
pub(crate) struct ChatDecoder {
    assembler: ResponseAssembler,
    started: bool,
    id: String,
    calls: Vec<ChatCall>,
    ids: HashSet<String>,
    reason: Option<StopReason>,
    /// `reasoning_details` of a router, to be sent back later.
    details: ReasoningDetails,
    /// Text that is searched for calls, and how many bytes of it were emitted.
    written: Option<(String, usize)>,
}

/// Whether the text of an answer is searched for calls.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum TextCallPolicy {
    Looked,
    Ignored,
}

/// A call with the index and id the server uses for it.
struct ChatCall {
    index: Option<u64>,
    id: Option<String>,
    named: bool,
}

impl ChatDecoder {
    pub(crate) fn new(model: &str, tools: Arc<ToolSet>, dialects: TextCallPolicy) -> Self {
        let mut assembler = ResponseAssembler::new(model, tools);
        if dialects == TextCallPolicy::Looked {
            assembler.coerce_inputs();
        }
        Self {
            assembler,
            written: (dialects == TextCallPolicy::Looked).then(Default::default),
            started: false,
            id: String::new(),
            calls: Vec::new(),
            ids: HashSet::new(),
            reason: None,
            details: ReasoningDetails::default(),
        }
    }

    pub(crate) fn assembler(&mut self) -> &mut ResponseAssembler {
        &mut self.assembler
    }

    /// Decodes one chunk.
    pub(crate) fn feed(&mut self, data: &str) -> Result<Vec<ModelEvent>, ModelError> {
        if data.trim() == "[DONE]" {
            return self.end_with(Some(StopReason::EndTurn));
        }
        let chunk = split_surrogates::parse(data)
            .map_err(|err| ModelError::protocol(format!("a chunk is no JSON: {err}")))?;
        if let Some(error) = error_of(&chunk) {
            return Err(chunk_error(error));
        }
        self.start(&chunk);
        for choice in chunk["choices"].as_array().into_iter().flatten().take(1) {
            self.delta(&choice["delta"]);
            self.finish(choice);
        }
        self.usage(&chunk["usage"]);
        Ok(self.assembler.drain())
    }

    /// Handles the end of the body.
    pub(crate) fn end(&mut self) -> Result<Vec<ModelEvent>, ModelError> {
        self.end_with(None)
    }

    fn end_with(&mut self, default: Option<StopReason>) -> Result<Vec<ModelEvent>, ModelError> {
        if self.assembler.is_stopped() {
            return Ok(self.assembler.drain());
        }
        if !self.started {
            return Err(ModelError::protocol("the answer is empty"));
        }
        let default = default.map(|reason| if self.calls.is_empty() { reason } else { StopReason::ToolUse });
        let reason =
            self.reason.take().or(default).ok_or_else(|| ModelError::protocol("the answer has no end"))?;
        let reason = self.find_calls(reason);
        if let Some(kept) = self.details.kept() {
            self.begin_thinking();
            self.assembler.signature(THINKING, &kept);
        }
        self.assembler.end(THINKING);
        self.assembler.end(TEXT);
        for at in 0..self.calls.len() {
            self.assembler.end(FIRST_CALL + at);
        }
        self.assembler.stop(reason);
        Ok(self.assembler.drain())
    }

    /// Decodes an answer that arrived as a single JSON object.
    pub(crate) fn whole(&mut self, body: &Value) -> Result<Vec<ModelEvent>, ModelError> {
        if let Some(error) = error_of(body) {
            return Err(chunk_error(error));
        }
        let Some(choice) = body["choices"].get(0) else {
            return Err(ModelError::protocol("the answer is empty"));
        };
        self.start(body);
        self.delta(&choice["message"]);
        self.finish(choice);
        self.usage(&body["usage"]);
        self.end_with(Some(StopReason::EndTurn))
    }

    fn start(&mut self, chunk: &Value) {
        if !std::mem::replace(&mut self.started, true) {
            let text = |name: &str| chunk[name].as_str().unwrap_or_default();
            text("id").clone_into(&mut self.id);
            self.assembler.started(text("id"), text("model"));
        }
    }

    /// Reads the finish reason. Empty strings and the string "null", which some servers send, are
    /// ignored.
    fn finish(&mut self, choice: &Value) {
        let said = choice["finish_reason"].as_str().filter(|name| !["", "null"].contains(name));
        if let Some(name) = said {
            self.reason = Some(self.stop_reason(name));
        }
    }

    fn delta(&mut self, delta: &Value) {
        let shown = self.details.take(&delta["reasoning_details"]);
        let plain = ["reasoning_content", "reasoning", "reasoning_text"];
        let plain = plain.iter().find_map(|name| delta[*name].as_str().filter(|piece| !piece.is_empty()));
        let piece = plain.unwrap_or(&shown);
        if !piece.is_empty() {
            self.begin_thinking();
            self.assembler.piece(THINKING, piece);
        }
        let content = text_of(&delta["content"]);
        if !content.is_empty() {
            match self.written.take() {
                Some((mut text, shown)) => {
                    text.push_str(&content);
                    let can_show = showable(&text, shown, self.assembler.tools());
                    self.text(&text[shown..can_show]);
                    self.written = Some((text, can_show));
                }
                None => self.text(&content),
            }
        }
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            self.call(call["index"].as_u64(), call["id"].as_str(), &call["function"]);
        }
        if delta["function_call"].is_object() {
            self.call(Some(0), None, &delta["function_call"]);
        }
    }

    fn begin_thinking(&mut self) {
        if !self.assembler.is_open(THINKING) {
            self.assembler.begin_thinking(THINKING);
        }
    }

    fn text(&mut self, piece: &str) {
        if piece.is_empty() {
            return;
        }
        if !self.assembler.is_open(TEXT) {
            self.assembler.begin_text(TEXT);
        }
        self.assembler.piece(TEXT, piece);
    }

    /// Extracts calls from the text if the server reported none. Returns the resulting stop reason.
    fn find_calls(&mut self, reason: StopReason) -> StopReason {
        let Some((text, shown)) = self.written.take() else { return reason };
        if !self.calls.is_empty() {
            self.text(&text[shown..]);
            return reason;
        }
        let recovered = recover(&text, self.assembler.tools());
        if recovered.calls.is_empty() {
            self.text(&text[shown..]);
            return reason;
        }
        let rest = recovered.text.strip_prefix(text[..shown].trim()).unwrap_or_default().to_owned();
        self.text(&rest);
        for call in recovered.calls {
            let at = self.calls.len();
            self.calls.push(ChatCall { index: None, id: None, named: true });
            let id = self.unique_id(None, at);
            self.assembler.begin_call(FIRST_CALL + at, &id, &call.name);
            self.assembler.piece(FIRST_CALL + at, &call.input);
        }
        if reason == StopReason::EndTurn { StopReason::ToolUse } else { reason }
    }

    /// Handles a call fragment or a complete call.
    fn call(&mut self, index: Option<u64>, id: Option<&str>, function: &Value) {
        let id = id.filter(|id| !id.is_empty());
        let name = function["name"].as_str().filter(|name| !name.is_empty());
        let arguments = as_text(&function["arguments"]);
        let known = self.known(index, id, name).filter(|at| !self.is_another(*at, id, name, &arguments));
        let at = match known {
            Some(at) => at,
            None => {
                self.calls.push(ChatCall { index, id: id.map(str::to_owned), named: false });
                self.calls.len() - 1
            }
        };
        if !self.calls[at].named {
            let Some(name) = name else { return };
            self.calls[at].named = true;
            let id = self.unique_id(id, at);
            self.assembler.begin_call(FIRST_CALL + at, &id, name);
        }
        self.assembler.piece(FIRST_CALL + at, &arguments);
    }

    /// Whether a fragment with the index of a known call starts a new call: it has a name and arguments,
    /// its id does not match, and the known call's arguments are complete.
    fn is_another(&self, at: usize, id: Option<&str>, name: Option<&str>, arguments: &str) -> bool {
        let same_id = id.is_some() && self.calls[at].id.as_deref() == id;
        let is_whole = || {
            let before = self.assembler.written(FIRST_CALL + at).unwrap_or_default();
            serde_json::from_str::<serde_json::Map<String, Value>>(before).is_ok()
        };
        self.calls[at].named && name.is_some() && !same_id && !arguments.trim().is_empty() && is_whole()
    }

    /// Returns the call a fragment belongs to. A new id starts a new call whatever the index is. Without
    /// an index, a name starts a new call, unless the call with this id and name is incomplete.
    fn known(&self, index: Option<u64>, id: Option<&str>, name: Option<&str>) -> Option<usize> {
        let same_id = |call: &ChatCall| id.is_none() || call.id.is_none() || call.id.as_deref() == id;
        match (index, id) {
            (Some(index), _) => {
                self.calls.iter().rposition(|call| call.index == Some(index) && same_id(call))
            }
            (None, Some(id)) => {
                let found = self.calls.iter().rposition(|call| call.id.as_deref() == Some(id));
                found.filter(|at| name.is_none() || self.is_unfinished(*at, name))
            }
            (None, None) if name.is_some() => None,
            (None, None) => self.calls.len().checked_sub(1),
        }
    }

    /// Whether the arguments received for a call of this name are a truncated object.
    fn is_unfinished(&self, at: usize, name: Option<&str>) -> bool {
        let written = self.assembler.written(FIRST_CALL + at).unwrap_or_default().trim();
        let is_cut = serde_json::from_str::<Value>(written).is_err_and(|err| err.is_eof());
        self.assembler.call_name(FIRST_CALL + at) == name && is_cut
    }

    /// Returns the server's id, or a generated one if it is missing or already used.
    fn unique_id(&mut self, id: Option<&str>, at: usize) -> String {
        let own = format!("call_{}_{at}", crate::tool_wire_name::short_hash(&self.id));
        let id = id.filter(|id| !self.ids.contains(*id)).map_or(own, str::to_owned);
        self.ids.insert(id.clone());
        id
    }

    fn stop_reason(&self, name: &str) -> StopReason {
        match name {
            // Some servers report "stop" although the answer ends with calls.
            "stop" | "end_turn" | "eos" if self.calls.is_empty() => StopReason::EndTurn,
            "stop" | "end_turn" | "eos" | "tool_calls" | "function_call" | "tool_use" => StopReason::ToolUse,
            "length" | "max_tokens" => StopReason::MaxTokens,
            "content_filter" => StopReason::Refusal,
            other => StopReason::Other(other.to_owned()),
        }
    }

    fn usage(&mut self, usage: &Value) {
        let Some(input) = count(usage, "prompt_tokens") else { return };
        let cached = count(&usage["prompt_tokens_details"], "cached_tokens").unwrap_or(0).min(input);
        let slot = self.assembler.usage();
        slot.input_tokens = input - cached;
        slot.cache_read_input_tokens = cached;
        slot.output_tokens = count(usage, "completion_tokens").unwrap_or(slot.output_tokens);
        self.assembler.tell_usage();
    }
}

/// Returns the text of a string or of text parts.
fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        _ => String::new(),
    }
}

/// Returns the error in a chunk, either next to the choices or as the whole object.
fn error_of(chunk: &Value) -> Option<&Value> {
    let inside = chunk.get("error").filter(|error| !error.is_null());
    inside.or_else(|| Some(chunk).filter(|it| it["object"] == "error"))
}

/// Converts an error object that replaces a chunk.
pub(crate) fn chunk_error(error: &Value) -> ModelError {
    let message = error["message"].as_str().or(error.as_str()).unwrap_or("no message").to_owned();
    if error["code"] == "context_length_exceeded" {
        return ModelError::TooLong { message, tokens: None, window: None };
    }
    // Routers and local servers put the HTTP status in the code.
    let code = error["code"].as_u64().or_else(|| error["code"].as_str()?.parse().ok());
    if let Some(status @ 400..=599) = code.and_then(|code| u16::try_from(code).ok()) {
        return http_error::of_status(status, serde_json::json!({"error": error}).to_string().as_bytes());
    }
    let kind = error["type"].as_str().or(error["code"].as_str()).unwrap_or_default();
    match kind {
        "rate_limit_error" | "rate_limit_exceeded" => ModelError::RateLimited { message, retry_after: None },
        "invalid_request_error" => http_error::of_refusal(message),
        "authentication_error" | "permission_error" => ModelError::Auth { message },
        _ => ModelError::Server { status: 500, message },
    }
}
