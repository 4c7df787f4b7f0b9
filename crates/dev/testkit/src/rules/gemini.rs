//! Validation rules of Google's Gemini API, with its error texts.

use serde_json::{Map, Value};

use super::{IssuedThinking, MockRefusal, RequestJudge, RuleVerdict};
use crate::Script;

/// Placeholders the API accepts in place of a signature.
const SKIPPED: [&str; 2] = ["skip_thought_signature_validator", "context_engineering_is_the_way_to_go"];

const REQUEST: [&str; 8] = [
    "contents",
    "systemInstruction",
    "tools",
    "toolConfig",
    "generationConfig",
    "safetySettings",
    "cachedContent",
    "labels",
];
const GENERATION: [&str; 12] = [
    "maxOutputTokens",
    "temperature",
    "topP",
    "topK",
    "seed",
    "candidateCount",
    "stopSequences",
    "responseMimeType",
    "responseJsonSchema",
    "responseSchema",
    "thinkingConfig",
    "mediaResolution",
];
/// Fields of which a part must have one.
const DATA: [&str; 6] =
    ["text", "inlineData", "fileData", "functionCall", "functionResponse", "executableCode"];

fn invalid<T>(message: impl Into<String>) -> Result<T, MockRefusal> {
    Err(MockRefusal::invalid(message))
}

fn known(path: &str, value: &Value, names: &[&str]) -> RuleVerdict {
    let empty = Map::new();
    let fields = value.as_object().unwrap_or(&empty);
    match fields.keys().find(|name| !names.contains(&name.as_str())) {
        None => Ok(()),
        Some(name) => {
            let at = if path.is_empty() { String::new() } else { format!(" at '{path}'") };
            invalid(format!("Invalid JSON payload received. Unknown name \"{name}\"{at}: Cannot find field."))
        }
    }
}

pub(super) fn check(judge: &RequestJudge<'_>, model: &str, body: &Value, count: u64) -> RuleVerdict {
    let RequestJudge { script, window, issued, .. } = *judge;
    known("", body, &REQUEST)?;
    known("generation_config", &body["generationConfig"], &GENERATION)?;
    thinking(model, &body["generationConfig"]["thinkingConfig"])?;
    for (at, tool) in body["tools"].as_array().into_iter().flatten().enumerate() {
        for (index, function) in tool["functionDeclarations"].as_array().into_iter().flatten().enumerate() {
            let path = format!("tools[{at}].function_declarations[{index}]");
            declaration(script, &path, function)?;
        }
    }
    let Some(contents) = body["contents"].as_array().filter(|list| !list.is_empty()) else {
        return invalid("* GenerateContentRequest.contents: contents is not specified");
    };
    for (at, content) in contents.iter().enumerate() {
        check_content(at, content)?;
    }
    pairs(contents)?;
    signatures(issued, model, contents)?;
    if count > window {
        return judge.too_long(format!(
            "The input token count ({count}) exceeds the maximum number of tokens allowed ({window})."
        ));
    }
    Ok(())
}

fn is_newer(model: &str) -> bool {
    model.starts_with("gemini-3")
}

fn thinking(model: &str, config: &Value) -> RuleVerdict {
    known(
        "generation_config.thinking_config",
        config,
        &["includeThoughts", "thinkingBudget", "thinkingLevel"],
    )?;
    let (budget, level) = (config.get("thinkingBudget"), config.get("thinkingLevel"));
    if budget.is_some() && level.is_some() {
        return invalid("You can only set one of thinking_budget and thinking_level.");
    }
    if level.is_some() && !is_newer(model) {
        return invalid("Thinking level is not supported for this model.");
    }
    if let Some(level) = level
        && !["minimal", "low", "medium", "high"].iter().any(|name| level == name)
    {
        return invalid(format!(
            "Invalid value at 'generation_config.thinking_config.thinking_level' ({level})"
        ));
    }
    if budget.is_some_and(|it| it == 0) && model.starts_with("gemini-2.5-pro") {
        return invalid("Budget 0 is invalid. This model only works in thinking mode.");
    }
    Ok(())
}

fn declaration(script: &Script, path: &str, function: &Value) -> RuleVerdict {
    known(
        path,
        function,
        &["name", "description", "parameters", "parametersJsonSchema", "response", "responseJsonSchema"],
    )?;
    let name = function["name"].as_str().unwrap_or_default();
    let first = name.bytes().next().is_some_and(|it| it.is_ascii_alphabetic() || it == b'_');
    let rest = name.bytes().all(|it| it.is_ascii_alphanumeric() || b"_.:-".contains(&it));
    if !first || !rest || name.len() > script.limits.tool_name {
        return invalid(format!(
            "Invalid function name at {path}.name. Must start with a letter or an underscore. Must be alphanumeric (a-z, A-Z, 0-9), underscores (_), dots (.), colons (:), or dashes (-), with a maximum length of {}.",
            script.limits.tool_name
        ));
    }
    let schema = function.get("parametersJsonSchema").or(function.get("parameters"));
    if schema.is_some_and(|schema| schema["type"] != "object") {
        return invalid(format!("{path}.parameters: schema should be of type OBJECT"));
    }
    Ok(())
}

