use std::path::PathBuf;

use haft_types::PermissionMode;
use serde::{Deserialize, Serialize};

use crate::Behavior;

/// A change to what is allowed, as the Agent SDKs spell it.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum PermissionUpdate {
    /// Adds rules.
    AddRules(RuleList),
    /// Replaces the rules of one behaviour at one destination.
    ReplaceRules(RuleList),
    /// Removes rules.
    RemoveRules(RuleList),
    /// Goes on in another mode.
    SetMode {
        /// The mode.
        mode: PermissionMode,
        /// Where it is kept.
        destination: Destination,
    },
    /// Adds directories to the workspace.
    AddDirectories {
        /// Which.
        directories: Vec<PathBuf>,
        /// Where it is kept.
        destination: Destination,
    },
    /// Takes directories out of the workspace.
    RemoveDirectories {
        /// Which.
        directories: Vec<PathBuf>,
        /// Where it is kept.
        destination: Destination,
    },
}

/// Rules of one behaviour for one destination.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct RuleList {
    /// The rules.
    pub rules: Vec<RuleText>,
    /// What they say.
    pub behavior: Behavior,
    /// Where they are kept.
    pub destination: Destination,
}

/// A rule as the SDKs spell it.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RuleText {
    /// The tool.
    pub tool_name: String,
    /// What stands between the brackets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule_content: Option<String>,
}

/// Where a change is kept.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Destination {
    /// The user's settings.
    UserSettings,
    /// The project's shared settings.
    ProjectSettings,
    /// The project's private settings.
    LocalSettings,
    /// Until the session ends.
    Session,
    /// As if it had been a flag.
    CliArg,
}
