//! Branches in a log: lines whose parent is not the line before.

use std::sync::Arc;

use haft_types::MessageBlock;

use crate::{conversation::Conversation, log::ConversationLine};

/// Field of Claude Code logs with the line of the call a result belongs to. That line is also the
/// result's parent, so that parallel calls look like branches.
const CALL_OF_RESULT: &str = "sourceToolAssistantUUID";

impl Conversation {
    /// Remembers the position after a line, which a later line can have as parent.
    pub(crate) fn end_at(&mut self, uuid: String) {
        let blocks = self.messages.last().map_or(0, |message| message.content.len());
        self.ends.insert(uuid.clone(), (self.messages.len(), blocks));
        self.last_uuid = Some(uuid);
    }

    /// Discards the messages between a line and its parent, because the session was rewound to the
    /// parent. Results after their calls and siblings discard nothing.
    pub(crate) fn branch_at(&mut self, line: &ConversationLine, results_branch: &mut bool) {
        if line.rest.contains_key(CALL_OF_RESULT) {
            *results_branch = true;
            return;
        }
        let parent = line.head.parent_uuid.as_deref();
        if parent == self.last_uuid.as_deref() {
            return;
        }
        let Some((messages, blocks)) = parent.and_then(|parent| self.ends.get(parent)).copied() else {
            return;
        };
        let is_result = |block: &MessageBlock| matches!(block, MessageBlock::ToolResult { .. });
        let last = self.messages.last().filter(|_| *results_branch && messages == self.messages.len());
        if last.is_some_and(|last| last.content.iter().skip(blocks).all(is_result)) {
            return;
        }
        self.messages.truncate(messages);
        if let Some(last) = self.messages.last_mut()
            && blocks < last.content.len()
        {
            Arc::make_mut(last).content.truncate(blocks);
        }
    }
}
