//! What OpenAI's two forms have in common.

use haft_types::{Block, MediaSource};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::messages_content::WireMedia;
use crate::{CachePolicy, Request, lint::Linted, tool_set::ToolEncoding, tool_set::WireTool};

/// How servers that speak Chat Completions differ.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub struct ChatOptions {
    /// The field that limits the answer: `max_tokens`, or
    /// `max_completion_tokens` at `OpenAI` itself.
    pub limit_field: String,
    /// The role of the system prompt: `system`, or `developer`.
    pub system_role: String,
    /// Whether to ask for usage while streaming.
    pub stream_usage: bool,
    /// Whether to send reasoning back, for servers that want it.
    pub send_reasoning: bool,
    /// Whether thinking is asked for with an object (`reasoning`), as routers of
    /// many providers want it, instead of `reasoning_effort`. What they say about
    /// it (`reasoning_details`) goes back to them unchanged.
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
    /// What fits a server, by its address.
    pub fn for_server(base_url: &str) -> Self {
        let mut options = Self::default();
        if base_url.contains("api.openai.com") {
            "max_completion_tokens".clone_into(&mut options.limit_field);
        }
        options.reasoning_object = base_url.contains("openrouter.ai");
        options
    }
}

/// The system prompt in one piece.
pub(crate) fn system_text(request: &Request) -> String {
    let parts: Vec<&str> = request.system.iter().map(|part| part.text.as_str()).collect();
    parts.join("\n\n")
}

/// The tools, serialised once per set.
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

/// The address of a medium: its own, or its data.
pub(crate) fn data_url(source: &MediaSource) -> String {
    match source {
        MediaSource::Base64 { media_type, data } => format!("data:{media_type};base64,{data}"),
        MediaSource::Url { url } => url.clone(),
    }
}

/// The text of a result, and what else is in it.
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

/// Writes fields behind what is there.
pub(crate) fn append_fields(out: &mut Vec<u8>, fields: &Map<String, Value>) {
    for (name, value) in fields {
        if out.last() != Some(&b'{') {
            out.push(b',');
        }
        out.extend_from_slice(format!("{}:{value}", json!(name)).as_bytes());
    }
}

/// Writes a field whose value is JSON already.
pub(crate) fn append_raw(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    if out.last() != Some(&b'{') {
        out.push(b',');
    }
    out.extend_from_slice(format!("\"{name}\":").as_bytes());
    out.extend_from_slice(value);
}
