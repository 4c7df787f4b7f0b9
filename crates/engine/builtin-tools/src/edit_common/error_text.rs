use std::{
    fs,
    path::{Path, PathBuf},
};

use haft_tool::ToolError;
use haft_types::nearest;
use haft_workspace::{FileError, FileKind};

/// What the tool was doing, for the error message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum FileOperation {
    Reading,
    Changing,
}

/// Formats a file system error for the model. `may_read` decides which similar file names may be
/// suggested.
pub(crate) fn explain(
    error: &FileError,
    doing: FileOperation,
    asked: &Path,
    may_read: &dyn Fn(&Path) -> bool,
) -> ToolError {
    let shown = asked.display();
    match error {
        FileError::NotFound { .. } => {
            let mut message = format!("{shown} does not exist.");
            match suggestions(asked, may_read).as_slice() {
                [] => message.push_str(" Check the path with Glob or LS."),
                names => message.push_str(&format!(" Did you mean {}?", names.join(" or "))),
            }
            if doing == FileOperation::Changing {
                message.push_str(" To create a file, use Write.");
            }
            ToolError::invalid(message)
        }
        FileError::NotRegular { kind: FileKind::Directory, .. } => ToolError::invalid(match doing {
            FileOperation::Reading => {
                format!("{shown} is a directory. Use LS to list it, or Glob to find files in it.")
            }
            FileOperation::Changing => format!("{shown} is a directory; give the path of a file."),
        }),
        FileError::NotRegular { kind: FileKind::Kernel, .. } => ToolError::invalid(format!(
            "{shown} is a kernel interface, not a stored file, and was not touched."
        )),
        FileError::NotRegular { kind, .. } => {
            ToolError::invalid(format!("{shown} is {kind}, not a regular file, and was not touched."))
        }
        FileError::TooLarge { len, .. } => ToolError::failed(format!(
            "{shown} has {len} bytes, too many to load at once. Use Grep to find the place and Bash (sed) to change it."
        )),
        error => ToolError::failed(sentence(&error.to_string())),
    }
}

fn sentence(text: &str) -> String {
    if text.ends_with(['.', '?', '!', ')']) { text.to_owned() } else { format!("{text}.") }
}

/// Returns similar names in the same directory.
fn suggestions(asked: &Path, may_read: &dyn Fn(&Path) -> bool) -> Vec<String> {
    let (Some(parent), Some(name)) = (asked.parent(), asked.file_name()) else { return Vec::new() };
    let Ok(entries) = fs::read_dir(parent) else { return Vec::new() };
    let name = name.to_string_lossy().into_owned();
    let stem = |it: &str| it.split('.').next().unwrap_or_default().to_owned();
    let mut names: Vec<String> =
        entries.flatten().take(2000).map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    let same_stem = names.iter().filter(|it| **it != name && !stem(it).is_empty() && stem(it) == stem(&name));
    let mut found: Vec<PathBuf> = same_stem.map(|it| parent.join(it)).collect();
    for near in nearest(&name, names.iter().map(String::as_str), 3) {
        if !found.contains(&parent.join(near)) {
            found.push(parent.join(near));
        }
    }
    found.retain(|path| may_read(path));
    found.into_iter().take(3).map(|path| path.display().to_string()).collect()
}
