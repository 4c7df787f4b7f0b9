//! Updates that wait because the editor does not read: text chunks are merged, and only the last
//! progress of a call is kept.

use std::collections::VecDeque;

use serde_json::{Value, json};

/// Maximum bytes of merged text chunks.
const MAX_CHUNK_BYTES: usize = 64 << 10;

/// Waiting updates of one session, in order.
#[derive(Default)]
pub(crate) struct UpdateBacklog(VecDeque<Value>);

impl UpdateBacklog {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds an update at the end.
    pub(crate) fn add(&mut self, update: Value) {
        if self.0.back_mut().is_some_and(|last| join(last, &update)) {
            return;
        }
        if is_progress(&update) {
            let same = |it: &Value| is_progress(it) && it["toolCallId"] == update["toolCallId"];
            if let Some(older) = self.0.iter_mut().rev().find(|it| same(it)) {
                *older = update;
                return;
            }
        }
        self.0.push_back(update);
    }

    /// Removes and returns all updates, in order.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Value> {
        std::mem::take(&mut self.0).into_iter()
    }
}

fn is_progress(update: &Value) -> bool {
    update["sessionUpdate"] == "tool_call_update" && update["status"] == "in_progress"
}

/// Appends a text chunk to the previous one, if both belong together. Returns whether it did.
fn join(last: &mut Value, next: &Value) -> bool {
    let is_words = |it: &Value| {
        matches!(it["sessionUpdate"].as_str(), Some("agent_message_chunk" | "agent_thought_chunk"))
            && it["content"]["type"] == "text"
    };
    let same = |key: &str| last[key] == next[key];
    if !(is_words(last) && is_words(next) && same("sessionUpdate") && same("messageId")) {
        return false;
    }
    let (Some(before), Some(more)) = (last["content"]["text"].as_str(), next["content"]["text"].as_str())
    else {
        return false;
    };
    if MAX_CHUNK_BYTES < before.len() + more.len() {
        return false;
    }
    let joined = format!("{before}{more}");
    last["content"]["text"] = json!(joined);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(kind: &str, id: &str, words: &str) -> Value {
        json!({"sessionUpdate": kind, "messageId": id, "content": {"type": "text", "text": words}})
    }

    fn call(id: &str, status: &str, shown: u64) -> Value {
        json!({"sessionUpdate": "tool_call_update", "toolCallId": id, "status": status, "content": [shown]})
    }

    #[test]
    fn backlog_merges_text_and_keeps_last_progress() {
        let (said, thought) = ("agent_message_chunk", "agent_thought_chunk");
        let long = "x".repeat(MAX_CHUNK_BYTES);
        for (updates, want) in [
            (
                vec![words(said, "a", "1"), words(said, "a", "2"), words(said, "a", "3")],
                vec![words(said, "a", "123")],
            ),
            (
                vec![words(thought, "a", "1"), words(said, "a", "2")],
                vec![words(thought, "a", "1"), words(said, "a", "2")],
            ),
            (
                vec![words(said, "a", "1"), words(said, "b", "2")],
                vec![words(said, "a", "1"), words(said, "b", "2")],
            ),
            (
                vec![words(said, "a", &long), words(said, "a", "2")],
                vec![words(said, "a", &long), words(said, "a", "2")],
            ),
            (
                vec![call("c", "in_progress", 1), call("d", "in_progress", 2), call("c", "in_progress", 3)],
                vec![call("c", "in_progress", 3), call("d", "in_progress", 2)],
            ),
            (
                vec![call("c", "in_progress", 1), call("c", "completed", 2), call("d", "completed", 3)],
                vec![call("c", "in_progress", 1), call("c", "completed", 2), call("d", "completed", 3)],
            ),
        ] {
            let mut backlog = UpdateBacklog::default();
            updates.into_iter().for_each(|it| backlog.add(it));
            assert_eq!(backlog.drain().collect::<Vec<_>>(), want);
            assert!(backlog.is_empty());
        }
    }
}
