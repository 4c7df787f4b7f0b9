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

/// A session's log: JSON lines, appended to and never rewritten. While it is
/// open, no other process and no other session of this process can open it.
///
/// **Invariant:** any prefix of it, cut at any byte, can be read; what cannot
/// be read is counted and passed over, and the next line starts on a fresh
/// line.
#[derive(Debug)]
pub struct LogFile {
    path: PathBuf,
    file: File,
    was_torn: bool,
    fence: Option<RemoteLogHandle>,
    /// How many more bytes a disk takes, in tests.
    #[cfg(test)]
    pub(super) room: Option<u64>,
}

/// What reading a log found.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ReadReport {
    /// Lines that hold an entry.
    pub entries: usize,
    /// Lines that do not, and are not blank.
    pub unreadable: usize,
    /// Whether the last line has no end: the writer was cut off.
    pub torn: bool,
}

/// A longer line is no entry of ours.
const MAX_LINE: u64 = 256 << 20;

impl LogFile {
    /// Opens a log for appending, and makes it if it is not there. Only the
    /// owner may read it. A log that another session writes is an error of the
    /// kind `ResourceBusy` that names the process; one that ends is waited for.
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

    /// The same log; its lines go to a store as well.
    #[must_use]
    pub fn fenced(mut self, fence: Option<RemoteLogHandle>) -> Self {
        self.fence = fence;
        self
    }

    /// The store its lines go to as well.
    pub fn fence(&self) -> Option<&RemoteLogHandle> {
        self.fence.as_ref()
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the last line had no end when the log was opened: its writer was
    /// cut off. It has one now.
    pub fn was_torn(&self) -> bool {
        self.was_torn
    }

    /// Hands bytes to the kernel, as many as it takes.
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

    /// Whether the file has no name any more: nobody will ever read it.
    pub(super) fn is_deleted(&self) -> bool {
        let Ok(about) = self.file.metadata() else { return false };
        // Some file systems do not count names.
        about.nlink() == 0
            && std::fs::metadata(&self.path)
                .map_or(true, |named| (named.dev(), named.ino()) != (about.dev(), about.ino()))
    }

    /// The file that has the name now, if there is one again.
    pub(super) fn again(&self) -> io::Result<Self> {
        if self.path.exists() {
            Ok(Self::open(&self.path)?.fenced(self.fence.clone()))
        } else {
            Err(io::Error::new(io::ErrorKind::NotFound, "the file was deleted"))
        }
    }
}

impl Drop for LogFile {
    /// A child that is between its start and its program has the file open too,
    /// so closing it is not enough.
    fn drop(&mut self) {
        self.file.unlock().ok();
    }
}

/// Appends one entry to a log that another session may be writing: it is one
/// write, and lines of two writers do not mix.
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

/// Reads a log line by line, in memory bounded by its longest line.
pub fn read(path: &Path, each: impl FnMut(LogEntry)) -> io::Result<ReadReport> {
    read_from(path, 0, each)
}

/// The same for whoever shows the conversation again: lines that only say how single
/// calls went are passed over and not counted.
pub fn read_shown(path: &Path, mut each: impl FnMut(LogEntry)) -> io::Result<ReadReport> {
    let mut report = ReadReport::default();
    report.torn = read_lines(path, 0, |line| {
        if !is_about_call(line) {
            report.take(line, &mut each);
        }
    })?;
    Ok(report)
}

/// The same as [`read`] from a byte on.
pub(crate) fn read_from(path: &Path, start: u64, mut each: impl FnMut(LogEntry)) -> io::Result<ReadReport> {
    let mut report = ReadReport::default();
    report.torn = read_lines(path, start, |line| report.take(line, &mut each))?;
    Ok(report)
}

impl ReadReport {
    /// Reads a line, and counts it.
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

/// The lines of a file from a byte on that are not blank. Says whether the last one has
/// no end.
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
        // A crash may leave a block of zeros where data was to be.
        let text = line.trim_ascii().trim_start_matches_zero();
        if !text.is_empty() {
            each(text);
        }
    }
}

/// Whether a line is of a type that only other programs write: there is nothing in
/// it that a conversation would miss.
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
