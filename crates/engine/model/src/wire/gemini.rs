//! Encodes requests for Google's Gemini API.
//!
//! Gemini returns thinking before a call as a signature on the call. The conversation stores it as a
//! thinking block before the call; the encoder moves it back onto the call.

use std::{collections::HashMap, io::Write as _, sync::Arc};

use bytes::Bytes;
use haft_types::{Block, MediaSource, Message, MessageBlock, Role};
use serde_json::{Map, Value, json};

use super::{
    EncodedBody, MessageCache, RequestSize, TokenEstimator,
    message_cache::BodyPiece,
    messages::BodyPurpose,
    messages_content::WireMedia,
    openai::{append_fields, append_raw, split_result, system_text, tools},
};
use crate::{
    Effort, ModelInfo, Request, Thinking, ThinkingDisplay, ThinkingSupport, ToolChoice, lint::Linted,
    tool_set::WireTool,
};

/// Placeholder signature that the API accepts on calls made by other models.
const FOREIGN_CALL: &str = "skip_thought_signature_validator";

pub(crate) struct Encoder<'a> {
    pub(crate) info: &'a ModelInfo,
    pub(crate) cache: &'a MessageCache,
    pub(crate) meter: &'a TokenEstimator,
}

/// What the encoding of a message depends on besides the message.
struct GeminiContext<'a> {
    /// Tool name by call id.
    names: HashMap<&'a str, &'a str>,
    newer: bool,
}

