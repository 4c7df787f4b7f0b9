//! Validates requests of the Messages API.

use serde_json::Value;

use super::{
    MockRefusal, RequestJudge, RuleVerdict, blocks, media, pairing, refuse, server_tools, thinking, tools,
};

const FIELDS: [&str; 24] = [
    "model",
    "max_tokens",
    "messages",
    "system",
    "tools",
    "tool_choice",
    "stream",
    "temperature",
    "top_p",
    "top_k",
    "stop_sequences",
    "thinking",
    "metadata",
    "service_tier",
    "output_config",
    "output_format",
    "context_management",
    "speed",
    "container",
    "mcp_servers",
    "anthropic_beta",
    "anthropic_version",
    "cache_control",
    "inference_geo",
];

pub(super) fn check(judge: &RequestJudge<'_>, model: &str, body: &Value, count: u64) -> RuleVerdict {
    let Some(fields) = body.as_object() else {
        return Err(MockRefusal::invalid(
            "Input should be a valid dictionary or object to extract fields from",
        ));
    };
    if let Some(extra) = fields.keys().find(|key| !FIELDS.contains(&key.as_str())) {
        return refuse(extra, "Extra inputs are not permitted");
    }
    if model.is_empty() {
        return refuse("model", "Field required");
    }
    max_tokens(judge, model, body)?;
    system(body)?;
    tools::check(judge.script, body)?;
    shape(body)?;
    pairing::check(body)?;
    server_tools::check(body)?;
    thinking::check(judge, model, body)?;
    media::check(&judge.script.limits, body)?;
    cache_control(body)?;
    window(judge, body, count)
}

fn max_tokens(judge: &RequestJudge<'_>, model: &str, body: &Value) -> RuleVerdict {
    // `max_tokens` is not required for counting tokens.
    let Some(limit) = body.get("max_tokens") else { return Ok(()) };
    let Some(limit) = limit.as_u64() else { return refuse("max_tokens", "Input should be a valid integer") };
    if limit == 0 {
        return refuse("max_tokens", "Input should be greater than or equal to 1");
    }
    let most = judge.script.max_output;
    if limit > most {
        let what =
            format!("{limit} > {most}, which is the maximum allowed number of output tokens for {model}");
        return refuse("max_tokens", &what);
    }
    Ok(())
}

fn system(body: &Value) -> RuleVerdict {
    match &body["system"] {
        Value::Null | Value::String(_) => Ok(()),
        Value::Array(parts) => {
            for (at, part) in parts.iter().enumerate() {
                match part["text"].as_str() {
                    _ if part["type"] != "text" => {
                        return refuse(&format!("system.{at}.type"), "Input should be 'text'");
                    }
                    None => return refuse(&format!("system.{at}.text"), "Field required"),
                    Some("") => {
                        return Err(MockRefusal::invalid("system: text content blocks must be non-empty"));
                    }
                    Some(_) => {}
                }
            }
            Ok(())
        }
        _ => refuse("system", "Input should be a valid string or list"),
    }
}

fn shape(body: &Value) -> RuleVerdict {
    let Some(messages) = body["messages"].as_array() else { return refuse("messages", "Field required") };
    let (Some(first), Some(last)) = (messages.first(), messages.last()) else {
        return refuse("messages", "at least one message is required");
    };
    if first["role"] != "user" {
        return refuse("messages", "first message must use the \"user\" role");
    }
    for (at, message) in messages.iter().enumerate() {
        let path = format!("messages.{at}");
        if message["role"] != "user" && message["role"] != "assistant" {
            return refuse(&format!("{path}.role"), "Input should be 'user' or 'assistant'");
        }
        if let Some(extra) = extra_field(message, &["role", "content"]) {
            return refuse(&format!("{path}.{extra}"), "Extra inputs are not permitted");
        }
        content(&path, message)?;
    }
    if last["role"] == "assistant" && !server_tools::is_paused(last) {
        let what = "This model does not support assistant message prefill. The conversation must end with a user message.";
        return Err(MockRefusal::invalid(what));
    }
    Ok(())
}

fn content(path: &str, message: &Value) -> RuleVerdict {
    let empty = "all messages must have non-empty content except for the optional final assistant message";
    match &message["content"] {
        Value::String(text) if text.is_empty() => refuse(path, empty),
        Value::String(text) if text.trim().is_empty() => {
            refuse("messages", "text content blocks must contain non-whitespace text")
        }
        Value::String(_) => Ok(()),
        Value::Array(list) if list.is_empty() => refuse(path, empty),
        Value::Array(list) => {
            for (at, block) in list.iter().enumerate() {
                super::blocks::check(&format!("{path}.content.{at}"), &message["role"], block)?;
            }
            Ok(())
        }
        _ => refuse(&format!("{path}.content"), "Input should be a valid string or list"),
    }
}

/// Returns a field that is not allowed.
pub(super) fn extra_field<'a>(value: &'a Value, allowed: &[&str]) -> Option<&'a str> {
    let fields = value.as_object()?;
    fields.keys().map(String::as_str).find(|key| !allowed.contains(key))
}

fn cache_control(body: &Value) -> RuleVerdict {
    let mut marks = Vec::new();
    for part in ["tools", "system"] {
        marks.extend(body[part].as_array().into_iter().flatten().filter_map(|it| it.get("cache_control")));
    }
    for message in body["messages"].as_array().into_iter().flatten() {
        for block in blocks(&message["content"]) {
            marks.extend(block.get("cache_control"));
            marks.extend(blocks(&block["content"]).iter().filter_map(|inner| inner.get("cache_control")));
        }
    }
    let marks: Vec<&Value> = marks.into_iter().filter(|mark| !mark.is_null()).collect();
    if marks.len() > 4 {
        let found = marks.len();
        return Err(MockRefusal::invalid(format!(
            "A maximum of 4 blocks with cache_control may be provided. Found {found}."
        )));
    }
    let hour = |mark: &&Value| mark["ttl"] == "1h";
    let short_then_long = marks.iter().skip_while(|mark| hour(mark)).any(hour);
    if short_then_long {
        let what = "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block";
        return Err(MockRefusal::invalid(what));
    }
    Ok(())
}

fn window(judge: &RequestJudge<'_>, body: &Value, count: u64) -> RuleVerdict {
    let window = judge.window;
    if count > window {
        return judge.too_long(format!("prompt is too long: {count} tokens > {window} maximum"));
    }
    let limit = body["max_tokens"].as_u64().unwrap_or(0);
    if count + limit > window {
        return judge.too_long(format!(
            "input length and `max_tokens` exceed context limit: {count} + {limit} > {window}, decrease input length or `max_tokens` and try again"
        ));
    }
    Ok(())
}
