//! The system prompt, from parts, the same bytes in every request of a session.

mod memory;

use std::{collections::BTreeMap, path::Path};

use haft_types::tags;
use serde::{Deserialize, Serialize};

pub use memory::{MemoryFile, MemoryFiles, MemoryOwner};

/// What the model is told before anything else.
const BASE: &str = include_str!("base.md");

/// Where the session runs. Taken once, when it starts: a prompt that changes
/// with the clock is a cache that never hits.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct PromptEnvironment {
    /// The working directory.
    pub cwd: String,
    /// Whether it is in a git repository.
    pub is_git_repository: bool,
    /// The operating system.
    pub platform: String,
    /// The day, as ISO 8601.
    pub today: String,
    /// Other directories of the workspace.
    pub additional_directories: Vec<String>,
    /// What else is worth knowing from the start, a line each.
    #[serde(default)]
    pub notes: Vec<String>,
}

impl PromptEnvironment {
    /// Looks around.
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
        text
    }
}

/// What the first part of the prompt is.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub enum PromptBase {
    /// Haft's own.
    #[default]
    Haft,
    /// This instead; empty for none.
    Replaced(String),
    /// That of an agent another one started; it is told where it runs.
    Child(String),
}

/// Everything the prompt is made of.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct SystemPrompt {
    /// The first part.
    pub base: PromptBase,
    /// Where the session runs.
    pub environment: PromptEnvironment,
    /// What the user and the project want every session to know.
    pub memory: MemoryFiles,
    /// Names of tools whose schemas come on demand.
    pub deferred_tools: Vec<String>,
    /// Added at the end.
    pub append: Option<String>,
    /// What MCP servers want the model to know, by their names.
    #[serde(default)]
    pub servers: BTreeMap<String, String>,
    /// MCP servers whose tools are still to come.
    #[serde(default)]
    pub starting: Vec<String>,
    /// How the model is to write, if somebody chose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub style: Option<OutputStyle>,
}

/// How a model is to write.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct OutputStyle {
    /// What it is called.
    pub name: String,
    /// What it says.
    pub text: String,
    /// Whether what is usually said about work on code holds as well.
    pub keeps_coding: bool,
}

impl OutputStyle {
    /// As the model is told.
    pub(crate) fn told(&self) -> String {
        let instead = if self.keeps_coding {
            ""
        } else {
            "\nIt stands in the place of what is said elsewhere about how to work on code and how to answer; what is said about tools, rights and safety holds."
        };
        format!("# Output style: {}\n{}{instead}", self.name, self.text.trim())
    }
}

impl SystemPrompt {
    /// Whether the two differ in nothing but how the model is to write.
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

    /// The parts in order; the first is the same for every session.
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
                self.starting.join(", ")
            ));
        }
        (!lines.is_empty()).then(|| format!("# MCP servers\n{}", lines.join("\n\n")))
    }
}
