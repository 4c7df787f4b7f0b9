//! A request in OpenAI's Chat Completions form.

use std::{io::Write as _, sync::Arc};

use bytes::Bytes;
use haft_types::{Block, Message, MessageBlock, Role};
use serde_json::{Map, Value, json};

use super::{
    EncodedBody, MessageCache, RequestSize, TokenEstimator, chat_text_tools,
    message_cache::BodyPiece,
    messages_content::WireMedia,
    openai::{ChatOptions, append_fields, append_raw, data_url, split_result, system_text, tools},
    reasoning_details,
};
use crate::{
    ModelInfo, Request, Thinking, ThinkingSupport, ToolCalls, ToolChoice, lint::Linted, tool_set::WireTool,
};

/// Everything the encoder needs besides the request.
pub(crate) struct Encoder<'a> {
    pub(crate) options: &'a ChatOptions,
    pub(crate) info: &'a ModelInfo,
    pub(crate) cache: &'a MessageCache,
    pub(crate) meter: &'a TokenEstimator,
}

impl Encoder<'_> {
    /// The body of a request.
    pub(crate) fn encode(&self, linted: &Linted) -> EncodedBody {
        let request = &linted.request;
        let mut out = Vec::with_capacity(64 * 1024);
        out.push(b'{');
        append_raw(&mut out, "model", json!(request.model).to_string().as_bytes());
        let prompted = self.info.tool_calls == ToolCalls::Prompted;
        let tools = if prompted { None } else { tools(linted, "chat", tool_value) };
        let tools = tools.unwrap_or_default();
        let mut size = RequestSize { text: out.len() + tools.len(), media: 0 };
        let origins = self.messages(&mut out, linted, &mut size);
        if !tools.is_empty() {
            // Behind the conversation: they may grow, and it does not change.
            append_raw(&mut out, "tools", &tools);
        }
        let limit = self.meter.limit(self.info, linted, size);
        append_fields(&mut out, &self.settings(linted, limit));
        out.push(b'}');
        EncodedBody { body: Bytes::from(out), betas: Vec::new(), size, origins }
    }

    fn messages(
        &self,
        out: &mut Vec<u8>,
        linted: &Linted,
        size: &mut RequestSize,
    ) -> Vec<(usize, Option<usize>)> {
        self.cache.sweep();
        let request = &linted.request;
        let prompted = self.info.tool_calls == ToolCalls::Prompted;
        let mut origins = Vec::new();
        append_raw(out, "messages", b"[");
        let system = if prompted {
            chat_text_tools::system(linted, &system_text(request))
        } else {
            system_text(request)
        };
        if !system.is_empty() {
            let message = json!({"role": self.options.system_role, "content": system});
            size.text += system.len();
            let _ = write!(out, "{message}");
            origins.push((usize::MAX, None));
        }
        for (at, message) in request.messages.iter().enumerate() {
            // The cache holds the server's own form.
            let piece = if prompted {
                prompted_message(message)
            } else {
                self.cache.get(message, || encode_message(message, self.options))
            };
            if !piece.bytes.is_empty() {
                if out.last() != Some(&b'[') {
                    out.push(b',');
                }
                out.extend_from_slice(&piece.bytes);
            }
            size.text += piece.size.text;
            size.media += piece.size.media;
            origins.extend(piece.items.iter().map(|block| (at, *block)));
        }
        out.push(b']');
        origins
    }

    fn settings(&self, linted: &Linted, limit: u64) -> Map<String, Value> {
        let request = &linted.request;
        let mut fields = Map::new();
        let mut set = |name: &str, value: Value| fields.insert(name.to_owned(), value);
        if !linted.sent_tools().is_empty() && self.info.tool_calls == ToolCalls::Native {
            match &request.tool_choice {
                ToolChoice::Auto => {}
                ToolChoice::Any => {
                    set("tool_choice", json!("required"));
                }
                ToolChoice::None => {
                    set("tool_choice", json!("none"));
                }
                ToolChoice::Tool { name } => {
                    set("tool_choice", json!({"type": "function", "function": {"name": name}}));
                }
            }
        }
        if self.options.reasoning_object {
            if let Some(reasoning) = reasoning_object(request, self.info) {
                set("reasoning", reasoning);
            }
        } else if let (Some(effort), ThinkingSupport::Effort) = (request.effort, self.info.thinking) {
            set("reasoning_effort", json!(effort.as_str()));
        }
        if let Some(schema) = &request.output_schema {
            let format = json!({"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": true}});
            set("response_format", format);
        }
        if let Some(temperature) = request.temperature {
            set("temperature", json!(temperature));
        }
        if !request.stop_sequences.is_empty() {
            set("stop", json!(request.stop_sequences));
        }
        if let Some(user) = &request.user_id {
            set("user", json!(user));
        }
        set(&self.options.limit_field, json!(limit));
        set("stream", json!(true));
        if self.options.stream_usage {
            set("stream_options", json!({"include_usage": true}));
        }
        for name in &linted.without_fields {
            fields.shift_remove(name);
        }
        fields.extend(request.extra.clone());
        fields
    }
}

