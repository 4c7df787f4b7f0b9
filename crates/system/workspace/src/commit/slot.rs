use std::{
    fs::File,
    io::Read,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use rustix::{
    fs::{AtFlags, Mode, OFlags, RenameFlags, openat, renameat, renameat_with, unlinkat},
    io::Errno,
};
use serde::{Deserialize, Serialize};

use super::{
    free_name::{lacks_flags, move_to_free_name},
    stage::copy_attributes,
};
use crate::{
    ContentHash, FileError, OpenFile,
    journal::path_serde,
    open_checked::{open_dir, open_in},
    snapshot::hash_open,
};

/// A name that a change moves from an old object to a new one.
///
/// Also stored in the write-ahead record: from a slot, a later process can tell how far the change got,
/// and complete or revert it.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct FileSlot {
    /// Index of the change in the batch.
    pub(crate) change: usize,
    /// Directory of both names.
    #[serde(with = "path_serde")]
    pub(crate) dir: PathBuf,
    /// The user's file name.
    #[serde(with = "path_serde")]
    pub(crate) name: PathBuf,
    /// The temporary name beside it.
    pub(crate) temp: String,
    /// Old content; `None` for a new file.
    pub(crate) before: Option<ContentHash>,
    /// New content; `None` for a deleted file.
    pub(crate) after: Option<ContentHash>,
    /// How the change is made.
    pub(crate) way: WriteMethod,
}

/// How a name gets its new content.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum WriteMethod {
    /// The new object takes the free name.
    Create,
    /// The new object at the temporary name and the old one are exchanged.
    Swap,
    /// The old object moves to the temporary name.
    Remove,
    /// The object is overwritten in place.
    InPlace,
}

/// How far a slot got before its owner died.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum SlotProgress {
    /// The name has the old content.
    NotDone,
    /// The name has the new content.
    Done,
    /// The name has other content: another writer continued from here.
    Foreign,
}

impl FileSlot {
    /// Path of the user's file.
    pub(crate) fn path(&self) -> PathBuf {
        self.dir.join(&self.name)
    }

    fn open(&self) -> Result<OwnedFd, FileError> {
        open_dir(&self.dir)
    }

    /// Determines the progress from the disk.
    pub(crate) fn progress(&self) -> SlotProgress {
        let found = self.open().and_then(|dir| content_of(&dir, &self.name, &self.path()));
        match found {
            Ok(found) if found == self.after => SlotProgress::Done,
            Ok(found) if found == self.before => SlotProgress::NotDone,
            _ => SlotProgress::Foreign,
        }
    }

    /// Reverts a change: restores the old content, unless another writer changed the file since.
    pub(crate) fn take_back(&self) -> Result<(), FileError> {
        let dir = self.open()?;
        let failed = |errno| FileError::from_errno(&self.path(), "restore", errno);
        match self.way {
            WriteMethod::Create => unlinkat(&dir, &self.name, AtFlags::empty()).map_err(failed),
            WriteMethod::Remove => move_to_free_name(&dir, Path::new(&self.temp), &self.name).map_err(failed),
            WriteMethod::Swap => {
                swap_or_rename(&dir, &self.temp, &self.name).map_err(failed)?;
                let ours = content_of(&dir, Path::new(&self.temp), &self.path()).ok().flatten() == self.after;
                if !ours {
                    // Another writer has built on our change meanwhile, and it stays.
                    swap_or_rename(&dir, &self.temp, &self.name).map_err(failed)?;
                }
                self.forget_temp(&dir);
                Ok(())
            }
            // The caller writes back the old bytes.
            WriteMethod::InPlace => Ok(()),
        }
    }

    /// Reverts an exchange on a file system without atomic exchange, where the old object lost its name:
    /// writes its content to the name, unless another writer changed it.
    pub(crate) fn put_back(&self, content: &mut impl Read, old: Option<&OpenFile>) -> Result<(), FileError> {
        let dir = self.open()?;
        let found = content_of(&dir, &self.name, &self.path())?;
        if self.way != WriteMethod::Swap || found != self.after {
            return Ok(());
        }
        let failed = |errno| FileError::from_errno(&self.path(), "restore", errno);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(openat(&dir, &*self.temp, flags, Mode::RUSR | Mode::WUSR).map_err(failed)?);
        let now = open_in(&dir, &self.name, &self.path()).ok();
        // The new object has the attributes of the old one, except for a mode that was set.
        if let Some(like) = old.or(now.as_ref()) {
            copy_attributes(like, &file, None).ok();
        }
        let copied =
            std::io::copy(content, &mut file).map_err(|err| FileError::from_io(&self.path(), "restore", err));
        let done = copied.and_then(|_| renameat(&dir, &*self.temp, &dir, &self.name).map_err(failed));
        done.inspect_err(|_| self.forget_temp(&dir))
    }

    /// Removes what is left at the temporary name.
    pub(crate) fn clean_up(&self) {
        if let Ok(dir) = self.open() {
            self.forget_temp(&dir);
        }
    }

    /// Like [`Self::clean_up`], in the open directory.
    pub(super) fn forget_temp(&self, dir: &OwnedFd) {
        if self.way != WriteMethod::InPlace {
            unlinkat(dir, &*self.temp, AtFlags::empty()).ok();
        }
    }
}

/// Exchanges two names atomically.
pub(crate) fn exchange(dir: &OwnedFd, temp: &str, name: &Path) -> Result<SlotExchange, Errno> {
    match renameat_with(dir, temp, dir, name, RenameFlags::EXCHANGE) {
        Ok(()) => Ok(SlotExchange::Done),
        Err(errno) if lacks_flags(errno) => Ok(SlotExchange::Unsupported),
        Err(errno) => Err(errno),
    }
}

/// Result of an exchange.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum SlotExchange {
    /// The old object is at the temporary name.
    Done,
    /// Not supported by the file system; nothing happened.
    Unsupported,
}

/// Exchange for reverting; falls back to a plain rename, which leaves the other object without a name.
fn swap_or_rename(dir: &OwnedFd, temp: &str, name: &Path) -> Result<(), Errno> {
    match exchange(dir, temp, name)? {
        SlotExchange::Done => Ok(()),
        SlotExchange::Unsupported => renameat(dir, temp, dir, name),
    }
}

/// Hash of the content at a name; `None` if it does not exist.
fn content_of(dir: &OwnedFd, name: &Path, path: &Path) -> Result<Option<ContentHash>, FileError> {
    match open_in(dir, name, path) {
        Ok(file) => hash_open(&file).map(Some),
        Err(FileError::NotFound { .. }) => Ok(None),
        Err(err) => Err(err),
    }
}

/// Opens the file at the temporary name.
pub(crate) fn open_temp(dir: &OwnedFd, slot: &FileSlot) -> Result<OpenFile, FileError> {
    open_in(dir, Path::new(&slot.temp), &slot.path())
}
