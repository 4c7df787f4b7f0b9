//! Memory files: `CLAUDE.md`, `AGENTS.md` and rules.

use std::path::PathBuf;

use haft_types::tags;
use serde::{Deserialize, Serialize};

/// A memory file.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct MemoryFile {
    pub path: PathBuf,
    /// Its text, without comments.
    pub text: String,
    /// Whose file it is.
    #[serde(default)]
    pub owner: MemoryOwner,
    /// The file that imports it, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imported_by: Option<PathBuf>,
}

/// Owner of a memory file.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub enum MemoryOwner {
    /// The organisation (managed).
    Managed,
    /// The user.
    User,
    /// The project, shared with other users.
    #[default]
    Project,
    /// The user, for this project only.
    Local,
}

impl MemoryOwner {
    /// The owner as passed to hooks.
    pub fn word(self) -> &'static str {
        match self {
            Self::Managed => "Managed",
            Self::User => "User",
            Self::Project => "Project",
            Self::Local => "Local",
        }
    }
}

/// The memory files, from general to specific.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct MemoryFiles {
    pub files: Vec<MemoryFile>,
}

impl MemoryFiles {
    /// The files as a part of the system prompt; `None` without files.
    pub(crate) fn text(&self) -> Option<String> {
        if self.files.is_empty() {
            return None;
        }
        let mut text = String::from(
            "# What the user and the project want you to know\nFollow it; where it contradicts itself, the later part counts.",
        );
        for file in &self.files {
            text.push_str(&format!("\n\n## {}\n{}", file.path.display(), tags::neutral(file.text.trim())));
        }
        Some(text)
    }
}
