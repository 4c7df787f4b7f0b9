//! A JSON file that several processes change concurrently.

use std::{
    fmt,
    fs::{self, DirBuilder},
    io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

use haft_paths::{Durability, ModeOnReplace, replace_file, sweep_unfinished};
use serde_json::{Map, Value};

use crate::{
    SettingsNotice, SettingsSourceKind,
    directory_lock::{LockFailure, lock},
    json_edit,
    settings_document::{BYTE_ORDER_MARK, SettingsDocument},
    stable_read::{LARGEST, ReadError, read},
};

/// A file and the rules for changing it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JsonFile<'a> {
    pub(crate) path: &'a Path,
    /// File mode, if the file is created.
    pub(crate) mode: u32,
    /// Directory that symlinks must not leave, so that a link in a project cannot make Haft write the
    /// user's own files.
    pub(crate) inside: Option<&'a Path>,
    /// Directory for lock files, for file systems without locks.
    pub(crate) locks: Option<&'a Path>,
}

/// Result of an update: the value before and after it, and what the callback returned.
#[derive(Debug)]
pub(crate) struct UpdateOutcome<T> {
    pub(crate) result: T,
    pub(crate) before: Map<String, Value>,
    pub(crate) after: Map<String, Value>,
}

/// Why a file was not changed. Its content is the same as before.
#[derive(Debug)]
pub enum UpdateError {
    /// The file is not valid JSON settings. It is left unchanged, because the user has to repair it.
    Broken(SettingsNotice),
    /// Another process held the lock until the timeout.
    Busy(PathBuf),
    /// A symlink leads out of the project.
    LeadsOutside(PathBuf),
    /// The path is a directory, pipe or device.
    NotAFile(PathBuf),
    /// The file is, or would become, larger than 2 MiB.
    TooLarge(PathBuf),
    /// No directory to write to: there is no home directory.
    NoPlace,
    /// An I/O error, for example a full disk or missing permission.
    Io { path: PathBuf, error: io::Error },
}

impl fmt::Display for UpdateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Broken(notice) => write!(f, "{notice}; repair the file first, it was not changed"),
            Self::Busy(path) => {
                write!(f, "{} is being changed by another process; try again", path.display())
            }
            Self::LeadsOutside(path) => {
                write!(f, "{} is a link that leads out of the project; it was not followed", path.display())
            }
            Self::NotAFile(path) => write!(f, "{} is not a regular file", path.display()),
            Self::TooLarge(path) => write!(f, "{} would be larger than 2 MiB", path.display()),
            Self::NoPlace => f.write_str("there is no home directory to keep this in; set HAFT_CONFIG_DIR"),
            Self::Io { path, error } => write!(f, "{}: {error}; it was not changed", path.display()),
        }
    }
}

impl std::error::Error for UpdateError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { error, .. } => Some(error),
            _ => None,
        }
    }
}

impl JsonFile<'_> {
    /// Applies `change` to the newest content. On success the change is synced to disk; on failure the
    /// file is unchanged. Nothing is written if `change` changes nothing. Blocks.
    pub(crate) fn update<T>(
        &self,
        change: impl FnOnce(&mut Map<String, Value>) -> T,
    ) -> Result<UpdateOutcome<T>, UpdateError> {
        self.make_directory()?;
        let (target, _lock) = self.locked_target()?;
        let directory = target.parent().unwrap_or(Path::new("/"));
        sweep_unfinished(directory);
        let (document, mark) = self.current(&target)?;
        let before = document.as_ref().map(|it| it.value.clone()).unwrap_or_default();
        let mut after = before.clone();
        let result = change(&mut after);
        if before == after {
            return Ok(UpdateOutcome { result, before, after });
        }
        let text = match &document {
            // Should not happen for a text that was just parsed. If it does, an error is better than
            // losing the user's content.
            Some(document) => json_edit::rewrite(&document.text, &before, &after)
                .ok_or_else(|| self.io(io::Error::other("the text cannot be edited")))?,
            None => json_edit::render_new(&after),
        };
        let text = format!("{mark}{text}");
        if LARGEST < text.len() as u64 {
            return Err(UpdateError::TooLarge(self.path.to_owned()));
        }
        replace_file(&target, text.as_bytes(), ModeOnReplace::KeptOr(self.mode), Durability::ContentAndName)
            .map_err(|error| self.io(error))?;
        Ok(UpdateOutcome { result, before, after })
    }

    fn io(&self, error: io::Error) -> UpdateError {
        UpdateError::Io { path: self.path.to_owned(), error }
    }

    fn make_directory(&self) -> Result<(), UpdateError> {
        let Some(directory) = self.path.parent().filter(|it| !it.is_dir()) else { return Ok(()) };
        let private = self.mode & 0o077 == 0;
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(if private { 0o700 } else { 0o755 });
        builder.create(directory).map_err(|error| self.io(error))
    }

    /// Resolves symlinks and locks the target's directory.
    fn locked_target(&self) -> Result<(PathBuf, crate::directory_lock::DirectoryLock), UpdateError> {
        for _ in 0..10 {
            let target = self.target()?;
            let directory = target.parent().unwrap_or(Path::new("/"));
            let locked = match lock(directory, self.locks) {
                Ok(locked) => locked,
                Err(LockFailure::Busy) => return Err(UpdateError::Busy(self.path.to_owned())),
                Err(LockFailure::Failed(error)) => return Err(self.io(error)),
            };
            // The symlink may have changed while this process waited for the lock.
            if self.target()? == target {
                return Ok((target, locked));
            }
        }
        Err(UpdateError::Busy(self.path.to_owned()))
    }

    fn target(&self) -> Result<PathBuf, UpdateError> {
        let target = follow(self.path).map_err(|error| self.io(error))?;
        match self.inside.map(fs::canonicalize) {
            Some(Ok(inside)) if !target.starts_with(&inside) => {
                Err(UpdateError::LeadsOutside(self.path.to_owned()))
            }
            Some(Err(error)) => Err(self.io(error)),
            Some(Ok(_)) | None => Ok(target),
        }
    }

    fn current(&self, target: &Path) -> Result<(Option<SettingsDocument>, &'static str), UpdateError> {
        let bytes = match read(target, LARGEST) {
            Ok(contents) => contents.bytes,
            Err(ReadError::Absent) => return Ok((None, "")),
            Err(ReadError::NotAFile) => return Err(UpdateError::NotAFile(self.path.to_owned())),
            Err(ReadError::TooLarge(_)) => return Err(UpdateError::TooLarge(self.path.to_owned())),
            Err(ReadError::Failed(error)) => return Err(self.io(error)),
        };
        let mark = if bytes.starts_with(BYTE_ORDER_MARK.as_bytes()) { BYTE_ORDER_MARK } else { "" };
        match SettingsDocument::parse(&bytes) {
            Ok(document) => Ok((Some(document), mark)),
            Err(broken) => Err(UpdateError::Broken(SettingsNotice {
                place: SettingsSourceKind::File(self.path.to_owned()),
                position: Some(broken.position),
                message: broken.message,
            })),
        }
    }
}

/// Resolves symlinks; the final target need not exist.
fn follow(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..40 {
        let directory = path.parent().unwrap_or(Path::new("/"));
        let here = fs::canonicalize(directory)?.join(path.file_name().unwrap_or_default());
        match fs::read_link(&here) {
            Ok(target) => path = here.parent().unwrap_or(Path::new("/")).join(target),
            Err(_) => return Ok(here),
        }
    }
    Err(io::Error::other("a loop of symbolic links"))
}
