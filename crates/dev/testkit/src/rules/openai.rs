//! Validation rules of OpenAI Chat Completions and Responses.

use std::collections::HashSet;

use serde_json::Value;

use super::{IssuedThinking, MockRefusal, RequestJudge, RuleVerdict};
use crate::{Script, signature_of, wire::chat::thinking_call};

fn invalid<T>(message: impl Into<String>) -> Result<T, MockRefusal> {
    Err(MockRefusal::invalid(message))
}

pub(super) fn check_chat(judge: &RequestJudge<'_>, body: &Value, count: u64) -> RuleVerdict {
    let RequestJudge { script, issued, .. } = *judge;
    if !body["model"].is_string() {
        return invalid("you must provide a model parameter");
    }
    let Some(messages) = body["messages"].as_array().filter(|list| !list.is_empty()) else {
        return invalid("Invalid 'messages': empty array. Expected an array with minimum length 1.");
    };
    for (at, tool) in body["tools"].as_array().into_iter().flatten().enumerate() {
        let function = &tool["function"];
        let path = format!("tools[{at}].function");
        check_tool(script, &path, &function["name"], function.get("parameters"))?;
    }
    tools_belong_here(body)?;
    chat_pairs(messages)?;
    for (at, message) in messages.iter().enumerate() {
        chat_message(at, message)?;
    }
    if body.get("reasoning").is_some() {
        routed(issued, body, messages)?;
    } else if let Some(effort) = body.get("reasoning_effort") {
        known_effort("reasoning_effort", effort)?;
    }
    window(judge, body, count)
}

/// The newer models take tools on Chat Completions only without thinking, and some not at all.
fn tools_belong_here(body: &Value) -> RuleVerdict {
    let model = body["model"].as_str().unwrap_or_default();
    let has_tools = body["tools"].as_array().is_some_and(|list| !list.is_empty());
    if !has_tools || !is_newer(model) || body["reasoning_effort"] == "none" {
        return Ok(());
    }
    invalid(format!(
        "Function tools with reasoning_effort are not supported for {model} in /v1/chat/completions. To use function tools, use /v1/responses or set reasoning_effort to 'none'."
    ))
}

/// Whether a model is `gpt-5.5` or newer by its name; routers (`openai/gpt-6`) have rules of their own.
fn is_newer(model: &str) -> bool {
    let Some(version) = model.strip_prefix("gpt-").and_then(|rest| rest.split('-').next()) else {
        return false;
    };
    let mut numbers = version.split('.').map_while(|it| it.parse::<u32>().ok());
    numbers.next().is_some_and(|major| (5, 5) <= (major, numbers.next().unwrap_or(0)))
}

const EFFORTS: [&str; 7] = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];

fn known_effort(path: &str, effort: &Value) -> RuleVerdict {
    match effort.as_str() {
        Some(name) if EFFORTS.contains(&name) => Ok(()),
        _ => invalid(format!(
            "Invalid value: '{effort}'. Supported values of {path} are: {}.",
            EFFORTS.join(", ")
        )),
    }
}

/// Rules of routers such as OpenRouter: a single way to control thinking, and thinking sent back
/// unchanged.
fn routed(issued: &IssuedThinking, body: &Value, messages: &[Value]) -> RuleVerdict {
    let Some(reasoning) = body["reasoning"].as_object() else {
        return invalid("reasoning: Expected object");
    };
    let known = ["effort", "max_tokens", "enabled", "exclude"];
    if let Some(name) = reasoning.keys().find(|name| !known.contains(&name.as_str())) {
        return invalid(format!("reasoning: Unrecognized key: '{name}'"));
    }
    if reasoning.contains_key("effort") && reasoning.contains_key("max_tokens") {
        return invalid("Only one of \"reasoning.effort\" and \"reasoning.max_tokens\" can be specified");
    }
    if body.get("reasoning_effort").is_some() {
        return invalid("Only one of \"reasoning\" and \"reasoning_effort\" can be specified");
    }
    if let Some(effort) = reasoning.get("effort") {
        known_effort("reasoning.effort", effort)?;
    }
    let model = body["model"].as_str().unwrap_or_default();
    for (at, message) in messages.iter().enumerate().filter(|(_, it)| it["role"] == "assistant") {
        let details = message["reasoning_details"].as_array().map_or(&[][..], Vec::as_slice);
        for item in details {
            routed_detail(at, item, model)?;
        }
        let calls = message["tool_calls"].as_array().into_iter().flatten();
        let mut ids = calls.filter_map(|call| call["id"].as_str());
        if details.is_empty() && ids.any(|id| issued.prefix(&thinking_call(model, id)).is_some()) {
            return invalid(format!(
                "messages.{at}: Expected `thinking` or `redacted_thinking`, but found `tool_use`. reasoning_details must be passed back unmodified."
            ));
        }
    }
    Ok(())
}

