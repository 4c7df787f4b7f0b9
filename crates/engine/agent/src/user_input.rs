use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

use haft_types::{Block, Content, Message, MessageBlock, Role, tags};
use serde::{Deserialize, Serialize};

/// Input of the user, or of the program on the user's behalf.
#[derive(Clone, Debug, Default)]
pub struct UserInput {
    /// Uuid of the log line; generated if `None`.
    pub uuid: Option<String>,
    pub content: Vec<MessageBlock>,
    /// Files and directories the input mentions.
    pub attachments: Vec<Attachment>,
    /// Origin for the log, if the input does not come from the user.
    pub origin: Option<serde_json::Value>,
}

/// A file or directory mentioned in a prompt, with the content shown to the model.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Attachment {
    #[serde(rename = "type")]
    pub kind: AttachmentKind,
    /// Absolute path.
    pub filename: String,
    /// Path as the user wrote it.
    pub display_path: String,
    /// Content shown to the model.
    pub content: Content,
}

/// Kind of an attachment.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AttachmentKind {
    /// A file.
    File,
    /// A directory, shown as a list of its entries.
    Directory,
    /// The selection in an editor, shown as its lines.
    Selection,
}

impl Attachment {
    /// The attachment as a message to the model.
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
    /// Input with one text block.
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

/// Input for a running agent. Clones share the queue.
#[derive(Clone, Debug, Default)]
pub struct AgentInbox(Arc<Mutex<VecDeque<UserInput>>>, Arc<Mutex<Vec<UserInput>>>);

impl AgentInbox {
    /// Queues input; the agent receives it after the calls that are running.
    pub fn push(&self, input: UserInput) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push_back(input);
    }

    /// Queues input that goes along with the next request but does not cause one.
    pub fn mention(&self, input: UserInput) {
        self.1.lock().unwrap_or_else(PoisonError::into_inner).push(input);
    }

    /// Takes the queued input that needs an answer.
    pub fn take(&self) -> Vec<UserInput> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).drain(..).collect()
    }

    /// Takes the queued input that does not cause a request.
    pub(crate) fn take_mentioned(&self) -> Vec<UserInput> {
        std::mem::take(&mut *self.1.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether no input that needs an answer is queued.
    pub fn is_empty(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}
