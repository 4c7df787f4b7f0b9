use std::{collections::BTreeMap, path::PathBuf};

use serde::Serialize;
use serde_json::Value;

/// The answer to `interrupt`.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
pub struct InterruptAnswer {
    /// Prompts that still wait, by their uuids.
    pub still_queued: Vec<String>,
    /// Prompts that were taken back; `None` where the host did not ask for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cancelled: Option<Vec<String>>,
}

/// The answer to `mcp_set_servers`.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
pub struct ServersAnswer {
    /// Servers that are new.
    pub added: Vec<String>,
    /// Servers that are gone.
    pub removed: Vec<String>,
    /// Why a server is not among them, by name.
    pub errors: BTreeMap<String, String>,
}

/// The answer to `rewind_files`.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RewindAnswer {
    /// Whether there is a record of that prompt.
    pub can_rewind: bool,
    /// Files that would change; only where the host asked what would happen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files_changed: Option<Vec<PathBuf>>,
    /// Lines that would come.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub insertions: Option<usize>,
    /// Lines that would go.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletions: Option<usize>,
    /// Links that were left alone; only where files were changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skipped_links: Option<usize>,
    /// What was left as it is, and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The answer to `get_task_output`.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
pub struct TaskOutputAnswer {
    /// The end of what the task printed.
    pub output: String,
    /// How many bytes it printed in all.
    pub total_bytes: usize,
    /// Whether the beginning is left out.
    pub truncated: bool,
}

/// The answer to `read_file`.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
pub struct FileAnswer {
    /// Where the file is.
    #[serde(rename = "absPath")]
    pub path: PathBuf,
    /// What it holds, as far as it fits.
    pub contents: String,
    /// `base64`, where the content is that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encoding: Option<&'static str>,
    /// Whether bytes were replaced; only for text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lossy: Option<bool>,
    /// Whether the end is left out.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

macro_rules! becomes_json {
    ($($answer:ty),+) => {
        $(impl From<$answer> for Value {
            fn from(answer: $answer) -> Self {
                serde_json::to_value(answer).unwrap_or_default()
            }
        })+
    };
}

becomes_json!(InterruptAnswer, ServersAnswer, RewindAnswer, TaskOutputAnswer, FileAnswer);