fn routed_detail(at: usize, item: &Value, model: &str) -> RuleVerdict {
    let text = |name: &str| item[name].as_str().unwrap_or_default();
    match text("type") {
        "reasoning.text" if text("signature") == signature_of(text("text"), model) => Ok(()),
        "reasoning.text" => {
            invalid(format!("messages.{at}.reasoning_details: Invalid `signature` in `thinking` block"))
        }
        "reasoning.summary" => Ok(()),
        "reasoning.encrypted" if !text("data").is_empty() => Ok(()),
        kind => invalid(format!("messages.{at}.reasoning_details: '{kind}' is not expected here")),
    }
}

fn chat_message(at: usize, message: &Value) -> RuleVerdict {
    let role = message["role"].as_str().unwrap_or_default();
    if !["system", "developer", "user", "assistant", "tool"].contains(&role) {
        return invalid(format!(
            "Invalid value: '{role}'. Supported values are: 'system', 'assistant', 'user', 'tool', and 'developer'."
        ));
    }
    let calls = message["tool_calls"].as_array().map_or(&[][..], Vec::as_slice);
    if message["content"].is_null() && calls.is_empty() {
        return invalid(format!(
            "Invalid value for 'content': expected a string, got null. (messages[{at}])"
        ));
    }
    for call in calls {
        let arguments = call["function"]["arguments"].as_str().unwrap_or_default();
        if !serde_json::from_str::<Value>(arguments).is_ok_and(|it| it.is_object()) {
            return invalid(format!("Invalid 'messages[{at}].tool_calls': arguments must be a JSON object"));
        }
    }
    for part in message["content"].as_array().into_iter().flatten() {
        let kind = part["type"].as_str().unwrap_or_default();
        let fits = kind == "text" || (role == "user" && (kind == "image_url" || kind == "file"));
        if !fits {
            return invalid(format!(
                "Invalid 'messages[{at}].content': part type '{kind}' is not allowed for role '{role}'"
            ));
        }
    }
    Ok(())
}

fn chat_pairs(messages: &[Value]) -> RuleVerdict {
    let mut open: Vec<&str> = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        if message["role"] == "tool" {
            let id = message["tool_call_id"].as_str().unwrap_or_default();
            match open.iter().position(|wanted| *wanted == id) {
                Some(found) => open.remove(found),
                None => {
                    return invalid(format!(
                        "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'. (messages[{at}])"
                    ));
                }
            };
            continue;
        }
        unanswered(&open)?;
        let calls = message["tool_calls"].as_array().into_iter().flatten();
        open = calls.filter_map(|call| call["id"].as_str()).collect();
    }
    unanswered(&open)
}

fn unanswered(open: &[&str]) -> RuleVerdict {
    if open.is_empty() {
        return Ok(());
    }
    let ids = open.join(", ");
    invalid(format!(
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: {ids}"
    ))
}

fn check_tool(script: &Script, path: &str, name: &Value, parameters: Option<&Value>) -> RuleVerdict {
    let name = name.as_str().unwrap_or_default();
    let most = script.limits.tool_name;
    if name.len() > most {
        return invalid(format!(
            "Invalid '{path}.name': string too long. Expected a string with maximum length {most}, but got a string with length {} instead.",
            name.len()
        ));
    }
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if name.is_empty() || !name.bytes().all(allowed) {
        return invalid(format!(
            "Invalid '{path}.name': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'."
        ));
    }
    let Some(schema) = parameters else { return Ok(()) };
    if schema["type"] != "object" {
        return invalid(format!(
            "Invalid schema for function '{name}': schema must be a JSON Schema of 'type: \"object\"', got 'type: {}'.",
            schema["type"]
        ));
    }
    if ["oneOf", "anyOf", "allOf", "enum", "not"].iter().any(|key| schema.get(key).is_some()) {
        return invalid(format!(
            "Invalid schema for function '{name}': schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level."
        ));
    }
    Ok(())
}

