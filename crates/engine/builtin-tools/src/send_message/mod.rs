//! Messages between agents.

use std::sync::Arc;

use haft_tool::{
    AccessSet, BoxFuture, CallContext, Content, Outcome, Tool, ToolContext, ToolError, Traits, Verdict,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Sends a message to another agent, by its name or id. One that works reads it before its next
/// request; one that has ended goes on with it in the background, where it left off, and reports
/// again. From an agent, `main` is the main conversation. Your plain text reaches nobody but whoever
/// started you: use this to speak to others.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Name or id of the agent.
    #[schemars(length(min = 1, max = 300))]
    pub to: String,
    /// What it is told.
    pub message: LetterText,
    /// The message in a few words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// Ignored: you are told by itself when it is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notify_when_idle: Option<bool>,
}

/// A text, or something the program carries out.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(untagged)]
pub enum LetterText {
    /// Words.
    Text(String),
    /// It is to end, after a last report.
    Request(ShutdownRequest),
    /// An answer to something it asked for.
    Answer(RequestAnswer),
}

/// The agent is to end.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ShutdownRequest {
    /// `shutdown_request`.
    #[serde(rename = "type")]
    pub kind: ShutdownKind,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Which request.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ShutdownKind {
    /// It is to end.
    ShutdownRequest,
}

/// An answer to a request of another agent.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RequestAnswer {
    /// Which answer.
    #[serde(rename = "type")]
    pub kind: AnswerKind,
    /// The request.
    pub request_id: String,
    /// Yes or no.
    pub approve: bool,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What should be different.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feedback: Option<String>,
}

/// Which answer.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerKind {
    /// To a request to end.
    ShutdownResponse,
    /// To a plan.
    PlanApprovalResponse,
}

impl RequestAnswer {
    /// Returns the text for the receiving agent.
    pub fn words(&self) -> String {
        let what = match self.kind {
            AnswerKind::ShutdownResponse => "the request to end",
            AnswerKind::PlanApprovalResponse => "the plan",
        };
        let yes = if self.approve { "yes" } else { "no" };
        let id = haft_types::text::one_line(&self.request_id, 100);
        let more = [&self.reason, &self.feedback].into_iter().flatten();
        more.fold(format!("The answer to {what} ({id}) is {yes}."), |said, it| format!("{said} {it}"))
    }
}

/// The outcome of sending a message.
#[derive(Clone, Debug, Default, Serialize)]
pub struct DeliveryReceipt {
    /// Whether the message was accepted for delivery.
    pub success: bool,
    /// Text for the model.
    pub message: String,
    /// The agent that was resumed to receive the message.
    #[serde(rename = "resumedAgentId", skip_serializing_if = "Option::is_none")]
    pub resumed: Option<String>,
}

impl DeliveryReceipt {
    /// Builds the receipt of a message that was not sent.
    pub fn refused(message: impl Into<String>) -> Self {
        Self { success: false, message: message.into(), resumed: None }
    }
}

/// An agent as listed for other agents.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct ListedAgent {
    /// The name under which it receives messages; its id if it has none.
    pub name: String,
    pub id: String,
    /// Name of the agent kind.
    #[serde(rename = "type")]
    pub kind: String,
    /// Short description of its task.
    pub description: String,
    /// `running`, `resumable` or `stopped`.
    pub status: String,
}

/// Delivers messages between agents. Implemented by the session.
pub trait AgentMailer: Send + Sync {
    /// Whether this session has agents.
    fn is_open(&self) -> bool;

    /// Sends a message on behalf of a call.
    fn send<'a>(
        &'a self,
        to: &'a str,
        letter: LetterText,
        cx: &'a CallContext,
    ) -> BoxFuture<'a, DeliveryReceipt>;

    /// Returns the name of the calling agent, and all agents of the session.
    fn list(&self, cx: &CallContext) -> (String, Vec<ListedAgent>);
}

/// No agents: sending fails.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoMailer;

impl AgentMailer for NoMailer {
    fn is_open(&self) -> bool {
        true
    }

    fn send<'a>(
        &'a self,
        _to: &'a str,
        _letter: LetterText,
        _cx: &'a CallContext,
    ) -> BoxFuture<'a, DeliveryReceipt> {
        Box::pin(async { DeliveryReceipt::refused("there are no agents here") })
    }

    fn list(&self, _cx: &CallContext) -> (String, Vec<ListedAgent>) {
        (String::from("main"), Vec::new())
    }
}

pub struct SendMessage {
    post: Arc<dyn AgentMailer>,
}

impl SendMessage {
    pub fn new(post: Arc<dyn AgentMailer>) -> Self {
        Self { post }
    }
}

impl Tool for SendMessage {
    type Input = Input;
    type Output = DeliveryReceipt;
    type Progress = ();
    const NAME: &'static str = "SendMessage";

    fn traits(&self) -> Traits {
        Traits { search_hint: "send message agent resume continue talk", ..Traits::default() }
    }

    fn is_enabled(&self) -> bool {
        self.post.is_open()
    }

    /// Messages of one answer are delivered in order.
    fn is_concurrency_safe(&self, _input: &Input) -> bool {
        false
    }

    fn reach(&self, _input: &Input, _cx: &CallContext) -> AccessSet {
        AccessSet::nothing()
    }

    fn validate(&self, input: &Input, _cx: &CallContext) -> Result<(), ToolError> {
        if input.to.contains('\n') {
            return Err(ToolError::invalid("`to` is one line: the name or id of an agent"));
        }
        match &input.message {
            LetterText::Text(text) if text.trim().is_empty() => {
                Err(ToolError::invalid("message is empty: say what the agent is to know or do"))
            }
            _ => Ok(()),
        }
    }

    /// A message stays inside the session, and its receiver has its own rights.
    fn check_permissions(&self, _input: &Input, _cx: &CallContext) -> Verdict {
        Verdict::Allow
    }

    fn describe(&self, input: &Input) -> String {
        format!("Send a message to {}", input.to)
    }

    async fn call(&self, input: Input, cx: &ToolContext<()>) -> Result<Outcome<DeliveryReceipt>, ToolError> {
        Ok(self.post.send(input.to.trim(), input.message, cx).await.into())
    }

    fn to_content(&self, output: &DeliveryReceipt) -> Content {
        Content::text(serde_json::to_string(output).unwrap_or_default())
    }
}
