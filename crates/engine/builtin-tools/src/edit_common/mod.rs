//! What the file tools share.

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

/// The canonical form of a path a model wrote. What cannot be one stays as it
/// is, and [`check_path`] says why.
pub(crate) fn canonical(path: &mut PathBuf, cx: &CallContext) {
    if let Ok(expanded) = haft_paths::expand(path, &cx.cwd, cx.home.as_deref()) {
        *path = of_the_workspace(haft_paths::lexical(&expanded), &cx.cwd);
    }
}

/// Models write `/src/main.rs` for a file of the workspace. Where the root has
/// no such directory and the workspace has, that is what is meant. Only names
/// are looked at, and only of paths that cannot lead anywhere as they are.
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

/// Says what is wrong with a path, without looking at the disk.
pub(crate) fn check_path(path: &Path, cx: &CallContext) -> Result<(), ToolError> {
    match haft_paths::expand(path, &cx.cwd, cx.home.as_deref()) {
        Ok(_) => Ok(()),
        Err(problem) => Err(ToolError::invalid(format!("file_path: {problem}"))),
    }
}

/// Who looks at files in this call.
pub(crate) fn viewer(cx: &CallContext) -> ReadBy {
    ReadBy { agent: cx.agent_id.clone(), call: cx.call_id.clone() }
}

/// Runs something that waits for the disk beside the runtime.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(err) => Err(ToolError::new(ErrorKind::Internal, format!("the file tool failed: {err}"))),
    }
}

/// The location of a declared path that was judged.
pub(crate) fn granted<P>(cx: &ToolContext<P>, path: &Path) -> Result<PathBuf, ToolError> {
    cx.granted(path).map(Path::to_owned)
}

/// A number with separators, for people and models.
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
