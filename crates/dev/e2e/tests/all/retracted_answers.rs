//! Text of an answer that was cut off and generated again is removed, or marked as void where it cannot
//! be, in every frontend.

use haft_testkit::{MockModel, ReplyPiece, Script, StreamCut, Turn};
use serde_json::{Value, json};

use crate::{common::Haft, editor::EditorClient};

fn script() -> Script {
    let broken = Turn::from_pieces([
        ReplyPiece::text("First try, complete."),
        ReplyPiece::OpenText(String::from("and more of it")),
        ReplyPiece::Cut(StreamCut::Reset),
    ]);
    Script::from_turns([broken, Turn::text("Second try.")])
}

async fn printed(args: &[&str]) -> (String, String) {
    let (haft, model) = (Haft::new(), MockModel::start(script()).await.unwrap());
    let output = haft
        .async_command()
        .args(["-p", "go"])
        .args(args)
        .env("ANTHROPIC_BASE_URL", model.url())
        .stdin(std::process::Stdio::null())
        .output()
        .await
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (text(output.stdout), text(output.stderr))
}

/// The replacement answer tells SDK hosts which messages it replaces.
#[tokio::test]
async fn frames_name_the_messages_that_an_answer_replaces() {
    for partial in [&[][..], &["--include-partial-messages"]] {
        let args = [&["--output-format", "stream-json", "--verbose"], partial].concat();
        let (stdout, stderr) = printed(&args).await;
        let frames: Vec<Value> = stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let answers: Vec<&Value> = frames.iter().filter(|it| it["type"] == "assistant").collect();
        assert_eq!(answers.len(), 2, "{stdout}{stderr}");
        assert_eq!(answers[0]["message"]["content"][0]["text"], "First try, complete.");
        assert!(answers[0]["supersedes"].is_null());
        assert_eq!(answers[1]["message"]["content"][0]["text"], "Second try.");
        assert_eq!(answers[1]["supersedes"], json!([answers[0]["uuid"]]), "{stdout}");
        assert_eq!(frames.last().unwrap()["result"], "Second try.");
    }
}

#[tokio::test]
async fn an_editor_is_told_that_words_do_not_count() {
    let (haft, model) = (Haft::new(), MockModel::start(script()).await.unwrap());
    let mut editor = EditorClient::start(&haft, &model, &[]);
    editor.begin(json!({})).await;
    let session = editor.new_session(&haft).await;
    assert_eq!(editor.prompt(&session, "go").await, Ok(json!({"stopReason": "end_turn"})));
    let said: String = editor
        .updates_of(&session, "agent_message_chunk")
        .iter()
        .map(|it| it["content"]["text"].as_str().unwrap_or_default().to_owned())
        .collect();
    let at = |words: &str| said.find(words).unwrap_or_else(|| panic!("{words:?} is not in {said:?}"));
    assert!(
        at("and more of it") < at("does not count") && at("does not count") < at("Second try."),
        "{said}"
    );
}
