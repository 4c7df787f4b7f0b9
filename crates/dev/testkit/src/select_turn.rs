//! Selects the turn that answers a request.

use serde_json::Value;

use crate::{
    MockForm,
    turn::{MockWhen, Times, Turn},
};

/// The parts of a request by which turns are selected.
#[derive(Debug, Default)]
pub(crate) struct SeenRequest {
    pub(crate) last_user: String,
    pub(crate) tool_result: String,
    pub(crate) system: String,
    pub(crate) model: String,
}

impl SeenRequest {
    pub(crate) fn from_request(form: MockForm, model: &str, body: &Value) -> Self {
        let model = model.to_owned();
        match form {
            MockForm::Messages | MockForm::Bedrock => Self::of_messages(model, body),
            MockForm::Chat => Self::of_chat(model, body),
            MockForm::Responses => Self::of_responses(model, body),
            MockForm::Gemini => Self::of_gemini(model, body),
        }
    }

    fn of_messages(model: String, body: &Value) -> Self {
        let messages = body["messages"].as_array().map_or(&[][..], Vec::as_slice);
        let last_user =
            messages.iter().rev().filter(|it| it["role"] == "user").map(|it| text_of(&it["content"]));
        let results =
            messages.last().into_iter().flat_map(|last| last["content"].as_array().into_iter().flatten());
        let results: Vec<String> = results
            .filter(|block| block["type"] == "tool_result")
            .map(|block| text_of(&block["content"]))
            .collect();
        Self {
            last_user: last_user.into_iter().find(|text| !text.is_empty()).unwrap_or_default(),
            tool_result: results.join("\n"),
            system: text_of(&body["system"]),
            model,
        }
    }

    fn of_chat(model: String, body: &Value) -> Self {
        let messages = body["messages"].as_array().map_or(&[][..], Vec::as_slice);
        let said = |role: &str| {
            let by_role = messages.iter().rev().filter(|it| it["role"] == role);
            by_role.map(|it| text_of(&it["content"])).find(|text| !text.is_empty()).unwrap_or_default()
        };
        let results: Vec<String> = messages
            .iter()
            .rev()
            .take_while(|it| it["role"] != "assistant")
            .filter(|it| it["role"] == "tool")
            .map(|it| text_of(&it["content"]))
            .collect();
        let tool_result = results.into_iter().rev().collect::<Vec<_>>().join("\n");
        Self { last_user: said("user"), tool_result, system: said("system"), model }
    }

    fn of_gemini(model: String, body: &Value) -> Self {
        let contents = body["contents"].as_array().map_or(&[][..], Vec::as_slice);
        let users = contents.iter().rev().filter(|it| it["role"] == "user").map(|it| text_of(&it["parts"]));
        let last_user = users.into_iter().find(|text| !text.is_empty()).unwrap_or_default();
        let last =
            contents.last().into_iter().flat_map(|last| last["parts"].as_array().into_iter().flatten());
        let results = last.filter_map(|part| part["functionResponse"]["response"].as_object());
        let results: Vec<&str> =
            results.flat_map(|fields| fields.values()).filter_map(Value::as_str).collect();
        let system = text_of(&body["systemInstruction"]["parts"]);
        Self { last_user, tool_result: results.join("\n"), system, model }
    }

    fn of_responses(model: String, body: &Value) -> Self {
        let items = body["input"].as_array().map_or(&[][..], Vec::as_slice);
        let last_user = match &body["input"] {
            Value::String(text) => text.clone(),
            _ => {
                let users = items.iter().rev().filter(|it| it["role"] == "user");
                users.map(|it| text_of(&it["content"])).find(|text| !text.is_empty()).unwrap_or_default()
            }
        };
        let results: Vec<String> = items
            .iter()
            .rev()
            .take_while(|it| it["type"] != "function_call" && it["role"] != "assistant")
            .filter(|it| it["type"] == "function_call_output")
            .map(|it| text_of(&it["output"]))
            .collect();
        let tool_result = results.into_iter().rev().collect::<Vec<_>>().join("\n");
        let system = body["instructions"].as_str().unwrap_or_default().to_owned();
        Self { last_user, tool_result, system, model }
    }
}

/// Returns the text of a string, or of the text parts of a list.
fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts: Vec<&str> = parts.iter().filter_map(|part| part["text"].as_str()).collect();
            texts.join("\n")
        }
        _ => String::new(),
    }
}

fn fits(when: &MockWhen, seen: &SeenRequest) -> bool {
    let tests = [
        (&when.last_user, &seen.last_user),
        (&when.tool_result, &seen.tool_result),
        (&when.system, &seen.system),
        (&when.model, &seen.model),
    ];
    tests.into_iter().all(|(matcher, text)| matcher.as_ref().is_none_or(|matcher| matcher.fits(text)))
}

/// Returns the first matching turn that may still be used.
pub(crate) fn next(turns: &[Turn], used: &[usize], seen: &SeenRequest) -> Option<usize> {
    let used = used.iter().copied().chain(std::iter::repeat(0));
    turns.iter().zip(used).position(|(turn, used)| {
        let left = match turn.times {
            Times::Count(times) => used < times,
            Times::Always => true,
        };
        left && fits(&turn.when, seen)
    })
}

/// Like [`next`], and counts it as used.
pub(crate) fn take(turns: &[Turn], used: &mut Vec<usize>, seen: &SeenRequest) -> Option<usize> {
    let at = next(turns, used, seen)?;
    used.resize(turns.len(), 0);
    used[at] += 1;
    Some(at)
}
