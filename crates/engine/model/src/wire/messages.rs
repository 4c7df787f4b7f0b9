//! Encodes requests for Anthropic's Messages API.
//!
//! Fields that change between requests come last, so that two requests of a session share the longest
//! possible byte prefix: system prompt, conversation, tools (which may grow at their end where the
//! provider excludes that from its cache key), settings. The provider processes tools first regardless
//! of the order of the fields.

use std::io::Write as _;

use bytes::Bytes;
use serde::{Serialize, Serializer, ser::SerializeMap as _};
use serde_json::{Map, Value, json};

use super::{
    EncodedBody, MessageCache, RequestSize, TokenEstimator,
    messages_content::{encode_message, mark, marked_blocks, write_marked},
};
use crate::{
    CachePolicy, ModelInfo, Request, Speed, Thinking, ToolChoice, ToolOrigin, lint::Linted,
    tool_set::ToolEncoding, tool_set::WireTool,
};

/// Maximum number of cache breakpoints in a request.
const MAX_MARKS: usize = 4;

/// Typical bytes of settings and breakpoints.
const SETTINGS_ROOM: usize = 1024;

/// The hosts of the Messages API and their differences.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum MessagesHost {
    /// Anthropic, Foundry: the body names the model.
    Direct,
    /// Vertex: the URL names the model, the body has an API version.
    Vertex,
    /// Bedrock: like Vertex, and beta features are in the body.
    #[cfg(feature = "bedrock")]
    Bedrock,
}

impl MessagesHost {
    /// Whether the body contains what other hosts take from headers and URL.
    pub(crate) fn has_betas_in_body(self) -> bool {
        match self {
            Self::Direct | Self::Vertex => false,
            #[cfg(feature = "bedrock")]
            Self::Bedrock => true,
        }
    }
}

/// Beta name of deferred tools on Google's and Amazon's clouds.
const CLOUD_TOOL_REFERENCES: &str = "tool-search-tool-2025-10-19";

/// Names of the `anthropic-beta` features that Haft requests; `None` never requests the feature.
#[derive(Clone, Debug, serde::Deserialize, serde::Serialize)]
#[serde(default)]
pub struct FeatureBetas {
    /// Thinking between tool calls, with a budget.
    pub interleaved_thinking: Option<String>,
    /// Context editing.
    pub context_management: Option<String>,
    /// Fast mode.
    pub fast_mode: Option<String>,
    /// Deferred tools.
    pub tool_references: Option<String>,
    /// The context window of a million tokens, for model names with the suffix `[1m]`.
    pub long_context: Option<String>,
}

impl Default for FeatureBetas {
    fn default() -> Self {
        Self {
            interleaved_thinking: Some("interleaved-thinking-2025-05-14".to_owned()),
            context_management: Some("context-management-2025-06-27".to_owned()),
            fast_mode: Some("fast-mode-2026-02-01".to_owned()),
            tool_references: Some("advanced-tool-use-2025-11-20".to_owned()),
            long_context: Some("context-1m-2025-08-07".to_owned()),
        }
    }
}

impl FeatureBetas {
    /// Returns the names used by clouds, except where the user set another one.
    pub(crate) fn for_cloud(mut self) -> Self {
        if self.tool_references == Self::default().tool_references {
            self.tool_references = Some(CLOUD_TOOL_REFERENCES.to_owned());
        }
        self
    }
}

pub(crate) struct Encoder<'a> {
    pub(crate) host: MessagesHost,
    pub(crate) info: &'a ModelInfo,
    pub(crate) betas: &'a FeatureBetas,
    pub(crate) cache: &'a MessageCache,
    pub(crate) meter: &'a TokenEstimator,
}

/// Whether the body requests an answer or a token count.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum BodyPurpose {
    Answer,
    Count,
}

