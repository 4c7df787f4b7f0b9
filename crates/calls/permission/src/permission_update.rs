use std::path::PathBuf;

use haft_types::PermissionMode;
use serde::{Deserialize, Serialize, Serializer};

use crate::{Behavior, PolicyBuilder, RuleEntry};

/// A change of permissions, in the format of the Agent SDKs.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum PermissionUpdate {
    /// Adds rules.
    AddRules(RuleList),
    /// Replaces the rules of one behaviour at one destination.
    ReplaceRules(RuleList),
    /// Removes rules.
    RemoveRules(RuleList),
    /// Changes the mode.
    SetMode {
        /// The new mode.
        mode: PermissionMode,
        /// Where to store it.
        destination: Destination,
    },
    /// Adds directories to the workspace.
    AddDirectories {
        /// The directories.
        #[serde(serialize_with = "lossy")]
        directories: Vec<PathBuf>,
        /// Where to store them.
        destination: Destination,
    },
    /// Removes directories from the workspace.
    RemoveDirectories {
        /// The directories.
        #[serde(serialize_with = "lossy")]
        directories: Vec<PathBuf>,
        /// Where they are stored.
        destination: Destination,
    },
}

/// Rules of one behaviour and destination.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct RuleList {
    pub rules: Vec<RuleText>,
    /// Their behaviour.
    pub behavior: Behavior,
    /// Where to store them.
    pub destination: Destination,
}

/// A rule in the format of the SDKs.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RuleText {
    pub tool_name: String,
    /// The text inside the parentheses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule_content: Option<String>,
}

impl RuleText {
    /// In settings syntax: `Tool` or `Tool(spec)`.
    pub fn text(&self) -> String {
        match &self.rule_content {
            Some(spec) => format!("{}({spec})", self.tool_name),
            None => self.tool_name.clone(),
        }
    }
}

/// Where an update is stored.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Destination {
    /// The user's settings.
    UserSettings,
    /// The project's shared settings.
    ProjectSettings,
    /// The project's private settings.
    LocalSettings,
    /// In memory, until the session ends.
    Session,
    /// In memory, like a command line flag.
    CliArg,
    /// In memory, for the requesting agent and its children, until it ends. For the main agent the same
    /// as the session.
    Agent,
}

impl Destination {
    /// Whether it is stored in a file.
    pub fn persists(self) -> bool {
        match self {
            Self::UserSettings | Self::ProjectSettings | Self::LocalSettings => true,
            Self::Session | Self::CliArg | Self::Agent => false,
        }
    }

    /// Display name.
    pub fn label(self) -> &'static str {
        match self {
            Self::UserSettings => "user settings",
            Self::ProjectSettings => "project settings",
            Self::LocalSettings => "local settings",
            Self::Session => "this session",
            Self::CliArg => "command line",
            Self::Agent => "this agent",
        }
    }
}

impl PermissionUpdate {
    /// Where the update is stored.
    pub fn destination(&self) -> Destination {
        match self {
            Self::AddRules(list) | Self::ReplaceRules(list) | Self::RemoveRules(list) => list.destination,
            Self::SetMode { destination, .. }
            | Self::AddDirectories { destination, .. }
            | Self::RemoveDirectories { destination, .. } => *destination,
        }
    }
}

impl PolicyBuilder {
    /// Applies an update. Rules and directories of other destinations are kept.
    pub fn update(mut self, update: &PermissionUpdate) -> Self {
        match update {
            PermissionUpdate::AddRules(list) => self.add_rules(list),
            PermissionUpdate::ReplaceRules(list) => {
                self.rules.retain(|rule| !belongs(rule, list));
                self.add_rules(list);
            }
            PermissionUpdate::RemoveRules(list) => {
                let texts: Vec<String> = list.rules.iter().map(RuleText::text).collect();
                self.rules
                    .retain(|rule| !(belongs(rule, list) && texts.iter().any(|it| is_same(it, &rule.text))));
            }
            PermissionUpdate::SetMode { mode, .. } => self.mode = *mode,
            PermissionUpdate::AddDirectories { directories, destination } => {
                for dir in directories {
                    self.add_directory(dir, Some(*destination));
                }
            }
            PermissionUpdate::RemoveDirectories { directories, destination } => {
                self.remove_directories(directories, *destination);
            }
        }
        self
    }

    fn add_rules(&mut self, list: &RuleList) {
        let origin = self.origin_of(list.destination);
        for text in list.rules.iter().map(RuleText::text) {
            let known = self.rules.iter().any(|rule| belongs(rule, list) && is_same(&rule.text, &text));
            if !known {
                self.rules.push(RuleEntry {
                    behavior: list.behavior,
                    text: text.into(),
                    origin: origin.clone(),
                });
            }
        }
    }
}

fn belongs(rule: &RuleEntry, list: &RuleList) -> bool {
    rule.behavior == list.behavior && rule.origin.destination == Some(list.destination)
}

/// `Tool` and `Tool(*)` are equal.
fn is_same(a: &str, b: &str) -> bool {
    let bare = |text: &str| text.trim().strip_suffix("(*)").unwrap_or(text.trim()).to_owned();
    bare(a) == bare(b)
}

/// Paths that are not UTF-8 are converted lossily.
fn lossy<S: Serializer>(paths: &[PathBuf], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(paths.iter().map(|it| it.to_string_lossy()))
}
