use haft_agent::{AgentEvent, EndReason, Exhausted, Spending, TurnEnd};
use haft_runtime::Report;
use haft_types::{SessionId, Usage};
use serde_json::{Value, json};

/// Makes frames of what an agent does.
#[derive(Clone, Debug)]
pub struct Frames {
    /// The session they belong to.
    pub session_id: SessionId,
}

/// What a session is at the beginning of a turn.
#[derive(Clone, Debug)]
pub struct Init {
    /// Where it works.
    pub cwd: String,
    /// Names of the tools.
    pub tools: Vec<String>,
    /// The model.
    pub model: String,
    /// The permission mode.
    pub permission_mode: String,
    /// Where the key comes from.
    pub api_key_source: String,
    /// MCP servers with their states.
    pub mcp_servers: Vec<Value>,
    /// How the model is to write.
    pub output_style: String,
    /// Names of agents.
    pub agents: Vec<String>,
}

impl Frames {
    /// The first frame of a turn.
    pub fn init(&self, init: &Init) -> Value {
        json!({
            "type": "system", "subtype": "init", "cwd": init.cwd, "session_id": self.session_id,
            "tools": init.tools, "mcp_servers": init.mcp_servers, "model": init.model, "permissionMode": init.permission_mode,
            "slash_commands": [], "apiKeySource": init.api_key_source, "claude_code_version": PROTOCOL_VERSION,
            "output_style": init.output_style, "agents": init.agents, "skills": [], "plugins": [], "uuid": uuid(),
        })
    }

    /// A raw event of an answer.
    pub fn stream_event(&self, event: &Value) -> Value {
        json!({
            "type": "stream_event", "event": event, "parent_tool_use_id": null,
            "session_id": self.session_id, "uuid": uuid(),
        })
    }

    /// Something about the session, with these fields.
    pub fn system(&self, subtype: &str, fields: Value) -> Value {
        let mut frame = json!({
            "type": "system", "subtype": subtype, "session_id": self.session_id, "uuid": uuid(),
        });
        if let (Some(frame), Value::Object(fields)) = (frame.as_object_mut(), fields) {
            frame.extend(fields);
        }
        frame
    }

    /// What was said, back to who said it.
    pub fn replay(&self, message: &Value, uuid: Option<&str>) -> Value {
        json!({
            "type": "user", "message": message, "parent_tool_use_id": null, "session_id": self.session_id,
            "uuid": uuid.map_or_else(self::uuid, str::to_owned), "isReplay": true,
        })
    }

    /// What an answer that failed looks like in the conversation.
    pub fn api_error(&self, text: &str, kind: &str) -> Value {
        json!({
            "type": "assistant", "parent_tool_use_id": null, "session_id": self.session_id, "uuid": uuid(),
            "error": kind, "is_api_error_message": true,
            "message": {
                "id": uuid(), "type": "message", "role": "assistant", "model": "<synthetic>",
                "content": [{"type": "text", "text": text}], "stop_reason": "stop_sequence",
                "stop_sequence": "", "usage": usage(&Usage::default()),
            },
        })
    }

    /// The frame of an event, for those that have one.
    pub fn frame(&self, event: &AgentEvent) -> Option<Value> {
        match event {
            AgentEvent::Block(it) => Some(json!({
                "type": "assistant",
                "message": {
                    "id": it.message_id, "type": "message", "role": "assistant", "model": it.model,
                    "content": [it.block], "stop_reason": null, "stop_sequence": null, "usage": usage(&it.usage),
                },
                "parent_tool_use_id": null, "session_id": self.session_id, "uuid": it.uuid,
            })),
            AgentEvent::Result(it) => Some(json!({
                "type": "user",
                "message": {"role": "user", "content": [result_block(&it.report)]},
                "parent_tool_use_id": null, "session_id": self.session_id, "uuid": it.uuid,
                "tool_use_result": match it.report.error {
                    None => it.report.data.clone().unwrap_or(Value::Null),
                    Some(_) => Value::from(format!("Error: {}", it.report.content.to_text())),
                },
            })),
            AgentEvent::Said(it) => Some(json!({
                "type": "user", "message": it.message, "parent_tool_use_id": null,
                "session_id": self.session_id, "uuid": it.uuid, "isSynthetic": true,
            })),
            AgentEvent::Compacted(it) => Some(json!({
                "type": "system", "subtype": "compact_boundary", "session_id": self.session_id, "uuid": uuid(),
                "compact_metadata": {"trigger": "auto", "pre_tokens": it.tokens_before, "post_tokens": it.tokens_after},
            })),
            AgentEvent::Retrying(it) => Some(json!({
                "type": "system", "subtype": "api_retry", "session_id": self.session_id, "uuid": uuid(),
                "attempt": it.attempt, "max_retries": it.most, "retry_delay_ms": it.wait.as_millis(),
                "error_status": null, "error": it.reason,
            })),
            AgentEvent::Notice(text) => Some(json!({
                "type": "system", "subtype": "informational", "session_id": self.session_id, "uuid": uuid(),
                "content": text, "level": "notice",
            })),
            AgentEvent::Started
            | AgentEvent::Model(_)
            | AgentEvent::Progress(_)
            | AgentEvent::Repaired(_) => None,
        }
    }
}

