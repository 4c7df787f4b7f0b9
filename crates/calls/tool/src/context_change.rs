use std::path::PathBuf;

use haft_types::PermissionMode;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// A change that a call makes to its session. Data instead of a closure, so that it can be logged,
/// replayed and applied in one place.
///
/// Stored in session logs. An unknown kind is preserved and has no effect, so logs of later versions can
/// be read.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(remote = "Self", tag = "type", content = "value", rename_all = "snake_case")]
pub enum ContextChange {
    /// Sets the working directory of later calls.
    Cwd(PathBuf),
    /// Adds the schemas of these deferred tools to the next request.
    LoadTools(Vec<String>),
    /// Switches the agent to this permission mode.
    Mode(PermissionMode),
    /// A plan was approved: an agent in plan mode switches to the default mode, unless the approval
    /// chose another one.
    LeavePlan,
    /// Adds this directory to the workspace.
    AddDirectory(PathBuf),
    /// Records what the call did, for progress tracking. No effect on later calls.
    Trace(CallEffect),
    /// A kind of a later version.
    #[serde(skip)]
    Unknown(Value),
}

/// An effect of a call that must survive compaction of the conversation.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(tag = "type", content = "value", rename_all = "snake_case")]
pub enum CallEffect {
    /// A plan was approved; its text.
    Plan(String),
    /// The complete to-do list, in order.
    Todos(Vec<WorkItem>),
    /// A task was created or changed.
    Task {
        /// Id of the task.
        id: String,
        /// New text; `None` if unchanged.
        text: Option<String>,
        /// State: `pending`, `in_progress`, `completed`, …
        status: String,
    },
    /// A file was created, changed or removed.
    FileChanged(PathBuf),
    /// A command was started in the background.
    BackgroundStarted {
        /// Id of the background task.
        id: String,
        /// The command line.
        command: String,
    },
    /// The background task with this id has ended.
    BackgroundEnded(String),
    /// A skill was loaded.
    SkillLoaded {
        /// Name of the skill.
        name: String,
        /// Text of the skill.
        text: String,
    },
}

/// An item of a to-do list.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct WorkItem {
    /// What to do.
    pub text: String,
    /// State: `pending`, `in_progress`, `completed`, …
    pub status: String,
}

impl ContextChange {
    /// Whether later calls depend on the change, so that it must be applied again when the session is
    /// resumed.
    pub fn is_lasting(&self) -> bool {
        !matches!(self, Self::Trace(_) | Self::Unknown(_))
    }
}

impl Serialize for ContextChange {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Unknown(value) => value.serialize(serializer),
            known => Self::serialize(known, serializer),
        }
    }
}

impl<'de> Deserialize<'de> for ContextChange {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        Ok(Self::deserialize(&value).unwrap_or(Self::Unknown(value)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn context_changes_round_trip_and_unknown_ones_are_kept() {
        let todos = CallEffect::Todos(vec![WorkItem { text: "a".into(), status: "pending".into() }]);
        for (change, json) in [
            (ContextChange::Cwd("/a".into()), json!({"type": "cwd", "value": "/a"})),
            (ContextChange::LoadTools(vec!["A".into()]), json!({"type": "load_tools", "value": ["A"]})),
            (ContextChange::Mode(PermissionMode::Plan), json!({"type": "mode", "value": "plan"})),
            (ContextChange::AddDirectory("/b".into()), json!({"type": "add_directory", "value": "/b"})),
            (
                ContextChange::Trace(todos),
                json!({"type": "trace", "value": {"type": "todos", "value": [{"text": "a", "status": "pending"}]}}),
            ),
            (
                ContextChange::Unknown(json!({"type": "later", "value": [1, {"a": 2}]})),
                json!({"type": "later", "value": [1, {"a": 2}]}),
            ),
            (
                ContextChange::Unknown(json!({"type": "trace", "value": {"type": "later"}})),
                json!({"type": "trace", "value": {"type": "later"}}),
            ),
        ] {
            assert_eq!(serde_json::to_value(&change).expect("serialises"), json);
            assert_eq!(serde_json::from_value::<ContextChange>(json).expect("is read"), change);
        }
    }
}
