//! Lines of files of any size.
//!
//! A range of lines is found by running over blocks of the file, so memory is
//! bounded by what is asked for. No memory map: a file that shrinks under a map
//! kills the process.

use std::ops::ControlFlow;

use memchr::{memchr_iter, memchr2, memrchr_iter};
use rustix::io::{Errno, pread};

use crate::{
    FileError, OpenFile,
    text::{CarriageReturns, Charset, Encoding, char_units},
};

/// What ends a line in a file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LineEnd {
    /// A line ends with this byte.
    Byte(u8),
    /// A line feed of two bytes, low byte first.
    WideLe,
    /// A line feed of two bytes, high byte first.
    WideBe,
}

impl LineEnd {
    /// What ends lines, judged by the encoding and the beginning of the file.
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

    /// Places right after a line end, in ascending order.
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

/// Line feeds of two bytes: `side` is where the meaningful byte is. Blocks
/// start at even offsets.
fn wide(block: &[u8], side: usize) -> impl Iterator<Item = usize> {
    memchr_iter(b'\n', block).filter(move |at| {
        let other = if side == 0 { at + 1 } else { at.wrapping_sub(1) };
        at % 2 == side && block.get(other) == Some(&0)
    })
}

/// Which lines to read, and how much at most.
#[derive(Clone, Copy, Debug)]
pub struct LineQuery {
    /// The first line wanted; lines count from one.
    pub first: u64,
    /// How many lines are wanted.
    pub count: u64,
    /// How many bytes may be loaded. The last line is cut there.
    pub max_bytes: usize,
    /// What ends a line.
    pub line_end: LineEnd,
}

/// Some lines of a file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Lines {
    /// Their bytes, with their line ends.
    pub bytes: Vec<u8>,
    /// Where they start in the file.
    pub start: u64,
    /// How many lines the file has.
    pub total: u64,
    /// Whether the last line shown is cut for size.
    pub cut: bool,
}

/// A long read that the caller may want to stop.
pub type IsCancelled<'a> = &'a (dyn Fn() -> bool + 'a);

/// Reads some lines. Runs over the whole file once, because the number of its
/// lines is part of the answer.
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
    /// The line at the current place.
    line: u64,
    lines: Lines,
    started: bool,
    /// Whether the current place is the start of a line.
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

/// Where the last `count` lines of a file start, found from its end.
pub fn tail_start(file: &OpenFile, count: u64, line_end: LineEnd) -> Result<u64, FileError> {
    let len = file.restamp()?.len;
    let mut end = len;
    let mut missing = count;
    let mut block = vec![0; BLOCK];
    while 0 < end {
        // Even offsets keep two-byte characters whole.
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

/// How many lines there are before a place in the file.
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

/// Fills the block from a place in the file, up to `end` or the end of file.
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

/// Reads some bytes from a place in the file.
pub fn read_bytes(file: &OpenFile, offset: u64, max: usize) -> Result<Vec<u8>, FileError> {
    let mut bytes = vec![0; max];
    let len = read_at(file, offset, &mut bytes, u64::MAX)?.len();
    bytes.truncate(len);
    Ok(bytes)
}

/// A stretch of characters of one byte each, within the line and no longer than
/// asked: most lines are made of these, and a long one has millions.
fn plain_run(charset: Charset, bytes: &[u8], most: u64) -> usize {
    const STRETCH: usize = 4096;
    let wide = matches!(charset, Charset::Utf16Le | Charset::Utf16Be);
    let len = usize::try_from(most).unwrap_or(STRETCH).min(STRETCH);
    match bytes.get(..len) {
        Some(run) if !wide && run.is_ascii() && memchr2(b'\n', b'\r', run).is_none() => len,
        _ => 0,
    }
}

/// How many bytes of a line, which starts at `start`, come before its
/// `count`-th further character. Stops at the end of the line.
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
