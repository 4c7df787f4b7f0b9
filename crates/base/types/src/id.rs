use std::{fmt, ops::Deref, sync::Arc};

use serde::{Deserialize, Serialize, Serializer};

macro_rules! string_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Creates an id from any text.
            pub fn new(text: impl Into<Arc<str>>) -> Self {
                Self(text.into())
            }

            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl Deref for $name {
            type Target = str;

            fn deref(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self::new(text)
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self::new(text)
            }
        }
    };
}

string_id! {
    /// Id that links a tool result to its tool call (`tool_use_id`).
    CallId
}
string_id! {
    /// Id of one conversation, kept when it is resumed.
    SessionId
}

/// The agent of a session that made a call.
///
/// Logs, hook inputs and hosts see it as text: `main`, or the child's id. That text is reserved for the
/// main agent, so parse ids with [`AgentId::new`], which never creates a child of that name.
#[derive(Clone, Debug, Default, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[serde(from = "String")]
pub enum AgentId {
    /// The agent the user talks to.
    #[default]
    Main,
    /// A sub-agent, started by another agent or by an external program; its id.
    Child(Arc<str>),
}

impl AgentId {
    const MAIN_TEXT: &str = "main";

    /// Parses an id; `main` is the main agent.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        let text = text.into();
        match &*text {
            Self::MAIN_TEXT => Self::Main,
            _ => Self::Child(text),
        }
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Main => Self::MAIN_TEXT,
            Self::Child(text) => text,
        }
    }

    /// Whether this is the agent the user talks to.
    pub fn is_main(&self) -> bool {
        matches!(self, Self::Main)
    }

    /// This id if it is a child's. Hooks and hosts get no id for the main agent.
    pub fn child(&self) -> Option<&Self> {
        (!self.is_main()).then_some(self)
    }
}

impl fmt::Display for AgentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl From<&str> for AgentId {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<String> for AgentId {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl Serialize for AgentId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agent_id_round_trips_as_text() {
        for (agent, text) in [(AgentId::Main, "main"), (AgentId::Child("a1".into()), "a1")] {
            let json = serde_json::to_value(&agent).expect("serialises");
            assert_eq!(json, text);
            assert_eq!(serde_json::from_value::<AgentId>(json).expect("is read"), agent);
            assert_eq!(AgentId::from(text), agent);
        }
    }
}
