use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use super::{
    Mode,
    sink::{GrepLine, MatchedLines},
};

/// Matches in one file on the requested page.
#[derive(Clone, Debug)]
pub struct FileHits {
    /// Path below the root.
    pub rel: Vec<u8>,
    /// Matching lines in the whole file; matches in multi-line mode; 1 in file mode.
    pub count: u64,
    /// The lines on the page.
    pub lines: Vec<GrepLine>,
    /// Offset of the first NUL byte in a partly binary file.
    pub binary_at: Option<u64>,
    /// Matching lines after it, which are not shown.
    pub beyond_binary: u64,
    /// Encoding it was decoded from, if not UTF-8.
    pub encoding: Option<&'static str>,
}

/// Which part of the result to return. Entries are files, or lines in content mode.
#[derive(Clone, Copy, Debug)]
pub struct GrepPage {
    /// Number of entries to skip.
    pub offset: usize,
    /// Maximum number of entries.
    pub limit: usize,
}

/// Totals and the requested page.
#[derive(Debug, Default)]
pub struct GrepTotals {
    /// Files on the page, sorted by path.
    pub files: Vec<FileHits>,
    /// Number of files with matches.
    pub total_files: u64,
    /// Number of entries on all pages.
    pub total_entries: u64,
    /// Matching lines, or matches in multi-line mode.
    pub total_count: u64,
    /// Whether the page was truncated because of its size.
    pub too_large: bool,
}

/// Collects results in any order and keeps only what the page needs.
pub(crate) struct Collector {
    page: GrepPage,
    mode: Mode,
    state: Mutex<PageState>,
}

#[derive(Default)]
struct PageState {
    kept: BTreeMap<Vec<u8>, FileHits>,
    entries: usize,
    bytes: usize,
    full: bool,
    totals: GrepTotals,
}

/// Maximum bytes of a page without an entry limit.
const MAX_BYTES: usize = 8 << 20;

impl Collector {
    pub(crate) fn new(page: GrepPage, mode: Mode) -> Self {
        Self { page, mode, state: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, PageState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many lines of a file may be needed.
    pub(crate) fn keep(&self) -> usize {
        match self.mode {
            Mode::Content => self.page.offset.saturating_add(self.page.limit),
            Mode::Files | Mode::Count => 0,
        }
    }

    /// Like `keep`; zero for a file that sorts after a full page and is only counted.
    pub(crate) fn limit_for_file(&self, rel: &[u8]) -> usize {
        let keep = self.keep();
        if keep == 0 {
            return 0;
        }
        let state = self.lock();
        let is_behind = || state.kept.last_key_value().is_some_and(|(last, _)| **last < *order(rel));
        if self.is_enough(&state, state.entries) && is_behind() { 0 } else { keep }
    }

    pub(crate) fn add(&self, rel: Vec<u8>, found: MatchedLines) {
        let entries = match self.mode {
            Mode::Content => found.total_lines,
            Mode::Files | Mode::Count => 1,
        };
        let mut state = self.lock();
        state.totals.total_files += 1;
        state.totals.total_entries += entries;
        state.totals.total_count += found.count;
        let key = order(&rel);
        let is_behind = || state.kept.last_key_value().is_some_and(|(last, _)| *last < key);
        if self.is_enough(&state, state.entries) && is_behind() {
            return;
        }
        let hits = FileHits {
            rel,
            count: found.count,
            lines: found.lines,
            binary_at: found.binary_at,
            beyond_binary: found.beyond_binary,
            encoding: found.encoding,
        };
        state.entries += entries_of(&hits, self.mode);
        state.bytes += size_of(&hits);
        state.kept.insert(key, hits);
        self.trim(&mut state);
    }

    fn is_enough(&self, state: &PageState, entries: usize) -> bool {
        state.full || self.page.offset.saturating_add(self.page.limit) <= entries
    }

    /// Drops files from the end that the full page does not need.
    fn trim(&self, state: &mut PageState) {
        while let Some((_, last)) = state.kept.last_key_value() {
            let (entries, bytes) = (entries_of(last, self.mode), size_of(last));
            let too_large = MAX_BYTES < state.bytes && 1 < state.kept.len();
            let needed = self.page.offset.saturating_add(self.page.limit);
            if !too_large && state.entries - entries < needed {
                return;
            }
            state.full |= too_large;
            state.entries -= entries;
            state.bytes -= bytes;
            state.kept.pop_last();
        }
    }

    /// Extracts the page.
    pub(crate) fn finish(self) -> GrepTotals {
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut totals = state.totals;
        totals.too_large = state.full;
        let (mut skip, mut left) = (self.page.offset, self.page.limit);
        for (_, mut hits) in state.kept {
            let entries = entries_of(&hits, self.mode);
            if entries <= skip {
                skip -= entries;
                continue;
            }
            if left == 0 {
                break;
            }
            if self.mode == Mode::Content {
                hits.lines.drain(..skip);
                hits.lines.truncate(left);
            }
            left -= entries_of(&hits, self.mode);
            skip = 0;
            totals.files.push(hits);
        }
        totals
    }
}

/// Sort key for depth-first order.
pub(crate) fn order(rel: &[u8]) -> Vec<u8> {
    rel.iter().map(|byte| if *byte == b'/' { 0 } else { *byte }).collect()
}

fn entries_of(hits: &FileHits, mode: Mode) -> usize {
    match mode {
        Mode::Content => hits.lines.len(),
        Mode::Files | Mode::Count => 1,
    }
}

fn size_of(hits: &FileHits) -> usize {
    let lines: usize = hits.lines.iter().map(|line| line.text.len() + 64).sum();
    lines + hits.rel.len() * 2 + 128
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::grep::sink::LineKind;

    fn found(lines: usize) -> MatchedLines {
        let line = |number| GrepLine { number, kind: LineKind::Match, after_gap: false, text: String::new() };
        let lines: Vec<GrepLine> = (1..=lines as u64).map(line).collect();
        MatchedLines {
            count: lines.len() as u64,
            total_lines: lines.len() as u64,
            lines,
            ..MatchedLines::default()
        }
    }

    proptest! {
        /// The page does not depend on the order of files.
        #[test]
        fn consecutive_pages_cover_the_result_exactly(sizes in prop::collection::vec(1_usize..5, 1..12), limit in 1_usize..6, seed in any::<u64>()) {
            let want: Vec<(usize, u64)> =
                sizes.iter().enumerate().flat_map(|(file, lines)| (1..=*lines as u64).map(move |line| (file, line))).collect();
            let mut order: Vec<usize> = (0..sizes.len()).collect();
            order.sort_by_key(|it| (*it as u64 + 1).wrapping_mul(seed | 1));
            let mut got = Vec::new();
            for offset in (0..want.len()).step_by(limit) {
                let collector = Collector::new(GrepPage { offset, limit }, Mode::Content);
                for file in &order {
                    collector.add(format!("{file:02}").into_bytes(), found(sizes[*file]));
                }
                let totals = collector.finish();
                prop_assert_eq!(totals.total_entries as usize, want.len());
                for hits in totals.files {
                    let file = std::str::from_utf8(&hits.rel).unwrap().parse::<usize>().unwrap();
                    got.extend(hits.lines.iter().map(|line| (file, line.number)));
                }
            }
            prop_assert_eq!(got, want);
        }
    }
}
