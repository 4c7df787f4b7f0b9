use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::{ContentHash, FileError, OpenFile, Stamp};

/// The largest file that is loaded to be changed.
pub const MAX_EDITABLE: u64 = 512 * 1024 * 1024;

/// A file as it was at one moment: what a change is made for. The content
/// itself is with whoever asked for it.
#[derive(Debug)]
pub struct Snapshot {
    file: OpenFile,
    hash: ContentHash,
    settled: bool,
}

impl Snapshot {
    /// Loads a whole file and remembers what it was.
    pub fn load(file: OpenFile) -> Result<(Self, Vec<u8>), FileError> {
        let bytes = file.read_all(MAX_EDITABLE)?;
        let hash = ContentHash::of(&bytes);
        let settled = is_settled(file.stamp());
        Ok((Self { file, hash, settled }, bytes))
    }

    /// The open file.
    pub fn file(&self) -> &OpenFile {
        &self.file
    }

    /// The fingerprint of the content.
    pub fn hash(&self) -> ContentHash {
        self.hash
    }

    /// Whether the object behind a file still holds what the snapshot holds.
    pub(crate) fn is_current(&self, found: &OpenFile) -> Result<bool, FileError> {
        if self.stamp_says_current(&found.restamp()?) {
            return Ok(true);
        }
        let hash = hash_open(found)?;
        Ok(hash == self.hash)
    }

    /// Whether the stamp alone proves it: a large file that was at rest when it
    /// was read, and whose times have not moved. Small files are read again.
    fn stamp_says_current(&self, now: &Stamp) -> bool {
        const WORTH_TRUSTING: u64 = 1024 * 1024;
        self.settled && WORTH_TRUSTING < now.len && now.untouched_since(self.file.stamp())
    }
}

/// The fingerprint of an open file, from its beginning.
pub(crate) fn hash_open(file: &OpenFile) -> Result<ContentHash, FileError> {
    ContentHash::of_reader(file.from_start()).map_err(|err| FileError::from_io(file.path(), "read", err))
}

/// Whether a file was last changed long enough ago that a further change would
/// surely show in its times, however coarse the clock of the file system.
fn is_settled(stamp: &Stamp) -> bool {
    let seconds = u64::try_from(stamp.modified.0).unwrap_or(0);
    let modified = UNIX_EPOCH + Duration::from_secs(seconds);
    SystemTime::now().duration_since(modified).is_ok_and(|age| Duration::from_secs(4) < age)
}
