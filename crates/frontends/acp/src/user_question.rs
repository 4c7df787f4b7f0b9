//! Calls that ask the user a question (`AskUserQuestion`): as a form if the editor supports it, else as
//! one permission request per question with the answers as options.

use haft_session::QuestionAnswer;
use haft_tool::{AnswerOption, UserQuestion};
use haft_tool_runtime::{PermissionAnswer, PermissionQuestion};
use serde_json::{Map, Value, json};

use crate::{client_capabilities::EditorCapabilities, editor::EditorPeer, jsonrpc::AcpError};

const CHOICE: &str = "answer-";
const NONE: &str = "no-answer";

/// Asks the user and returns the call's input with the answers.
pub(crate) async fn ask_user(
    editor: &EditorPeer,
    session: &str,
    asked: &PermissionQuestion,
    choices: &[UserQuestion],
    abilities: EditorCapabilities,
) -> QuestionAnswer {
    let said = if abilities.forms {
        let params = json!({
            "mode": "form", "sessionId": session, "toolCallId": asked.call_id,
            "message": headline(choices), "requestedSchema": form(choices),
        });
        read_form(editor.ask("elicitation/create", &params).await, choices)
    } else {
        one_by_one(editor, session, asked, choices).await
    };
    QuestionAnswer::Permission(match said {
        Err(answer) => answer,
        Ok(answers) => {
            let mut input = asked.input.clone();
            input["answers"] = Value::Object(answers);
            PermissionAnswer::allow_with(input)
        }
    })
}

fn headline(choices: &[UserQuestion]) -> String {
    match choices {
        [one] => one.question.clone(),
        several => format!("{} questions", several.len()),
    }
}

/// Builds a form with a choice and a free text field per question.
fn form(choices: &[UserQuestion]) -> Value {
    let mut fields = Map::new();
    for (at, choice) in choices.iter().enumerate() {
        let options: Vec<Value> = choice
            .options
            .iter()
            .map(|AnswerOption { label, description, .. }| {
                let title =
                    if description.is_empty() { label.clone() } else { format!("{label}: {description}") };
                json!({"const": label, "title": title})
            })
            .collect();
        let title = if choice.header.is_empty() { &choice.question } else { &choice.header };
        let field = if choice.multi_select {
            json!({
                "type": "array", "title": title, "description": choice.question, "items": {"anyOf": options},
            })
        } else {
            json!({
                "type": "string", "title": title, "description": choice.question, "oneOf": options,
            })
        };
        fields.insert(format!("q{}", at + 1), field);
        let other = json!({"type": "string", "title": format!("{title}: something else")});
        fields.insert(format!("q{}_other", at + 1), other);
    }
    json!({"type": "object", "properties": fields})
}

/// Parses the response to a form. Labels that were not offered count as free text.
fn read_form(
    answer: Result<Value, AcpError>,
    choices: &[UserQuestion],
) -> Result<Map<String, Value>, PermissionAnswer> {
    let answer = answer
        .map_err(|err| PermissionAnswer::unavailable(format!("the editor could not ask: {}", err.message)))?;
    match answer["action"].as_str() {
        Some("accept") => (),
        Some("decline") => return Err(PermissionAnswer::deny("the user does not want to answer")),
        _ => {
            return Err(PermissionAnswer::Deny {
                message: String::from("the user cancelled the question"),
                interrupt: true,
            });
        }
    }
    let content = &answer["content"];
    let mut answers = Map::new();
    for (at, choice) in choices.iter().enumerate() {
        let name = format!("q{}", at + 1);
        let chosen: Vec<&str> = match &content[&name] {
            Value::Array(list) => list.iter().filter_map(Value::as_str).collect(),
            one => one.as_str().into_iter().collect(),
        };
        let other = content[format!("{name}_other")].as_str().map(str::trim).filter(|it| !it.is_empty());
        let said: Vec<&str> = chosen.into_iter().chain(other).collect();
        if !said.is_empty() {
            answers.insert(choice.question.clone(), json!(said.join(", ")));
        }
    }
    Ok(answers)
}

/// Asks each question as a permission request with the answers as options.
async fn one_by_one(
    editor: &EditorPeer,
    session: &str,
    asked: &PermissionQuestion,
    choices: &[UserQuestion],
) -> Result<Map<String, Value>, PermissionAnswer> {
    let mut answers = Map::new();
    for choice in choices {
        let params = choice_request(session, asked, choice);
        let answer = editor.ask("session/request_permission", &params).await;
        let answer = answer.map_err(|err| {
            PermissionAnswer::unavailable(format!("the editor could not ask: {}", err.message))
        })?;
        let outcome = &answer["outcome"];
        if outcome["outcome"] != "selected" {
            return Err(PermissionAnswer::Deny {
                message: String::from("the user cancelled the question"),
                interrupt: true,
            });
        }
        let chosen =
            outcome["optionId"].as_str().and_then(|id| id.strip_prefix(CHOICE)?.parse::<usize>().ok());
        if let Some(option) = chosen.and_then(|at| choice.options.get(at)) {
            answers.insert(choice.question.clone(), json!(option.label));
        }
    }
    Ok(answers)
}

fn choice_request(session: &str, asked: &PermissionQuestion, choice: &UserQuestion) -> Value {
    let lines = choice.options.iter().map(|it| format!("- {}: {}", it.label, it.description));
    let words = format!("{}\n{}", choice.question, lines.collect::<Vec<_>>().join("\n"));
    let options =
        choice.options.iter().enumerate().map(
            |(at, it)| json!({"optionId": format!("{CHOICE}{at}"), "name": it.label, "kind": "allow_once"}),
        );
    let none = json!({"optionId": NONE, "name": "No answer", "kind": "reject_once"});
    let options: Vec<Value> = options.chain([none]).collect();
    json!({
        "sessionId": session,
        "toolCall": {
            "toolCallId": asked.call_id, "title": choice.question, "kind": "other", "status": "pending",
            "content": [{"type": "content", "content": {"type": "text", "text": words}}],
        },
        "options": options,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "test code")]
mod tests {
    use super::*;

    #[test]
    fn form_answers_parse_and_invalid_ones_deny() {
        let choices: Vec<UserQuestion> = serde_json::from_value(json!([
            {"question": "Which?", "header": "Kind", "options": [
                {"label": "A", "description": "a"}, {"label": "B", "description": ""}]},
            {"question": "What else?", "header": "", "multiSelect": true, "options": [
                {"label": "C", "description": ""}, {"label": "D", "description": ""}]},
        ]))
        .unwrap();
        assert_eq!(form(&choices)["properties"]["q1"]["oneOf"][0], json!({"const": "A", "title": "A: a"}));
        let accept = |content: Value| Ok(json!({"action": "accept", "content": content}));
        for (answer, want) in [
            (
                accept(json!({"q1": "B", "q2": ["C", "D"]})),
                Some(json!({"Which?": "B", "What else?": "C, D"})),
            ),
            (accept(json!({"q1_other": " neither ", "q2": []})), Some(json!({"Which?": "neither"}))),
            (accept(json!({"q1": 7})), Some(json!({}))),
            (Ok(json!({"action": "decline"})), None),
            (Ok(json!({"action": "cancel"})), None),
            (Ok(Value::Null), None),
            (Err(AcpError::internal("no")), None),
        ] {
            assert_eq!(read_form(answer.clone(), &choices).ok().map(Value::Object), want, "{answer:?}");
        }
    }
}
