use std::{collections::BTreeMap, path::PathBuf};

use serde::Serialize;
use serde_json::Value;

/// The answer to `interrupt`.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
pub struct InterruptAnswer {
    /// Uuids of the prompts that are still queued.
    pub still_queued: Vec<String>,
    /// Uuids of the cancelled prompts; `None` if cancellation was not requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cancelled: Option<Vec<String>>,
}

/// The answer to `mcp_set_servers`.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
pub struct ServersAnswer {
    /// Names of servers that were started.
    pub added: Vec<String>,
    /// Names of servers that were stopped.
    pub removed: Vec<String>,
    /// Errors of servers that could not be started, by name.
    pub errors: BTreeMap<String, String>,
}

/// The answer to `rewind_files`.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RewindAnswer {
    /// Whether there is a checkpoint of that prompt.
    pub can_rewind: bool,
    /// Files that would change; only for a dry run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files_changed: Option<Vec<PathBuf>>,
    /// Lines that would be added.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub insertions: Option<usize>,
    /// Lines that would be removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletions: Option<usize>,
    /// Number of symlinks that were skipped; only if files were changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skipped_links: Option<usize>,
    /// What was not restored, and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The answer to `get_task_output`.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
pub struct TaskOutputAnswer {
    /// The end of the task's output.
    pub output: String,
    /// Total number of bytes of output.
    pub total_bytes: usize,
    /// Whether the beginning is missing.
    pub truncated: bool,
}

/// The answer to `read_file`.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
pub struct FileAnswer {
    /// Path of the file.
    #[serde(rename = "absPath")]
    pub path: PathBuf,
    /// The content, cut to the maximum that fits a line.
    pub contents: String,
    /// `base64` if the content is encoded so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encoding: Option<&'static str>,
    /// Whether invalid UTF-8 was replaced; only for text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lossy: Option<bool>,
    /// Whether the end is missing.
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
