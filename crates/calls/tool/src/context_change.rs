use std::path::PathBuf;

use haft_types::PermissionMode;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// What a call changes in its session. Data, not a closure: it is logged,
/// replayed, and applied in one place whichever way the call came in.
///
/// Logs hold these. A kind this version does not know is kept as it is and
/// changes nothing, so a log of a later version can still be read.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(remote = "Self", tag = "type", content = "value", rename_all = "snake_case")]
pub enum ContextChange {
    /// Later calls resolve relative paths against this directory.
    Cwd(PathBuf),
    /// The schemas of these deferred tools go into the next request.
    LoadTools(Vec<String>),
    /// The agent goes on in this permission mode.
    Mode(PermissionMode),
    /// A plan was agreed to: an agent that plans asks as usual from now on. Where
    /// another mode was chosen with the answer, that one stays.
    LeavePlan,
    /// This directory counts as part of the workspace from now on.
    AddDirectory(PathBuf),
    /// What the call did, for whoever keeps track of the work; later calls see
    /// nothing of it.
    Trace(CallEffect),
    /// A kind of a later version.
    #[serde(skip)]
    Unknown(Value),
}

/// What a call leaves behind that must outlive the conversation about it: a
/// summary may forget prose, never these.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(tag = "type", content = "value", rename_all = "snake_case")]
pub enum CallEffect {
    /// A plan was agreed to.
    Plan(String),
    /// The to-do list, whole and in order.
    Todos(Vec<WorkItem>),
    /// A task is new or has changed.
    Task {
        /// Which.
        id: String,
        /// What is to be done; as before where nothing is said.
        text: Option<String>,
        /// How far it is: `pending`, `in_progress`, `completed`, …
        status: String,
    },
    /// A file was created, changed or removed.
    FileChanged(PathBuf),
    /// A command goes on in the background.
    BackgroundStarted {
        /// The id it goes by.
        id: String,
        /// The command line.
        command: String,
    },
    /// What went by this id in the background does not run any more.
    BackgroundEnded(String),
    /// A skill was loaded.
    SkillLoaded {
        /// Its name.
        name: String,
        /// What it says.
        text: String,
    },
}

/// Something to do.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct WorkItem {
    /// What.
    pub text: String,
    /// How far it is: `pending`, `in_progress`, `completed`, …
    pub status: String,
}

impl ContextChange {
    /// Whether later calls see the change, so that a session that goes on later
    /// has to make it again.
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
    fn changes_are_written_as_before_and_unknown_ones_are_kept() {
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
