use haft_agent::{AgentEvent, BlockEvent, CompactedEvent, InjectedMessage, InjectionReason, log};
use haft_tool_runtime::CallReport;
use haft_types::{SessionId, Usage};
use serde_json::{Value, json};

use haft_session::{ApiFailure, PluginInfo, SessionSummary};

use crate::{frames_page::is_known, mcp_status::mcp_servers, result_frame::usage};

/// Converts events of an agent to frames.
#[derive(Clone, Debug)]
pub struct Frames {
    /// Session id in the frames.
    pub session_id: SessionId,
}

/// Optional protocol features of the reference executable that Haft supports too.
const CAPABILITIES: [&str; 3] = ["interrupt_receipt_v1", "interrupt_cancel_queued_v1", "msg_lifecycle_v1"];

impl Frames {
    /// The first frame of a turn.
    pub fn init(&self, facts: &SessionSummary) -> Value {
        let plugins: Vec<Value> = facts.plugins.iter().map(plugin_json).collect();
        // A path that is not UTF-8 is converted lossily.
        let cwd = facts.cwd.to_string_lossy();
        let extra_dirs: Vec<_> = facts.extra_dirs.iter().map(|it| it.to_string_lossy()).collect();
        let mut frame = self.system(
            "init",
            json!({
                "cwd": cwd, "tools": facts.tools, "mcp_servers": mcp_servers(&facts.servers),
                "model": facts.model, "permissionMode": facts.mode.name(), "slash_commands": facts.commands,
                "apiKeySource": facts.key_source, "claude_code_version": PROTOCOL_VERSION,
                "output_style": facts.output_style, "agents": facts.agents, "skills": facts.skills,
                "plugins": plugins, "capabilities": CAPABILITIES, "original_cwd": cwd,
                "additional_directories": extra_dirs,
            }),
        );
        if !facts.betas.is_empty() {
            frame["betas"] = json!(facts.betas);
        }
        frame
    }

    /// A frame with a raw streaming event of an answer.
    pub fn stream_event(&self, event: &Value) -> Value {
        self.of_type("stream_event", json!({"event": event, "parent_tool_use_id": null}))
    }

    /// A `system` frame with these fields.
    pub fn system(&self, subtype: &str, fields: Value) -> Value {
        debug_assert!(is_known(&format!("system/{subtype}")), "the page about lines does not know {subtype}");
        let mut frame = self.made("system", fields);
        frame["subtype"] = json!(subtype);
        frame
    }

    /// A frame of any type with these fields.
    pub fn of_type(&self, kind: &str, fields: Value) -> Value {
        debug_assert!(is_known(kind), "the page about lines does not know {kind}");
        self.made(kind, fields)
    }

    fn made(&self, kind: &str, fields: Value) -> Value {
        let mut frame = json!({"type": kind, "session_id": self.session_id, "uuid": uuid()});
        if let (Some(frame), Value::Object(fields)) = (frame.as_object_mut(), fields) {
            frame.extend(fields);
        }
        frame
    }

    /// Echoes a prompt to the host.
    pub fn replay(&self, message: &Value, uuid: &str) -> Value {
        self.user(message.clone(), uuid, json!({"isReplay": true}))
    }

    /// The summary a compacted conversation continues from.
    pub fn summary(&self, text: &str) -> Value {
        let message = json!({"role": "user", "content": text});
        self.user(message, &uuid(), json!({"isReplay": false, "isSynthetic": true}))
    }

    /// A failed model request, as an assistant message.
    pub fn api_error(&self, failure: &ApiFailure) -> Value {
        let mut frame = self.synthetic(&failure.text, "stop_sequence");
        frame["message"]["stop_sequence"] = json!("");
        frame["error"] = json!(failure.kind);
        frame["is_api_error_message"] = json!(true);
        if let Some(status) = failure.status {
            frame["api_error_status"] = json!(status);
        }
        frame
    }

    /// The output of a built-in command, as an assistant message.
    pub fn command_output(&self, text: &str) -> Value {
        let mut frame = self.synthetic(text, "end_turn");
        frame["local_command_source"] = json!(format!("<local-command-stdout>{text}</local-command-stdout>"));
        frame
    }

    fn synthetic(&self, text: &str, stop_reason: &str) -> Value {
        let message = json!({
            "id": uuid(), "type": "message", "role": "assistant", "model": "<synthetic>",
            "content": [{"type": "text", "text": text}], "stop_reason": stop_reason,
            "stop_sequence": null, "usage": usage(&Usage::default()),
        });
        let fields = json!({"message": message, "parent_tool_use_id": null, "timestamp": log::now()});
        self.of_type("assistant", fields)
    }

    /// The frame of an event; `None` for events without one.
    pub fn frame(&self, event: &AgentEvent) -> Option<Value> {
        match event {
            AgentEvent::Block(it) => Some(self.block(it)),
            AgentEvent::ResultLogged { uuid, answered } => Some(self.result(uuid, &answered.report)),
            AgentEvent::Said(it) => self.said(it),
            AgentEvent::Compacted(it) => Some(self.compacted(it)),
            AgentEvent::Retrying(it) => Some(self.system(
                "api_retry",
                json!({
                    "attempt": it.attempt, "max_retries": it.most, "retry_delay_ms": it.wait.as_millis(),
                    "error_status": status_in(&it.reason), "error": kind_of(status_in(&it.reason)),
                }),
            )),
            AgentEvent::Notice(text) => {
                Some(self.system("informational", json!({"content": text, "level": "notice"})))
            }
            AgentEvent::Started
            | AgentEvent::Model(_)
            | AgentEvent::Withdrawn(_)
            | AgentEvent::Called(_)
            | AgentEvent::Progress(_)
            | AgentEvent::CallFinished(_)
            | AgentEvent::Bust(_)
            | AgentEvent::Repaired(_) => None,
        }
    }

