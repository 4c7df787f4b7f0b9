//! Resuming where another process stopped: open calls get a result.

use std::path::Path;

use haft_types::{AgentId, Message, MessageBlock, Role, SessionId};

use crate::{
    Conversation, Restored,
    conversation::{MessageOrigin, NewLogLine, uuid},
    log::{CallFinishedLine, LogEntry, LogState},
    unfinished_calls::{CallsInLog, ExternalCallStates, UnfinishedCall},
};

impl Conversation {
    /// Restores a conversation from a log whose remote store has assigned it to this owner. What an
    /// earlier owner did not report to the store did not happen. Calls that were not started are
    /// deferred ([`Agent::go_on`](crate::Agent::go_on)).
    pub fn taken_over(
        session_id: SessionId,
        cwd: &Path,
        from: &Path,
        epoch: u64,
        seen: &dyn ExternalCallStates,
    ) -> std::io::Result<(Self, Restored)> {
        Self::resumed(Self::new(session_id, cwd, None).owned(Some(epoch)), from, None, seen)
    }

    pub(crate) fn owned(mut self, epoch: Option<u64>) -> Self {
        self.epoch = epoch;
        self
    }

    /// Adds results for calls that a killed process left open.
    pub(crate) fn settle(&mut self, calls: &mut CallsInLog, seen: &dyn ExternalCallStates) {
        for (call, text, became) in calls.results(&self.messages, self.session_id.as_str(), self.epoch, seen)
        {
            let tool_use_id = call.id.clone();
            let result =
                MessageBlock::ToolResult { tool_use_id, content: text.as_str().into(), is_error: true };
            let line = NewLogLine {
                uuid: uuid(),
                tool_use_result: Some(format!("Error: {text}").into()),
                message: Message { role: Role::User, content: vec![result] },
                origin: MessageOrigin::User,
            };
            let entries = self.entries(vec![line]);
            self.settled.extend(entries);
            if became == UnfinishedCall::LeftForLater {
                let line = CallFinishedLine::left(&call, &AgentId::Main);
                calls.done(&line);
                self.settled.push(LogEntry::Haft(LogState::Call(Box::new(line))));
            }
        }
    }
}
