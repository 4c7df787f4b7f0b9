//! What files have besides their content and mode: times, owners and extended
//! attributes. Kept beside the log, one file for each entry of a command, so that the log's
//! lines stay small.

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

/// More than this of extended attributes is not looked at.
const MAX_EXTENDED: usize = 64 << 10;

/// What a file has besides its content and mode.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Attributes {
    /// When its content was last changed: seconds since 1970, and nanoseconds.
    pub modified: (i64, i64),
    /// The numbers of its user and group.
    pub owner: (u32, u32),
    /// Extended attributes, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extended: Vec<(String, Vec<u8>)>,
}

/// What became of the attributes at one path.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct AttributeChange {
    /// Where.
    #[serde(with = "path_serde")]
    pub path: PathBuf,
    /// What was there, if anything was.
    pub before: Option<Attributes>,
    /// What is there now, if anything is.
    pub after: Option<Attributes>,
}

/// Which object a name with hard links stood for. Recorded for all names that
/// are known to share one with something that changed, before or after.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct LinkedName {
    /// The name.
    #[serde(with = "path_serde")]
    pub path: PathBuf,
    /// The object it was before, if it was a file or a link.
    pub before: Option<FileObject>,
    /// The object it became, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<FileObject>,
    /// Whether the object before had names that are not recorded here.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub elsewhere: bool,
}

/// What an entry of a command has besides contents and modes.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct EntryAttachments {
    /// Attributes of what changed, and of the directories around it.
    pub attributes: Vec<AttributeChange>,
    /// Names that were hard links, of which at least one changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<LinkedName>,
    /// Commits that were made: the beginning of each name, and what was said.
    /// They stay when the entry is taken back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commits: Vec<String>,
}

impl Attributes {
    /// Those of a file, a directory or a link. Extended ones as far as they can
    /// be read.
    pub fn read(path: &Path, meta: &Metadata) -> Self {
        let extended = if meta.is_symlink() { Vec::new() } else { extended(path) };
        Self { modified: (meta.mtime(), meta.mtime_nsec()), owner: (meta.uid(), meta.gid()), extended }
    }

    /// Whether something besides times is different.
    pub fn differs_from(&self, other: &Self) -> bool {
        self.owner != other.owner || self.extended != other.extended
    }

    /// Gives them to what is at a path, as far as we may: only the root user can
    /// give files away.
    pub(crate) fn apply(&self, path: &Path) -> io::Result<()> {
        let meta = fs::symlink_metadata(path)?;
        if (meta.uid(), meta.gid()) != self.owner {
            let (user, group) = (Uid::from_raw(self.owner.0), Gid::from_raw(self.owner.1));
            let given = chownat(CWD, path, Some(user), Some(group), AtFlags::SYMLINK_NOFOLLOW);
            if given.is_ok() && !meta.is_symlink() {
                // A change of owner takes special bits away.
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

/// Those a user can see and set: what the kernel keeps for itself changes with
/// the content.
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

    /// Writes down what belongs to an entry. Without it its contents come back
    /// all the same.
    pub fn record_beside(&self, entry: &EntryId, beside: &EntryAttachments) -> io::Result<()> {
        if *beside == EntryAttachments::default() {
            return Ok(());
        }
        let path = self.attributes_of(entry);
        private_dir(&self.dir.join("attributes")).map_err(|err| io::Error::other(err.to_string()))?;
        replace_file(&path, &serde_json::to_vec(beside)?, ModeOnReplace::Private, Durability::Whenever)
    }

    /// What was written down for an entry.
    pub(crate) fn beside(&self, entry: &EntryId) -> EntryAttachments {
        let bytes = fs::read(self.attributes_of(entry)).unwrap_or_default();
        serde_json::from_slice(&bytes).unwrap_or_default()
    }

    /// Forgets those of entries that are gone.
    pub(super) fn prune_attributes(&self, remaining: &HashSet<&str>) {
        for path in read_dir(&self.dir.join("attributes")) {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if !remaining.contains(name.as_str()) {
                fs::remove_file(path).ok();
            }
        }
    }
}
