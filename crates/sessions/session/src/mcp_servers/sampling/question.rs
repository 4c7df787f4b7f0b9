//! Converts sampling requests to model requests, and answers back. What cannot be converted is rejected,
//! not left out.

use std::{collections::BTreeSet, sync::Arc};

use haft_model::{ModelAnswer, RepairKind, Request, StopReason, ToolChoice, ToolDef, ToolSet};
use haft_types::{Block, Content, MediaSource, Message, MessageBlock, Role, ToolUse};
use serde_json::{Value, json};

use super::Admitted;

/// Maximum characters of a request.
const MAX_CHARS: usize = 200_000;

/// Maximum number of tools of a request.
const MAX_TOOLS: usize = 64;

/// Converts a request, within the limits set by the user.
pub(super) fn request(admitted: &Admitted, params: &Value) -> Result<Request, String> {
    let messages = params["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let messages = messages.iter().map(message).collect::<Result<Vec<_>, _>>()?;
    if messages.is_empty() {
        return Err(String::from("there is nothing to answer: `messages` is empty"));
    }
    check_results(&messages)?;
    let system = params["systemPrompt"].as_str().unwrap_or_default();
    let tools = tools(&params["tools"])?;
    let size = system.len() + params["messages"].to_string().len() + params["tools"].to_string().len();
    if MAX_CHARS < size - media_chars(&messages) {
        return Err(format!("the question is longer than {MAX_CHARS} characters"));
    }
    let mut request = Request::new(admitted.model.as_str(), messages);
    request.tool_choice = tool_choice(&params["toolChoice"], &tools)?;
    request.tools = Arc::new(tools);
    if !system.is_empty() {
        request.system = vec![system.into()];
    }
    let wanted = params["maxTokens"].as_u64().and_then(|it| u32::try_from(it).ok());
    let most = admitted.rules.max_tokens;
    request.max_tokens = wanted.filter(|it| 0 < *it).unwrap_or(most).min(most);
    #[expect(clippy::cast_possible_truncation, reason = "a temperature has two digits")]
    let temperature = params["temperature"].as_f64().map(|it| it.clamp(0.0, 1.0) as f32);
    request.temperature = temperature;
    let stops = params["stopSequences"].as_array().into_iter().flatten();
    request.stop_sequences = stops.filter_map(Value::as_str).take(4).map(str::to_owned).collect();
    Ok(request)
}

/// Number of characters of images, which have separate limits.
fn media_chars(messages: &[Message]) -> usize {
    let size = |block: &MessageBlock| match block {
        MessageBlock::Image { source: MediaSource::Base64 { data, .. } } => data.len(),
        _ => 0,
    };
    messages.iter().flat_map(|it| it.content.iter().map(size)).sum()
}

fn message(message: &Value) -> Result<Message, String> {
    let role = match message["role"].as_str() {
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        other => return Err(format!("`{}` is no role", other.unwrap_or_default())),
    };
    let content = match &message["content"] {
        Value::Array(blocks) => blocks.iter().map(block).collect::<Result<_, _>>()?,
        single => vec![block(single)?],
    };
    Ok(Message { role, content })
}

fn block(block: &Value) -> Result<MessageBlock, String> {
    let field = |name: &str| block[name].as_str().unwrap_or_default().to_owned();
    match block["type"].as_str() {
        Some("text") => Ok(MessageBlock::Text { text: field("text") }),
        Some("image") => Ok(MessageBlock::Image { source: picture(block) }),
        Some("tool_use") => Ok(MessageBlock::ToolUse(ToolUse {
            id: field("id").into(),
            name: field("name"),
            input: block["input"].clone(),
        })),
        Some("tool_result") => Ok(MessageBlock::ToolResult {
            tool_use_id: field("toolUseId").into(),
            content: result_content(block)?,
            is_error: block["isError"] == true,
        }),
        other => Err(format!("content of the type `{}` cannot be sampled", other.unwrap_or_default())),
    }
}

fn picture(block: &Value) -> MediaSource {
    let field = |name: &str| block[name].as_str().unwrap_or_default().to_owned();
    MediaSource::Base64 { media_type: field("mimeType"), data: field("data") }
}

/// The content of a tool result: its blocks, or its structured data.
fn result_content(result: &Value) -> Result<Content, String> {
    let blocks = result["content"].as_array().map(Vec::as_slice).unwrap_or_default();
    let block = |block: &Value| match block["type"].as_str() {
        Some("text") => Ok(Block::text(block["text"].as_str().unwrap_or_default())),
        Some("image") => Ok(Block::Image { source: picture(block) }),
        other => Err(format!("a tool result of the type `{}` cannot be sampled", other.unwrap_or_default())),
    };
    let mut content = Content(blocks.iter().map(block).collect::<Result<_, _>>()?);
    if content.0.is_empty() && !result["structuredContent"].is_null() {
        content.0.push(Block::text(result["structuredContent"].to_string()));
    }
    Ok(content)
}

/// Checks that all results follow their calls in one message, as the protocol and all providers require.
fn check_results(messages: &[Message]) -> Result<(), String> {
    let mut open = BTreeSet::new();
    for message in messages {
        let results: BTreeSet<&str> = message.content.iter().filter_map(result_of).collect();
        if !results.is_empty() && results.len() != message.content.len() {
            return Err(String::from("tool results mixed with other content"));
        }
        if results != open {
            return Err(if open.is_empty() {
                String::from("there is a tool result without a call before it")
            } else {
                String::from("tool result missing in request")
            });
        }
        open = message.content.iter().filter_map(call_of).collect();
    }
    if open.is_empty() { Ok(()) } else { Err(String::from("tool result missing in request")) }
}

fn result_of(block: &MessageBlock) -> Option<&str> {
    match block {
        MessageBlock::ToolResult { tool_use_id, .. } => Some(tool_use_id.as_str()),
        _ => None,
    }
}

fn call_of(block: &MessageBlock) -> Option<&str> {
    match block {
        MessageBlock::ToolUse(call) => Some(call.id.as_str()),
        _ => None,
    }
}

/// Converts the server's tools, which only the server runs.
fn tools(tools: &Value) -> Result<ToolSet, String> {
    let tools = match tools {
        Value::Null => &[][..],
        Value::Array(tools) if tools.len() <= MAX_TOOLS => tools,
        Value::Array(_) => return Err(format!("more than {MAX_TOOLS} tools for one question")),
        _ => return Err(String::from("`tools` is not a list")),
    };
    let tool = |tool: &Value| {
        let name = tool["name"].as_str().filter(|it| !it.is_empty()).ok_or("a tool without a name")?;
        let about = tool["description"].as_str().unwrap_or_default();
        Ok(ToolDef::new(name, about, tool["inputSchema"].clone()))
    };
    let set = ToolSet::new(tools.iter().map(tool).collect::<Result<Vec<_>, String>>()?);
    match set.repairs().iter().find(|it| it.kind == RepairKind::ToolLeftOut) {
        Some(left_out) => Err(format!("{} cannot be offered: {}", left_out.place, left_out.detail)),
        None => Ok(set),
    }
}

fn tool_choice(choice: &Value, tools: &ToolSet) -> Result<ToolChoice, String> {
    match choice["mode"].as_str() {
        None | Some("auto") => Ok(ToolChoice::Auto),
        Some("none") => Ok(ToolChoice::None),
        Some("required") if !tools.is_empty() => Ok(ToolChoice::Any),
        Some("required") => Err(String::from("a call is required, but there are no tools")),
        Some(other) => Err(format!("`{other}` is no choice of tools; there are auto, required and none")),
    }
}

/// Text of a block for the user.
pub(super) fn shown(block: &MessageBlock) -> String {
    match block {
        MessageBlock::Text { text } => text.clone(),
        MessageBlock::ToolUse(call) => format!("[call of {}: {}]", call.name, call.input),
        MessageBlock::ToolResult { content, .. } => format!("[result: {}]", content.to_text()),
        _ => String::from("[picture]"),
    }
}

/// Converts the answer to the protocol's format.
pub(super) fn result(answer: &ModelAnswer, model: &str) -> Result<Value, String> {
    let calls: Vec<Value> = answer
        .calls()
        .into_iter()
        .map(|it| json!({"type": "tool_use", "id": it.id, "name": it.name, "input": it.input}))
        .collect();
    if calls.is_empty() && !answer.bad_calls.is_empty() {
        return Err(String::from("the model called a tool in a way nobody understands"));
    }
    let reason = match &answer.stop {
        _ if !calls.is_empty() => "toolUse",
        Some(StopReason::MaxTokens | StopReason::ContextFull) => "maxTokens",
        Some(StopReason::StopSequence) => "stopSequence",
        _ => "endTurn",
    };
    let text = json!({"type": "text", "text": answer.text()});
    let content = match (calls.is_empty(), answer.text().is_empty()) {
        // A single block, for all protocol versions.
        (true, _) => text,
        (false, true) => Value::Array(calls),
        (false, false) => std::iter::once(text).chain(calls).collect(),
    };
    Ok(json!({"role": "assistant", "content": content, "model": model, "stopReason": reason}))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(list: &Value) -> Result<Vec<Message>, String> {
        let messages: Vec<Message> =
            list.as_array().into_iter().flatten().map(message).collect::<Result<_, _>>()?;
        check_results(&messages).map(|()| messages)
    }

    #[test]
    fn results_follow_their_calls() {
        let says = |role: &str, content: Value| json!({"role": role, "content": content});
        let call = |id: &str| json!({"type": "tool_use", "id": id, "name": "t", "input": {}});
        let result = |id: &str| json!({"type": "tool_result", "toolUseId": id, "content": [{"type": "text", "text": "r"}]});
        let text = || json!({"type": "text", "text": "hi"});
        let asks = || says("user", text());
        for (list, want) in [
            (json!([asks()]), Ok(1)),
            (
                json!([
                    asks(),
                    says("assistant", json!([text(), call("a"), call("b")])),
                    says("user", json!([result("b"), result("a")]))
                ]),
                Ok(3),
            ),
            (
                json!([
                    asks(),
                    says("assistant", call("a")),
                    says("user", result("a")),
                    says("assistant", text())
                ]),
                Ok(4),
            ),
            (json!([asks(), says("assistant", call("a"))]), Err("missing")),
            (json!([asks(), says("assistant", call("a")), asks()]), Err("missing")),
            (
                json!([asks(), says("assistant", json!([call("a"), call("b")])), says("user", result("a"))]),
                Err("missing"),
            ),
            (
                json!([asks(), says("assistant", call("a")), says("user", json!([result("a"), text()]))]),
                Err("mixed"),
            ),
            (json!([says("user", result("a"))]), Err("without a call")),
            (json!([says("user", json!({"type": "audio", "data": ""}))]), Err("`audio`")),
            (json!([says("system", text())]), Err("no role")),
        ] {
            match (messages(&list), want) {
                (Ok(got), Ok(count)) => assert_eq!(got.len(), count, "{list}"),
                (Err(why), Err(part)) => assert!(why.contains(part), "{list}: {why}"),
                (got, want) => panic!("{list}: {got:?}, not {want:?}"),
            }
        }
    }

    #[test]
    fn tools_and_choices_are_taken_or_refused() {
        let tool = json!({"name": "t", "inputSchema": {"type": "object"}});
        for (list, choice, want) in [
            (Value::Null, Value::Null, Ok(ToolChoice::Auto)),
            (json!([tool]), json!({"mode": "auto"}), Ok(ToolChoice::Auto)),
            (json!([tool]), json!({"mode": "required"}), Ok(ToolChoice::Any)),
            (json!([tool]), json!({"mode": "none"}), Ok(ToolChoice::None)),
            (json!([]), json!({"mode": "required"}), Err("no tools")),
            (json!([tool]), json!({"mode": "maybe"}), Err("`maybe`")),
            (json!([{"inputSchema": {}}]), Value::Null, Err("without a name")),
            (
                json!([{"name": "x", "inputSchema": {"type": "string"}}]),
                Value::Null,
                Err("cannot be offered"),
            ),
            (json!({"t": tool}), Value::Null, Err("not a list")),
            (Value::from(vec![tool.clone(); 65]), Value::Null, Err("more than 64")),
        ] {
            let got = tools(&list).and_then(|tools| tool_choice(&choice, &tools));
            match (got, want) {
                (Ok(got), Ok(want)) => assert_eq!(got, want, "{list} {choice}"),
                (Err(why), Err(part)) => assert!(why.contains(part), "{list} {choice}: {why}"),
                (got, want) => panic!("{list} {choice}: {got:?}, not {want:?}"),
            }
        }
    }
}
