use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::{ContentHash, FileError, FileStat, OpenFile, cached_read};

/// The largest file that is loaded to be changed.
pub const MAX_EDITABLE: u64 = 512 * 1024 * 1024;

/// A file as it was at one moment: what a change is made for. The content
/// itself is with the caller.
#[derive(Debug)]
pub struct FileSnapshot {
    file: OpenFile,
    hash: ContentHash,
    settled: bool,
    /// What an editor shows instead, and has not saved.
    shown: Option<ShownText>,
}

/// A text that stands for a file.
#[derive(Debug)]
struct ShownText {
    text: String,
    hash: ContentHash,
}

impl FileSnapshot {
    /// Loads a whole file and remembers what it was.
    pub fn load(file: OpenFile) -> Result<(Self, Vec<u8>), FileError> {
        let settled = is_settled(&file);
        let (bytes, hash) = file.read_hashed(MAX_EDITABLE)?;
        // Judged before the content was read: it cannot have got older since.
        Ok((Self { file, hash, settled, shown: None }, bytes))
    }

    /// A file whose content has just been read and has this fingerprint.
    pub(crate) fn new(file: OpenFile, hash: ContentHash) -> Self {
        let settled = is_settled(&file);
        Self { file, hash, settled, shown: None }
    }

    /// The same file, where an editor's unsaved text stands for what is on disk.
    pub(crate) fn shown_as(self, text: String) -> Self {
        let hash = ContentHash::hash(text.as_bytes());
        Self { shown: Some(ShownText { text, hash }), ..self }
    }

    /// The unsaved text that stands for the file.
    pub(crate) fn unsaved(&self) -> Option<&str> {
        self.shown.as_ref().map(|it| it.text.as_str())
    }

    /// The fingerprint of what is on disk, whatever stands for it.
    pub(crate) fn disk_hash(&self) -> ContentHash {
        self.hash
    }

    /// The open file.
    pub fn file(&self) -> &OpenFile {
        &self.file
    }

    /// The fingerprint of the content that was loaded.
    pub fn hash(&self) -> ContentHash {
        self.shown.as_ref().map_or(self.hash, |it| it.hash)
    }

    /// Whether the object behind a file still holds what the snapshot holds: the
    /// look that counts.
    pub(crate) fn is_current(&self, found: &OpenFile) -> Result<bool, FileError> {
        let now = found.restamp()?;
        if self.settled && is_large(&now) && now.untouched_since(self.file.stamp()) {
            return Ok(true);
        }
        Ok(hash_open(found)? == self.hash)
    }

    /// A look before the one that counts: no sign of a change is enough for a
    /// large file.
    pub(crate) fn seems_current(&self, found: &OpenFile) -> Result<bool, FileError> {
        let now = found.restamp()?;
        if is_large(&now) && now.untouched_since(self.file.stamp()) {
            return Ok(true);
        }
        Ok(hash_open(found)? == self.hash)
    }

    /// The first look, before we have touched the object ourselves: any sign at
    /// all is followed up, so that times that were put back deceive nobody.
    pub(crate) fn is_untouched(&self, found: &OpenFile) -> Result<bool, FileError> {
        let (now, then) = (found.restamp()?, self.file.stamp());
        if is_large(&now) && now.untouched_since(then) && now.changed == then.changed {
            return Ok(true);
        }
        Ok(hash_open(found)? == self.hash)
    }
}

/// Files of this size are worth trusting their times instead of reading them
/// again.
fn is_large(stamp: &FileStat) -> bool {
    const WORTH_TRUSTING: u64 = 1024 * 1024;
    WORTH_TRUSTING < stamp.len
}

/// The fingerprint of an open file, from its beginning.
pub(crate) fn hash_open(file: &OpenFile) -> Result<ContentHash, FileError> {
    ContentHash::of_reader(file.from_start()).map_err(|err| FileError::from_io(file.path(), "read", err))
}

/// Whether a file was last changed long enough ago that a further change would
/// surely show in its times, however coarse the clock of the file system. Those
/// of this machine count in ticks of at most ten milliseconds, others in up to
/// two seconds.
fn is_settled(file: &OpenFile) -> bool {
    let enough = if cached_read::is_noted(file.stamp().id.0) { 50 } else { 4000 };
    let (seconds, nanoseconds) = file.stamp().modified;
    let (Ok(seconds), Ok(nanoseconds)) = (u64::try_from(seconds), u64::try_from(nanoseconds)) else {
        return false;
    };
    let modified = UNIX_EPOCH + Duration::from_secs(seconds) + Duration::from_nanos(nanoseconds);
    SystemTime::now().duration_since(modified).is_ok_and(|age| Duration::from_millis(enough) < age)
}
