//! A request in OpenAI's Responses form.

use std::{io::Write as _, sync::Arc};

use bytes::Bytes;
use haft_types::{Block, Message, MessageBlock, Role};
use serde_json::{Map, Value, json};

use super::{
    EncodedBody, MessageCache, RequestSize, TokenEstimator,
    message_cache::BodyPiece,
    messages_content::WireMedia,
    openai::{append_fields, append_raw, data_url, split_result, system_text, tools},
};
use crate::{ModelInfo, Request, ThinkingSupport, ToolChoice, lint::Linted, tool_set::WireTool};

/// Everything the encoder needs besides the request.
pub(crate) struct Encoder<'a> {
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
        let system = system_text(request);
        if !system.is_empty() {
            append_raw(&mut out, "instructions", json!(system).to_string().as_bytes());
        }
        let tools = tools(linted, "responses", tool_value).unwrap_or_default();
        let mut size = RequestSize { text: out.len() + tools.len(), media: 0 };
        let origins = self.input(&mut out, request, &mut size);
        if !tools.is_empty() {
            // Behind the conversation: they may grow, and it does not change.
            append_raw(&mut out, "tools", &tools);
        }
        let limit = self.meter.limit(self.info, linted, size);
        append_fields(&mut out, &self.settings(linted, limit));
        out.push(b'}');
        EncodedBody { body: Bytes::from(out), betas: Vec::new(), size, origins }
    }

    fn input(
        &self,
        out: &mut Vec<u8>,
        request: &Request,
        size: &mut RequestSize,
    ) -> Vec<(usize, Option<usize>)> {
        self.cache.sweep();
        let mut origins = Vec::new();
        append_raw(out, "input", b"[");
        for (at, message) in request.messages.iter().enumerate() {
            let piece = self.cache.get(message, || encode_message(message));
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
        if !linted.sent_tools().is_empty() {
            match &request.tool_choice {
                ToolChoice::Auto => {}
                ToolChoice::Any => {
                    set("tool_choice", json!("required"));
                }
                ToolChoice::None => {
                    set("tool_choice", json!("none"));
                }
                ToolChoice::Tool { name } => {
                    set("tool_choice", json!({"type": "function", "name": name}));
                }
            }
        }
        if self.info.thinking == ThinkingSupport::Effort {
            let mut reasoning = json!({"summary": "auto"});
            if let Some(effort) = request.effort {
                reasoning["effort"] = json!(effort.as_str());
            }
            set("reasoning", reasoning);
            set("include", json!(["reasoning.encrypted_content"]));
        }
        if let Some(schema) = &request.output_schema {
            let format = json!({"type": "json_schema", "name": "answer", "schema": schema, "strict": true});
            set("text", json!({"format": format}));
        }
        if let Some(temperature) = request.temperature {
            set("temperature", json!(temperature));
        }
        if let Some(user) = &request.user_id {
            set("safety_identifier", json!(user));
        }
        // The conversation is ours to keep.
        set("store", json!(false));
        set("max_output_tokens", json!(limit));
        set("stream", json!(true));
        for name in &linted.without_fields {
            fields.shift_remove(name);
        }
        fields.extend(request.extra.clone());
        fields
    }
}

fn tool_value(tool: &WireTool) -> Value {
    json!({
        "type": "function", "name": tool.wire_name, "description": tool.def.description,
        "parameters": tool.schema, "strict": false,
    })
}

/// A message as one or more items, separated by commas.
fn encode_message(message: &Message) -> BodyPiece {
    let mut media = WireMedia::default();
    let items = match message.role {
        Role::Assistant => assistant(message),
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
    let blocks: Arc<[Option<usize>]> = items.into_iter().map(|(_, block)| Some(block)).collect();
    BodyPiece { bytes: Bytes::from(out), size, items: blocks, ..BodyPiece::default() }
}

fn assistant(message: &Message) -> Vec<(Value, usize)> {
    let items = message.content.iter().enumerate().filter_map(|(at, block)| {
        let item = match block {
            MessageBlock::Text { text } => json!({
                "type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}],
            }),
            MessageBlock::ToolUse(call) => json!({
                "type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.input.to_string(),
            }),
            // The signature is the item as it came.
            MessageBlock::Thinking { signature, .. } => {
                serde_json::from_str::<Value>(signature).ok().filter(|item| item["type"] == "reasoning")?
            }
            _ => return None,
        };
        Some((item, at))
    });
    items.collect()
}

fn user(message: &Message, media: &mut WireMedia) -> Vec<(Value, usize)> {
    let mut out = Vec::new();
    let mut parts = Vec::new();
    let mut first = None;
    for (at, block) in message.content.iter().enumerate() {
        let part = match block {
            MessageBlock::ToolResult { tool_use_id, content, is_error } => {
                let (text, rest) = split_result(&content.0, *is_error, media);
                let output = if rest.is_empty() {
                    json!(text)
                } else {
                    let mut parts = vec![json!({"type": "input_text", "text": text})];
                    parts.extend(rest.into_iter().filter_map(inner_part));
                    json!(parts)
                };
                out.push((
                    json!({"type": "function_call_output", "call_id": tool_use_id, "output": output}),
                    at,
                ));
                continue;
            }
            MessageBlock::Text { text } => json!({"type": "input_text", "text": text}),
            MessageBlock::Image { source } => {
                media.add(source, true);
                json!({"type": "input_image", "image_url": data_url(source)})
            }
            MessageBlock::Document { source, title } => {
                media.add(source, false);
                let name = title.as_deref().unwrap_or("document.pdf");
                json!({"type": "input_file", "filename": name, "file_data": data_url(source)})
            }
            _ => continue,
        };
        first.get_or_insert(at);
        parts.push(part);
    }
    if let Some(first) = first {
        out.push((json!({"type": "message", "role": "user", "content": parts}), first));
    }
    out
}

fn inner_part(block: &Block) -> Option<Value> {
    match block {
        Block::Image { source } => Some(json!({"type": "input_image", "image_url": data_url(source)})),
        Block::Document { source, title } => {
            let name = title.as_deref().unwrap_or("document.pdf");
            Some(json!({"type": "input_file", "filename": name, "file_data": data_url(source)}))
        }
        Block::Text { .. } | Block::ToolReference { .. } => None,
    }
}
