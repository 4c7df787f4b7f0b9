//! Shared code of OpenAI's two APIs.

use haft_types::{Block, MediaSource};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::messages_content::WireMedia;
use crate::{CachePolicy, Request, lint::Linted, tool_set::ToolEncoding, tool_set::WireTool};

/// Differences between servers with the Chat Completions API.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub struct ChatOptions {
    /// Name of the field with the output limit: `max_tokens`, or `max_completion_tokens` at `OpenAI`
    /// itself.
    pub limit_field: String,
    /// Role of the system prompt: `system` or `developer`.
    pub system_role: String,
    /// Whether to request usage in streamed answers.
    pub stream_usage: bool,
    /// Whether to send thinking back, for servers that need it.
    pub send_reasoning: bool,
    /// Whether thinking is requested with a `reasoning` object (OpenRouter and other routers) instead of
    /// `reasoning_effort`. The `reasoning_details` of answers are then sent back unchanged.
    pub reasoning_object: bool,
    /// Send requests to a model in the Responses form, at the same base URL, after the server
    /// has refused its tools on Chat Completions and pointed there.
    pub switch_to_responses: bool,
}

impl Default for ChatOptions {
    fn default() -> Self {
        Self {
            limit_field: "max_tokens".to_owned(),
            system_role: "system".to_owned(),
            stream_usage: true,
            send_reasoning: false,
            reasoning_object: false,
            switch_to_responses: false,
        }
    }
}

impl ChatOptions {
    /// Returns the options for a server, selected by its base URL.
    pub fn for_server(base_url: &str) -> Self {
        let mut options = Self::default();
        if base_url.contains("api.openai.com") {
            "max_completion_tokens".clone_into(&mut options.limit_field);
        }
        options.reasoning_object = base_url.contains("openrouter.ai");
        options
    }
}

/// Returns the system prompt as one text.
pub(crate) fn system_text(request: &Request) -> String {
    let parts: Vec<&str> = request.system.iter().map(|part| part.text.as_str()).collect();
    parts.join("\n\n")
}

/// Returns the encoded tools, serialised once per set.
pub(crate) fn tools(
    linted: &Linted,
    form: &'static str,
    encode: fn(&WireTool) -> Value,
) -> Option<bytes::Bytes> {
    let tools = linted.sent_tools();
    if tools.is_empty() {
        return None;
    }
    let key = ToolEncoding {
        form,
        cache: CachePolicy::Off,
        follows_references: linted.follows_references,
        loaded: linted.loaded.clone(),
        without: linted.without_tools.clone(),
        without_fields: Vec::new(),
    };
    Some(linted.request.tools.encoded(key, || tools.into_iter().map(encode).collect()))
}

/// Returns the URL of an image or document, or a `data:` URL with its content.
pub(crate) fn data_url(source: &MediaSource) -> String {
    match source {
        MediaSource::Base64 { media_type, data } => format!("data:{media_type};base64,{data}"),
        MediaSource::Url { url } => url.clone(),
    }
}

/// Splits a tool result into its text and its other blocks.
pub(crate) fn split_result<'a>(
    content: &'a [Block],
    is_error: bool,
    media: &mut WireMedia,
) -> (String, Vec<&'a Block>) {
    let texts: Vec<&str> = content.iter().filter_map(Block::as_text).collect();
    let rest: Vec<&Block> = content.iter().filter(|block| block.as_text().is_none()).collect();
    for block in &rest {
        match block {
            Block::Image { source } => media.add(source, true),
            Block::Document { source, .. } => media.add(source, false),
            _ => {}
        }
    }
    let text = texts.join("\n");
    let text = match (text.is_empty(), is_error) {
        (true, false) if rest.is_empty() => "(no output)".to_owned(),
        (true, false) => "(see below)".to_owned(),
        (true, true) => "Error".to_owned(),
        (false, true) if !text.to_ascii_lowercase().starts_with("error") => format!("Error: {text}"),
        (false, _) => text,
    };
    (text, rest)
}

/// Appends fields to a JSON object under construction.
pub(crate) fn append_fields(out: &mut Vec<u8>, fields: &Map<String, Value>) {
    for (name, value) in fields {
        if out.last() != Some(&b'{') {
            out.push(b',');
        }
        out.extend_from_slice(format!("{}:{value}", json!(name)).as_bytes());
    }
}

/// Appends a field whose value is already JSON.
pub(crate) fn append_raw(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    if out.last() != Some(&b'{') {
        out.push(b',');
    }
    out.extend_from_slice(format!("\"{name}\":").as_bytes());
    out.extend_from_slice(value);
}
