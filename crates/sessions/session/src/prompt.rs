//! Prompts: the input of a session.

use haft_agent::UserInput;
use haft_types::MessageBlock;
use serde_json::Value;

/// A prompt to a session.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prompt {
    /// Its uuid in the log.
    pub uuid: String,
    /// Whether the caller chose `uuid` and is sent [`PromptState`](crate::PromptState) events about it.
    pub is_named: bool,
    /// The original message, for front ends that echo it.
    pub message: Value,
    /// The content blocks sent to the model.
    pub content: Vec<MessageBlock>,
    /// Whether the model answers it. If `false`, the prompt is only added to the conversation.
    pub wants_answer: bool,
    /// Whether the text is sent unchanged, even if it looks like a slash command or mentions files.
    pub is_verbatim: bool,
    /// Author of the prompt.
    pub speaker: PromptAuthor,
    /// For a report about agents: the runs it reports, as JSON.
    pub origin: Option<Value>,
}

/// Author of a prompt.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum PromptAuthor {
    /// The user, or a program acting for the user.
    #[default]
    Person,
    /// A human, as the embedding program states explicitly.
    Human,
    /// A background command or agent that has ended.
    Task,
}

impl Prompt {
    /// A prompt with this text that the model answers.
    pub fn text(text: impl Into<String>) -> Self {
        Self::of_content(vec![MessageBlock::Text { text: text.into() }])
    }

    /// A prompt with these content blocks that the model answers.
    pub fn of_content(content: Vec<MessageBlock>) -> Self {
        Self {
            uuid: uuid::Uuid::new_v4().to_string(),
            message: serde_json::json!({"role": "user", "content": content}),
            content,
            wants_answer: true,
            ..Self::default()
        }
    }

    /// Converts the prompt to input of the agent loop.
    pub(crate) fn to_input(&self) -> UserInput {
        UserInput {
            uuid: Some(self.uuid.clone()),
            content: self.content.clone(),
            attachments: Vec::new(),
            origin: self.origin.clone(),
        }
    }

    /// The uuid, if the caller chose it.
    pub fn name(&self) -> Option<&str> {
        self.is_named.then_some(self.uuid.as_str())
    }

    /// The text blocks, joined.
    pub fn words(&self) -> String {
        let texts = self.content.iter().filter_map(|block| match block {
            MessageBlock::Text { text } => Some(text.as_str()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }
}
