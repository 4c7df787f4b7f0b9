//! A call that is itself a question to the person: a form where the editor has
//! forms, else one question with the answers as options after the other.

use haft_session::{PermissionQuestion, QuestionAnswer};
use haft_tool_runtime::Answer;
use serde_json::{Map, Value, json};

use crate::{client_capabilities::EditorCapabilities, editor::EditorPeer, jsonrpc::AcpError};

const CHOICE: &str = "answer-";
const NONE: &str = "no-answer";

/// One question of a call.
#[derive(Debug, PartialEq)]
pub(crate) struct ChoiceQuestion {
    question: String,
    header: String,
    /// Labels and what they mean.
    options: Vec<(String, String)>,
    many: bool,
}

/// The questions of a call; none when it asks nobody anything. Answers are kept by
/// the words of their questions, so those must differ.
pub(crate) fn asked_choices(asked: &PermissionQuestion) -> Vec<ChoiceQuestion> {
    if asked.needs_person { choices_of(&asked.input) } else { Vec::new() }
}

fn choices_of(input: &Value) -> Vec<ChoiceQuestion> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut all: Vec<ChoiceQuestion> = Vec::new();
    for it in input["questions"].as_array().into_iter().flatten() {
        let options = it["options"].as_array().into_iter().flatten();
        let options: Vec<(String, String)> =
            options.map(|it| (text(&it["label"]), text(&it["description"]))).collect();
        let question = text(&it["question"]);
        let is_odd = question.is_empty() || options.is_empty() || options.iter().any(|it| it.0.is_empty());
        if is_odd || all.iter().any(|other| other.question == question) {
            return Vec::new();
        }
        all.push(ChoiceQuestion {
            question,
            header: text(&it["header"]),
            options,
            many: it["multiSelect"] == true,
        });
    }
    all
}

/// Asks the person, and makes what they say the input of the call.
pub(crate) async fn ask_person(
    editor: &EditorPeer,
    session: &str,
    asked: &PermissionQuestion,
    choices: &[ChoiceQuestion],
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
            Answer::Allow { updated_input: Some(input), updates: Vec::new() }
        }
    })
}

fn headline(choices: &[ChoiceQuestion]) -> String {
    match choices {
        [one] => one.question.clone(),
        several => format!("{} questions", several.len()),
    }
}

/// A field for every question, and one for other words.
fn form(choices: &[ChoiceQuestion]) -> Value {
    let mut fields = Map::new();
    for (at, choice) in choices.iter().enumerate() {
        let options: Vec<Value> = choice
            .options
            .iter()
            .map(|(label, about)| {
                let title = if about.is_empty() { label.clone() } else { format!("{label}: {about}") };
                json!({"const": label, "title": title})
            })
            .collect();
        let title = if choice.header.is_empty() { &choice.question } else { &choice.header };
        let field = if choice.many {
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

/// What a form was answered with. Labels that were not offered are other words.
fn read_form(
    answer: Result<Value, AcpError>,
    choices: &[ChoiceQuestion],
) -> Result<Map<String, Value>, Answer> {
    let answer =
        answer.map_err(|err| Answer::unasked(format!("the editor could not ask: {}", err.message)))?;
    match answer["action"].as_str() {
        Some("accept") => (),
        Some("decline") => return Err(Answer::no("the user does not want to answer")),
        _ => {
            return Err(Answer::Deny {
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

/// Every question as a permission question whose options are the answers.
async fn one_by_one(
    editor: &EditorPeer,
    session: &str,
    asked: &PermissionQuestion,
    choices: &[ChoiceQuestion],
) -> Result<Map<String, Value>, Answer> {
    let mut answers = Map::new();
    for choice in choices {
        let params = choice_request(session, asked, choice);
        let answer = editor.ask("session/request_permission", &params).await;
        let answer =
            answer.map_err(|err| Answer::unasked(format!("the editor could not ask: {}", err.message)))?;
        let outcome = &answer["outcome"];
        if outcome["outcome"] != "selected" {
            return Err(Answer::Deny {
                message: String::from("the user cancelled the question"),
                interrupt: true,
            });
        }
        let chosen =
            outcome["optionId"].as_str().and_then(|id| id.strip_prefix(CHOICE)?.parse::<usize>().ok());
        if let Some((label, _)) = chosen.and_then(|at| choice.options.get(at)) {
            answers.insert(choice.question.clone(), json!(label));
        }
    }
    Ok(answers)
}

fn choice_request(session: &str, asked: &PermissionQuestion, choice: &ChoiceQuestion) -> Value {
    let lines = choice.options.iter().map(|(label, about)| format!("- {label}: {about}"));
    let words = format!("{}\n{}", choice.question, lines.collect::<Vec<_>>().join("\n"));
    let options = choice.options.iter().enumerate().map(
        |(at, (label, _))| json!({"optionId": format!("{CHOICE}{at}"), "name": label, "kind": "allow_once"}),
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
mod tests {
    use super::*;

    #[test]
    fn forms_are_read_and_nothing_else_is_a_yes() {
        let input = json!({"questions": [
            {"question": "Which?", "header": "Kind", "options": [{"label": "A", "description": "a"}, {"label": "B"}]},
            {"question": "What else?", "options": [{"label": "C"}, {"label": "D"}], "multiSelect": true},
        ]});
        let choices = choices_of(&input);
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
        for odd in [
            json!({"questions": [{"question": "Which?", "options": [{"label": "A"}]}, {"question": "Which?", "options": [{"label": "A"}]}]}),
            json!({"questions": [{"question": "Which?", "options": []}]}),
            json!({"questions": "Which?"}),
        ] {
            assert!(choices_of(&odd).is_empty(), "{odd}");
        }
    }
}
