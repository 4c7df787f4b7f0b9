//! Output that the user saw but the model does not get. It is logged so that the session can be
//! displayed again.

use haft_types::MessageBlock;

use crate::{
    Agent, EndReason, LimitReached,
    log::{LogState, ShownContent, ShownLine, ShownReason},
};

/// Streamed text that is not part of a complete block yet.
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

    /// Removes the text that this complete block contains.
    pub(crate) fn closed_by(&mut self, block: &MessageBlock) {
        match block {
            MessageBlock::Text { .. } => self.text.clear(),
            MessageBlock::Thinking { .. } => self.thought.clear(),
            _ => (),
        }
    }

    /// Takes what was shown of an answer, and whether any text was.
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

    /// Takes the text of an unfinished thinking block.
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
    /// Logs that the next message contains the report of a run.
    pub fn record_report(&mut self, run: String) {
        self.note(LogState::RunHeard { run });
    }

    /// Logs what the user was shown besides the conversation. Secrets are masked.
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

    /// Logs text of an answer that is not part of any message.
    pub(crate) fn store_unsent_text(&mut self, why: ShownReason, answer: &str, pieces: Vec<ShownContent>) {
        self.keep_shown(ShownLine { why, name: answer.to_owned(), typed: String::new(), pieces });
    }
}

impl EndReason {
    /// A text for the user about why the turn ended; `None` if that is evident.
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
