use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

use haft_types::{Block, Content, Message, MessageBlock, Role, tags};
use serde::{Deserialize, Serialize};

/// What the person, or the program in their place, says.
#[derive(Clone, Debug, Default)]
pub struct UserInput {
    /// Its name in the log; made up when there is none.
    pub uuid: Option<String>,
    /// What is said.
    pub content: Vec<MessageBlock>,
    /// What it names and the model is to see with it.
    pub attachments: Vec<Attachment>,
    /// Where it comes from, if not from the person: the log says so.
    pub origin: Option<serde_json::Value>,
}

/// A file or directory that a prompt names, as the model is shown it.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Attachment {
    /// Which kind.
    #[serde(rename = "type")]
    pub kind: AttachmentKind,
    /// The whole path.
    pub filename: String,
    /// The path as the person wrote it.
    pub display_path: String,
    /// What is shown.
    pub content: Content,
}

/// Kinds of attachments.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AttachmentKind {
    /// A file.
    File,
    /// A directory; its entries are shown.
    Directory,
    /// What is selected in an editor; its lines are shown.
    Selection,
}

impl Attachment {
    /// For the model.
    pub(crate) fn message(&self) -> Message {
        let said = match self.kind {
            AttachmentKind::File | AttachmentKind::Directory => {
                let what = if self.kind == AttachmentKind::File { "the file" } else { "the directory" };
                format!(
                    "The user names {what} {}. This is what it holds now; there is no need to read it again.",
                    self.filename
                )
            }
            AttachmentKind::Selection => format!(
                "In their editor the user has selected this part of {}. It may have nothing to do with what they say.",
                self.display_path
            ),
        };
        let said = tags::reminder(&said);
        let mut content = self.content.clone();
        content.neutralise();
        let shown = content.0.into_iter().filter_map(|block| match block {
            Block::Text { text } => Some(MessageBlock::Text { text }),
            Block::Image { source } => Some(MessageBlock::Image { source }),
            Block::Document { source, title } => Some(MessageBlock::Document { source, title }),
            _ => None,
        });
        let content = std::iter::once(MessageBlock::Text { text: said }).chain(shown).collect();
        Message { role: Role::User, content }
    }
}

impl UserInput {
    /// A line of text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { content: vec![MessageBlock::Text { text: text.into() }], ..Self::default() }
    }

    pub(crate) fn to_text(&self) -> String {
        let texts = self.content.iter().filter_map(|block| match block {
            MessageBlock::Text { text } => Some(text.as_str()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }
}

/// What was said while the agent worked. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct AgentInbox(Arc<Mutex<VecDeque<UserInput>>>, Arc<Mutex<Vec<UserInput>>>);

impl AgentInbox {
    /// Says something; the agent hears it after the calls it is running.
    pub fn push(&self, input: UserInput) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push_back(input);
    }

    /// Says something that goes with the next request, if there is one: it is
    /// no reason for another.
    pub fn mention(&self, input: UserInput) {
        self.1.lock().unwrap_or_else(PoisonError::into_inner).push(input);
    }

    /// Takes everything that waits for an answer.
    pub fn take(&self) -> Vec<UserInput> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).drain(..).collect()
    }

    /// Takes what was only mentioned.
    pub(crate) fn take_mentioned(&self) -> Vec<UserInput> {
        std::mem::take(&mut *self.1.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether nothing waits that wants an answer.
    pub fn is_empty(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}
