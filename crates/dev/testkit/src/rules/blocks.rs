//! Validates content blocks.

use serde_json::Value;

use super::{RuleVerdict, messages::extra_field, refuse, tools};

const EXTRA: &str = "Extra inputs are not permitted";

/// Validates a block of a message.
pub(super) fn check(path: &str, role: &Value, block: &Value) -> RuleVerdict {
    let kind = block["type"].as_str().unwrap_or_default();
    let of_user = role == "user";
    match kind {
        "text" => text(path, block),
        "image" | "document" if of_user => media(path, kind, block),
        "tool_result" if of_user => tool_result(path, block),
        "tool_use" if !of_user => tool_use(path, block),
        "thinking" if !of_user => {
            fields(path, kind, block, &["type", "thinking", "signature"])?;
            string(path, kind, block, "thinking")?;
            string(path, kind, block, "signature")
        }
        "redacted_thinking" if !of_user => {
            fields(path, kind, block, &["type", "data"])?;
            string(path, kind, block, "data")
        }
        // Content of server-side tools is not validated.
        _ if kind.ends_with("_tool_result") || kind == "server_tool_use" || kind == "compaction" => Ok(()),
        _ => {
            let what =
                format!("Input tag '{kind}' found using 'type' does not match any of the expected tags");
            refuse(path, &what)
        }
    }
}

fn fields(path: &str, kind: &str, block: &Value, allowed: &[&str]) -> RuleVerdict {
    match extra_field(block, allowed) {
        Some(extra) => refuse(&format!("{path}.{kind}.{extra}"), EXTRA),
        None => Ok(()),
    }
}

fn string(path: &str, kind: &str, block: &Value, field: &str) -> RuleVerdict {
    match block.get(field) {
        Some(Value::String(_)) => Ok(()),
        Some(_) => refuse(&format!("{path}.{kind}.{field}"), "Input should be a valid string"),
        None => refuse(&format!("{path}.{kind}.{field}"), "Field required"),
    }
}

fn text(path: &str, block: &Value) -> RuleVerdict {
    fields(path, "text", block, &["type", "text", "cache_control", "citations"])?;
    string(path, "text", block, "text")?;
    match block["text"].as_str() {
        Some("") if block.get("cache_control").is_some() => {
            refuse(&format!("{path}.text"), "cache_control cannot be set for empty text blocks")
        }
        Some("") => refuse("messages", "text content blocks must be non-empty"),
        Some(text) if text.trim().is_empty() => {
            refuse("messages", "text content blocks must contain non-whitespace text")
        }
        _ => Ok(()),
    }
}

fn media(path: &str, kind: &str, block: &Value) -> RuleVerdict {
    fields(path, kind, block, &["type", "source", "cache_control", "title", "context", "citations"])?;
    let source = &block["source"];
    match source["type"].as_str() {
        Some("base64") => {
            string(&format!("{path}.{kind}.source"), "base64", source, "media_type")?;
            string(&format!("{path}.{kind}.source"), "base64", source, "data")
        }
        Some("url") => string(&format!("{path}.{kind}.source"), "url", source, "url"),
        Some("text" | "content" | "file") => Ok(()),
        _ => refuse(&format!("{path}.{kind}.source"), "Field required"),
    }
}

fn tool_use(path: &str, block: &Value) -> RuleVerdict {
    fields(path, "tool_use", block, &["type", "id", "name", "input", "cache_control", "caller"])?;
    string(path, "tool_use", block, "id")?;
    string(path, "tool_use", block, "name")?;
    if !is_id(block["id"].as_str().unwrap_or_default()) {
        let what = "String should match pattern '^[a-zA-Z0-9_-]+$'";
        return refuse(&format!("{path}.tool_use.id"), what);
    }
    tools::name(&format!("{path}.tool_use.name"), block["name"].as_str().unwrap_or_default(), 128)?;
    if !block["input"].is_object() {
        return refuse(&format!("{path}.tool_use.input"), "Input should be a valid dictionary");
    }
    Ok(())
}

fn is_id(id: &str) -> bool {
    !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

fn tool_result(path: &str, block: &Value) -> RuleVerdict {
    fields(path, "tool_result", block, &["type", "tool_use_id", "content", "is_error", "cache_control"])?;
    string(path, "tool_result", block, "tool_use_id")?;
    let is_error = block["is_error"] == true;
    let here = format!("{path}.tool_result");
    match &block["content"] {
        Value::Null if is_error => refuse(&here, "content cannot be empty if `is_error` is true"),
        Value::String(text) if text.is_empty() && is_error => {
            refuse(&here, "content cannot be empty if `is_error` is true")
        }
        Value::Null | Value::String(_) => Ok(()),
        Value::Array(list) => {
            if is_error && list.is_empty() {
                return refuse(&here, "content cannot be empty if `is_error` is true");
            }
            if is_error && list.iter().any(|inner| inner["type"] != "text") {
                return refuse(&here, "all content must be type `text` if `is_error` is true");
            }
            for (at, inner) in list.iter().enumerate() {
                inner_block(&format!("{here}.content.{at}"), inner)?;
            }
            Ok(())
        }
        _ => refuse(&format!("{here}.content"), "Input should be a valid string or list"),
    }
}

fn inner_block(path: &str, block: &Value) -> RuleVerdict {
    match block["type"].as_str() {
        Some("text") => text(path, block),
        Some(kind @ ("image" | "document")) => media(path, kind, block),
        Some("search_result") => Ok(()),
        Some("tool_reference") => {
            fields(path, "tool_reference", block, &["type", "tool_name", "cache_control"])?;
            string(path, "tool_reference", block, "tool_name")?;
            tools::name(
                &format!("{path}.tool_reference.tool_name"),
                block["tool_name"].as_str().unwrap_or_default(),
                64,
            )
        }
        kind => {
            let kind = kind.unwrap_or_default();
            let what =
                format!("Input tag '{kind}' found using 'type' does not match any of the expected tags");
            refuse(path, &what)
        }
    }
}
