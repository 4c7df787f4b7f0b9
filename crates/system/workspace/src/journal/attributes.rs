//! File attributes besides content and mode: times, owners and extended attributes. Stored beside the
//! log, one file per entry of a command, so that the log's lines stay small.

use std::{
    collections::HashSet,
    fs::{self, Metadata},
    io,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use haft_paths::{Durability, ModeOnReplace, replace_file};
use rustix::{
    fs::{
        AtFlags, CWD, Gid, Timespec, Timestamps, UTIME_OMIT, Uid, XattrFlags, chownat, lgetxattr, llistxattr,
        lremovexattr, lsetxattr, utimensat,
    },
    io::Errno,
};
use serde::{Deserialize, Serialize};

use super::{EntryId, FileObject, Journal, content_store::read_dir, path_serde};
use crate::path_locks::private_dir;

/// Maximum total bytes of extended attributes that are read.
const MAX_EXTENDED: usize = 64 << 10;

/// Attributes of a file besides content and mode.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Attributes {
    /// Modification time: seconds since 1970, and nanoseconds.
    pub modified: (i64, i64),
    /// User and group id.
    pub owner: (u32, u32),
    /// Extended attributes by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extended: Vec<(String, Vec<u8>)>,
}

/// Change of attributes at one path.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct AttributeChange {
    /// The path.
    #[serde(with = "path_serde")]
    pub path: PathBuf,
    /// Before; `None` if the path did not exist.
    pub before: Option<Attributes>,
    /// After; `None` if the path does not exist.
    pub after: Option<Attributes>,
}

/// The object a hard-linked name referred to. Recorded for all names known to share an object with a
/// changed file, before or after.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct LinkedName {
    /// The name.
    #[serde(with = "path_serde")]
    pub path: PathBuf,
    /// Its object before, if it was a file or symlink.
    pub before: Option<FileObject>,
    /// Its object after, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<FileObject>,
    /// Whether the object before had names that are not recorded here.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub elsewhere: bool,
}

/// Additional data of a command's entry.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct EntryAttachments {
    /// Attributes of changed paths and their parent directories.
    pub attributes: Vec<AttributeChange>,
    /// Hard-linked names, of which at least one changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<LinkedName>,
    /// Commits the command made: abbreviated id and subject. They stay when the entry is undone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commits: Vec<String>,
}

impl Attributes {
    /// Attributes of a file, directory or symlink. Unreadable extended attributes are skipped.
    pub fn read(path: &Path, meta: &Metadata) -> Self {
        let extended = if meta.is_symlink() { Vec::new() } else { extended(path) };
        Self { modified: (meta.mtime(), meta.mtime_nsec()), owner: (meta.uid(), meta.gid()), extended }
    }

    /// Whether anything besides times differs.
    pub fn differs_from(&self, other: &Self) -> bool {
        self.owner != other.owner || self.extended != other.extended
    }

    /// Sets the attributes as far as permitted: only root can change owners.
    pub(crate) fn apply(&self, path: &Path) -> io::Result<()> {
        let meta = fs::symlink_metadata(path)?;
        if (meta.uid(), meta.gid()) != self.owner {
            let (user, group) = (Uid::from_raw(self.owner.0), Gid::from_raw(self.owner.1));
            let given = chownat(CWD, path, Some(user), Some(group), AtFlags::SYMLINK_NOFOLLOW);
            if given.is_ok() && !meta.is_symlink() {
                // Changing the owner clears setuid and setgid bits.
                fs::set_permissions(path, fs::Permissions::from_mode(meta.mode() & 0o7777))?;
            }
        }
        if !meta.is_symlink() {
            self.apply_extended(path);
        }
        let modified = Timespec { tv_sec: self.modified.0, tv_nsec: self.modified.1 };
        let unchanged = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
        let times = Timestamps { last_access: unchanged, last_modification: modified };
        Ok(utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    fn apply_extended(&self, path: &Path) {
        let now = extended(path);
        for (name, value) in self.extended.iter().filter(|it| !now.contains(it)) {
            lsetxattr(path, name.as_str(), value, XattrFlags::empty()).ok();
        }
        let wanted = |name: &String| self.extended.iter().any(|it| it.0 == *name);
        for (name, _) in now.iter().filter(|it| !wanted(&it.0)) {
            lremovexattr(path, name.as_str()).ok();
        }
    }
}

/// Attributes that a user can read and set; the kernel maintains others itself.
fn extended(path: &Path) -> Vec<(String, Vec<u8>)> {
    let mut names = vec![0_u8; 1_024];
    let len = match llistxattr(path, &mut names[..]) {
        Ok(len) => len,
        Err(Errno::RANGE) => {
            names.resize(MAX_EXTENDED, 0);
            llistxattr(path, &mut names[..]).unwrap_or(0)
        }
        Err(_) => 0,
    };
    let names = String::from_utf8_lossy(&names[..len]).into_owned();
    let wanted = |name: &&str| {
        name.starts_with("user.") || name.starts_with("system.posix_acl") || *name == "security.capability"
    };
    let mut found: Vec<(String, Vec<u8>)> = names
        .split('\0')
        .filter(wanted)
        .filter_map(|name| {
            let mut value = vec![0_u8; MAX_EXTENDED];
            let len = lgetxattr(path, name, &mut value[..]).ok()?;
            value.truncate(len);
            Some((name.to_owned(), value))
        })
        .collect();
    found.sort();
    found
}

impl Journal {
    fn attributes_of(&self, entry: &EntryId) -> PathBuf {
        self.dir.join("attributes").join(entry.as_str())
    }

    /// Stores the additional data of an entry. Without it only contents are restored.
    pub fn record_beside(&self, entry: &EntryId, beside: &EntryAttachments) -> io::Result<()> {
        if *beside == EntryAttachments::default() {
            return Ok(());
        }
        let path = self.attributes_of(entry);
        private_dir(&self.dir.join("attributes")).map_err(|err| io::Error::other(err.to_string()))?;
        replace_file(&path, &serde_json::to_vec(beside)?, ModeOnReplace::Private, Durability::Whenever)
    }

    /// Reads the additional data of an entry.
    pub(crate) fn beside(&self, entry: &EntryId) -> EntryAttachments {
        let bytes = fs::read(self.attributes_of(entry)).unwrap_or_default();
        serde_json::from_slice(&bytes).unwrap_or_default()
    }

    /// Deletes the data of entries that no longer exist.
    pub(super) fn prune_attributes(&self, remaining: &HashSet<&str>) {
        for path in read_dir(&self.dir.join("attributes")) {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if !remaining.contains(name.as_str()) {
                fs::remove_file(path).ok();
            }
        }
    }
}
