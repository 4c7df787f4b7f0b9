//! Calls that a killed process left without a result.

use std::{collections::HashSet, sync::Arc};

use haft_types::{CallId, Message, MessageBlock, Role, ToolUse};

use crate::log::{CallFinishedLine, CallStartedLine, WriterLine};

/// State of the calls while a log is read.
#[derive(Debug, Default)]
pub(crate) struct CallsInLog {
    /// Writer of the lines that are being read.
    writer: Option<WriterLine>,
    /// Writer of the newest call.
    asked_by: Option<WriterLine>,
    started: HashSet<CallId>,
    left: HashSet<CallId>,
}

/// State of a call without a result.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum UnfinishedCall {
    /// It may have had side effects.
    Unknown,
    /// It had no side effects: its start was not logged, and its process would have logged it.
    WithoutEffect,
    /// As [`Self::WithoutEffect`], and the resuming process runs it.
    LeftForLater,
}

impl CallsInLog {
    pub(crate) fn writer(&mut self, writer: WriterLine) {
        self.writer = Some(writer);
    }

    pub(crate) fn started(&mut self, line: CallStartedLine) {
        self.started.insert(line.call);
    }

    /// Records that a call is done or deferred.
    pub(crate) fn done(&mut self, line: &CallFinishedLine) {
        if line.left_for_later {
            self.left.insert(line.call.clone())
        } else {
            self.left.remove(&line.call)
        };
    }

    /// Takes the deferred calls that were not run since.
    pub(crate) fn take_left(&mut self) -> HashSet<CallId> {
        std::mem::take(&mut self.left)
    }

    /// Records a message of the model.
    pub(crate) fn said(&mut self, message: &Message) {
        if message.content.iter().any(|block| matches!(block, MessageBlock::ToolUse(_))) {
            self.asked_by.clone_from(&self.writer);
        }
    }

    /// Results for the open calls at the end of a conversation. `session` is the log's session, `epoch`
    /// that of its owner in a remote store, `seen` knows the effects of calls.
    pub(crate) fn results(
        &self,
        messages: &[Arc<Message>],
        session: &str,
        epoch: Option<u64>,
        seen: &dyn ExternalCallStates,
    ) -> Vec<(ToolUse, String, UnfinishedCall)> {
        let open = open_calls(messages).into_iter().filter(|it| !seen.is_known_elsewhere(it));
        let open: Vec<ToolUse> = open.cloned().collect();
        if open.is_empty() {
            return Vec::new();
        }
        let tells_all = self.asked_by.as_ref().is_some_and(|writer| writer.has_told_all(session));
        let was_fenced = self.asked_by.as_ref().is_some_and(|writer| writer.was_fenced(epoch));
        let result = |call: ToolUse| {
            let became = if self.started.contains(&call.id) {
                UnfinishedCall::Unknown
            } else if was_fenced {
                UnfinishedCall::LeftForLater
            } else if tells_all {
                UnfinishedCall::WithoutEffect
            } else {
                UnfinishedCall::Unknown
            };
            let text = became.text(seen.effects(&call.id).as_deref());
            (call, text, became)
        };
        open.into_iter().map(result).collect()
    }
}

impl UnfinishedCall {
    fn text(self, seen: Option<&str>) -> String {
        match (self, seen) {
            (Self::Unknown | Self::WithoutEffect, Some(seen)) => format!(
                "interrupted while it ran: it may be done in part or whole. What is known of its effects: {seen}. \
                 Check before doing it again."
            ),
            // The same text as the request linter uses for calls in the middle of a conversation.
            (Self::Unknown, None) => String::from(
                "interrupted, outcome unknown: the call may or may not have had its effect. \
                 Check before doing it again.",
            ),
            (Self::WithoutEffect, None) | (Self::LeftForLater, _) => String::from(
                "interrupted before it ran: the call had no effect. Make it again if it is still needed.",
            ),
        }
    }
}

/// External knowledge about calls without a result.
pub trait ExternalCallStates {
    /// Known effects of a call, as text for the model without a final full stop.
    fn effects(&self, call: &CallId) -> Option<String>;

    /// Whether the outcome can still be queried elsewhere, for example from a tool host. The call then
    /// stays open.
    fn is_known_elsewhere(&self, _call: &ToolUse) -> bool {
        false
    }
}

impl<F: Fn(&CallId) -> Option<String>> ExternalCallStates for F {
    fn effects(&self, call: &CallId) -> Option<String> {
        self(call)
    }
}

/// Calls of the last answer without a result, if no later message exists.
pub(crate) fn open_calls(messages: &[Arc<Message>]) -> Vec<&ToolUse> {
    let (asked, results) = match messages {
        [.., asked] if asked.role == Role::Assistant => (asked, &[][..]),
        [.., asked, answered] if asked.role == Role::Assistant => (asked, &answered.content[..]),
        _ => return Vec::new(),
    };
    let mut done = HashSet::new();
    for block in results {
        match block {
            MessageBlock::ToolResult { tool_use_id, .. } => done.insert(tool_use_id),
            _ => return Vec::new(),
        };
    }
    let calls = asked.content.iter().filter_map(|block| match block {
        MessageBlock::ToolUse(call) if !done.contains(&call.id) => Some(call),
        _ => None,
    });
    calls.collect()
}
