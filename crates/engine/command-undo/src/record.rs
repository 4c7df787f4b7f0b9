//! Snapshots on disk. If the process is killed while a command runs, the next process can still
//! determine what the command changed.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    os::unix::{
        ffi::{OsStrExt as _, OsStringExt as _},
        fs::{DirBuilderExt as _, OpenOptionsExt as _},
    },
    path::{Path, PathBuf},
};

use haft_workspace::{ChangeOrigin, FileObject, Journal};
use serde::{Deserialize, Serialize};

use super::path_tree::{PathNode, PathTree};

/// A command that may be running.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct PendingRecord {
    pub(crate) origin: ChangeOrigin,
    #[serde(with = "spelt_paths")]
    pub(crate) starts: Vec<PathBuf>,
    #[serde(with = "spelt_paths")]
    pub(crate) left_out: Vec<PathBuf>,
    /// Identity of the files in `left_out`, so that they are recognised after a move.
    #[serde(default)]
    pub(crate) left_objects: Vec<FileObject>,
    /// Start time in milliseconds since 1970 (UTC).
    pub(crate) since: u64,
}

/// The record directory of one session. Locked while the session lives.
#[derive(Debug)]
pub(crate) struct UndoRecord {
    dir: PathBuf,
    _lock: File,
}

/// The record of a session that has ended, locked against other processes.
pub(crate) struct LeftRecord {
    pub(crate) dir: PathBuf,
    pub(crate) pending: Vec<(PendingRecord, PathTree)>,
    _lock: File,
}

/// Bytes above which a stored tree is read only when it is needed.
const LARGE: u64 = 256 << 10;

fn root(journal: &Journal) -> PathBuf {
    journal.dir().join("commands")
}

fn lock(dir: &Path) -> io::Result<File> {
    let file = File::options().create(true).truncate(false).write(true).mode(0o600).open(dir.join("lock"))?;
    file.try_lock().map_err(|_| io::Error::from(io::ErrorKind::WouldBlock))?;
    Ok(file)
}

impl UndoRecord {
    pub(crate) fn open(journal: &Journal) -> io::Result<Self> {
        let now = std::time::UNIX_EPOCH.elapsed().unwrap_or_default().as_nanos();
        let dir = root(journal).join(format!("{}-{now:x}", std::process::id()));
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir)?;
        Ok(Self { _lock: lock(&dir)?, dir })
    }

    fn write(&self, name: &str, value: &impl Serialize) -> io::Result<()> {
        let temp = self.dir.join(format!(".{name}"));
        let mut file = File::options().create(true).truncate(true).write(true).mode(0o600).open(&temp)?;
        let mut out = io::BufWriter::with_capacity(1 << 16, &mut file);
        serde_json::to_writer(&mut out, value)?;
        out.flush()?;
        drop(out);
        fs::rename(temp, self.dir.join(name))
    }

    /// Writes a tree. Several commands may share it.
    pub(crate) fn keep(&self, number: u64, tree: &PathTree) -> io::Result<()> {
        let list: Vec<(PathBytes, &PathNode)> =
            tree.iter().map(|(path, node)| (PathBytes::from_path(path), node)).collect();
        self.write(&format!("tree-{number}"), &list)
    }

    /// Records that a command is about to run, with the tree taken before it.
    pub(crate) fn begin(&self, call: u64, tree: u64, pending: &PendingRecord) -> io::Result<()> {
        self.write(&format!("call-{call}"), &(tree, pending))
    }

    pub(crate) fn end(&self, call: u64) {
        fs::remove_file(self.dir.join(format!("call-{call}"))).ok();
    }

    /// Deletes a tree that no command needs any more.
    pub(crate) fn drop_tree(&self, number: u64) {
        fs::remove_file(self.dir.join(format!("tree-{number}"))).ok();
    }
}

/// Returns the records of ended sessions. Each is locked until it is dropped; records locked by another
/// process are skipped.
pub(crate) fn left(journal: &Journal) -> Vec<LeftRecord> {
    let dirs = fs::read_dir(root(journal)).into_iter().flatten().flatten().map(|it| it.path());
    dirs.filter_map(|dir| {
        let lock = lock(&dir).ok()?;
        Some(LeftRecord { pending: pending(&dir), dir, _lock: lock })
    })
    .collect()
}

fn names(dir: &Path, prefix: &str) -> Vec<(u64, PathBuf)> {
    let numbered = |path: PathBuf| {
        let number = path.file_name()?.to_str()?.strip_prefix(prefix)?.parse().ok()?;
        Some((number, path))
    };
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut found: Vec<_> = entries.filter_map(|it| numbered(it.path())).collect();
    found.sort();
    found
}

fn pending(dir: &Path) -> Vec<(PendingRecord, PathTree)> {
    let read = |(_, path): (u64, PathBuf)| {
        let (tree, pending): (u64, PendingRecord) = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
        Some((pending, read_tree(&dir.join(format!("tree-{tree}")))?))
    };
    names(dir, "call-").into_iter().filter_map(read).collect()
}

fn read_tree(path: &Path) -> Option<PathTree> {
    let list: Vec<(PathBytes, PathNode)> = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    Some(list.into_iter().map(|(path, node)| (path.path(), node)).collect())
}

/// A path in JSON: text if it is UTF-8, else its bytes.
#[derive(Deserialize, Serialize)]
#[serde(untagged)]
enum PathBytes {
    Text(String),
    Bytes(Vec<u8>),
}

impl PathBytes {
    fn from_path(path: &Path) -> Self {
        match path.to_str() {
            Some(text) => Self::Text(text.to_owned()),
            None => Self::Bytes(path.as_os_str().as_bytes().to_vec()),
        }
    }

    fn path(self) -> PathBuf {
        match self {
            Self::Text(text) => PathBuf::from(text),
            Self::Bytes(bytes) => PathBuf::from(std::ffi::OsString::from_vec(bytes)),
        }
    }
}

mod spelt_paths {
    use std::path::PathBuf;

    use serde::{Deserialize as _, Deserializer, Serializer};

    use super::PathBytes;

    pub(super) fn serialize<S: Serializer>(paths: &[PathBuf], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(paths.iter().map(|it| PathBytes::from_path(it)))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<PathBuf>, D::Error> {
        Ok(Vec::<PathBytes>::deserialize(deserializer)?.into_iter().map(PathBytes::path).collect())
    }
}

impl LeftRecord {
    fn newest_tree(&self) -> Option<PathBuf> {
        names(&self.dir, "tree-").pop().map(|it| it.1)
    }

    /// Whether the newest tree is too large to read without need.
    pub(crate) fn is_large(&self) -> bool {
        self.newest_tree().and_then(|it| fs::metadata(it).ok()).is_some_and(|it| LARGE < it.len())
    }

    /// Reads the newest tree; `None` if there is none or it cannot be read.
    pub(crate) fn last(&self) -> Option<PathTree> {
        read_tree(&self.newest_tree()?)
    }

    /// Deletes the record once all its commands have been handled.
    pub(crate) fn remove(self) {
        fs::remove_dir_all(&self.dir).ok();
    }
}
