//! Reads line ranges of files of any size.
//!
//! Scans the file in blocks, so memory is bounded by the request. Does not use a memory map: truncating
//! a mapped file kills the process.

use std::ops::ControlFlow;

use memchr::{memchr_iter, memchr2, memrchr_iter};
use rustix::io::{Errno, pread};

use crate::{
    FileError, OpenFile,
    text::{CarriageReturns, Charset, Encoding, char_units},
};

/// Line terminator of a file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LineEnd {
    /// This byte.
    Byte(u8),
    /// A UTF-16 line feed, little endian.
    WideLe,
    /// A UTF-16 line feed, big endian.
    WideBe,
}

impl LineEnd {
    /// Detects the terminator from the encoding and the beginning of the file.
    pub fn detect(encoding: Encoding, head: &[u8]) -> Self {
        match encoding.charset {
            Charset::Utf16Le => Self::WideLe,
            Charset::Utf16Be => Self::WideBe,
            Charset::Utf8 | Charset::Legacy(_) | Charset::Unknown => {
                let only_returns = head.contains(&b'\r') && !head.contains(&b'\n');
                Self::Byte(if only_returns { b'\r' } else { b'\n' })
            }
        }
    }

    /// Positions directly after line ends, ascending.
    fn ends<'a>(self, block: &'a [u8]) -> Box<dyn Iterator<Item = usize> + 'a> {
        match self {
            Self::Byte(byte) => Box::new(memchr_iter(byte, block).map(|at| at + 1)),
            Self::WideLe => Box::new(wide(block, 0).map(|at| at + 2)),
            Self::WideBe => Box::new(wide(block, 1).map(|at| at + 1)),
        }
    }

    fn count(self, block: &[u8]) -> u64 {
        match self {
            Self::Byte(byte) => memchr_iter(byte, block).count() as u64,
            wide => wide.ends(block).count() as u64,
        }
    }

    fn rends<'a>(self, block: &'a [u8]) -> Box<dyn Iterator<Item = usize> + 'a> {
        match self {
            Self::Byte(byte) => Box::new(memrchr_iter(byte, block).map(|at| at + 1)),
            wide => Box::new(wide.ends(block).collect::<Vec<_>>().into_iter().rev()),
        }
    }
}

/// UTF-16 line feeds; `side` is the offset of the significant byte. Blocks start at even offsets.
fn wide(block: &[u8], side: usize) -> impl Iterator<Item = usize> {
    memchr_iter(b'\n', block).filter(move |at| {
        let other = if side == 0 { at + 1 } else { at.wrapping_sub(1) };
        at % 2 == side && block.get(other) == Some(&0)
    })
}

/// Which lines to read.
#[derive(Clone, Copy, Debug)]
pub struct LineQuery {
    /// First line, from 1.
    pub first: u64,
    /// Maximum number of lines.
    pub count: u64,
    /// Maximum bytes; the last line is truncated there.
    pub max_bytes: usize,
    pub line_end: LineEnd,
}

/// Lines of a file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Lines {
    /// Their bytes, including line ends.
    pub bytes: Vec<u8>,
    /// Byte offset of the first line.
    pub start: u64,
    /// Number of lines in the file.
    pub total: u64,
    /// Whether the last line was truncated.
    pub cut: bool,
}

