//! What hooks answer to the questions of MCP servers.

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::HookEvent;

/// An answer instead of the person's, or instead of what the person said.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct ElicitationOverride {
    /// Yes, no, or neither.
    pub action: ElicitedAction,
    /// The fields of the form, for a yes.
    #[serde(default)]
    pub content: Option<Map<String, Value>>,
}

/// Yes, no, or neither; from the mildest to the strictest.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd)]
#[serde(rename_all = "lowercase")]
pub enum ElicitedAction {
    /// The server gets what it asked for.
    Accept,
    /// The question is dismissed.
    Cancel,
    /// The server is told no.
    Decline,
}

impl ElicitationOverride {
    /// Takes `action` and `content` out of the fields of an answer, at the
    /// events that know them. Values without an action say nothing: whoever
    /// rewrites an answer says what the answer is.
    pub(crate) fn take(fields: &mut Map<String, Value>, event: HookEvent) -> Result<Option<Self>, String> {
        if !matches!(event, HookEvent::Elicitation | HookEvent::ElicitationResult)
            || !fields.contains_key("action")
        {
            return Ok(None);
        }
        let mut part = |name: &str| fields.shift_remove(name).map(|value| (name.to_owned(), value));
        let parts = Map::from_iter([part("action"), part("content")].into_iter().flatten());
        serde_json::from_value(Value::Object(parts)).map(Some).map_err(|err| err.to_string())
    }

    /// Only what this answer says against the question.
    pub(crate) fn into_strict_part(self) -> Option<Self> {
        (self.action != ElicitedAction::Accept).then_some(Self { action: self.action, content: None })
    }

    /// The stricter of two answers. Two that say yes are joined field by field;
    /// the later wins a field both name.
    pub(crate) fn and(self, later: Self) -> Self {
        if self.action != later.action {
            return if self.action < later.action { later } else { self };
        }
        let content = match (self.content, later.content) {
            (Some(mut first), Some(second)) => {
                first.extend(second);
                Some(first)
            }
            (first, second) => second.or(first),
        };
        Self { action: self.action, content }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{HookOutput, OutputError};

    fn said(answer: Value) -> Result<Option<ElicitationOverride>, Box<OutputError>> {
        let answer = json!({"hookSpecificOutput": answer});
        HookOutput::parse(&answer, HookEvent::Elicitation).map(|it| it.specific.elicited)
    }

    fn elicited(action: ElicitedAction, content: Value) -> ElicitationOverride {
        ElicitationOverride { action, content: content.as_object().cloned() }
    }

    #[test]
    fn answers_are_read_at_their_events_alone() {
        let yes = json!({"action": "accept", "content": {"a": 1}});
        assert_eq!(said(yes.clone()), Ok(Some(elicited(ElicitedAction::Accept, json!({"a": 1})))));
        assert_eq!(said(json!({"action": "decline"})).unwrap().unwrap().action, ElicitedAction::Decline);
        assert_eq!(said(json!({"content": {"a": 1}})), Ok(None));
        let other = HookOutput::parse(&json!({"hookSpecificOutput": yes}), HookEvent::FileChanged).unwrap();
        assert_eq!((other.specific.elicited, other.specific.other.len()), (None, 2));
        for (bad, kept) in [
            (json!({"action": "yes"}), None),
            (json!({"action": "accept", "content": "text"}), None),
            (json!({"action": "decline", "content": "text"}), Some(ElicitedAction::Decline)),
            (json!({"action": "cancel", "hookEventName": "Stop"}), Some(ElicitedAction::Cancel)),
        ] {
            let strict = said(bad.clone()).unwrap_err().strict_part.specific.elicited;
            assert_eq!(strict.map(|it| it.action), kept, "{bad}");
        }
    }

    #[test]
    fn the_stricter_answer_wins_and_two_of_a_kind_are_joined() {
        use ElicitedAction::{Accept, Cancel, Decline};
        let yes = |content: Value| elicited(Accept, content);
        for (first, second, want) in [
            (yes(json!({"a": 1})), elicited(Decline, json!(null)), elicited(Decline, json!(null))),
            (elicited(Decline, json!(null)), yes(json!({"a": 1})), elicited(Decline, json!(null))),
            (elicited(Cancel, json!(null)), elicited(Decline, json!(null)), elicited(Decline, json!(null))),
            (yes(json!({"a": 1, "b": 1})), yes(json!({"b": 2})), yes(json!({"a": 1, "b": 2}))),
            (yes(json!({"a": 1})), yes(json!(null)), yes(json!({"a": 1}))),
        ] {
            assert_eq!(first.and(second), want);
        }
    }
}
