//! Detects files that hooks changed after a call wrote them. A formatter hook makes the result outdated,
//! so the model is told.

use std::{
    hash::{DefaultHasher, Hasher as _},
    path::{Path, PathBuf},
    time::SystemTime,
};

use haft_tool::{CallEffect, ContextChange, Output};

/// Bytes up to which a file is compared by content; larger files are compared by size and modification
/// time.
const MAX_READ: u64 = 4 << 20;
/// Maximum number of files checked per call; the rest is ignored.
const MAX_FILES: usize = 20;
/// Maximum number of changed files named in the note; the rest is only counted.
const MAX_NAMED: usize = 5;

/// The files a call wrote, with their state right after the call.
pub(crate) struct WrittenFiles(Vec<(PathBuf, FileVersion)>);

/// What is compared to detect a change of a file.
#[derive(Debug, Eq, PartialEq)]
enum FileVersion {
    Gone,
    Content(u64),
    Large(u64, Option<SystemTime>),
}

impl WrittenFiles {
    /// Records the state of the files that the output reports as changed. `None` if it reports none.
    pub(crate) async fn from_output(output: &Output) -> Option<Self> {
        let changed = |change: &ContextChange| match change {
            ContextChange::Trace(CallEffect::FileChanged(path)) => Some(path.clone()),
            _ => None,
        };
        let paths: Vec<PathBuf> = output.changes.iter().filter_map(changed).take(MAX_FILES).collect();
        if paths.is_empty() {
            return None;
        }
        let looked = move || paths.into_iter().map(|path| (path.clone(), look(&path))).collect();
        tokio::task::spawn_blocking(looked).await.ok().map(Self)
    }

    /// Returns a note for the model that names the files changed since; `None` if none changed.
    pub(crate) async fn rewritten(self) -> Option<String> {
        let differ = move || -> Vec<PathBuf> {
            let Self(files) = self;
            files.into_iter().filter(|(path, left)| look(path) != *left).map(|it| it.0).collect()
        };
        let paths = tokio::task::spawn_blocking(differ).await.unwrap_or_default();
        let named: Vec<String> = paths.iter().take(MAX_NAMED).map(|it| it.display().to_string()).collect();
        let more = paths.len().saturating_sub(MAX_NAMED);
        let more = if 0 < more { format!(" and {more} more") } else { String::new() };
        (!paths.is_empty()).then(|| {
            format!(
                "[A hook changed {}{more} after this call, so it is not what the call wrote. Read it again before \
                 the next edit.]",
                named.join(", ")
            )
        })
    }
}

fn look(path: &Path) -> FileVersion {
    let Ok(meta) = std::fs::metadata(path) else { return FileVersion::Gone };
    if MAX_READ < meta.len() {
        return FileVersion::Large(meta.len(), meta.modified().ok());
    }
    let Ok(bytes) = std::fs::read(path) else { return FileVersion::Gone };
    let mut hasher = DefaultHasher::new();
    hasher.write(&bytes);
    FileVersion::Content(hasher.finish())
}
