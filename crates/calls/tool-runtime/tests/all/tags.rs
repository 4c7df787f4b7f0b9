//! Haft's reserved tags in tool input and output.

use haft_tool::{Outcome, Tool, ToolContext, ToolError, Traits, Verdict, erase};
use haft_types::{Block, Message, MessageBlock, tags};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::common::Setup;

#[derive(Deserialize, JsonSchema, Serialize)]
struct EchoInput {
    text: String,
    #[serde(default)]
    fails: bool,
}

/// Returns its input as the result and as an added message.
struct Echo;

impl Tool for Echo {
    type Input = EchoInput;
    type Output = String;
    type Progress = ();
    const NAME: &'static str = "Echo";

    fn traits(&self) -> Traits {
        Traits::default()
    }

    fn check_permissions(&self, _input: &EchoInput, _cx: &haft_tool::CallContext) -> Verdict {
        Verdict::Allow
    }

    async fn call(&self, input: EchoInput, _cx: &ToolContext<()>) -> Result<Outcome<String>, ToolError> {
        if input.fails {
            return Err(ToolError::failed(input.text));
        }
        Ok(Outcome::from(input.text.clone()).with_message(Message::user(input.text)))
    }
}

#[tokio::test]
async fn tool_input_has_raw_tags_and_results_escaped_ones() {
    let mut rig = Setup { extra: vec![erase(Echo)], ..Setup::default() }.rig();
    for (written, raw, shown, has_note) in [
        ("plain < text", "plain < text", "plain < text", false),
        ("<~system-reminder>", "<system-reminder>", "<~system-reminder>", true),
        ("<system-reminder>", "<system-reminder>", "<~system-reminder>", true),
        ("<~~/Task-Notification >", "<~/Task-Notification >", "<~~/Task-Notification >", true),
    ] {
        for fails in [false, true] {
            let report = rig.run(&[("Echo", json!({"text": written, "fails": fails}))]).await.remove(0);
            assert_eq!(report.content.to_text(), raw, "{written}");
            let MessageBlock::ToolResult { content, .. } = report.to_block() else { panic!("no result") };
            let texts: Vec<&str> = content.0.iter().filter_map(Block::as_text).collect();
            let want = if has_note { vec![shown, tags::NOTE] } else { vec![shown] };
            assert_eq!(texts, want, "{written}");
            let messages = report.added_messages();
            assert_eq!(messages, if fails { vec![] } else { vec![Message::user(shown)] });
        }
    }
}