fn check_content(at: usize, content: &Value) -> RuleVerdict {
    known(&format!("contents[{at}]"), content, &["role", "parts"])?;
    if content["role"] != "user" && content["role"] != "model" {
        return invalid("Please use a valid role: user, model.");
    }
    let Some(parts) = content["parts"].as_array().filter(|list| !list.is_empty()) else {
        return invalid(format!(
            "* GenerateContentRequest.contents[{at}].parts: contents.parts must not be empty."
        ));
    };
    for (index, part) in parts.iter().enumerate() {
        let path = format!("contents[{at}].parts[{index}]");
        let mut allowed = DATA.to_vec();
        allowed.extend(["thought", "thoughtSignature", "videoMetadata"]);
        known(&path, part, &allowed)?;
        if DATA.iter().filter(|name| part.get(**name).is_some()).count() != 1 {
            return invalid(format!(
                "* {path}.data: required oneof field 'data' must have one initialized field"
            ));
        }
        let inner = part["functionResponse"]["parts"].as_array().into_iter().flatten();
        for data in std::iter::once(part).chain(inner) {
            if data["inlineData"]["mimeType"] == "image/gif" {
                return invalid("Unsupported MIME type: image/gif");
            }
        }
        if part.get("functionCall").is_some() {
            known(&format!("{path}.function_call"), &part["functionCall"], &["id", "name", "args"])?;
            if content["role"] != "model" || !part["functionCall"]["args"].is_object() {
                return invalid(format!("Invalid value at '{path}.function_call'"));
            }
        }
        if let Some(response) = part.get("functionResponse") {
            known(&format!("{path}.function_response"), response, &["id", "name", "response", "parts"])?;
            if response["name"].as_str().unwrap_or_default().is_empty() {
                return invalid(format!(
                    "* GenerateContentRequest.{path}.function_response.name: Name cannot be empty."
                ));
            }
            if content["role"] != "user" || !response["response"].is_object() {
                return invalid(format!("Invalid value at '{path}.function_response.response'"));
            }
        }
    }
    Ok(())
}

fn of_kind<'a>(content: &'a Value, kind: &str) -> Vec<&'a Value> {
    let parts = content["parts"].as_array().into_iter().flatten();
    parts.map(|part| &part[kind]).filter(|it| it.is_object()).collect()
}

fn pairs(contents: &[Value]) -> RuleVerdict {
    for (at, content) in contents.iter().enumerate() {
        let calls = of_kind(content, "functionCall");
        if !calls.is_empty() && (at == 0 || contents[at - 1]["role"] != "user") {
            return invalid(
                "Please ensure that function call turn comes immediately after a user turn or after a function response turn.",
            );
        }
        let answers = contents.get(at + 1).map(|next| of_kind(next, "functionResponse")).unwrap_or_default();
        if calls.len() != answers.len() {
            return invalid(
                "Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.",
            );
        }
        for (call, answer) in calls.iter().zip(&answers) {
            if call["name"] != answer["name"] || call["id"] != answer["id"] {
                return invalid(format!(
                    "Function response {} does not belong to the function call {}.",
                    answer["name"], call["name"]
                ));
            }
        }
    }
    if !of_kind(&contents[0], "functionResponse").is_empty() {
        return invalid(
            "Please ensure that function response turn comes immediately after a function call turn.",
        );
    }
    Ok(())
}

/// Newer models require a signature on the first call of each step of the current turn.
fn signatures(issued: &IssuedThinking, model: &str, contents: &[Value]) -> RuleVerdict {
    let is_words = |content: &&Value| {
        let parts = content["parts"].as_array().into_iter().flatten();
        content["role"] == "user" && !parts.into_iter().any(|part| part["functionResponse"].is_object())
    };
    let turn = contents.iter().rposition(|content| is_words(&content)).unwrap_or(0);
    for (at, content) in contents.iter().enumerate() {
        let mut parts = content["parts"].as_array().into_iter().flatten();
        let Some(first) = parts.find(|part| part["functionCall"].is_object()) else { continue };
        match first["thoughtSignature"].as_str() {
            Some(signature) if SKIPPED.contains(&signature) || issued.prefix(signature).is_some() => {}
            Some(_) => return invalid("Thought signature is not valid."),
            None if at > turn && is_newer(model) => {
                return invalid(format!(
                    "Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly, and missing thought_signature may lead to degraded model performance. Additional data, function call `default_api:{}`, position {at}.",
                    first["functionCall"]["name"].as_str().unwrap_or_default()
                ));
            }
            None => {}
        }
    }
    Ok(())
}
