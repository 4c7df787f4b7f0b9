//! Diffs of changes for users and programs.

use std::{ops::Range, time::Duration};

use serde::{Deserialize, Serialize};
use similar::{Algorithm, DiffOp, capture_diff_slices_deadline, group_diff_ops};

use crate::text::{Splice, SpliceError, Text};

/// One hunk of a unified diff.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Hunk {
    /// First line in the old content, from 1.
    pub old_start: u64,
    /// Number of lines in the old content.
    pub old_lines: u64,
    /// First line in the new content, from 1.
    pub new_start: u64,
    /// Number of lines in the new content.
    pub new_lines: u64,
    /// The lines, prefixed by ` `, `-` or `+`. Line ends are shown (as `␍`) only where they differ.
    pub lines: Vec<String>,
}

/// Context lines around a change.
const CONTEXT: usize = 3;

/// Time after which the comparison becomes coarser.
const TIMEOUT: Duration = Duration::from_millis(800);

/// Diff of two texts whose line breaks are as in the file.
pub fn patch(old: &str, new: &str) -> Vec<Hunk> {
    patch_at(old, new, 0, 0)
}

/// Diff for programs that apply it: lines are exact, including carriage returns.
pub fn exact_patch(old: &str, new: &str) -> Vec<Hunk> {
    let exact = |text| str::split_inclusive(text, '\n').collect::<Vec<_>>();
    hunks_of(&exact(old), &exact(new), 0, 0, &LineShow::Exact)
}

/// Diff of splices, which only looks at their surroundings.
pub fn patch_of_splices(text: &Text, splices: &[Splice]) -> Result<Vec<Hunk>, SpliceError> {
    let mut hunks = Vec::new();
    let mut shift = 0_i64;
    for group in neighbours(text.view(), splices) {
        let region = &group.region;
        let raw = text.raw_range(region);
        let old = text.literal(&text.raw()[raw]);
        let mut pieces = Vec::new();
        let mut done = region.start;
        for splice in &splices[group.splices.clone()] {
            pieces.extend_from_slice(&text.raw()[text.raw_range(&(done..splice.range.start))]);
            pieces.extend_from_slice(&text.spell(splice)?);
            done = splice.range.end;
        }
        pieces.extend_from_slice(&text.raw()[text.raw_range(&(done..region.end))]);
        let new = text.literal(&pieces);
        let first = memchr::memchr_iter(b'\n', &text.view().as_bytes()[..region.start]).count();
        hunks.extend(patch_at(&old, &new, first, shift));
        let length = |text: &str| i64::try_from(lines(text).len()).unwrap_or(i64::MAX);
        shift += length(&new) - length(&old);
    }
    Ok(hunks)
}

struct HunkGroup {
    splices: Range<usize>,
    region: Range<usize>,
}

/// Groups splices whose context overlaps.
fn neighbours(view: &str, splices: &[Splice]) -> Vec<HunkGroup> {
    let bytes = view.as_bytes();
    let mut groups: Vec<HunkGroup> = Vec::new();
    for (index, splice) in splices.iter().enumerate() {
        let mut start = splice.range.start;
        for _ in 0..=CONTEXT {
            start = memchr::memrchr(b'\n', &bytes[..start]).unwrap_or(0);
        }
        let start = if start == 0 && !bytes.starts_with(b"\n") { 0 } else { start + 1 };
        let mut end = splice.range.end;
        for _ in 0..=CONTEXT {
            end = memchr::memchr(b'\n', &bytes[end..]).map_or(bytes.len(), |it| end + it + 1);
        }
        let start = start.min(splice.range.start);
        match groups.last_mut() {
            Some(last) if start <= last.region.end => {
                last.region.end = last.region.end.max(end);
                last.splices.end = index + 1;
            }
            _ => groups.push(HunkGroup { splices: index..index + 1, region: start..end }),
        }
    }
    groups
}

fn patch_at(old: &str, new: &str, first_line: usize, shift: i64) -> Vec<Hunk> {
    let (old_lines, new_lines) = (lines(old), lines(new));
    let show = LineShow::for_lines(&old_lines, &new_lines);
    hunks_of(&old_lines, &new_lines, first_line, shift, &show)
}

