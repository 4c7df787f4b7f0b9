use std::sync::Arc;

use haft_tool::{AccessSet, CallContext, Content, Exposure, Outcome, Tool, ToolContext, ToolError, Traits};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    MessageAttachment, MessageStatus, Output as ShownNotebook, UserMessage, UserMessenger, check_message,
};

/// Shows the user a message while you go on working: something they should know now and not at the
/// end. `proactive` where nobody asked for it. It is no question: nobody answers.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// What they should know.
    pub message: String,
    /// Whether somebody asked for it.
    #[serde(default)]
    pub status: MessageStatus,
    /// Files it is about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<MessageAttachment>,
}

pub struct SendUserMessage {
    user: Arc<dyn UserMessenger>,
}

impl SendUserMessage {
    pub fn new(user: Arc<dyn UserMessenger>) -> Self {
        Self { user }
    }
}

impl Tool for SendUserMessage {
    type Input = Input;
    type Output = ShownNotebook;
    type Progress = ();
    const NAME: &'static str = "SendUserMessage";

    fn output_schema(&self) -> Option<serde_json::Value> {
        Some(serde_json::json!({
            "type": "object",
            "properties": {"message": {"type": "string"}, "sentAt": {"type": "string"}},
            "required": ["message"],
        }))
    }

    fn traits(&self) -> Traits {
        Traits {
            search_hint: "tell user message now while working",
            exposure: Exposure::Deferred,
            ..Traits::default()
        }
    }

    fn is_read_only(&self, _input: &Input) -> bool {
        true
    }

    fn reach(&self, _input: &Input, _cx: &CallContext) -> AccessSet {
        AccessSet::nothing()
    }

    fn validate(&self, input: &Input, _cx: &CallContext) -> Result<(), ToolError> {
        check_message(&input.message)
    }

    fn describe(&self, input: &Input) -> String {
        haft_types::text::one_line(&input.message, 100)
    }

    async fn call(&self, input: Input, cx: &ToolContext<()>) -> Result<Outcome<ShownNotebook>, ToolError> {
        let said = UserMessage {
            is_proactive: input.status == MessageStatus::Proactive,
            attachments: input.attachments.iter().filter_map(|it| it.path(cx)).collect(),
            message: input.message,
        };
        let sent_at = Some(self.user.tell(&said, cx));
        Ok(ShownNotebook { message: said.message, sent_at }.into())
    }

    fn to_content(&self, _output: &ShownNotebook) -> Content {
        Content::text("The user was shown the message.")
    }
}
