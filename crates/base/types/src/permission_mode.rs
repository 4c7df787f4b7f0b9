use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// What happens to calls that no rule speaks about.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum PermissionMode {
    /// Reads inside the workspace run, everything else asks.
    #[default]
    #[serde(alias = "manual")]
    Default,
    /// File edits inside the workspace run too.
    AcceptEdits,
    /// Only reads run.
    Plan,
    /// A classifier answers instead of the person.
    Auto,
    /// What would ask is denied.
    DontAsk,
    /// What would ask runs, except what always asks.
    BypassPermissions,
}

impl PermissionMode {
    /// Every mode, in the order help texts list them.
    pub const ALL: [Self; 6] =
        [Self::Default, Self::AcceptEdits, Self::Plan, Self::Auto, Self::DontAsk, Self::BypassPermissions];

    /// The public name.
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