impl Encoder<'_> {
    /// Encodes a request body.
    pub(crate) fn encode(&self, linted: &Linted, purpose: BodyPurpose) -> EncodedBody {
        let request = &linted.request;
        let betas = self.needed_betas(linted);
        let mut out: Vec<u8> = Vec::with_capacity(16 * 1024);
        out.push(b'{');
        match self.host {
            MessagesHost::Direct => field(&mut out, "model", &json!(wire_model(&request.model))),
            MessagesHost::Vertex => {
                field(&mut out, "anthropic_version", &json!("vertex-2023-10-16"));
                if purpose == BodyPurpose::Count {
                    field(&mut out, "model", &json!(wire_model(&request.model)));
                }
            }
            #[cfg(feature = "bedrock")]
            MessagesHost::Bedrock => field(&mut out, "anthropic_version", &json!("bedrock-2023-05-31")),
        }
        let (tools, mut marks) = self.tools(linted);
        marks += system(&mut out, request);
        let mut size = RequestSize { text: out.len() + tools.len(), media: 0 };
        let room_behind = tools.len() + SETTINGS_ROOM;
        let messages = self.messages(&mut out, request, MAX_MARKS.saturating_sub(marks), room_behind);
        size.text += messages.text;
        size.media += messages.media;
        if !tools.is_empty() {
            out.extend_from_slice(b",\"tools\":");
            out.extend_from_slice(&tools);
        }
        if self.host.has_betas_in_body() && !betas.is_empty() {
            field(&mut out, "anthropic_beta", &json!(betas));
        }
        self.settings(&mut out, linted, size, purpose);
        out.push(b'}');
        EncodedBody { body: Bytes::from(out), betas, size, origins: Vec::new() }
    }

    /// Returns the encoded tools and the number of cache breakpoints in them.
    fn tools(&self, linted: &Linted) -> (Bytes, usize) {
        let request = &linted.request;
        if linted.placeholder_tool {
            let tool = json!([{
                "name": "unavailable", "description": "Nothing can be called in this request.",
                "input_schema": {"type": "object", "properties": {}},
            }]);
            return (Bytes::from(tool.to_string()), 0);
        }
        let tools = linted.sent_tools();
        if tools.is_empty() {
            return (Bytes::new(), 0);
        }
        let key = ToolEncoding {
            form: "messages",
            cache: request.cache,
            follows_references: linted.follows_references,
            loaded: linted.loaded.clone(),
            without: linted.without_tools.clone(),
            without_fields: linted.without_fields.clone(),
        };
        let marked = marked_tool(&tools, request.cache, linted.follows_references);
        let bytes = request.tools.encoded(key, || {
            let sent = tools.iter().enumerate().map(|(at, tool)| SentTool {
                tool,
                linted,
                marked: (marked == Some(at)).then_some(request.cache),
            });
            sent.collect()
        });
        (bytes, usize::from(marked.is_some()))
    }

    fn messages(
        &self,
        out: &mut Vec<u8>,
        request: &Request,
        marks: usize,
        room_behind: usize,
    ) -> RequestSize {
        self.cache.sweep();
        let mut marked = marked_blocks(request, marks);
        marked.sort_unstable();
        let mark = format!(",\"cache_control\":{}", mark(request.cache));
        let mut size = RequestSize::default();
        let pieces = self.cache.pieces(&request.messages, encode_message);
        // Reserve the whole body including tools and settings, so that it never reallocates. Bodies of
        // similar size reuse freed memory, which is cheaper than new pages.
        let length: usize = pieces.iter().map(|piece| piece.bytes.len() + 1).sum();
        let whole = out.len() + length + room_behind;
        out.reserve_exact(whole.next_power_of_two() - out.len());
        out.extend_from_slice(b",\"messages\":[");
        for (at, piece) in pieces.iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            let here: Vec<usize> =
                marked.iter().filter(|(owner, _)| *owner == at).map(|(_, block)| *block).collect();
            size.text += piece.size.text + write_marked(out, piece, &here, &mark);
            size.media += piece.size.media;
        }
        out.push(b']');
        size
    }

    /// Writes the fields that follow the messages.
    fn settings(&self, out: &mut Vec<u8>, linted: &Linted, size: RequestSize, purpose: BodyPurpose) {
        let request = &linted.request;
        let mut fields = Map::new();
        match &request.tool_choice {
            _ if linted.placeholder_tool => {
                fields.insert("tool_choice".to_owned(), json!({"type": "none"}));
            }
            ToolChoice::Auto => {}
            _ if request.tools.is_empty() => {}
            choice => {
                fields.insert("tool_choice".to_owned(), json!(choice));
            }
        }
        if let Some(edits) = &request.context_management {
            fields.insert("context_management".to_owned(), edits.clone());
        }
        let limit = self.meter.limit(self.info, linted, size);
        match thinking_value(request.thinking, limit) {
            Value::Null => {}
            mut thinking => {
                if let Some(display) = request.thinking_display.filter(|_| thinking["type"] != "disabled") {
                    thinking["display"] = json!(display);
                }
                fields.insert("thinking".to_owned(), thinking);
            }
        }
        if purpose == BodyPurpose::Answer {
            self.answer_settings(&mut fields, request, limit);
        }
        for name in &linted.without_fields {
            fields.shift_remove(name);
        }
        for (name, value) in &request.extra {
            fields.insert(name.clone(), value.clone());
        }
        for (name, value) in &fields {
            field(out, name, value);
        }
    }

    fn answer_settings(&self, fields: &mut Map<String, Value>, request: &Request, limit: u64) {
        let mut output = Map::new();
        if let Some(effort) = request.effort {
            output.insert("effort".to_owned(), json!(effort.as_str()));
        }
        if let Some(total) = request.task_budget {
            output.insert("task_budget".to_owned(), json!({"type": "tokens", "total": total}));
        }
        if let Some(schema) = &request.output_schema {
            output.insert("format".to_owned(), json!({"type": "json_schema", "schema": schema}));
        }
        if !output.is_empty() {
            fields.insert("output_config".to_owned(), Value::Object(output));
        }
        if let Some(temperature) = request.temperature {
            fields.insert("temperature".to_owned(), json!(temperature));
        }
        if !request.stop_sequences.is_empty() {
            fields.insert("stop_sequences".to_owned(), json!(request.stop_sequences));
        }
        if request.speed == Speed::Fast {
            fields.insert("speed".to_owned(), json!("fast"));
        }
        if let Some(user) = &request.user_id {
            fields.insert("metadata".to_owned(), json!({"user_id": user}));
        }
        fields.insert("max_tokens".to_owned(), json!(limit));
        // On Bedrock the URL says whether to stream.
        if !self.host.has_betas_in_body() {
            fields.insert("stream".to_owned(), json!(true));
        }
    }

    fn needed_betas(&self, linted: &Linted) -> Vec<String> {
        let request = &linted.request;
        let mut out = request.betas.clone();
        out.extend(self.info.betas.iter().cloned());
        let deferred = linted.follows_references
            && (request.tools.may_grow() || linted.sent_tools().iter().any(|tool| tool.is_deferred()));
        let needs = [
            (
                matches!(request.thinking, Thinking::Budget { .. }) && !request.tools.is_empty(),
                &self.betas.interleaved_thinking,
            ),
            (request.context_management.is_some(), &self.betas.context_management),
            (request.speed == Speed::Fast, &self.betas.fast_mode),
            (deferred, &self.betas.tool_references),
            (request.model.ends_with("[1m]"), &self.betas.long_context),
        ];
        out.extend(needs.into_iter().filter(|(needed, _)| *needed).filter_map(|(_, name)| name.clone()));
        let mut seen = Vec::new();
        out.retain(|name| {
            if linted.without_betas.iter().any(|refused| refused.is_empty() || refused == name) {
                return false;
            }
            let new = !seen.contains(name);
            seen.push(name.clone());
            new
        });
        out
    }
}

