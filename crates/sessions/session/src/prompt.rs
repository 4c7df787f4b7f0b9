//! What is said to a session.

use haft_agent::UserInput;
use haft_types::MessageBlock;
use serde_json::Value;

/// Something that is said to a session.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prompt {
    /// Its name in the log.
    pub uuid: String,
    /// Whether somebody else chose that name, and is told what becomes of it.
    pub is_named: bool,
    /// As it came, for faces that repeat it.
    pub message: Value,
    /// What is said.
    pub content: Vec<MessageBlock>,
    /// Whether the model is to answer; otherwise it only hears it.
    pub wants_answer: bool,
    /// Whether it is taken word for word, even if it looks like a command.
    pub is_verbatim: bool,
    /// Who says it.
    pub speaker: PromptAuthor,
    /// Where it comes from, where nobody said it: which runs of agents it reports.
    pub origin: Option<Value>,
}

/// Who says something.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum PromptAuthor {
    /// The person, or the program in their place.
    #[default]
    Person,
    /// A person, as the program in their place says expressly.
    Human,
    /// Something that ran in the background and has ended.
    Task,
}

impl Prompt {
    /// A text the model is to answer.
    pub fn text(text: impl Into<String>) -> Self {
        Self::of_content(vec![MessageBlock::Text { text: text.into() }])
    }

    /// Blocks the model is to answer.
    pub fn of_content(content: Vec<MessageBlock>) -> Self {
        Self {
            uuid: uuid::Uuid::new_v4().to_string(),
            message: serde_json::json!({"role": "user", "content": content}),
            content,
            wants_answer: true,
            ..Self::default()
        }
    }

    /// For the agent.
    pub(crate) fn to_input(&self) -> UserInput {
        UserInput {
            uuid: Some(self.uuid.clone()),
            content: self.content.clone(),
            attachments: Vec::new(),
            origin: self.origin.clone(),
        }
    }

    /// The name somebody gave it.
    pub fn name(&self) -> Option<&str> {
        self.is_named.then_some(self.uuid.as_str())
    }

    /// All that is said in words.
    pub fn words(&self) -> String {
        let texts = self.content.iter().filter_map(|block| match block {
            MessageBlock::Text { text } => Some(text.as_str()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }
}