fn window(judge: &RequestJudge<'_>, body: &Value, count: u64) -> RuleVerdict {
    let RequestJudge { script, window, .. } = *judge;
    let asked = ["max_tokens", "max_completion_tokens", "max_output_tokens"];
    let limit = asked.iter().find_map(|key| body[*key].as_u64()).unwrap_or(0);
    if limit > script.max_output {
        let most = script.max_output;
        return invalid(format!(
            "max_tokens is too large: {limit}. This model supports at most {most} completion tokens, whereas you provided {limit}."
        ));
    }
    if count + limit > window {
        return judge.too_long(format!(
            "This model's maximum context length is {window} tokens. However, you requested {} tokens ({count} in the messages, {limit} in the completion). Please reduce the length of the messages or completion.",
            count + limit
        ));
    }
    Ok(())
}

pub(super) fn check_responses(judge: &RequestJudge<'_>, body: &Value, count: u64) -> RuleVerdict {
    let script = judge.script;
    if !body["model"].is_string() {
        return invalid("Missing required parameter: 'model'.");
    }
    for (at, tool) in body["tools"].as_array().into_iter().flatten().enumerate() {
        if tool["type"] == "function" {
            check_tool(script, &format!("tools[{at}]"), &tool["name"], tool.get("parameters"))?;
        }
    }
    match &body["input"] {
        Value::String(_) => {}
        Value::Array(items) if !items.is_empty() => {
            response_pairs(items)?;
            response_items(items)?;
        }
        _ => return invalid("Missing required parameter: 'input'."),
    }
    window(judge, body, count)
}

fn response_pairs(items: &[Value]) -> RuleVerdict {
    let ids = |kind: &str| -> Vec<&str> {
        let of_kind = items.iter().filter(|item| item["type"] == kind);
        of_kind.filter_map(|item| item["call_id"].as_str()).collect()
    };
    let (calls, outputs) = (ids("function_call"), ids("function_call_output"));
    let distinct: HashSet<&str> = calls.iter().copied().collect();
    if distinct.len() < calls.len() {
        return invalid("Duplicate function call ids in input.");
    }
    if let Some(open) = calls.iter().find(|id| !outputs.contains(id)) {
        return invalid(format!("No tool output found for function call {open}."));
    }
    if let Some(stray) = outputs.iter().find(|id| !distinct.contains(*id)) {
        return invalid(format!("No tool call found for function call output with call_id {stray}."));
    }
    if outputs.len() > calls.len() {
        return invalid("Multiple outputs found for one function call.");
    }
    Ok(())
}

fn response_items(items: &[Value]) -> RuleVerdict {
    for (at, item) in items.iter().enumerate() {
        let kind = item["type"].as_str().unwrap_or("message");
        match kind {
            "message" => {
                let of_model = item["role"] == "assistant";
                for part in item["content"].as_array().into_iter().flatten() {
                    let part = part["type"].as_str().unwrap_or_default();
                    let allowed: &[&str] = if of_model {
                        &["output_text", "refusal"]
                    } else {
                        &["input_text", "input_image", "input_file"]
                    };
                    if !allowed.contains(&part) {
                        return invalid(format!(
                            "Invalid value: '{part}'. Supported values are: {allowed:?}. (input[{at}].content)"
                        ));
                    }
                }
            }
            "function_call" => {
                let arguments = item["arguments"].as_str().unwrap_or_default();
                if !serde_json::from_str::<Value>(arguments).is_ok_and(|it| it.is_object()) {
                    return invalid(format!("Invalid 'input[{at}].arguments': not a JSON object"));
                }
            }
            "function_call_output" => {}
            "reasoning" => {
                let next = items.get(at + 1);
                let follows = next.is_some_and(|next| {
                    next["type"] == "function_call"
                        || next["type"] == "reasoning"
                        || (next["role"] == "assistant")
                });
                let id = item["id"].as_str().unwrap_or_default();
                if !item["encrypted_content"].is_string() {
                    return invalid(format!(
                        "Item with id '{id}' not found. Items are not persisted when `store` is set to false."
                    ));
                }
                if !follows {
                    return invalid(format!(
                        "Item '{id}' of type 'reasoning' was provided without its required following item."
                    ));
                }
            }
            other => return invalid(format!("Invalid value: '{other}'. (input[{at}].type)")),
        }
    }
    Ok(())
}
