use std::{fs::Metadata, os::unix::fs::MetadataExt as _, time::UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// Identity of a file. Names with equal identity are hard links of each other.
///
/// Inode numbers are reused, so the birth time is part of it, if the file system records one.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(from = "ObjectNumbers", into = "ObjectNumbers")]
pub struct FileObject {
    /// Device and inode number.
    id: (u64, u64),
    /// Birth time in nanoseconds since 1970; `None` if unknown.
    born: Option<u64>,
}

impl FileObject {
    /// Identity from metadata of a file or symlink.
    pub fn of(meta: &Metadata) -> Self {
        let born = meta.created().ok().and_then(|it| it.duration_since(UNIX_EPOCH).ok());
        let born = born.and_then(|it| u64::try_from(it.as_nanos()).ok());
        Self { id: (meta.dev(), meta.ino()), born }
    }

    pub fn id(&self) -> (u64, u64) {
        self.id
    }

    /// Whether both are the same object. Birth times are compared only if both are known.
    pub fn is(&self, other: &Self) -> bool {
        let reused = matches!((self.born, other.born), (Some(a), Some(b)) if a != b);
        self.id == other.id && !reused
    }
}

/// Journals of earlier versions have no birth time.
#[derive(Deserialize, Serialize)]
#[serde(untagged)]
enum ObjectNumbers {
    Born(u64, u64, u64),
    Unborn(u64, u64),
}

impl From<ObjectNumbers> for FileObject {
    fn from(numbers: ObjectNumbers) -> Self {
        match numbers {
            ObjectNumbers::Born(device, number, born) => Self { id: (device, number), born: Some(born) },
            ObjectNumbers::Unborn(device, number) => Self { id: (device, number), born: None },
        }
    }
}

impl From<FileObject> for ObjectNumbers {
    fn from(FileObject { id: (device, number), born }: FileObject) -> Self {
        match born {
            Some(born) => Self::Born(device, number, born),
            None => Self::Unborn(device, number),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn object_without_birth_time_reads_and_matches() {
        let old: FileObject = serde_json::from_str("[1,2]").unwrap();
        let new: FileObject = serde_json::from_str("[1,2,3]").unwrap();
        let reused: FileObject = serde_json::from_str("[1,2,4]").unwrap();
        assert_eq!(serde_json::to_string(&[old, new]).unwrap(), "[[1,2],[1,2,3]]");
        assert!(old.is(&new) && new.is(&old) && !new.is(&reused));
    }
}
