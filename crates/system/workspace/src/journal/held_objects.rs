//! Keeps hard-linked objects alive through an additional name in the journal.
//!
//! A name that was detached from its object can only be linked again while the object exists, and its
//! other names may be anywhere. So the object gets a name in the journal, on the same disk, until no
//! entry refers to it. It is not a copy: other names share the object, and its content is checked before
//! it is used.

use std::{
    collections::HashSet,
    fs::{self, File},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use rustix::{fs::OFlags, io::Errno};

use super::{EntryAttachments, FileObject, Journal, content_store::read_dir};
use crate::{commit::link_open_file, open_checked::open_no_links, path_locks::private_dir};

/// An open file or symlink, which stays accessible whatever happens to its names.
#[derive(Debug)]
pub struct RetainedObject {
    file: File,
    object: FileObject,
}

impl RetainedObject {
    /// Opens the object at a path, if it is this one. Does not read it.
    pub fn open(path: &Path, object: FileObject) -> Option<Self> {
        let file = File::from(open_no_links(path, OFlags::PATH).ok()?);
        let found = FileObject::of(&file.metadata().ok()?);
        found.is(&object).then_some(Self { file, object: found })
    }

    pub fn object(&self) -> FileObject {
        self.object
    }
}

impl Journal {
    fn kept_names(&self) -> PathBuf {
        self.dir.join("linked")
    }

    /// Gives the object a name in the journal. False if that is not possible: another disk, no
    /// permission, or its last name is gone.
    pub fn retain_inode(&self, held: &RetainedObject) -> bool {
        let kept = private_dir(&self.kept_names()).ok().and_then(|dir| File::open(dir).ok());
        let linked = kept.map(|dir| link_open_file(&held.file, &dir, spelt(held.object.id()).as_ref()));
        matches!(linked, Some(Ok(()) | Err(Errno::EXIST)))
    }

    /// The journal's name of an object, if it has one.
    pub(crate) fn kept_object(&self, object: FileObject) -> Option<PathBuf> {
        let path = self.kept_names().join(spelt(object.id()));
        path.symlink_metadata().is_ok_and(|it| FileObject::of(&it).is(&object)).then_some(path)
    }

    /// Number of names of an object in this journal and the journals beside it, whose workspaces may
    /// overlap.
    pub fn names_of_ours(&self, object: (u64, u64)) -> u64 {
        let journals = self.dir.parent().into_iter().flat_map(read_dir);
        let paths = journals.map(|journal| journal.join("linked").join(spelt(object)));
        let is_it = |meta: fs::Metadata| (meta.dev(), meta.ino()) == object;
        paths.filter(|path| path.symlink_metadata().is_ok_and(is_it)).count() as u64
    }

    /// Removes names that no entry refers to, except recent ones, whose entry may not be written yet.
    pub(super) fn prune_kept_names(&self, remaining: &[EntryAttachments], young: i64) {
        let wanted: HashSet<String> = remaining
            .iter()
            .flat_map(|it| &it.links)
            .filter_map(|it| it.before.map(|it| spelt(it.id())))
            .collect();
        for path in read_dir(&self.kept_names()) {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let is_young = path.symlink_metadata().is_ok_and(|it| young <= it.ctime());
            if !is_young && !wanted.contains(&name) {
                fs::remove_file(path).ok();
            }
        }
    }
}

fn spelt((device, number): (u64, u64)) -> String {
    format!("{device:x}-{number:x}")
}
