//! Searches files with lines that do not fit into memory.

use std::io::{self, Read};

use grep_matcher::Matcher;

use super::{
    GrepQuery, Mode,
    sink::{GrepLine, LineKind, MatchedLines},
};
use crate::{SearchStop, display_text};

/// How a file is split into windows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileWindows {
    /// Bytes per window.
    pub(crate) size: usize,
    /// Overlap of consecutive windows in bytes; longer matches across a border are missed.
    pub(crate) overlap: usize,
}

impl FileWindows {
    /// Large enough to be fast, small enough to be cancelled quickly.
    pub(crate) const USUAL: Self = Self { size: 4 << 20, overlap: 64 * 1024 };
}

/// Searches window by window. Returns the part of the line around each match, without context lines.
pub(crate) fn search(
    query: &GrepQuery,
    stop: &SearchStop,
    mut file: impl Read,
    keep: usize,
    windows: FileWindows,
) -> io::Result<MatchedLines> {
    let mut scan = WindowScan { query, keep, found: MatchedLines::default(), line: 1, last_line: 0 };
    let mut window = Vec::new();
    let mut is_first = true;
    loop {
        let wanted = windows.size - window.len();
        let read = file.by_ref().take(wanted as u64).read_to_end(&mut window)?;
        let is_last = read < wanted;
        // Except at the ends of the file, every position is seen with its surroundings, so that `^`, `$`
        // and `\b` work.
        let from = if is_first { 0 } else { windows.overlap / 2 };
        let to = if is_last { window.len() + 1 } else { window.len() - windows.overlap / 2 };
        scan.window(&window, from, to)?;
        let enough = query.options.mode == Mode::Files && 0 < scan.found.count;
        if is_last || enough || stop.is_over() {
            return Ok(scan.found);
        }
        let rest = window.len() - windows.overlap;
        scan.line += memchr::memchr_iter(b'\n', &window[..rest]).count() as u64;
        window.drain(..rest);
        is_first = false;
    }
}

struct WindowScan<'a> {
    query: &'a GrepQuery,
    keep: usize,
    found: MatchedLines,
    /// Line number at the start of the window.
    line: u64,
    last_line: u64,
}

impl WindowScan<'_> {
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
            let start = range.start.saturating_sub(display_text::MAX_LINE);
            let end = (range.end + display_text::MAX_LINE).min(window.len());
            let start =
                memchr::memrchr(b'\n', &window[start..range.start]).map_or(start, |at| start + at + 1);
            let end = memchr::memchr(b'\n', &window[range.start..end]).map_or(end, |at| range.start + at);
            let focus = range.start - start..range.end - start;
            let text = display_text::around(&window[start..end], &focus);
            self.found.lines.push(GrepLine { number: line, kind: LineKind::Match, after_gap: false, text });
        }
    }
}

#[cfg(test)]
mod tests {
    use grep_searcher::SearcherBuilder;
    use proptest::prelude::*;

    use super::*;
    use crate::{
        GrepOptions,
        grep::{file::is_out_of_memory, sink::LineCollector},
    };

    proptest! {
        /// The same lines match with and without windows.
        #[test]
        fn windowed_search_finds_the_same_lines(
            text in "([a-c ]{0,9}|needle|\n){0,60}",
            pattern in prop_oneof![Just("needle"), Just("^a"), Just("c$"), Just(r"\bb"), Just("a+b")],
            size in 40_usize..200,
        ) {
            let query = GrepQuery::new(pattern, GrepOptions { mode: Mode::Count, ..GrepOptions::default() }).unwrap();
            let stop = SearchStop::never();
            let windows = FileWindows { size, overlap: 32 };
            let found = search(&query, &stop, text.as_bytes(), 0, windows).unwrap();
            let mut taker = LineCollector::new(&query, &stop, 0);
            let mut searcher = SearcherBuilder::new().build();
            searcher.search_slice(&query.matcher, text.as_bytes(), &mut taker).unwrap();
            prop_assert_eq!(found.count, taker.found.count);
        }
    }

    #[test]
    fn windowed_search_reports_line_numbers_and_excerpts() {
        let text = format!("one\n{}needle{}\nthree needle", "x".repeat(5000), "y".repeat(5000));
        let query =
            GrepQuery::new("needle", GrepOptions { mode: Mode::Content, ..GrepOptions::default() }).unwrap();
        let found = search(
            &query,
            &SearchStop::never(),
            text.as_bytes(),
            9,
            FileWindows { size: 1000, overlap: 100 },
        )
        .unwrap();
        let lines: Vec<u64> = found.lines.iter().map(|line| line.number).collect();
        assert_eq!(lines, [2, 3]);
        assert!(found.lines[0].text.contains("xneedley"), "{}", found.lines[0].text);
        assert!(found.lines[0].text.len() < 600);
    }

    #[test]
    fn line_beyond_heap_limit_is_recognised_as_out_of_memory() {
        let query = GrepQuery::new("x", GrepOptions::default()).unwrap();
        let stop = SearchStop::never();
        let mut taker = LineCollector::new(&query, &stop, 0);
        let mut searcher = SearcherBuilder::new().heap_limit(Some(1000)).build();
        let error =
            searcher.search_reader(&query.matcher, "a".repeat(9000).as_bytes(), &mut taker).unwrap_err();
        assert!(is_out_of_memory(&error), "{error}");
    }
}
