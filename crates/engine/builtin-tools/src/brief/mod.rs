//! Messages to the user outside the answer, and summaries of the session.

mod send_user_message;

use std::{path::PathBuf, sync::Arc};

use haft_tool::{
    AccessSet, BoxFuture, CallContext, Content, Exposure, Outcome, Tool, ToolContext, ToolError, Traits,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use send_user_message::SendUserMessage;

/// Maximum characters of a message.
const MAX_MESSAGE: usize = 20_000;

/// A message to the user.
#[derive(Clone, Debug, Default)]
pub struct UserMessage {
    /// Text of the message.
    pub message: String,
    /// Whether the message was sent without a request by the user.
    pub is_proactive: bool,
    pub attachments: Vec<PathBuf>,
}

/// Shows messages to the user and summarizes the session. Implemented by the session.
pub trait UserMessenger: Send + Sync {
    /// Shows a message. Returns the time as a timestamp.
    fn tell(&self, message: &UserMessage, cx: &CallContext) -> String;

    /// Returns a summary of the session so far, for a reader who does not know it.
    fn summary<'a>(&'a self, cx: &'a CallContext) -> BoxFuture<'a, String>;
}

/// No user: messages are dropped and the summary says that nothing happened.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoUser;

impl UserMessenger for NoUser {
    fn tell(&self, _message: &UserMessage, _cx: &CallContext) -> String {
        String::new()
    }

    fn summary<'a>(&'a self, _cx: &'a CallContext) -> BoxFuture<'a, String> {
        Box::pin(async { String::from("Nothing happened yet.") })
    }
}

/// A file that goes with a message: a path, or what a host calls it.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(untagged)]
pub enum MessageAttachment {
    /// A path.
    Path(String),
    /// A file of the host.
    Hosted {
        /// Its id there.
        file_uuid: String,
        /// Its name.
        file_name: String,
        /// Its size in bytes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        size: Option<u64>,
        /// Whether it is a picture.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        is_image: Option<bool>,
        /// Its type.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        media_type: Option<String>,
    },
}

impl MessageAttachment {
    fn path(&self, cx: &CallContext) -> Option<PathBuf> {
        match self {
            Self::Path(path) => {
                let written = std::path::Path::new(path.as_str());
                haft_paths::expand(written, &cx.cwd, cx.home.as_deref())
                    .ok()
                    .map(|it| haft_paths::lexical(&it))
            }
            Self::Hosted { .. } => None,
        }
    }
}

/// Whether somebody asked for a message.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageStatus {
    /// It answers something.
    #[default]
    Normal,
    /// Nobody asked for it.
    Proactive,
}

/// Sums up this session for somebody who was not there: what was asked, which files changed, tasks,
/// agents and commands, and what is still open. It only looks. With `message` it shows that to the
/// user instead.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Words for the user, instead of a summary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Whether somebody asked for the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<MessageStatus>,
    /// Files the message is about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<MessageAttachment>,
}

/// The message that was shown, or the summary.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Output {
    /// The summary, or the message.
    pub message: String,
    /// Timestamp of the message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sent_at: Option<String>,
}

/// Summarizes the session.
pub struct Brief {
    user: Arc<dyn UserMessenger>,
}

impl Brief {
    pub fn new(user: Arc<dyn UserMessenger>) -> Self {
        Self { user }
    }
}

impl Tool for Brief {
    type Input = Input;
    type Output = Output;
    type Progress = ();
    const NAME: &'static str = "Brief";

    fn output_schema(&self) -> Option<serde_json::Value> {
        Some(serde_json::json!({
            "type": "object",
            "properties": {"message": {"type": "string"}, "sentAt": {"type": "string"}},
            "required": ["message"],
        }))
    }

    fn traits(&self) -> Traits {
        Traits {
            search_hint: "brief summary session so far",
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
        input.message.as_deref().map_or(Ok(()), check_message)
    }

    fn describe(&self, input: &Input) -> String {
        match &input.message {
            Some(message) => haft_types::text::one_line(message, 100),
            None => String::from("Sum up the session"),
        }
    }

    async fn call(&self, input: Input, cx: &ToolContext<()>) -> Result<Outcome<Output>, ToolError> {
        let Some(message) = input.message else {
            return Ok(Output { message: self.user.summary(cx).await, sent_at: None }.into());
        };
        let said = UserMessage {
            message,
            is_proactive: input.status == Some(MessageStatus::Proactive),
            attachments: input.attachments.iter().filter_map(|it| it.path(cx)).collect(),
        };
        let sent_at = Some(self.user.tell(&said, cx));
        Ok(Output { message: said.message, sent_at }.into())
    }

    fn to_content(&self, output: &Output) -> Content {
        Content::text(match &output.sent_at {
            Some(_) => String::from("The user was shown the message."),
            None => output.message.clone(),
        })
    }
}

fn check_message(message: &str) -> Result<(), ToolError> {
    match message.chars().count() {
        _ if message.trim().is_empty() => Err(ToolError::invalid("message is empty: say something")),
        long if MAX_MESSAGE < long => {
            Err(ToolError::invalid(format!("message is longer than {MAX_MESSAGE} characters: shorten it")))
        }
        _ => Ok(()),
    }
}
