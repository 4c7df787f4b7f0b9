//! Random sessions with a random editor: every line is valid, every request is answered once, and a
//! loaded session equals what was shown.

use haft_testkit::{MockModel, ReplyPiece, Script, Turn};
use serde_json::{Value, json};

use crate::{
    acp::folded,
    common::Haft,
    editor::{EditorClient, prompt_params},
};

/// A deterministic pseudo-random generator.
pub struct EditorDice(u64);

impl EditorDice {
    pub fn new(seed: u64) -> Self {
        Self(seed * 7919 + 1)
    }

    pub fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % sides
    }

    pub fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.roll(from.len())]
    }
}

const WORDS: [&str; 7] = [
    "plain",
    "two\nlines",
    "<b>&amp;</b>",
    "ünïcödé 👩‍👩‍👧 \u{202e}",
    "\u{1b}[31mred",
    "",
    "a very long line that goes on and on",
];

fn random_call(dice: &mut EditorDice) -> ReplyPiece {
    let file =
        dice.pick(&["a.txt", "b.txt", "missing.txt", "dir", "../outside", "/etc/hostname", "ü b#%.txt"]);
    let words = dice.pick(&WORDS);
    match dice.roll(9) {
        0 => ReplyPiece::tool("Read", json!({"file_path": file})),
        1 => ReplyPiece::tool("Edit", json!({"file_path": file, "old_string": "one", "new_string": words})),
        2 => ReplyPiece::tool("Write", json!({"file_path": file, "content": words})),
        3 => ReplyPiece::tool(
            "Bash",
            json!({"command": dice.pick(&["echo hi", "false", "printf 'x\\ny' > c.txt", "cat a.txt b.txt"])}),
        ),
        4 => ReplyPiece::tool("Grep", json!({"pattern": dice.pick(&["one", "(", "two"])})),
        5 => ReplyPiece::tool(
            "TodoWrite",
            json!({"todos": [{"content": "x", "status": "pending", "activeForm": "x"}]}),
        ),
        6 => ReplyPiece::tool("Glob", json!({"pattern": "**/*"})),
        7 => ReplyPiece::tool("NoSuchTool", json!({"x": words})),
        _ => ReplyPiece::tool("Read", json!({"wrong": words})),
    }
}

fn random_turns(dice: &mut EditorDice, prompts: usize) -> Vec<Turn> {
    let mut turns = Vec::new();
    for _ in 0..prompts {
        for _ in 0..dice.roll(4) {
            let mut pieces = Vec::new();
            if dice.roll(3) == 0 {
                pieces.push(ReplyPiece::thinking("hm"));
            }
            if dice.roll(2) == 0 {
                pieces.push(ReplyPiece::text(format!("Now. {}", dice.pick(&WORDS))));
            }
            pieces.extend((0..=dice.roll(3)).map(|_| random_call(dice)));
            turns.push(Turn::from_pieces(pieces));
        }
        turns.push(Turn::text("That is it."));
    }
    turns
}

/// Answers with allow, reject, or an option that was not offered.
fn fickle(method: &str, params: &Value) -> Option<Value> {
    if method != "session/request_permission" {
        return None;
    }
    let options = params["options"].as_array().unwrap();
    let chosen = params["toolCall"]["toolCallId"].to_string().len() % 4;
    let id = options.get(chosen).map_or(json!("nonsense"), |it| it["optionId"].clone());
    Some(json!({"outcome": {"outcome": "selected", "optionId": id}}))
}

#[tokio::test]
async fn random_sessions_fit_the_schema_and_load_as_they_were_shown() {
    for seed in 0..8 {
        let mut dice = EditorDice::new(seed);
        let haft = Haft::new();
        haft.write("a.txt", "one\ntwo\n");
        haft.write("b.txt", "one\r\ntwo\r\n");
        haft.write("ü b#%.txt", "one\n");
        haft.write("dir/x", "x");
        let prompts = 2 + dice.roll(2);
        let model = MockModel::start(Script::from_turns(random_turns(&mut dice, prompts))).await.unwrap();
        let mode = dice.pick(&["default", "acceptEdits", "plan", "dontAsk"]);
        let mut editor = EditorClient::start(&haft, &model, &["--permission-mode", mode]);
        editor.answering = fickle;
        let abilities = match dice.roll(3) {
            0 => json!({}),
            1 => {
                json!({"session": {"notices": {}, "compaction": {}}, "elicitation": {"form": {}, "url": {}}})
            }
            _ => json!({"fs": {"readTextFile": true, "writeTextFile": true}, "terminal": true}),
        };
        if abilities["fs"].is_object() {
            editor.buffers = Some(std::collections::HashMap::new());
        }
        editor.begin(abilities.clone()).await;
        let session = editor.new_session(&haft).await;
        for _ in 0..prompts {
            let prompt = editor
                .ask("session/prompt", prompt_params(&session, dice.pick(&["go", "ünï\n<x>", "a @b.txt"])))
                .await;
            match dice.roll(4) {
                0 => {
                    let params =
                        json!({"sessionId": session, "modeId": dice.pick(&["default", "plan", "nonsense"])});
                    editor.call("session/set_mode", params).await.ok();
                }
                1 => editor.raw("{\"jsonrpc\":\"2.0\",\"method\":\"_unknown/thing\"}").await,
                _ => (),
            }
            let answer = editor.answer(prompt).await;
            assert!(answer.is_ok(), "{seed}: {answer:?}");
        }
        let live = folded(&editor.updates(&session));
        assert_eq!(editor.call("session/close", json!({"sessionId": session})).await, Ok(json!({})));
        let before = editor.updates(&session).len();
        let params = json!({"sessionId": session, "cwd": haft.ws(), "mcpServers": []});
        editor.call("session/load", params).await.unwrap();
        let loaded = folded(&editor.updates(&session)[before..]);
        assert_eq!(loaded, live, "{seed}");
        editor.end().await;
    }
}