/// Returns the model name without Haft's `[1m]` suffix.
pub(crate) fn wire_model(model: &str) -> &str {
    model.strip_suffix("[1m]").unwrap_or(model)
}

fn field(out: &mut Vec<u8>, name: &str, value: &Value) {
    if out.len() > 1 {
        out.push(b',');
    }
    // Writing to memory cannot fail.
    let _ = write!(out, "\"{name}\":{value}");
}

/// Returns the tool that carries the cache breakpoint: the last built-in tool that is sent.
fn marked_tool(tools: &[&WireTool], cache: CachePolicy, follows_references: bool) -> Option<usize> {
    if cache == CachePolicy::Off {
        return None;
    }
    tools.iter().rposition(|tool| {
        tool.def.origin == ToolOrigin::Builtin && !(tool.is_deferred() && follows_references)
    })
}

/// A tool declaration. The definition's extra fields cannot override those that Haft sets.
struct SentTool<'a> {
    tool: &'a WireTool,
    linted: &'a Linted,
    marked: Option<CachePolicy>,
}

impl Serialize for SentTool<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { tool, linted, marked } = self;
        let is_deferred = tool.is_deferred() && linted.follows_references;
        let mut fields = serializer.serialize_map(None)?;
        fields.serialize_entry("name", &tool.wire_name)?;
        fields.serialize_entry("description", &tool.def.description)?;
        fields.serialize_entry("input_schema", tool.schema_text())?;
        let is_said = |name: &str| match name {
            "name" | "description" | "input_schema" => true,
            "defer_loading" => is_deferred,
            "cache_control" => marked.is_some(),
            _ => false,
        };
        for (name, extra) in &tool.def.extra {
            if !is_said(name) && !linted.without_fields.contains(name) {
                fields.serialize_entry(name, extra)?;
            }
        }
        if is_deferred {
            fields.serialize_entry("defer_loading", &true)?;
        }
        if let Some(cache) = marked {
            fields.serialize_entry("cache_control", &mark(*cache))?;
        }
        fields.end()
    }
}

/// Writes the system prompt. Returns the number of cache breakpoints in it.
fn system(out: &mut Vec<u8>, request: &Request) -> usize {
    if request.system.is_empty() {
        return 0;
    }
    let last = request.system.len() - 1;
    // At most one breakpoint set by the caller, and one at the end.
    let own = request.system.iter().take(last).rposition(|part| part.breakpoint);
    let parts: Vec<Value> = request
        .system
        .iter()
        .enumerate()
        .map(|(at, part)| {
            let mut value = json!({"type": "text", "text": part.text});
            if request.cache != CachePolicy::Off && (at == last || Some(at) == own) {
                value["cache_control"] = mark(request.cache);
            }
            value
        })
        .collect();
    field(out, "system", &json!(parts));
    match request.cache {
        CachePolicy::Off => 0,
        _ => 1 + usize::from(own.is_some()),
    }
}

/// Encodes the thinking setting. A budget is limited to 3/4 of the output limit; below 1024 tokens
/// thinking is disabled.
fn thinking_value(thinking: Thinking, limit: u64) -> Value {
    match thinking {
        Thinking::Default => Value::Null,
        Thinking::Off => json!({"type": "disabled"}),
        Thinking::Adaptive => json!({"type": "adaptive"}),
        Thinking::Budget { tokens } => {
            let budget = u64::from(tokens).min(limit / 4 * 3);
            if budget < 1024 {
                return json!({"type": "disabled"});
            }
            json!({"type": "enabled", "budget_tokens": budget})
        }
    }
}
