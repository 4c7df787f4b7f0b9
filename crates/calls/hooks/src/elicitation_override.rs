//! Answers of hooks to elicitation requests of MCP servers.

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::HookEvent;

/// Answer that replaces the user's.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct ElicitationOverride {
    /// Accept, cancel or decline.
    pub action: ElicitedAction,
    /// Form fields, if accepted.
    #[serde(default)]
    pub content: Option<Map<String, Value>>,
}

/// Answer to an elicitation request, from the mildest to the strictest.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd)]
#[serde(rename_all = "lowercase")]
pub enum ElicitedAction {
    /// Accepted: the server gets the requested data.
    Accept,
    /// Dismissed.
    Cancel,
    /// Declined.
    Decline,
}

impl ElicitationOverride {
    /// Extracts `action` and `content` from an answer's fields, at elicitation events. Without `action`
    /// the answer has no effect.
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

    /// The answer if it is not an acceptance, without content.
    pub(crate) fn into_strict_part(self) -> Option<Self> {
        (self.action != ElicitedAction::Accept).then_some(Self { action: self.action, content: None })
    }

    /// The stricter of two answers. Two acceptances are merged; the later wins for a field in both.
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
    fn elicitation_fields_are_parsed_only_at_their_events() {
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
    fn stricter_elicitation_answer_wins_and_equal_ones_are_merged() {
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
