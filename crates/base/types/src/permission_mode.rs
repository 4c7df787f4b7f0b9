use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// What happens to tool calls that no permission rule covers.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum PermissionMode {
    /// Reads inside the workspace run; everything else asks.
    #[default]
    #[serde(alias = "manual")]
    Default,
    /// Like `Default`; file edits inside the workspace also run.
    AcceptEdits,
    /// Only reads run.
    Plan,
    /// A classifier answers permission prompts in the user's place.
    Auto,
    /// Calls that would ask are denied.
    DontAsk,
    /// Calls that would ask run, except those that ask in every mode.
    BypassPermissions,
}

impl PermissionMode {
    /// All modes, in the order of help texts.
    pub const ALL: [Self; 6] =
        [Self::Default, Self::AcceptEdits, Self::Plan, Self::Auto, Self::DontAsk, Self::BypassPermissions];

    /// Public name, as in settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::AcceptEdits => "acceptEdits",
            Self::Plan => "plan",
            Self::Auto => "auto",
            Self::DontAsk => "dontAsk",
            Self::BypassPermissions => "bypassPermissions",
        }
    }
}

impl fmt::Display for PermissionMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for PermissionMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "manual" {
            return Ok(Self::Default);
        }
        Self::ALL.into_iter().find(|mode| mode.name() == text).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|mode| mode.name()).collect();
            format!("`{text}` is no permission mode; use one of {}", names.join(", "))
        })
    }
}