/// Cancellation check of a long read.
pub type IsCancelled<'a> = &'a (dyn Fn() -> bool + 'a);

/// Reads some lines. Scans the whole file, because it also counts the lines.
pub fn read_lines(
    file: &OpenFile,
    query: &LineQuery,
    cancelled: IsCancelled<'_>,
) -> Result<Lines, FileError> {
    let mut walk = LineWalk {
        query: *query,
        line: 1,
        lines: Lines { bytes: Vec::new(), start: 0, total: 0, cut: false },
        started: false,
        last_ended: true,
    };
    let mut done = 0;
    blocks(file, 0, cancelled, |offset, block| {
        walk.block(offset, block);
        done = offset + block.len() as u64;
        ControlFlow::Continue(())
    })?;
    if !walk.started {
        walk.lines.start = done;
    }
    walk.lines.total = walk.line - u64::from(walk.last_ended);
    Ok(walk.lines)
}

struct LineWalk {
    query: LineQuery,
    /// Number of the current line.
    line: u64,
    lines: Lines,
    started: bool,
    /// Whether the current position is the start of a line.
    last_ended: bool,
}

impl LineWalk {
    fn block(&mut self, offset: u64, block: &[u8]) {
        let LineQuery { first, count, max_bytes, line_end } = self.query;
        let behind = first.saturating_add(count);
        let inside = line_end.count(block);
        let line_at_start = self.line;
        self.line += inside;
        self.last_ended = line_end.rends(block).next() == Some(block.len());
        if self.line < first || behind <= line_at_start {
            return;
        }
        let place = |line: u64| match line.checked_sub(line_at_start) {
            None | Some(0) => Some(0),
            Some(n) => usize::try_from(n - 1).ok().and_then(|n| line_end.ends(block).nth(n)),
        };
        let Some(from) = place(first) else { return };
        let to = place(behind).unwrap_or(block.len());
        if !self.started {
            self.lines.start = offset + from as u64;
            self.started = true;
        }
        let room = max_bytes - self.lines.bytes.len();
        let wanted = &block[from..to];
        self.lines.bytes.extend_from_slice(&wanted[..wanted.len().min(room)]);
        self.lines.cut |= room < wanted.len();
    }
}

/// Byte offset of the last `count` lines, found by scanning from the end.
pub fn tail_start(file: &OpenFile, count: u64, line_end: LineEnd) -> Result<u64, FileError> {
    let len = file.restamp()?.len;
    let mut end = len;
    let mut missing = count;
    let mut block = vec![0; BLOCK];
    while 0 < end {
        // Even offsets keep UTF-16 units whole.
        let start = end.saturating_sub(BLOCK as u64) & !1;
        let part = read_at(file, start, &mut block, end)?;
        for found in line_end.rends(part) {
            let at = start + found as u64;
            if at == len {
                continue;
            }
            missing -= u64::from(missing != 0);
            if missing == 0 {
                return Ok(at);
            }
        }
        end = start;
    }
    Ok(0)
}

/// Number of lines before a byte offset.
pub fn lines_before(
    file: &OpenFile,
    place: u64,
    line_end: LineEnd,
    cancelled: IsCancelled<'_>,
) -> Result<u64, FileError> {
    let mut lines = 0;
    blocks(file, 0, cancelled, |offset, block| {
        let wanted = usize::try_from(place.saturating_sub(offset)).unwrap_or(usize::MAX).min(block.len());
        lines += line_end.count(&block[..wanted]);
        if wanted < block.len() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    Ok(lines)
}

const BLOCK: usize = 256 * 1024;

fn blocks(
    file: &OpenFile,
    mut offset: u64,
    cancelled: IsCancelled<'_>,
    mut each: impl FnMut(u64, &[u8]) -> ControlFlow<()>,
) -> Result<(), FileError> {
    let mut block = vec![0; BLOCK];
    loop {
        if cancelled() {
            let source = std::io::Error::new(std::io::ErrorKind::Interrupted, "interrupted");
            return Err(FileError::Io { path: file.path().to_owned(), doing: "read", source });
        }
        let part = read_at(file, offset, &mut block, u64::MAX)?;
        if part.is_empty() || each(offset, part).is_break() {
            return Ok(());
        }
        offset += part.len() as u64;
    }
}

/// Fills the buffer from an offset, up to `end` or the end of the file.
fn read_at<'a>(file: &OpenFile, offset: u64, block: &'a mut [u8], end: u64) -> Result<&'a [u8], FileError> {
    let wanted = usize::try_from(end - offset).unwrap_or(usize::MAX).min(block.len());
    let mut len = 0;
    while len < wanted {
        match pread(file.file(), &mut block[len..wanted], offset + len as u64) {
            Ok(0) => break,
            Ok(read) => len += read,
            Err(Errno::INTR) => (),
            Err(errno) => return Err(FileError::from_errno(file.path(), "read", errno)),
        }
    }
    Ok(&block[..len])
}

/// Reads up to `max` bytes from an offset.
pub fn read_bytes(file: &OpenFile, offset: u64, max: usize) -> Result<Vec<u8>, FileError> {
    let mut bytes = vec![0; max];
    let len = read_at(file, offset, &mut bytes, u64::MAX)?.len();
    bytes.truncate(len);
    Ok(bytes)
}

/// Length of a run of single-byte characters within the line, at most `most`. Fast path: most lines
/// consist of these, and a long one has millions.
fn plain_run(charset: Charset, bytes: &[u8], most: u64) -> usize {
    const STRETCH: usize = 4096;
    let wide = matches!(charset, Charset::Utf16Le | Charset::Utf16Be);
    let len = usize::try_from(most).unwrap_or(STRETCH).min(STRETCH);
    match bytes.get(..len) {
        Some(run) if !wide && run.is_ascii() && memchr2(b'\n', b'\r', run).is_none() => len,
        _ => 0,
    }
}

/// Byte length of the next `count` characters of the line that starts at `start`. Stops at the end of
/// the line.
pub fn skip_characters(file: &OpenFile, start: u64, count: u64, charset: Charset) -> Result<u64, FileError> {
    let mut left = count;
    let mut skipped = 0_u64;
    let mut block = vec![0; BLOCK];
    loop {
        let part = read_at(file, start + skipped, &mut block, u64::MAX)?;
        let at_end = part.len() < BLOCK;
        let mut at = 0;
        // A character may continue in the next block.
        while at < part.len() && 0 < left && (at_end || at + 8 < part.len()) {
            let run = plain_run(charset, &part[at..], left);
            if 0 < run {
                at += run;
                left -= run as u64;
                continue;
            }
            let step = char_units::next(charset, CarriageReturns::Paired, &part[at..]);
            if step.character == '\n' {
                return Ok(skipped + at as u64);
            }
            at += step.len;
            left -= 1;
        }
        skipped += at as u64;
        if left == 0 || at_end {
            return Ok(skipped);
        }
    }
}
