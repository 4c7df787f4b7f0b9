//! The system prompt, with the same bytes in every request of a session.

mod memory;

use std::{collections::BTreeMap, path::Path};

use haft_types::tags;
use serde::{Deserialize, Serialize};

pub use memory::{MemoryFile, MemoryFiles, MemoryOwner};

/// The first part of the default prompt.
const BASE: &str = include_str!("base.md");

/// Description of the environment, taken once at the start: a prompt that changes with the clock would
/// never hit the prompt cache.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct PromptEnvironment {
    /// The working directory.
    pub cwd: String,
    /// Whether it is in a git repository.
    pub is_git_repository: bool,
    /// The operating system.
    pub platform: String,
    /// The date, as ISO 8601.
    pub today: String,
    /// Further workspace directories.
    pub additional_directories: Vec<String>,
    /// Further facts, one line each.
    #[serde(default)]
    pub notes: Vec<String>,
}

impl PromptEnvironment {
    /// Detects the environment.
    pub fn detect(cwd: &Path) -> Self {
        let now = crate::log::timestamp::now();
        Self {
            cwd: cwd.display().to_string(),
            is_git_repository: cwd.ancestors().any(|dir| dir.join(".git").exists()),
            platform: std::env::consts::OS.to_owned(),
            today: now.split('T').next().unwrap_or_default().to_owned(),
            additional_directories: Vec::new(),
            notes: Vec::new(),
        }
    }

    fn text(&self) -> String {
        let mut text = format!(
            "# Environment\nWorking directory: {}\nGit repository: {}\nPlatform: {}\nToday: {}",
            self.cwd,
            if self.is_git_repository { "yes" } else { "no" },
            self.platform,
            self.today
        );
        for dir in &self.additional_directories {
            text.push_str(&format!("\nAlso part of the workspace: {dir}"));
        }
        for note in &self.notes {
            text.push_str(&format!("\n{note}"));
        }
        // Names of branches and files and titles of commits are untrusted text.
        tags::neutral(&text).into_owned()
    }
}

/// The first part of the prompt.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub enum PromptBase {
    /// Haft's default.
    #[default]
    Haft,
    /// This text; empty for none.
    Replaced(String),
    /// The prompt of a sub-agent, followed by the environment.
    Child(String),
}

/// The parts of the system prompt.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct SystemPrompt {
    pub base: PromptBase,
    /// The environment.
    pub environment: PromptEnvironment,
    /// Memory files of user and project.
    pub memory: MemoryFiles,
    /// Names of deferred tools, whose schemas are loaded on demand.
    pub deferred_tools: Vec<String>,
    /// Text appended at the end.
    pub append: Option<String>,
    /// Instructions of MCP servers, by server name.
    #[serde(default)]
    pub servers: BTreeMap<String, String>,
    /// Names of MCP servers that are still starting.
    #[serde(default)]
    pub starting: Vec<String>,
    /// The output style, if one is chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub style: Option<OutputStyle>,
}

/// An output style.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct OutputStyle {
    pub name: String,
    /// Its instructions.
    pub text: String,
    /// Whether the default instructions about coding are kept.
    pub keeps_coding: bool,
}

impl OutputStyle {
    /// The style as text for the model.
    pub(crate) fn told(&self) -> String {
        let instead = if self.keeps_coding {
            ""
        } else {
            "\nIt stands in the place of what is said elsewhere about how to work on code and how to answer; what is said about tools, rights and safety holds."
        };
        let (name, text) = (tags::neutral(&self.name), tags::neutral(self.text.trim()));
        format!("# Output style: {name}\n{text}{instead}")
    }
}

impl SystemPrompt {
    /// Whether two prompts differ only in their output style.
    pub(crate) fn is_but_for_style(&self, other: &Self) -> bool {
        let Self { base, environment, memory, deferred_tools, append, servers, starting, style: _ } = self;
        *base == other.base
            && *environment == other.environment
            && *memory == other.memory
            && *deferred_tools == other.deferred_tools
            && *append == other.append
            && *servers == other.servers
            && *starting == other.starting
    }

    /// The parts in order. The first is the same in every session.
    pub fn parts(&self) -> Vec<String> {
        let mut parts = Vec::new();
        match &self.base {
            PromptBase::Haft => {
                parts.push(BASE.trim_end().to_owned());
                parts.push(self.environment.text());
            }
            PromptBase::Child(text) => {
                parts.push(text.trim_end().to_owned());
                parts.push(self.environment.text());
            }
            PromptBase::Replaced(text) if text.is_empty() => (),
            PromptBase::Replaced(text) => parts.push(text.clone()),
        }
        if let Some(memory) = self.memory.text() {
            parts.push(memory);
        }
        if !self.deferred_tools.is_empty() {
            let names = self.deferred_tools.join(", ");
            parts.push(format!(
                "# More tools\nLoad what you need of these with ToolSearch before you call it: {names}"
            ));
        }
        parts.extend(self.append.clone().filter(|text| !text.trim().is_empty()));
        parts.extend(self.style.as_ref().map(OutputStyle::told));
        parts.extend(self.about_servers());
        parts
    }

    fn about_servers(&self) -> Option<String> {
        let mut lines: Vec<String> =
            self.servers.iter().map(|(name, words)| format!("## {name}\n{}", tags::neutral(words))).collect();
        if !self.starting.is_empty() {
            lines.push(format!(
                "Still starting: {}. Their tools come later; RefreshMcpTools waits for them.",
                tags::neutral(&self.starting.join(", "))
            ));
        }
        (!lines.is_empty()).then(|| format!("# MCP servers\n{}", lines.join("\n\n")))
    }
}
