//! Files with lines that do not fit into memory.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
};

use grep_matcher::Matcher;

use super::{
    Mode, Query,
    sink::{Found, Line, LineKind},
};
use crate::{Stop, show};

/// How much is looked at in one go.
const WINDOW: usize = 4 << 20;

/// How far windows overlap: longer matches across a border are not found.
const OVERLAP: usize = 64 * 1024;

/// Looks for matches window by window. Around each, a part of its line is
/// shown; lines around are not.
pub(crate) fn search(query: &Query, stop: &Stop, file: &mut File, keep: usize) -> io::Result<Found> {
    file.seek(SeekFrom::Start(0))?;
    let mut scan = Scan { query, keep, found: Found::default(), line: 1, last_line: 0 };
    let mut window = Vec::new();
    let mut is_first = true;
    loop {
        let carried = window.len();
        let read = file.by_ref().take((WINDOW - carried) as u64).read_to_end(&mut window)?;
        let is_last = read == 0 || window.len() < WINDOW;
        // Every place but the ends of the file is seen with something around
        // it, so that `^`, `$` and `\b` mean what they say.
        let from = if is_first { 0 } else { OVERLAP / 2 };
        let to = if is_last { window.len() + 1 } else { window.len() - OVERLAP / 2 };
        scan.window(&window, from, to)?;
        let enough = query.options.mode == Mode::Files && 0 < scan.found.count;
        if is_last || enough || stop.is_over() {
            return Ok(scan.found);
        }
        let rest = window.len() - OVERLAP;
        scan.line += memchr::memchr_iter(b'\n', &window[..rest]).count() as u64;
        window.drain(..rest);
        is_first = false;
    }
}

struct Scan<'a> {
    query: &'a Query,
    keep: usize,
    found: Found,
    /// Number of the line the window begins in.
    line: u64,
    last_line: u64,
}

impl Scan<'_> {
    fn window(&mut self, window: &[u8], from: usize, to: usize) -> io::Result<()> {
        let (mut line, mut counted) = (self.line, 0);
        let query = self.query;
        query.matcher.find_iter(window, |found| {
            let range = found.start()..found.end();
            if range.start < from || to <= range.start {
                return true;
            }
            line += memchr::memchr_iter(b'\n', &window[counted..range.start]).count() as u64;
            counted = range.start;
            self.take(window, &range, line);
            query.options.mode != Mode::Files
        })?;
        Ok(())
    }

    fn take(&mut self, window: &[u8], range: &std::ops::Range<usize>, line: u64) {
        self.found.count += u64::from(line != self.last_line);
        self.last_line = line;
        if self.query.options.mode != Mode::Content {
            return;
        }
        self.found.total_lines += 1;
        if self.found.lines.len() < self.keep {
            let start = range.start.saturating_sub(show::MAX_LINE);
            let end = (range.end + show::MAX_LINE).min(window.len());
            let start =
                memchr::memrchr(b'\n', &window[start..range.start]).map_or(start, |at| start + at + 1);
            let end = memchr::memchr(b'\n', &window[range.start..end]).map_or(end, |at| range.start + at);
            let focus = range.start - start..range.end - start;
            let text = show::around(&window[start..end], &focus);
            self.found.lines.push(Line { number: line, kind: LineKind::Match, after_gap: false, text });
        }
    }
}
