//! Code shared by the file tools.

pub(crate) mod change_report;
pub(crate) mod command_reads;
pub(crate) mod config_check;
pub(crate) mod edit_observer;
mod elision_check;
pub(crate) mod error_text;
pub(crate) mod line_anchors;
pub(crate) mod matching;
pub(crate) mod replacement;

pub(crate) use elision_check::PARTIAL_MARK;

use std::path::{Component, Path, PathBuf};

use haft_tool::{CallContext, ErrorKind, ToolContext, ToolError};
use haft_workspace::ReadBy;

/// Converts a path written by a model to its canonical form. A path that cannot be converted stays as it
/// is; [`check_path`] then reports why.
pub(crate) fn canonical(path: &mut PathBuf, cx: &CallContext) {
    if let Ok(expanded) = haft_paths::expand(path, &cx.cwd, cx.home.as_deref()) {
        *path = of_the_workspace(haft_paths::lexical(&expanded), &cx.cwd);
    }
}

/// Interprets `/src/main.rs` as a path in the workspace if `/` has no such top-level directory and the
/// workspace has. Checks names only, and only of paths that cannot exist as written.
fn of_the_workspace(path: PathBuf, cwd: &Path) -> PathBuf {
    let mut components = path.components();
    let (Some(Component::RootDir), Some(Component::Normal(top))) = (components.next(), components.next())
    else {
        return path;
    };
    let exists = |place: &Path| place.symlink_metadata().is_ok();
    if exists(&Path::new("/").join(top)) || !exists(&cwd.join(top)) {
        return path;
    }
    path.strip_prefix("/").map(|below| cwd.join(below)).unwrap_or(path)
}

/// Checks the syntax of a path, without file system access.
pub(crate) fn check_path(path: &Path, cx: &CallContext) -> Result<(), ToolError> {
    match haft_paths::expand(path, &cx.cwd, cx.home.as_deref()) {
        Ok(_) => Ok(()),
        Err(problem) => Err(ToolError::invalid(format!("file_path: {problem}"))),
    }
}

/// Returns the reader (agent and call) that file accesses of this call are recorded for.
pub(crate) fn viewer(cx: &CallContext) -> ReadBy {
    ReadBy { agent: cx.agent_id.clone(), call: cx.call_id.clone() }
}

/// Runs blocking work on a thread of its own. A panic becomes an internal error.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(err) => Err(ToolError::new(ErrorKind::Internal, format!("the file tool failed: {err}"))),
    }
}

/// Returns the resolved location of a path that this call declared and permission was granted for.
pub(crate) fn granted<P>(cx: &ToolContext<P>, path: &Path) -> Result<PathBuf, ToolError> {
    cx.granted(path).map(Path::to_owned)
}

/// Formats a number with thousands separators.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at != 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}
