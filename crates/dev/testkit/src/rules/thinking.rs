//! Validates thinking: settings, signatures, positions.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{MockRefusal, RequestJudge, RuleVerdict, blocks, refuse};
use crate::signature_of;

pub(super) fn check(judge: &RequestJudge<'_>, model: &str, body: &Value) -> RuleVerdict {
    settings(body)?;
    let messages = body["messages"].as_array().map_or(&[][..], Vec::as_slice);
    let latest = messages.iter().rposition(|message| message["role"] == "assistant");
    for (at, message) in messages.iter().enumerate().filter(|(_, message)| message["role"] == "assistant") {
        let content = blocks(&message["content"]);
        if content.last().is_some_and(|block| block["type"] == "thinking") {
            let what = "The final block in an assistant message cannot be `thinking`.";
            return refuse(&format!("messages.{at}"), what);
        }
        for (index, block) in content.iter().enumerate() {
            let path = format!("messages.{at}.content.{index}");
            signature(judge, model, body, at, &path, block, Some(at) == latest)?;
        }
    }
    leading(body, messages)
}

fn settings(body: &Value) -> RuleVerdict {
    let thinking = &body["thinking"];
    let budget = thinking["budget_tokens"].as_u64().unwrap_or(0);
    match thinking["type"].as_str() {
        None if thinking.is_null() => return Ok(()),
        Some("disabled") => return Ok(()),
        Some("adaptive") => {}
        Some("enabled") if budget < 1024 => {
            return refuse("thinking.enabled.budget_tokens", "Input should be greater than or equal to 1024");
        }
        Some("enabled") if body["max_tokens"].as_u64().is_some_and(|limit| limit <= budget) => {
            return Err(MockRefusal::invalid("`max_tokens` must be greater than `thinking.budget_tokens`."));
        }
        Some("enabled") => {}
        _ => return refuse("thinking.type", "Input should be 'adaptive', 'enabled' or 'disabled'"),
    }
    if body.get("temperature").is_some_and(|it| it.as_f64() != Some(1.0)) {
        let what = "`temperature` may only be set to 1 when thinking is enabled.";
        return Err(MockRefusal::invalid(what));
    }
    if matches!(body["tool_choice"]["type"].as_str(), Some("any" | "tool")) {
        return Err(MockRefusal::invalid("Thinking may not be enabled when tool_choice forces tool use."));
    }
    Ok(())
}

fn signature(
    judge: &RequestJudge<'_>,
    model: &str,
    body: &Value,
    at: usize,
    path: &str,
    block: &Value,
    is_latest: bool,
) -> RuleVerdict {
    if block["type"] != "thinking" {
        return Ok(());
    }
    let text = block["thinking"].as_str().unwrap_or_default();
    let signature = block["signature"].as_str().unwrap_or_default();
    if signature == signature_of(text, model) {
        let bound = judge.issued.prefix(signature);
        return match bound {
            Some(bound) if judge.script.bind_thinking && bound != prefix(body, at) => refuse(
                path,
                "Invalid `signature` in `thinking` block. The block is bound to a different conversation. Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to \"drop_block\".",
            ),
            _ => Ok(()),
        };
    }
    if is_latest && judge.issued.prefix(signature).is_some() {
        let what = "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. These blocks must remain as they were in the original response.";
        return refuse(path, what);
    }
    refuse(path, "Invalid `signature` in `thinking` block")
}

/// With a thinking budget, an unfinished round of calls must start with thinking.
fn leading(body: &Value, messages: &[Value]) -> RuleVerdict {
    if body["thinking"]["type"] != "enabled" {
        return Ok(());
    }
    let asks_on = messages
        .last()
        .is_some_and(|last| blocks(&last["content"]).iter().any(|block| block["type"] == "tool_result"));
    let Some(at) = messages.iter().rposition(|message| message["role"] == "assistant") else { return Ok(()) };
    let first = blocks(&messages[at]["content"]).first().and_then(|block| block["type"].as_str());
    match first {
        Some(kind) if asks_on && kind != "thinking" && kind != "redacted_thinking" => refuse(
            &format!("messages.{at}.content.0.type"),
            &format!(
                "Expected `thinking` or `redacted_thinking`, but found `{kind}`. When `thinking` is enabled, a final `assistant` message must start with a thinking block (preceeding the lastmost set of `tool_use` and `tool_result` blocks)."
            ),
        ),
        _ => Ok(()),
    }
}

/// Returns the conversation before message `at`, without cache breakpoints.
pub(crate) fn prefix(body: &Value, at: usize) -> String {
    let before: Vec<&Value> = body["messages"].as_array().into_iter().flatten().take(at).collect();
    let mut whole = json!({"tools": body["tools"], "system": body["system"], "messages": before});
    without_marks(&mut whole);
    let digest = Sha256::digest(whole.to_string());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn without_marks(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(without_marks),
        Value::Object(fields) => {
            fields.shift_remove("cache_control");
            fields.values_mut().for_each(without_marks);
        }
        _ => {}
    }
}
