use std::{fmt, ops::Deref, sync::Arc};

use serde::{Deserialize, Serialize, Serializer};

macro_rules! string_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Takes any text as an id.
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
    /// Ties a tool result to the call that asked for it (`tool_use_id`).
    CallId
}
string_id! {
    /// One conversation, from its first line to its last resume.
    SessionId
}

/// Which agent of a session's tree made a call.
///
/// Logs, hook inputs and hosts see it as one text: `main`, or the child's id.
/// That text belongs to the main agent alone, so ids are read with
/// [`AgentId::new`], which never makes a child of that name.
#[derive(Clone, Debug, Default, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[serde(from = "String")]
pub enum AgentId {
    /// The agent a person talks to.
    #[default]
    Main,
    /// An agent that another agent, or another program, brought in.
    Child(Arc<str>),
}

impl AgentId {
    const MAIN_TEXT: &str = "main";

    /// The agent a text names.
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

    /// Whether this is the agent a person talks to.
    pub fn is_main(&self) -> bool {
        matches!(self, Self::Main)
    }

    /// The id of a child; nothing for the main agent, which hooks and hosts are
    /// not told by name.
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
    fn agents_are_written_as_before() {
        for (agent, text) in [(AgentId::Main, "main"), (AgentId::Child("a1".into()), "a1")] {
            let json = serde_json::to_value(&agent).expect("serialises");
            assert_eq!(json, text);
            assert_eq!(serde_json::from_value::<AgentId>(json).expect("is read"), agent);
            assert_eq!(AgentId::from(text), agent);
        }
    }
}