impl Encoder<'_> {
    /// Encodes a request body.
    pub(crate) fn encode(&self, linted: &Linted, purpose: BodyPurpose) -> EncodedBody {
        let request = &linted.request;
        let mut out = Vec::with_capacity(64 * 1024);
        if purpose == BodyPurpose::Count {
            let model = json!(format!("models/{}", model_name(&request.model)));
            let _ = write!(out, "{{\"generateContentRequest\":{{\"model\":{model}");
        } else {
            out.push(b'{');
        }
        let system = system_text(request);
        if !system.is_empty() {
            let parts = json!({"parts": [{"text": system}]});
            append_raw(&mut out, "systemInstruction", parts.to_string().as_bytes());
        }
        let tools = tools(linted, "gemini", tool_value).unwrap_or_default();
        let mut size = RequestSize { text: out.len() + tools.len(), media: 0 };
        let origins = self.contents(&mut out, request, &mut size);
        if !tools.is_empty() {
            // After the conversation, because the tool list may grow while the conversation's prefix
            // does not change.
            let list = [b"[{\"functionDeclarations\":", &tools[..], b"}]"].concat();
            append_raw(&mut out, "tools", &list);
        }
        let limit = self.meter.limit(self.info, linted, size);
        append_fields(&mut out, &self.settings(linted, limit));
        out.extend_from_slice(if purpose == BodyPurpose::Count { b"}}" } else { b"}" });
        EncodedBody { body: Bytes::from(out), betas: Vec::new(), size, origins }
    }

    /// Whether the model takes a thinking level instead of a budget. Such models also require signatures
    /// and support images in results.
    fn is_newer(&self) -> bool {
        self.info.thinking == ThinkingSupport::Effort
    }

    fn contents(
        &self,
        out: &mut Vec<u8>,
        request: &Request,
        size: &mut RequestSize,
    ) -> Vec<(usize, Option<usize>)> {
        self.cache.sweep();
        let calls = request.messages.iter().flat_map(|message| &message.content);
        let names = calls.filter_map(|block| match block {
            MessageBlock::ToolUse(call) => Some((call.id.as_str(), call.name.as_str())),
            _ => None,
        });
        let context = GeminiContext {
            names: names.collect(),
            newer: self.is_newer() || is_signed_generation(&request.model),
        };
        let mut origins = Vec::new();
        append_raw(out, "contents", b"[");
        for (at, message) in request.messages.iter().enumerate() {
            let piece = self.cache.get(message, || encode_message(message, &context));
            if piece.bytes.is_empty() {
                continue;
            }
            if out.last() != Some(&b'[') {
                out.push(b',');
            }
            out.extend_from_slice(&piece.bytes);
            size.text += piece.size.text;
            size.media += piece.size.media;
            origins.push((at, None));
        }
        out.push(b']');
        origins
    }

    fn settings(&self, linted: &Linted, limit: u64) -> Map<String, Value> {
        let request = &linted.request;
        let mut fields = Map::new();
        if !linted.sent_tools().is_empty() {
            let choice = match &request.tool_choice {
                ToolChoice::Auto => None,
                ToolChoice::Any => Some(json!({"mode": "ANY"})),
                ToolChoice::None => Some(json!({"mode": "NONE"})),
                ToolChoice::Tool { name } => Some(json!({"mode": "ANY", "allowedFunctionNames": [name]})),
            };
            if let Some(choice) = choice {
                fields.insert("toolConfig".to_owned(), json!({"functionCallingConfig": choice}));
            }
        }
        let mut config = Map::new();
        let mut set = |name: &str, value: Value| config.insert(name.to_owned(), value);
        set("maxOutputTokens", json!(limit));
        if let Some(temperature) = request.temperature {
            set("temperature", json!(temperature));
        }
        if !request.stop_sequences.is_empty() {
            set("stopSequences", json!(request.stop_sequences));
        }
        if let Some(schema) = &request.output_schema {
            set("responseMimeType", json!("application/json"));
            set("responseJsonSchema", schema.clone());
        }
        if let Some(thinking) = self.thinking(request) {
            set("thinkingConfig", thinking);
        }
        fields.insert("generationConfig".to_owned(), Value::Object(config));
        for name in &linted.without_fields {
            fields.shift_remove(name);
        }
        fields.extend(request.extra.clone());
        fields
    }

    /// Encodes the thinking setting: a level for newer models, a budget for older ones.
    fn thinking(&self, request: &Request) -> Option<Value> {
        let shown = request.thinking_display != Some(ThinkingDisplay::Omitted);
        let mut config = json!({"includeThoughts": shown});
        match self.info.thinking {
            ThinkingSupport::None => return None,
            ThinkingSupport::Effort => {
                if let Some(effort) = request.effort {
                    config["thinkingLevel"] = json!(effort.as_str());
                }
            }
            _ => {
                let budget = match (request.thinking, request.effort) {
                    (Thinking::Budget { tokens }, _) => Some(i64::from(tokens)),
                    (Thinking::Adaptive, None) => Some(-1),
                    (Thinking::Off, _) if self.info.thinking == ThinkingSupport::Always => None,
                    (Thinking::Off, _) => Some(0),
                    (Thinking::Default | Thinking::Adaptive, effort) => effort.map(budget_of),
                };
                if let Some(budget) = budget {
                    config["thinkingBudget"] = json!(budget);
                }
                if budget == Some(0) {
                    config["includeThoughts"] = json!(false);
                }
            }
        }
        Some(config)
    }
}

/// Thinking tokens for an effort, for models that take only budgets.
fn budget_of(effort: Effort) -> i64 {
    match effort {
        Effort::Low => 1024,
        Effort::Medium => 8192,
        Effort::High | Effort::Xhigh | Effort::Max => 24_576,
    }
}

/// Returns the model name used in the URL.
pub(crate) fn model_name(model: &str) -> &str {
    model.strip_prefix("models/").unwrap_or(model)
}

fn tool_value(tool: &WireTool) -> Value {
    json!({
        "name": tool.wire_name, "description": tool.def.description, "parametersJsonSchema": tool.schema,
    })
}

/// Whether a model requires signatures, judged by its name because a user's catalog entry may not
/// contain its thinking support.
fn is_signed_generation(model: &str) -> bool {
    let name = model_name(model).rsplit('/').next().unwrap_or_default();
    let generation = name.strip_prefix("gemini-").and_then(|rest| rest.split(['.', '-']).next());
    generation.and_then(|it| it.parse::<u32>().ok()).is_some_and(|it| 3 <= it)
}

