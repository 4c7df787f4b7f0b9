//! AskUserQuestion, as an editor shows it.

use haft_testkit::{MockModel, Script, Turn};
use serde_json::{Value, json};

use crate::{common::Haft, editor::EditorClient};

fn fills_in(method: &str, params: &Value) -> Option<Value> {
    match method {
        "elicitation/create" => {
            assert_eq!(
                params["requestedSchema"]["properties"]["q1"]["oneOf"][1]["const"], "Blue",
                "{params}"
            );
            Some(json!({"action": "accept", "content": {"q1": "Blue", "q2_other": "as it is"}}))
        }
        _ => None,
    }
}

fn chooses(method: &str, params: &Value) -> Option<Value> {
    let options = params["options"].as_array()?;
    let wanted = options.iter().find(|it| it["name"] == "Blue").or(options.last())?;
    (method == "session/request_permission")
        .then(|| json!({"outcome": {"outcome": "selected", "optionId": wanted["optionId"]}}))
}

#[tokio::test]
async fn a_question_of_the_model_is_a_form_or_a_choice() {
    let option = |label: &str| json!({"label": label, "description": "a colour"});
    let questions = json!({"questions": [
        {"question": "Which colour?", "header": "Colour", "options": [option("Red"), option("Blue")]},
        {"question": "How?", "header": "How", "options": [option("Thick"), option("Thin")]},
    ]});
    for (abilities, answering, second) in [
        (json!({"elicitation": {"form": {}}}), fills_in as fn(&str, &Value) -> Option<Value>, "as it is"),
        (json!({}), chooses, "not answered"),
    ] {
        let haft = Haft::new();
        let turns = [Turn::tool("AskUserQuestion", questions.clone()), Turn::text("Thanks.")];
        let model = MockModel::start(Script::from_turns(turns)).await.unwrap();
        let mut editor = EditorClient::start(&haft, &model, &[]);
        editor.answering = answering;
        editor.begin(abilities.clone()).await;
        let session = editor.new_session(&haft).await;
        assert_eq!(editor.prompt(&session, "go").await, Ok(json!({"stopReason": "end_turn"})));
        let done = editor.updates_of(&session, "tool_call_update");
        let told = done.iter().map(Value::to_string).collect::<String>();
        assert!(told.contains("Blue") && told.contains(second), "{abilities} {told}");
        editor.end().await;
    }
}
