use std::{
    fs::{File, OpenOptions},
    io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use super::Entry;

/// A session's log: JSON lines, appended to and never rewritten.
///
/// **Invariant:** any prefix of it, cut at any byte, can be read; what cannot
/// be read is counted and passed over, and the next line starts on a fresh
/// line.
#[derive(Debug)]
pub struct LogFile {
    path: PathBuf,
    file: File,
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
    /// owner may read it.
    pub fn open(path: impl Into<PathBuf>) -> io::Result<Self> {
        let path = path.into();
        if let Some(dir) = path.parent() {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        }
        let mut file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(&path)?;
        if ends_torn(&mut file)? {
            file.write_all(b"\n")?;
        }
        Ok(Self { path, file })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends entries in one write, so that two processes never mix lines.
    pub fn append(&mut self, entries: &[Entry]) -> io::Result<()> {
        let mut bytes = Vec::new();
        for entry in entries {
            serde_json::to_writer(&mut bytes, entry).map_err(io::Error::other)?;
            bytes.push(b'\n');
        }
        let written = self.file.write_all(&bytes);
        if written.is_err() && ends_torn(&mut self.file).unwrap_or(false) {
            // A full disk cut the line; the next one must not continue it.
            self.file.write_all(b"\n").ok();
        }
        written
    }
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
pub fn read(path: &Path, each: impl FnMut(Entry)) -> io::Result<ReadReport> {
    read_from(path, 0, each)
}

/// The same from a byte on.
pub(crate) fn read_from(path: &Path, start: u64, mut each: impl FnMut(Entry)) -> io::Result<ReadReport> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(start))?;
    let mut reader = BufReader::with_capacity(256 << 10, file);
    let mut report = ReadReport::default();
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = (&mut reader).take(MAX_LINE).read_until(b'\n', &mut line)?;
        if read == 0 {
            return Ok(report);
        }
        report.torn = !line.ends_with(b"\n");
        // A crash may leave a block of zeros where data was to be.
        let text = line.trim_ascii().trim_start_matches_zero();
        if text.is_empty() {
            continue;
        }
        match serde_json::from_slice(text) {
            Ok(entry) => {
                report.entries += 1;
                each(entry);
            }
            Err(_) => report.unreadable += 1,
        }
    }
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
