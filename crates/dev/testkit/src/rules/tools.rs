//! Validates tool definitions.

use std::collections::HashSet;

use serde_json::Value;

use super::{MockRefusal, RuleVerdict, blocks, refuse, schema};
use crate::Script;

pub(super) fn check(script: &Script, body: &Value) -> RuleVerdict {
    let tools = match &body["tools"] {
        Value::Null => return references(&HashSet::new(), body),
        Value::Array(tools) => tools,
        _ => return refuse("tools", "Input should be a valid list"),
    };
    let mut names = HashSet::new();
    for (at, tool) in tools.iter().enumerate() {
        let name = tool["name"].as_str().unwrap_or_default();
        // Server-side tools have a type of their own.
        let is_custom = tool["type"].as_str().is_none_or(|kind| kind == "custom");
        if is_custom {
            custom(script, &format!("tools.{at}.custom"), tool)?;
        }
        if !names.insert(name) {
            return Err(MockRefusal::invalid("tools: Tool names must be unique."));
        }
        if tool["defer_loading"] == true && tool.get("cache_control").is_some() {
            return refuse(&format!("tools.{at}"), "tools with defer_loading cannot have cache_control");
        }
    }
    if !tools.is_empty() && tools.iter().all(|tool| tool["defer_loading"] == true) {
        return refuse("tools", "At least one tool must have defer_loading=false.");
    }
    choice(&names, body)?;
    references(&names, body)
}

fn custom(script: &Script, path: &str, tool: &Value) -> RuleVerdict {
    let Some(tool_name) = tool["name"].as_str() else {
        return refuse(&format!("{path}.name"), "Field required");
    };
    name(&format!("{path}.name"), tool_name, script.limits.tool_name)?;
    if tool.get("description").is_some_and(|it| !it.is_string()) {
        return refuse(&format!("{path}.description"), "Input should be a valid string");
    }
    let Some(input) = tool.get("input_schema") else {
        return refuse(&format!("{path}.input_schema"), "Field required");
    };
    schema::check(&format!("{path}.input_schema"), input)
}

/// Validates a tool name.
pub(super) fn name(path: &str, name: &str, most: usize) -> RuleVerdict {
    if name.chars().count() > most {
        return refuse(path, &format!("String should have at most {most} characters"));
    }
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if name.is_empty() || !name.bytes().all(allowed) {
        return refuse(path, "String should match pattern '^[a-zA-Z0-9_-]{1,128}$'");
    }
    Ok(())
}

fn choice(names: &HashSet<&str>, body: &Value) -> RuleVerdict {
    let choice = &body["tool_choice"];
    if choice["type"] == "tool" && !names.contains(choice["name"].as_str().unwrap_or_default()) {
        let name = choice["name"].as_str().unwrap_or_default();
        return Err(MockRefusal::invalid(format!("Tool '{name}' not found in provided tools")));
    }
    Ok(())
}

fn references(names: &HashSet<&str>, body: &Value) -> RuleVerdict {
    for message in body["messages"].as_array().into_iter().flatten() {
        for block in blocks(&message["content"]) {
            for inner in blocks(&block["content"]) {
                let Some(name) = inner["tool_name"].as_str() else { continue };
                if inner["type"] == "tool_reference" && !names.contains(name) {
                    let what = format!("Tool reference '{name}' not found in available tools");
                    return Err(MockRefusal::invalid(what));
                }
            }
        }
    }
    Ok(())
}