/// The version of the protocol these frames follow.
pub const PROTOCOL_VERSION: &str = "2.1.325";

/// The last frame of a turn.
pub fn result_frame(session_id: &SessionId, end: &TurnEnd, spent: &Spending, model: &str) -> Value {
    let (subtype, is_error, terminal, errors) = outcome(&end.reason);
    let mut frame = json!({
        "type": "result", "subtype": subtype, "is_error": is_error,
        "duration_ms": millis(end.duration), "duration_api_ms": millis(end.api_duration),
        "num_turns": end.messages, "session_id": session_id, "uuid": uuid(),
        "total_cost_usd": spent.usd, "usage": usage(&end.usage),
        "modelUsage": {model: {
            "inputTokens": spent.usage.input_tokens, "outputTokens": spent.usage.output_tokens,
            "cacheReadInputTokens": spent.usage.cache_read_input_tokens,
            "cacheCreationInputTokens": spent.usage.cache_creation_input_tokens, "webSearchRequests": 0,
            "costUSD": spent.usd,
        }},
        "permission_denials": end.denials.iter().map(|it| json!({
            "tool_name": it.tool_name, "tool_use_id": it.tool_use_id, "tool_input": it.tool_input,
        })).collect::<Vec<_>>(),
        "terminal_reason": terminal,
        "stop_reason": end.stop_reason.as_ref().and_then(|it| serde_json::to_value(it).ok()),
    });
    if subtype == "success" {
        frame["result"] = match &end.reason {
            EndReason::Failed(error) => Value::from(format!("API Error: {error}")),
            // A hook kept the prompt from the model.
            EndReason::Stopped(reason) if end.turns == 0 => {
                frame["num_turns"] = json!(0);
                frame.as_object_mut().map(|it| it.remove("terminal_reason"));
                Value::from(format!("UserPromptSubmit operation blocked by hook:\n{reason}"))
            }
            EndReason::Stopped(_) => Value::from(""),
            EndReason::Completed if end.structured_output.is_some() => {
                Value::from(end.structured_output.as_ref().map(Value::to_string))
            }
            _ => Value::from(end.text.clone()),
        };
    } else {
        frame["errors"] = json!(errors);
    }
    if let Some(output) = &end.structured_output {
        frame["structured_output"] = output.clone();
    }
    frame
}

/// The only frame of a session that cannot begin.
pub fn failed_start(session_id: &str, error: &str) -> Value {
    json!({
        "type": "result", "subtype": "error_during_execution", "is_error": true, "duration_ms": 0,
        "duration_api_ms": 0, "num_turns": 0, "session_id": session_id, "uuid": uuid(),
        "total_cost_usd": 0, "usage": usage(&Usage::default()), "modelUsage": {},
        "permission_denials": [], "stop_reason": null, "errors": [error],
    })
}

fn outcome(reason: &EndReason) -> (&'static str, bool, &'static str, Vec<String>) {
    match reason {
        EndReason::Completed => ("success", false, "completed", vec![]),
        EndReason::Stopped(_) => ("success", false, "hook_stopped", vec![]),
        EndReason::Refused => ("success", false, "refusal", vec![]),
        EndReason::Failed(_) => ("success", true, "api_error", vec![]),
        EndReason::Exhausted(Exhausted::Turns(most)) => {
            ("error_max_turns", true, "max_turns", vec![format!("Reached maximum number of turns ({most})")])
        }
        EndReason::Exhausted(Exhausted::Budget(most)) => (
            "error_max_budget_usd",
            true,
            "budget_exhausted",
            vec![format!("Reached maximum budget (${most})")],
        ),
        EndReason::Exhausted(Exhausted::Tokens(most)) => (
            "error_during_execution",
            true,
            "budget_exhausted",
            vec![format!("Reached the limit of {most} tokens")],
        ),
        EndReason::Exhausted(Exhausted::Time(most)) => (
            "error_during_execution",
            true,
            "budget_exhausted",
            vec![format!("Reached the limit of {most:?}")],
        ),
        EndReason::Interrupted => {
            ("error_during_execution", true, "aborted_streaming", vec![String::from("Interrupted")])
        }
        EndReason::NoProgress(why) => ("error_during_execution", true, "no_progress", vec![why.clone()]),
        EndReason::OutputTruncated => {
            let why = String::from("The answers were cut by the output limit three times in a row");
            ("error_during_execution", true, "output_truncated", vec![why])
        }
        EndReason::NoStructuredOutput(tried) => {
            ("error_max_structured_output_retries", true, "structured_output_retry_exhausted", tried.clone())
        }
    }
}

/// The block that answers a call; plain text is a plain string, as the SDKs'
/// users know it.
fn result_block(report: &Report) -> Value {
    let mut block = json!(report.to_block());
    let only_text = match block["content"].as_array().map(Vec::as_slice) {
        Some([only]) if only["type"] == "text" => Some(only["text"].clone()),
        _ => None,
    };
    if let Some(text) = only_text {
        block["content"] = text;
    }
    block
}

fn usage(usage: &Usage) -> Value {
    serde_json::to_value(usage).unwrap_or(Value::Null)
}

fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn uuid() -> String {
    uuid::Uuid::new_v4().to_string()
}