fn hunks_of(
    old_lines: &[&str],
    new_lines: &[&str],
    first_line: usize,
    shift: i64,
    show: &LineShow,
) -> Vec<Hunk> {
    let deadline = std::time::Instant::now() + TIMEOUT;
    let ops = capture_diff_slices_deadline(Algorithm::Myers, old_lines, new_lines, Some(deadline));
    let mut hunks = Vec::new();
    for group in group_diff_ops(ops, CONTEXT) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
        let old_range = first.old_range().start..last.old_range().end;
        let new_range = first.new_range().start..last.new_range().end;
        let mut shown = Vec::new();
        for op in &group {
            let (tag_old, tag_new) = match op {
                DiffOp::Equal { .. } => (Some(' '), None),
                DiffOp::Delete { .. } => (Some('-'), None),
                DiffOp::Insert { .. } => (None, Some('+')),
                DiffOp::Replace { .. } => (Some('-'), Some('+')),
            };
            if let Some(tag) = tag_old {
                old_lines[op.old_range()].iter().for_each(|line| show.push(&mut shown, tag, line));
            }
            if let Some(tag) = tag_new {
                new_lines[op.new_range()].iter().for_each(|line| show.push(&mut shown, tag, line));
            }
        }
        hunks.push(Hunk {
            old_start: start_of(&old_range, first_line, 0),
            old_lines: old_range.len() as u64,
            new_start: start_of(&new_range, first_line, shift),
            new_lines: new_range.len() as u64,
            lines: shown,
        });
    }
    hunks
}

/// Unified diffs number an empty range by the line before it.
fn start_of(range: &Range<usize>, first_line: usize, shift: i64) -> u64 {
    let line = (first_line + range.start) as u64 + u64::from(!range.is_empty());
    line.saturating_add_signed(shift)
}

/// Splits into lines with their ends. A lone carriage return ends a line only in a text without line
/// feeds.
fn lines(text: &str) -> Vec<&str> {
    let end = if text.contains('\n') { '\n' } else { '\r' };
    text.split_inclusive(end).collect()
}

/// How to show line ends.
enum LineShow {
    /// Hidden: all are alike.
    Hidden,
    /// Carriage returns as a visible sign.
    Signs,
    /// Unchanged.
    Exact,
}

impl LineShow {
    fn for_lines(old: &[&str], new: &[&str]) -> Self {
        let mut complete = old.iter().chain(new).filter(|line| line.ends_with('\n'));
        let first = complete.next().map(|line| line.ends_with("\r\n"));
        let mixed = complete.any(|line| Some(line.ends_with("\r\n")) != first);
        if mixed { Self::Signs } else { Self::Hidden }
    }

    fn push(&self, shown: &mut Vec<String>, tag: char, line: &str) {
        if matches!(self, Self::Exact) {
            let whole = line.strip_suffix('\n');
            shown.push(format!("{tag}{}", whole.unwrap_or(line)));
            shown.extend(whole.is_none().then(|| "\\ No newline at end of file".to_owned()));
            return;
        }
        let (text, ended) = match line.strip_suffix('\n').or_else(|| line.strip_suffix('\r')) {
            Some(text) => (text, true),
            None => (line, false),
        };
        let text = match text.strip_suffix('\r') {
            Some(text) if matches!(self, Self::Hidden) && line.ends_with('\n') => text,
            _ => text,
        };
        shown.push(format!("{tag}{}", text.replace('\r', "␍")));
        if !ended {
            shown.push("\\ No newline at end of file".to_owned());
        }
    }
}

/// Formats hunks as a unified diff without a header.
pub fn unified(hunks: &[Hunk]) -> String {
    let mut out = String::new();
    for hunk in hunks {
        let Hunk { old_start, old_lines, new_start, new_lines, lines } = hunk;
        out.push_str(&format!("@@ -{old_start},{old_lines} +{new_start},{new_lines} @@\n"));
        for line in lines {
            out.push_str(line);
            out.push('\n');
        }
    }
    out
}

/// Number of lines added and removed.
pub fn counts(hunks: &[Hunk]) -> (usize, usize) {
    let count = |tag| hunks.iter().flat_map(|it| &it.lines).filter(|line| line.starts_with(tag)).count();
    (count('+'), count('-'))
}
