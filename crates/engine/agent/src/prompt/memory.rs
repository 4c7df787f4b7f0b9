//! `CLAUDE.md`, `AGENTS.md` and rules: what every session should know.

use std::path::PathBuf;

use haft_types::tags;
use serde::{Deserialize, Serialize};

/// One file and what it says.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct MemoryFile {
    /// Where it is.
    pub path: PathBuf,
    /// Its text, without comments.
    pub text: String,
    /// Whose it is.
    #[serde(default)]
    pub owner: MemoryOwner,
    /// The file that imports it, if one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imported_by: Option<PathBuf>,
}

/// Whose a file is.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub enum MemoryOwner {
    /// The organisation's.
    Managed,
    /// The person's.
    User,
    /// The project's.
    #[default]
    Project,
    /// The person's, in the project.
    Local,
}

impl MemoryOwner {
    /// The word that hooks are told.
    pub fn word(self) -> &'static str {
        match self {
            Self::Managed => "Managed",
            Self::User => "User",
            Self::Project => "Project",
            Self::Local => "Local",
        }
    }
}

/// All files, from the most general to the most specific.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct MemoryFiles {
    /// The files.
    pub files: Vec<MemoryFile>,
}

impl MemoryFiles {
    /// As a part of the prompt.
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
