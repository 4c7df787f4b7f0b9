use std::{
    fs::{File, OpenOptions},
    io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use serde::Deserialize;

use super::{
    LogEntry, RemoteLogHandle,
    parse::{is_about_call, parse_entry},
    writer_lock,
};

/// A session's log: JSON lines that are appended and never rewritten. While it is open, no other process
/// and no other session of this process can open it.
///
/// **Invariant:** a log truncated at any byte is readable. Unreadable lines are counted and
/// skipped, and the next line starts on a new line.
#[derive(Debug)]
pub struct LogFile {
    path: PathBuf,
    file: File,
    was_torn: bool,
    fence: Option<RemoteLogHandle>,
    /// Number of bytes the disk still accepts, in tests.
    #[cfg(test)]
    pub(super) room: Option<u64>,
}

/// Statistics of reading a log.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ReadReport {
    /// Number of lines with an entry.
    pub entries: usize,
    /// Number of lines that are neither valid nor blank.
    pub unreadable: usize,
    /// Whether the last line is incomplete because its writer was killed.
    pub torn: bool,
}

/// Maximum length of a line in bytes; longer ones are skipped.
const MAX_LINE: u64 = 256 << 20;

impl LogFile {
    /// Opens a log for appending, creating it if necessary, readable by its owner only. If another
    /// session has it open, waits a moment for that session to end, then fails with `ResourceBusy` and
    /// the process id.
    pub fn open(path: impl Into<PathBuf>) -> io::Result<Self> {
        let path = path.into();
        if let Some(dir) = path.parent() {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        }
        let mut file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(&path)?;
        writer_lock::take(&file, &path)?;
        let was_torn = ends_torn(&mut file)?;
        if was_torn {
            file.write_all(b"\n")?;
        }
        Ok(Self {
            path,
            file,
            was_torn,
            fence: None,
            #[cfg(test)]
            room: None,
        })
    }

    /// Sets the remote store that also receives the lines.
    #[must_use]
    pub fn fenced(mut self, fence: Option<RemoteLogHandle>) -> Self {
        self.fence = fence;
        self
    }

    /// The remote store, if there is one.
    pub fn fence(&self) -> Option<&RemoteLogHandle> {
        self.fence.as_ref()
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the last line was incomplete when the log was opened. It has been terminated.
    pub fn was_torn(&self) -> bool {
        self.was_torn
    }

    /// Writes bytes, as many as the kernel accepts.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        #[cfg(test)]
        if let Some(room) = &mut self.room {
            let fits = usize::try_from(*room).unwrap_or(usize::MAX).min(bytes.len());
            if fits == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            *room -= fits as u64;
            return self.file.write(&bytes[..fits]);
        }
        self.file.write(bytes)
    }

    pub(super) fn length(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    pub(super) fn ends_torn(&mut self) -> io::Result<bool> {
        ends_torn(&mut self.file)
    }

    /// Whether the file has been deleted.
    pub(super) fn is_deleted(&self) -> bool {
        let Ok(about) = self.file.metadata() else { return false };
        // Some file systems do not report link counts.
        about.nlink() == 0
            && std::fs::metadata(&self.path)
                .map_or(true, |named| (named.dev(), named.ino()) != (about.dev(), about.ino()))
    }

    /// Opens the file that has this path now.
    pub(super) fn reopened(&self) -> io::Result<Self> {
        if self.path.exists() {
            Ok(Self::open(&self.path)?.fenced(self.fence.clone()))
        } else {
            Err(io::Error::new(io::ErrorKind::NotFound, "the file was deleted"))
        }
    }
}

impl Drop for LogFile {
    /// Unlocks explicitly: a child process between fork and exec has the file open too, so closing it is
    /// not sufficient.
    fn drop(&mut self) {
        self.file.unlock().ok();
    }
}

/// Appends one entry with a single write to a log that another session may be writing.
pub(super) fn append_beside(path: &Path, entry: &LogEntry) -> io::Result<()> {
    let mut file = OpenOptions::new().read(true).append(true).open(path)?;
    let mut bytes = Vec::new();
    if ends_torn(&mut file)? {
        bytes.push(b'\n');
    }
    serde_json::to_writer(&mut bytes, entry).map_err(io::Error::other)?;
    bytes.push(b'\n');
    file.write_all(&bytes)
}

fn ends_torn(file: &mut File) -> io::Result<bool> {
    if file.seek(SeekFrom::End(0))? == 0 {
        return Ok(false);
    }
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last != *b"\n")
}

/// Reads a log line by line and calls `each` for every entry. Memory is bounded by the longest line.
pub fn read(path: &Path, each: impl FnMut(LogEntry)) -> io::Result<ReadReport> {
    read_from(path, 0, each)
}

/// Like [`read`], for displaying the conversation: skips and does not count lines about single calls.
pub fn read_shown(path: &Path, mut each: impl FnMut(LogEntry)) -> io::Result<ReadReport> {
    let mut report = ReadReport::default();
    report.torn = read_lines(path, 0, |line| {
        if !is_about_call(line) {
            report.take(line, &mut each);
        }
    })?;
    Ok(report)
}

/// Like [`read`], from a byte offset.
pub(crate) fn read_from(path: &Path, start: u64, mut each: impl FnMut(LogEntry)) -> io::Result<ReadReport> {
    let mut report = ReadReport::default();
    report.torn = read_lines(path, start, |line| report.take(line, &mut each))?;
    Ok(report)
}

impl ReadReport {
    /// Parses a line and updates the statistics.
    fn take(&mut self, line: &[u8], each: &mut impl FnMut(LogEntry)) {
        match parse_entry(line) {
            Ok(entry) => {
                self.entries += 1;
                each(entry);
            }
            Err(_) if is_of_others(line) => (),
            Err(_) => self.unreadable += 1,
        }
    }
}

/// Calls `each` for the non-blank lines from a byte offset. Returns whether the last one is incomplete.
fn read_lines(path: &Path, start: u64, mut each: impl FnMut(&[u8])) -> io::Result<bool> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(start))?;
    let mut reader = BufReader::with_capacity(256 << 10, file);
    let (mut line, mut torn) = (Vec::new(), false);
    loop {
        line.clear();
        let read = (&mut reader).take(MAX_LINE).read_until(b'\n', &mut line)?;
        if read == 0 {
            return Ok(torn);
        }
        torn = !line.ends_with(b"\n");
        // After a crash, a file may contain a block of zeros.
        let text = line.trim_ascii().trim_start_matches_zero();
        if !text.is_empty() {
            each(text);
        }
    }
}

/// Whether the line has a type that only other programs write and that is not part of the conversation.
fn is_of_others(line: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct LineType {
        r#type: String,
    }
    const OURS: [&str; 6] = ["user", "assistant", "system", "attachment", "haft", "custom-title"];
    serde_json::from_slice(line).is_ok_and(|it: LineType| !OURS.contains(&it.r#type.as_str()))
}

trait TrimZero {
    fn trim_start_matches_zero(&self) -> &[u8];
}

impl TrimZero for [u8] {
    fn trim_start_matches_zero(&self) -> &[u8] {
        let start = self.iter().position(|it| *it != 0).unwrap_or(self.len());
        &self[start..]
    }
}
