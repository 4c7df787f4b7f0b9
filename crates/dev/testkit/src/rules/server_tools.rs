//! Validates server-side tools and their blocks.

use std::collections::HashSet;

use serde_json::Value;

use super::{RuleVerdict, blocks, messages::extra_field, refuse};
use crate::signature_of;

/// Validates server-side tools and their blocks in the conversation.
pub(super) fn check(body: &Value) -> RuleVerdict {
    for (at, tool) in body["tools"].as_array().into_iter().flatten().enumerate() {
        if tool["type"].as_str().is_some_and(|it| it.starts_with("web_search_")) {
            web_search(&format!("tools.{at}.{}", tool["type"].as_str().unwrap_or_default()), tool)?;
        }
    }
    let messages = body["messages"].as_array().map_or(&[][..], Vec::as_slice);
    for (at, message) in messages.iter().enumerate() {
        pairs(at, message, at + 1 == messages.len())?;
    }
    Ok(())
}

/// Whether a message is a paused answer, which the service continues.
pub(super) fn is_paused(message: &Value) -> bool {
    blocks(&message["content"]).iter().any(|it| it["type"] == "server_tool_use")
}

fn web_search(path: &str, tool: &Value) -> RuleVerdict {
    let fields =
        ["type", "name", "max_uses", "allowed_domains", "blocked_domains", "user_location", "cache_control"];
    if let Some(extra) = extra_field(tool, &fields) {
        return refuse(&format!("{path}.{extra}"), "Extra inputs are not permitted");
    }
    if tool["name"] != "web_search" {
        return refuse(&format!("{path}.name"), "Input should be 'web_search'");
    }
    if tool.get("max_uses").is_some_and(|it| it.as_u64().is_none_or(|it| it == 0)) {
        return refuse(&format!("{path}.max_uses"), "Input should be greater than 0");
    }
    let listed = |name: &str| tool[name].as_array().map_or(&[][..], Vec::as_slice);
    if tool.get("allowed_domains").is_some() && tool.get("blocked_domains").is_some() {
        return refuse(path, "Only one of allowed_domains and blocked_domains may be provided");
    }
    for domain in listed("allowed_domains").iter().chain(listed("blocked_domains")) {
        if domain.as_str().is_none_or(|it| it.is_empty() || it.contains("://") || it.contains(' ')) {
            return refuse(path, &format!("Invalid domain: {domain}"));
        }
    }
    Ok(())
}

/// Checks that every server-side call is followed by its result in the same message, except in a paused
/// answer, and that encrypted content is unchanged.
fn pairs(at: usize, message: &Value, is_last: bool) -> RuleVerdict {
    let mut waiting: HashSet<&str> = HashSet::new();
    for (index, block) in blocks(&message["content"]).iter().enumerate() {
        let path = format!("messages.{at}.content.{index}");
        let kind = block["type"].as_str().unwrap_or_default();
        if kind == "server_tool_use" {
            if !block["input"].is_object() {
                return refuse(&format!("{path}.{kind}.input"), "Input should be a valid dictionary");
            }
            waiting.insert(block["id"].as_str().unwrap_or_default());
        } else if kind == "web_search_tool_result" {
            let id = block["tool_use_id"].as_str().unwrap_or_default();
            if !waiting.remove(id) {
                let what = format!("unexpected `tool_use_id` found in `{kind}` blocks: {id}");
                return refuse(&path, &what);
            }
            sealed(&path, block)?;
        }
    }
    let waits = waiting.iter().min();
    match waits.filter(|_| message["role"] != "assistant" || !is_last) {
        Some(id) => refuse(
            &format!("messages.{at}"),
            &format!(
                "`web_search` tool use with id `{id}` was found without a corresponding `web_search_tool_result` block"
            ),
        ),
        None => Ok(()),
    }
}

fn sealed(path: &str, block: &Value) -> RuleVerdict {
    for hit in block["content"].as_array().into_iter().flatten() {
        let url = hit["url"].as_str().unwrap_or_default();
        if hit["encrypted_content"] != signature_of(url, "web_search") {
            return refuse(path, "Invalid `encrypted_content` in `web_search_result` block");
        }
    }
    Ok(())
}
