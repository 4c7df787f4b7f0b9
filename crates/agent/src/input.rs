use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

use haft_types::MessageBlock;

/// What the person, or the program in their place, says.
#[derive(Clone, Debug)]
pub struct UserInput {
    /// Its name in the log; made up when there is none.
    pub uuid: Option<String>,
    /// What is said.
    pub content: Vec<MessageBlock>,
}

impl UserInput {
    /// A line of text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { uuid: None, content: vec![MessageBlock::Text { text: text.into() }] }
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
pub struct Inbox(Arc<Mutex<VecDeque<UserInput>>>, Arc<Mutex<Vec<UserInput>>>);

impl Inbox {
    /// Says something; the agent hears it after the calls it is running.
    pub fn push(&self, input: UserInput) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push_back(input);
    }

    /// Says something that goes with the next request, if there is one: it is
    /// no reason for another.
    pub fn mention(&self, input: UserInput) {
        self.1.lock().unwrap_or_else(PoisonError::into_inner).push(input);
    }

    /// Takes everything that waits.
    pub fn take(&self) -> Vec<UserInput> {
        let mut all = std::mem::take(&mut *self.1.lock().unwrap_or_else(PoisonError::into_inner));
        all.extend(self.0.lock().unwrap_or_else(PoisonError::into_inner).drain(..));
        all
    }

    /// Whether nothing waits that wants an answer.
    pub fn is_empty(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}