/// What a router of many providers is told about thinking, whoever answers.
fn reasoning_object(request: &Request, info: &ModelInfo) -> Option<Value> {
    match (request.thinking, request.effort) {
        (_, Some(effort)) => Some(json!({"effort": effort.as_str()})),
        (Thinking::Budget { tokens }, None) => Some(json!({"max_tokens": tokens})),
        (Thinking::Adaptive, None) => Some(json!({"enabled": true})),
        (Thinking::Off, None) if info.thinking != ThinkingSupport::Always => Some(json!({"enabled": false})),
        _ => None,
    }
}

fn prompted_message(message: &Message) -> BodyPiece {
    let mut media = WireMedia::default();
    let bytes = chat_text_tools::message(message, &mut media).to_string();
    let size = RequestSize { text: bytes.len().saturating_sub(media.bytes), media: media.tokens };
    BodyPiece { bytes: Bytes::from(bytes), size, items: Arc::from([None]), ..BodyPiece::default() }
}

fn tool_value(tool: &WireTool) -> Value {
    json!({"type": "function", "function": {
        "name": tool.wire_name, "description": tool.def.description, "parameters": tool.schema,
    }})
}

/// A message as one or more messages of the form, separated by commas.
fn encode_message(message: &Message, options: &ChatOptions) -> BodyPiece {
    let mut media = WireMedia::default();
    let items = match message.role {
        Role::Assistant => vec![(assistant(message, options), None)],
        Role::User => user(message, &mut media),
    };
    let mut out = Vec::new();
    for (at, (item, _)) in items.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        let _ = write!(out, "{item}");
    }
    let size = RequestSize { text: out.len().saturating_sub(media.bytes), media: media.tokens };
    let blocks: Arc<[Option<usize>]> = items.into_iter().map(|(_, block)| block).collect();
    BodyPiece { bytes: Bytes::from(out), size, items: blocks, ..BodyPiece::default() }
}

fn assistant(message: &Message, options: &ChatOptions) -> Value {
    let mut texts = Vec::new();
    let mut reasoning = Vec::new();
    let mut details = Vec::new();
    let mut calls = Vec::new();
    for block in &message.content {
        match block {
            MessageBlock::Text { text } => texts.push(text.as_str()),
            MessageBlock::Thinking { thinking, signature, .. } => {
                reasoning.push(thinking.as_str());
                details.extend(reasoning_details::of_signature(signature));
            }
            MessageBlock::ToolUse(call) => calls.push(json!({
                "id": call.id, "type": "function",
                "function": {"name": call.name, "arguments": call.input.to_string()},
            })),
            _ => {}
        }
    }
    let content = match (texts.is_empty(), calls.is_empty()) {
        (true, false) => Value::Null,
        _ => json!(texts.join("\n")),
    };
    let mut out = json!({"role": "assistant", "content": content});
    if options.send_reasoning && !reasoning.is_empty() {
        out["reasoning_content"] = json!(reasoning.join("\n"));
    }
    if options.reasoning_object && !details.is_empty() {
        out["reasoning_details"] = json!(details);
    }
    if !calls.is_empty() {
        out["tool_calls"] = json!(calls);
    }
    out
}

/// Results first, each a message of its own; pictures cannot be in them and
/// follow as the person's.
fn user(message: &Message, media: &mut WireMedia) -> Vec<(Value, Option<usize>)> {
    let mut out = Vec::new();
    let mut parts: Vec<Value> = Vec::new();
    let mut first_rest = None;
    for (at, block) in message.content.iter().enumerate() {
        match block {
            MessageBlock::ToolResult { tool_use_id, content, is_error } => {
                let (text, rest) = split_result(&content.0, *is_error, media);
                out.push((json!({"role": "tool", "tool_call_id": tool_use_id, "content": text}), Some(at)));
                if !rest.is_empty() {
                    parts.push(text_part(&format!("Attached to the result of {tool_use_id}:")));
                    parts.extend(rest.into_iter().filter_map(inner_part));
                    first_rest.get_or_insert(at);
                }
            }
            MessageBlock::Text { text } => {
                parts.push(text_part(text));
                first_rest.get_or_insert(at);
            }
            MessageBlock::Image { source } => {
                media.add(source, true);
                parts.push(json!({"type": "image_url", "image_url": {"url": data_url(source)}}));
                first_rest.get_or_insert(at);
            }
            MessageBlock::Document { source, title } => {
                media.add(source, false);
                parts.push(file_part(&data_url(source), title.as_deref()));
                first_rest.get_or_insert(at);
            }
            _ => {}
        }
    }
    if parts.is_empty() {
        return out;
    }
    // Plain text where it is only text: not every server knows parts.
    let texts: Option<Vec<&str>> = parts.iter().map(|part| part["text"].as_str()).collect();
    let content = match texts {
        Some(texts) => json!(texts.join("\n\n")),
        None => json!(parts),
    };
    out.push((json!({"role": "user", "content": content}), first_rest));
    out
}

fn text_part(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn file_part(url: &str, title: Option<&str>) -> Value {
    let name = title.unwrap_or("document.pdf");
    json!({"type": "file", "file": {"filename": name, "file_data": url}})
}

fn inner_part(block: &Block) -> Option<Value> {
    match block {
        Block::Image { source } => Some(json!({"type": "image_url", "image_url": {"url": data_url(source)}})),
        Block::Document { source, title } => Some(file_part(&data_url(source), title.as_deref())),
        Block::Text { .. } | Block::ToolReference { .. } => None,
    }
}