    fn block(&self, it: &BlockEvent) -> Value {
        let message = json!({
            "id": it.message_id, "type": "message", "role": "assistant", "model": it.model,
            "content": [it.block], "stop_reason": null, "stop_sequence": null, "usage": usage(&it.usage),
        });
        json!({
            "type": "assistant", "message": message, "parent_tool_use_id": null,
            "session_id": self.session_id, "uuid": it.uuid, "timestamp": log::now(),
        })
    }

    fn result(&self, uuid: &str, report: &CallReport) -> Value {
        let message = json!({"role": "user", "content": [result_block(report)]});
        let result = match report.error {
            None => output_of(report),
            Some(_) => Value::from(format!("Error: {}", report.content.to_text())),
        };
        self.user(message, uuid, json!({"tool_use_result": result}))
    }

    /// The frame of a message the program added. Context is not sent to the host.
    fn said(&self, it: &InjectedMessage) -> Option<Value> {
        let more = match it.why {
            InjectionReason::Context => return None,
            InjectionReason::Demand | InjectionReason::Addition => json!({"isSynthetic": true}),
            InjectionReason::Interruption => json!({}),
        };
        Some(self.user(json!(it.message), &it.uuid, more))
    }

    /// The frame that marks a compaction.
    pub fn compacted(&self, it: &CompactedEvent) -> Value {
        let metadata = json!({
            "trigger": it.trigger, "pre_tokens": it.tokens_before, "post_tokens": it.tokens_after,
        });
        self.system("compact_boundary", json!({"compact_metadata": metadata}))
    }

    fn user(&self, message: Value, uuid: &str, more: Value) -> Value {
        let mut frame = json!({
            "type": "user", "message": message, "parent_tool_use_id": null,
            "session_id": self.session_id, "uuid": uuid, "timestamp": log::now(),
        });
        if let (Some(frame), Value::Object(more)) = (frame.as_object_mut(), more) {
            frame.extend(more);
        }
        frame
    }
}

/// A plugin in the format hosts expect.
pub(crate) fn plugin_json(plugin: &PluginInfo) -> Value {
    let mut shown =
        json!({"name": plugin.name, "path": plugin.path.to_string_lossy(), "source": plugin.source});
    if let Some(version) = &plugin.version {
        shown["version"] = json!(version);
    }
    shown
}

/// Prefix of rate limit errors, which carry no HTTP status.
const RATE_LIMITED: &str = "rate limited:";

/// Version of the protocol.
pub const PROTOCOL_VERSION: &str = "2.1.325";

/// The result block of a call. Plain text is a plain string, as users of the SDKs expect.
fn result_block(report: &CallReport) -> Value {
    let mut block = json!(report.to_block());
    let only_text = match block["content"].as_array().map(Vec::as_slice) {
        Some([only]) if only["type"] == "text" => Some(only["text"].clone()),
        _ => None,
    };
    if let Some(text) = only_text.filter(|_| !keeps_blocks(report)) {
        block["content"] = text;
    }
    // Only Bash results have structured output here.
    if report.name == "Bash" && report.error.is_none() {
        block["is_error"] = json!(false);
    }
    block
}

/// Whether the result stays a list of blocks, as users of the SDKs expect of MCP tools: unless it is
/// structured or empty.
fn keeps_blocks(report: &CallReport) -> bool {
    let Some(data) = report.data.as_ref().filter(|_| report.error.is_none()) else { return false };
    let has_blocks = data["content"].as_array().is_some_and(|it| !it.is_empty()) || data.is_array();
    report.name.starts_with("mcp__") && has_blocks && data["structuredContent"].is_null()
}

/// The structured output of a call.
fn output_of(report: &CallReport) -> Value {
    let Some(data) = &report.data else { return Value::Null };
    if report.name.starts_with("mcp__") && data["content"].is_array() {
        return mcp_output(data, json!(report.content));
    }
    data.clone()
}

/// The structured output of an MCP tool: its blocks, or its structured result with the text.
pub(crate) fn mcp_output(data: &Value, blocks: Value) -> Value {
    match &data["structuredContent"] {
        Value::Null if data["content"].as_array().is_some_and(Vec::is_empty) => json!([]),
        Value::Null => blocks,
        structured => {
            let texts = data["content"].as_array().into_iter().flatten();
            let text: Vec<&str> = texts.filter_map(|it| it["text"].as_str()).collect();
            json!({"content": text.join("\n"), "structuredContent": structured})
        }
    }
}

/// The SDKs' error kind of a failure that is retried.
fn kind_of(status: Option<u16>) -> &'static str {
    match status {
        Some(429) => "rate_limit",
        Some(529) => "overloaded",
        Some(401 | 403) => "authentication_failed",
        Some(500..) => "server_error",
        Some(_) => "invalid_request",
        None => "unknown",
    }
}

/// Extracts the HTTP status from an error message.
fn status_in(reason: &str) -> Option<u16> {
    if reason.starts_with(RATE_LIMITED) {
        return Some(429);
    }
    let numbers = reason.split(|it: char| !it.is_ascii_digit());
    numbers.filter(|it| it.len() == 3).filter_map(|it| it.parse().ok()).find(|it| (400..600).contains(it))
}

pub(crate) fn uuid() -> String {
    uuid::Uuid::new_v4().to_string()
}

/// Adds the uuids of withdrawn blocks that this frame replaces.
pub(crate) fn supersede(frame: &mut Value, withdrawn: &mut Vec<String>) {
    if !withdrawn.is_empty() {
        frame["supersedes"] = json!(std::mem::take(withdrawn));
    }
}
