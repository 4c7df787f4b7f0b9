//! Validates the pairing of calls and results.

use std::collections::HashSet;

use serde_json::Value;

use super::{MockRefusal, RuleVerdict, blocks, refuse};

pub(super) fn check(body: &Value) -> RuleVerdict {
    let messages = body["messages"].as_array().map_or(&[][..], Vec::as_slice);
    let mut seen = HashSet::new();
    let mut any = false;
    for (at, message) in messages.iter().enumerate() {
        let calls = ids(message, "tool_use", "id");
        any |= !calls.is_empty();
        if let Some(twice) = calls.iter().find(|id| !seen.insert((*id).to_owned())) {
            return refuse("messages", &format!("`tool_use` ids must be unique: {twice}"));
        }
        answered(at, &calls, messages.get(at + 1))?;
        let before = at.checked_sub(1).and_then(|before| messages.get(before));
        expected(at, message, before)?;
        any |= !ids(message, "tool_result", "tool_use_id").is_empty();
    }
    if any && body["tools"].as_array().is_none_or(Vec::is_empty) {
        let what = "Requests which include `tool_use` or `tool_result` blocks must define `tools`.";
        return Err(MockRefusal::invalid(what));
    }
    Ok(())
}

fn ids<'a>(message: &'a Value, kind: &str, field: &str) -> Vec<&'a str> {
    let of_kind = blocks(&message["content"]).iter().filter(|block| block["type"] == kind);
    of_kind.filter_map(|block| block[field].as_str()).collect()
}

/// Checks that every call of a message has its result at the start of the next one.
fn answered(at: usize, calls: &[&str], next: Option<&Value>) -> RuleVerdict {
    if calls.is_empty() {
        return Ok(());
    }
    let content = next.filter(|next| next["role"] == "user").map_or(&[][..], |next| blocks(&next["content"]));
    let leading = content.iter().take_while(|block| block["type"] == "tool_result");
    let results: HashSet<&str> = leading.filter_map(|block| block["tool_use_id"].as_str()).collect();
    let missing: Vec<&str> = calls.iter().copied().filter(|id| !results.contains(id)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let missing = missing.join(", ");
    refuse(
        &format!("messages.{at}"),
        &format!(
            "`tool_use` ids were found without `tool_result` blocks immediately after: {missing}. Each `tool_use` block must have a corresponding `tool_result` block in the next message."
        ),
    )
}

/// Checks that every result of a message has its call in the previous message, once.
fn expected(at: usize, message: &Value, before: Option<&Value>) -> RuleVerdict {
    let calls = before.map(|before| ids(before, "tool_use", "id")).unwrap_or_default();
    let mut seen = HashSet::new();
    for (index, block) in blocks(&message["content"]).iter().enumerate() {
        if block["type"] != "tool_result" {
            continue;
        }
        let id = block["tool_use_id"].as_str().unwrap_or_default();
        let path = format!("messages.{at}.content.{index}");
        if !calls.contains(&id) {
            let what = format!(
                "unexpected `tool_use_id` found in `tool_result` blocks: {id}. Each `tool_result` block must have a corresponding `tool_use` block in the previous message."
            );
            return refuse(&path, &what);
        }
        if !seen.insert(id) {
            let what = format!(
                "each tool_use must have a single result. Found multiple `tool_result` blocks with id: {id}"
            );
            return refuse(&path, &what);
        }
    }
    Ok(())
}
