use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::{ContentHash, FileError, FileStat, OpenFile, cached_read};

/// Maximum bytes of a file that is loaded to be changed.
pub const MAX_EDITABLE: u64 = 512 * 1024 * 1024;

/// State of a file at one moment, as the base of a change. The caller holds the content.
#[derive(Debug)]
pub struct FileSnapshot {
    file: OpenFile,
    hash: ContentHash,
    settled: bool,
    /// Unsaved text that an editor shows instead.
    shown: Option<ShownText>,
}

/// Text that replaces the content on disk.
#[derive(Debug)]
struct ShownText {
    text: String,
    hash: ContentHash,
}

impl FileSnapshot {
    /// Reads a whole file and records its state.
    pub fn load(file: OpenFile) -> Result<(Self, Vec<u8>), FileError> {
        let settled = is_settled(&file);
        let (bytes, hash) = file.read_hashed(MAX_EDITABLE)?;
        // Determined before the content was read, so it cannot be too optimistic.
        Ok((Self { file, hash, settled, shown: None }, bytes))
    }

    /// For a file whose content was just read and has this hash.
    pub(crate) fn new(file: OpenFile, hash: ContentHash) -> Self {
        let settled = is_settled(&file);
        Self { file, hash, settled, shown: None }
    }

    /// The same file with an editor's unsaved text in place of the content on disk.
    pub(crate) fn with_editor_text(self, text: String) -> Self {
        let hash = ContentHash::hash(text.as_bytes());
        Self { shown: Some(ShownText { text, hash }), ..self }
    }

    /// The unsaved text that replaces the content on disk.
    pub(crate) fn unsaved(&self) -> Option<&str> {
        self.shown.as_ref().map(|it| it.text.as_str())
    }

    /// Hash of the content on disk.
    pub(crate) fn disk_hash(&self) -> ContentHash {
        self.hash
    }

    pub fn file(&self) -> &OpenFile {
        &self.file
    }

    /// Hash of the loaded content.
    pub fn hash(&self) -> ContentHash {
        self.shown.as_ref().map_or(self.hash, |it| it.hash)
    }

    /// Whether the file still has this content; compares hashes. The decisive check.
    pub(crate) fn is_current(&self, found: &OpenFile) -> Result<bool, FileError> {
        let now = found.restamp()?;
        if self.settled && is_large(&now) && now.untouched_since(self.file.stamp()) {
            return Ok(true);
        }
        Ok(hash_open(found)? == self.hash)
    }

    /// Cheaper preliminary check: for a large file, unchanged metadata suffices.
    pub(crate) fn is_probably_current(&self, found: &OpenFile) -> Result<bool, FileError> {
        let now = found.restamp()?;
        if is_large(&now) && now.untouched_since(self.file.stamp()) {
            return Ok(true);
        }
        Ok(hash_open(found)? == self.hash)
    }

    /// First check, before we touch the file: any sign of a change leads to a full comparison, so that
    /// reset timestamps do not deceive.
    pub(crate) fn is_untouched(&self, found: &OpenFile) -> Result<bool, FileError> {
        let (now, then) = (found.restamp()?, self.file.stamp());
        if is_large(&now) && now.untouched_since(then) && now.changed == then.changed {
            return Ok(true);
        }
        Ok(hash_open(found)? == self.hash)
    }
}

/// From this size on, timestamps are trusted instead of reading the file again.
fn is_large(stamp: &FileStat) -> bool {
    const WORTH_TRUSTING: u64 = 1024 * 1024;
    WORTH_TRUSTING < stamp.len
}

/// Hash of an open file from its beginning.
pub(crate) fn hash_open(file: &OpenFile) -> Result<ContentHash, FileError> {
    ContentHash::of_reader(file.from_start()).map_err(|err| FileError::from_io(file.path(), "read", err))
}

/// Whether the file was last modified long enough ago that a further change would certainly change its
/// timestamps. Local file systems have a resolution of at most ten milliseconds, others up to two
/// seconds.
fn is_settled(file: &OpenFile) -> bool {
    let enough = if cached_read::is_noted(file.stamp().id.0) { 50 } else { 4000 };
    let (seconds, nanoseconds) = file.stamp().modified;
    let (Ok(seconds), Ok(nanoseconds)) = (u64::try_from(seconds), u64::try_from(nanoseconds)) else {
        return false;
    };
    let modified = UNIX_EPOCH + Duration::from_secs(seconds) + Duration::from_nanos(nanoseconds);
    SystemTime::now().duration_since(modified).is_ok_and(|age| Duration::from_millis(enough) < age)
}