/// Encodes a message as one content; an empty piece if nothing in it can be sent.
fn encode_message(message: &Message, context: &GeminiContext<'_>) -> BodyPiece {
    let mut media = WireMedia::default();
    let (role, parts) = match message.role {
        Role::Assistant => ("model", of_model(message, context)),
        Role::User => ("user", of_user(message, context, &mut media)),
    };
    if parts.is_empty() {
        return BodyPiece::default();
    }
    let bytes = json!({"role": role, "parts": parts}).to_string();
    let size = RequestSize { text: bytes.len().saturating_sub(media.bytes), media: media.tokens };
    BodyPiece { bytes: Bytes::from(bytes), size, items: Arc::from([None]), ..BodyPiece::default() }
}

fn of_model(message: &Message, context: &GeminiContext<'_>) -> Vec<Value> {
    let mut parts = Vec::new();
    let mut signed: Option<&str> = None;
    let mut calls = 0;
    for block in &message.content {
        match block {
            MessageBlock::Text { text } => parts.push(json!({"text": text})),
            MessageBlock::Thinking { signature, .. } if !signature.is_empty() => signed = Some(signature),
            MessageBlock::ToolUse(call) => {
                let mut part =
                    json!({"functionCall": {"id": call.id, "name": call.name, "args": call.input}});
                // Only the first of several parallel calls carries a signature.
                let foreign = (context.newer && calls == 0).then_some(FOREIGN_CALL);
                if let Some(signature) = signed.take().or(foreign) {
                    part["thoughtSignature"] = json!(signature);
                }
                calls += 1;
                parts.push(part);
            }
            _ => {}
        }
    }
    parts
}

/// Converts a user message: results first, in order; their images are inside them or follow them.
fn of_user(message: &Message, context: &GeminiContext<'_>, media: &mut WireMedia) -> Vec<Value> {
    let mut parts = Vec::new();
    let mut rest = Vec::new();
    for block in &message.content {
        match block {
            MessageBlock::ToolResult { tool_use_id, content, is_error } => {
                let (text, others) = split_result(&content.0, *is_error, media);
                let name = context.names.get(tool_use_id.as_str()).copied().unwrap_or("unknown");
                let key = if *is_error { "error" } else { "output" };
                let mut response = json!({"id": tool_use_id, "name": name, "response": {key: text}});
                let attached: Vec<Value> = others.into_iter().filter_map(inner_part).collect();
                if context.newer && !attached.is_empty() {
                    response["parts"] = json!(attached);
                } else {
                    rest.extend(attached);
                }
                parts.push(json!({"functionResponse": response}));
            }
            MessageBlock::Text { text } => rest.push(json!({"text": text})),
            MessageBlock::Image { source } => {
                media.add(source, true);
                rest.push(media_part(source));
            }
            MessageBlock::Document { source, .. } => {
                media.add(source, false);
                rest.push(media_part(source));
            }
            _ => {}
        }
    }
    parts.extend(rest);
    parts
}

fn inner_part(block: &Block) -> Option<Value> {
    match block {
        Block::Image { source } | Block::Document { source, .. } => Some(media_part(source)),
        Block::Text { .. } | Block::ToolReference { .. } => None,
    }
}

fn media_part(source: &MediaSource) -> Value {
    match source {
        MediaSource::Base64 { media_type, data } => {
            json!({"inlineData": {"mimeType": media_type, "data": data}})
        }
        MediaSource::Url { url } => json!({"fileData": {"fileUri": url, "mimeType": type_of_address(url)}}),
    }
}

/// Guesses the MIME type from the file extension of a URL.
fn type_of_address(url: &str) -> &'static str {
    let path = url.split(['?', '#']).next().unwrap_or_default().to_ascii_lowercase();
    match path.rsplit('.').next().unwrap_or_default() {
        "pdf" => "application/pdf",
        "png" => "image/png",
        "webp" => "image/webp",
        "gif" => "image/gif",
        _ => "image/jpeg",
    }
}
