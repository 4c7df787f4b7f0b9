//! What the person was shown and no model hears: the log keeps it for whoever
//! shows the session again.

use haft_types::MessageBlock;

use crate::{
    Agent, EndReason, LimitReached,
    log::{LogState, ShownContent, ShownLine, ShownReason},
};

/// Words of an answer that were told and are in no block yet.
#[derive(Default)]
pub(crate) struct OpenText {
    pub(crate) text: String,
    thought: String,
    were_told: bool,
}

impl OpenText {
    pub(crate) fn said(&mut self, piece: &str) {
        self.text.push_str(piece);
        self.were_told |= !piece.is_empty();
    }

    pub(crate) fn thought(&mut self, piece: &str) {
        self.thought.push_str(piece);
        self.were_told |= !piece.is_empty();
    }

    /// They are part of this block now.
    pub(crate) fn closed_by(&mut self, block: &MessageBlock) {
        match block {
            MessageBlock::Text { .. } => self.text.clear(),
            MessageBlock::Thinking { .. } => self.thought.clear(),
            _ => (),
        }
    }

    /// What was shown of an answer, blocks and what is still open; whether words of
    /// it were told at all.
    pub(crate) fn take_shown<'a>(
        &mut self,
        blocks: impl Iterator<Item = &'a MessageBlock>,
    ) -> (Vec<ShownContent>, bool) {
        let mut pieces: Vec<ShownContent> = blocks
            .filter_map(|block| match block {
                MessageBlock::Text { text } => Some(ShownContent::Said(text.clone())),
                MessageBlock::Thinking { thinking, .. } => Some(ShownContent::Thought(thinking.clone())),
                _ => None,
            })
            .collect();
        pieces.push(ShownContent::Thought(std::mem::take(&mut self.thought)));
        pieces.push(ShownContent::Said(std::mem::take(&mut self.text)));
        (pieces, std::mem::take(&mut self.were_told))
    }

    /// A thought that nobody ends any more.
    pub(crate) fn take_thought(&mut self) -> Vec<ShownContent> {
        vec![ShownContent::Thought(std::mem::take(&mut self.thought))]
    }
}

impl ShownContent {
    fn words_mut(&mut self) -> &mut String {
        match self {
            Self::Thought(words) | Self::Said(words) | Self::Printed(words) => words,
        }
    }
}

impl Agent {
    /// What is said next holds the report of a run.
    pub fn note_heard(&mut self, run: String) {
        self.note(LogState::RunHeard { run });
    }

    /// Keeps what the person was shown beside the conversation. Secrets are masked
    /// as in every other line.
    pub fn keep_shown(&mut self, mut line: ShownLine) {
        line.pieces.retain_mut(|piece| !piece.words_mut().is_empty());
        let texts = line.pieces.iter_mut().map(ShownContent::words_mut).chain([&mut line.typed]);
        for words in texts {
            if let Some(masked) = self.conversation.masker.mask(words) {
                *words = masked;
            }
        }
        if !line.pieces.is_empty() {
            self.note(LogState::Shown(Box::new(line)));
        }
    }

    /// Keeps words of an answer that are part of no message.
    pub(crate) fn keep_words(&mut self, why: ShownReason, answer: &str, pieces: Vec<ShownContent>) {
        self.keep_shown(ShownLine { why, name: answer.to_owned(), typed: String::new(), pieces });
    }
}

impl EndReason {
    /// Why a turn ended, for the person, where it is not plain from the rest.
    pub fn remark(&self) -> Option<String> {
        match self {
            Self::Stopped(why) | Self::NoProgress(why) | Self::Incomplete(why) => {
                Some(format!("Stopped: {why}"))
            }
            Self::Exhausted(LimitReached::Budget(most)) => {
                Some(format!("Stopped: the budget of ${most} is spent."))
            }
            Self::Exhausted(LimitReached::Tokens(most)) => {
                Some(format!("Stopped: the limit of {most} tokens was reached."))
            }
            Self::Exhausted(LimitReached::Time(most)) => {
                Some(format!("Stopped: the time limit of {} s was reached.", most.as_secs()))
            }
            _ => None,
        }
    }
}
