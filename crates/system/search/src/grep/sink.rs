use std::io;

use grep_matcher::Matcher;
use grep_searcher::{LineIter, Searcher, Sink, SinkContext, SinkMatch};

use super::{GrepQuery, Mode};
use crate::{SearchStop, display_text};

/// A line of the result.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct GrepLine {
    /// Line number, from 1.
    pub number: u64,
    /// Match or context.
    pub kind: LineKind,
    /// Whether lines before it were omitted.
    pub after_gap: bool,
    /// Text of the line, formatted safely and shortened.
    pub text: String,
}

/// Why a line is in the result.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LineKind {
    /// It matches.
    Match,
    /// It is near a match.
    Context,
}

/// Matches in one file.
#[derive(Debug, Default)]
pub(crate) struct MatchedLines {
    /// Matching lines; matches in multi-line mode; 1 in file mode.
    pub(crate) count: u64,
    /// The first lines of the result.
    pub(crate) lines: Vec<GrepLine>,
    /// Total number of lines.
    pub(crate) total_lines: u64,
    /// Offset of the first NUL byte, if there are matches before or after it.
    pub(crate) binary_at: Option<u64>,
    /// Matching lines after it: counted, not shown.
    pub(crate) beyond_binary: u64,
    /// Encoding it was decoded from, if not UTF-8.
    pub(crate) encoding: Option<&'static str>,
}

/// Collects matches in one file.
pub(crate) struct LineCollector<'a> {
    pub(crate) query: &'a GrepQuery,
    pub(crate) stop: &'a SearchStop,
    /// Maximum number of lines kept.
    pub(crate) keep: usize,
    /// Lines from this byte offset on are counted, not shown.
    pub(crate) show_until: u64,
    pub(crate) gap: bool,
    pub(crate) found: MatchedLines,
}

impl<'a> LineCollector<'a> {
    pub(crate) fn new(query: &'a GrepQuery, stop: &'a SearchStop, keep: usize) -> Self {
        Self { query, stop, keep, show_until: u64::MAX, gap: false, found: MatchedLines::default() }
    }

    fn go_on(&self) -> io::Result<bool> {
        Ok(!self.stop.is_over())
    }

    fn push(&mut self, number: u64, kind: LineKind, text: impl FnOnce() -> String) {
        self.found.total_lines += 1;
        let after_gap = std::mem::take(&mut self.gap);
        if self.found.lines.len() < self.keep {
            self.found.lines.push(GrepLine { number, kind, after_gap, text: text() });
        }
    }

    fn count(&mut self, searcher: &Searcher, found: &SinkMatch<'_>) -> io::Result<()> {
        if !searcher.multi_line_with_matcher(&self.query.matcher) {
            self.found.count += 1;
            return Ok(());
        }
        let mut matches = 0;
        self.query.matcher.find_iter(found.bytes(), |_| {
            matches += 1;
            true
        })?;
        self.found.count += matches;
        Ok(())
    }

    fn take_lines(&mut self, found: &SinkMatch<'_>) {
        let first = found.line_number().unwrap_or(1);
        for (number, line) in (first..).zip(found.lines()) {
            let line = without_break(line);
            let query = self.query;
            self.push(number, LineKind::Match, || display_text::clipped(line, &focus(query, line)));
        }
    }

    fn take_matches(&mut self, found: &SinkMatch<'_>) -> io::Result<()> {
        let (bytes, first) = (found.bytes(), found.line_number().unwrap_or(1));
        let searched =
            if self.query.options.multiline { bytes } else { bytes.strip_suffix(b"\n").unwrap_or(bytes) };
        let mut ranges = Vec::new();
        self.query.matcher.find_iter(searched, |range| {
            ranges.push(range);
            true
        })?;
        let (mut number, mut counted) = (first, 0);
        for range in ranges {
            number += memchr::memchr_iter(b'\n', &bytes[counted..range.start()]).count() as u64;
            counted = range.start();
            if range.is_empty() {
                self.push(number, LineKind::Match, String::new);
            }
            let lines = LineIter::new(b'\n', &bytes[range.start()..range.end()]);
            for (number, piece) in (number..).zip(lines) {
                let piece = without_break(piece);
                if !piece.is_empty() {
                    self.push(number, LineKind::Match, || display_text::clipped(piece, &(0..piece.len())));
                }
            }
        }
        Ok(())
    }
}

impl Sink for LineCollector<'_> {
    type Error = io::Error;

    fn matched(&mut self, searcher: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        if self.query.options.mode == Mode::Files {
            self.found.count = 1;
            return Ok(false);
        }
        if self.show_until <= found.absolute_byte_offset() {
            self.found.beyond_binary += 1;
        }
        self.count(searcher, found)?;
        if self.query.options.mode == Mode::Content && found.absolute_byte_offset() < self.show_until {
            if self.query.options.only_matching {
                self.take_matches(found)?;
            } else {
                self.take_lines(found);
            }
        }
        self.go_on()
    }

    fn context(&mut self, _searcher: &Searcher, context: &SinkContext<'_>) -> io::Result<bool> {
        if context.absolute_byte_offset() < self.show_until {
            let line = without_break(context.bytes());
            let number = context.line_number().unwrap_or(1);
            self.push(number, LineKind::Context, || display_text::clipped(line, &(0..0)));
        }
        self.go_on()
    }

    fn context_break(&mut self, _searcher: &Searcher) -> io::Result<bool> {
        self.gap = true;
        Ok(true)
    }

    fn binary_data(&mut self, _searcher: &Searcher, offset: u64) -> io::Result<bool> {
        self.found.binary_at.get_or_insert(offset);
        self.show_until = self.show_until.min(offset);
        Ok(true)
    }
}

/// Position of the first match in a line, if it is needed.
fn focus(query: &GrepQuery, line: &[u8]) -> std::ops::Range<usize> {
    if line.len() <= display_text::MAX_LINE {
        return 0..0;
    }
    match query.matcher.find(line) {
        Ok(Some(found)) => found.start()..found.end(),
        _ => 0..0,
    }
}

fn without_break(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}
