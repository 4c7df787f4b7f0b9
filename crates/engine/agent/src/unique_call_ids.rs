//! Makes call ids unique, because results are matched by id. Some models restart their numbering in
//! every answer, or use an id twice.

use std::collections::HashMap;

use haft_model::ModelEvent;
use haft_types::{CallId, MessageBlock};

/// The call ids of one answer.
#[derive(Debug, Default)]
pub(crate) struct CallIds {
    /// The unique id for each id used by the provider; for repeated ids that of the newest call.
    renamed: HashMap<CallId, CallId>,
    taken: Vec<CallId>,
}

impl CallIds {
    /// Replaces call ids in an event that this answer or the conversation has used.
    pub(crate) fn make_unique(&mut self, event: &mut ModelEvent, is_used: impl Fn(&CallId) -> bool) {
        match event {
            ModelEvent::ToolStarted { id, .. } => *id = self.started(id, is_used),
            ModelEvent::ToolInput { id, .. } => self.rename(id),
            ModelEvent::CallWritten(call) => self.rename(&mut call.id),
            ModelEvent::Block(MessageBlock::ToolUse(call)) => self.finished(&mut call.id, is_used),
            ModelEvent::BadCall(bad) => self.finished(&mut bad.call.id, is_used),
            // The answer starts again from the beginning.
            ModelEvent::Retrying(_) => *self = Self::default(),
            _ => (),
        }
    }

    fn started(&mut self, wire: &CallId, is_used: impl Fn(&CallId) -> bool) -> CallId {
        let is_used = |id: &CallId| self.taken.contains(id) || is_used(id);
        let mut id = wire.clone();
        let mut number = 2;
        while is_used(&id) {
            id = CallId::from(format!("{wire}_{number}"));
            number += 1;
        }
        self.taken.push(id.clone());
        self.renamed.insert(wire.clone(), id.clone());
        id
    }

    /// Handles a complete call, which some providers send without a start event.
    fn finished(&mut self, id: &mut CallId, is_used: impl Fn(&CallId) -> bool) {
        match self.renamed.remove(id) {
            Some(ours) => *id = ours,
            None => {
                *id = self.started(id, is_used);
                self.renamed.retain(|_, ours| ours != id);
            }
        }
    }

    fn rename(&self, id: &mut CallId) {
        if let Some(ours) = self.renamed.get(id) {
            *id = ours.clone();
        }
    }
}

#[cfg(test)]
mod tests {
    use haft_types::ToolUse;
    use serde_json::json;

    use super::*;

    /// Plays `+id` (a call begins) and `id` (it is complete) and shows the ids
    /// that come out.
    fn play(script: &str) -> String {
        let mut ids = CallIds::default();
        let mut out = Vec::new();
        for step in script.split_whitespace() {
            let (id, name) = (CallId::from(step.trim_start_matches('+')), String::from("T"));
            let mut event = if step.starts_with('+') {
                ModelEvent::ToolStarted { id, name }
            } else {
                ModelEvent::Block(MessageBlock::ToolUse(ToolUse { id, name, input: json!({}) }))
            };
            ids.make_unique(&mut event, |id| id.as_str() == "old");
            out.push(match event {
                ModelEvent::ToolStarted { id, .. } => format!("+{id}"),
                ModelEvent::Block(MessageBlock::ToolUse(call)) => call.id.to_string(),
                other => format!("{other:?}"),
            });
        }
        out.join(" ")
    }

    #[test]
    fn no_two_calls_have_one_id() {
        for (script, want) in [
            ("+a a +b b", "+a a +b b"),
            ("+a a +a a +a a", "+a a +a_2 a_2 +a_3 a_3"),
            ("+old old", "+old_2 old_2"),
            ("+a +a a a", "+a +a_2 a_2 a_3"),
            ("a a old", "a a_2 old_2"),
        ] {
            assert_eq!(play(script), want, "{script}");
        }
    }
}
