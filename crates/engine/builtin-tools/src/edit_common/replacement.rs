//! Plans one replacement in one text: find the place, check it, compute the splices.

use std::{
    ops::Range,
    time::{Duration, Instant},
};

use haft_workspace::{
    CurrentFile, FileSnapshot, Freshness, LineEdit, LinesView, ReadBy, SessionFiles,
    text::{Splice, SpliceError, Text},
};
use similar::{Algorithm, DiffTag, capture_diff_slices_deadline};

use super::{
    config_check::stub_in,
    line_anchors::{AnchoredRange, LineAnchors, mark},
    matching::{Found, MatchCount, NotFound, find, find_within, nearest, rewrite},
};

/// A requested replacement.
#[derive(Clone, Debug)]
pub(crate) struct EditRequest<'a> {
    pub(crate) old: &'a str,
    pub(crate) new: &'a str,
    pub(crate) wanted: MatchCount,
    /// The lines to search, if the model named them by marks. With an empty `old`, all of them are
    /// replaced.
    pub(crate) within: Option<AnchoredRange>,
}

/// A replacement that was checked and can be applied.
#[derive(Debug)]
pub(crate) struct Planned {
    pub(crate) splices: Vec<Splice>,
    /// Number of places that are replaced.
    pub(crate) places: usize,
    pub(crate) notes: Vec<String>,
}

/// Why a replacement was rejected.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct EditRefusal {
    pub(crate) kind: EditRefusalKind,
    pub(crate) message: String,
}

/// The category of an [`EditRefusal`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum EditRefusalKind {
    NotFound,
    Ambiguous,
    NotRead,
    Stale,
    Unencodable,
    Stub,
    NoChange,
}

impl EditRefusalKind {
    /// Returns the category as a stable identifier.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::NotFound => "not_found",
            Self::Ambiguous => "ambiguous",
            Self::NotRead => "not_read",
            Self::Stale => "drifted",
            Self::Unencodable => "unencodable",
            Self::Stub => "stub",
            Self::NoChange => "no_change",
        }
    }
}

impl EditRefusal {
    fn new(kind: EditRefusalKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }
}

/// The file a replacement is made in, and the agent whose read state counts.
pub(crate) struct EditTarget<'a> {
    pub(crate) files: &'a SessionFiles,
    pub(crate) viewer: &'a ReadBy,
    pub(crate) snapshot: &'a FileSnapshot,
    /// The text on disk, which decides whether the agent has seen the current content.
    pub(crate) on_disk: &'a Text,
    /// The text after earlier replacements of the same batch.
    pub(crate) text: &'a Text,
}

/// Number of lines shown around a place in an error.
const CONTEXT: u64 = 3;

/// Maximum number of file lines shown in an error.
const SHOWN: u64 = 24;

impl EditTarget<'_> {
    fn current(&self) -> CurrentFile<'_> {
        CurrentFile { version: self.snapshot.hash(), view: self.on_disk.view() }
    }

    /// Finds the place and checks that it may be changed. Does not modify anything.
    pub(crate) fn plan(&self, request: &EditRequest<'_>) -> Result<Planned, EditRefusal> {
        let returns = request.old.contains("\r\n");
        let (old, new) = if returns {
            (request.old.replace("\r\n", "\n"), request.new.replace("\r\n", "\n"))
        } else {
            (request.old.to_owned(), request.new.to_owned())
        };
        let view = self.text.view();
        let found = match &request.within {
            None => find(view, &old, request.wanted),
            Some(marked) if old.is_empty() => Ok(Found::lines(view, &marked.span, &new)),
            Some(marked) => find_within(view, &old, request.wanted, &marked.span),
        };
        let found = found.map_err(|err| self.not_found(&old, &err))?;
        let mut notes = self.check_freshness(&found, &old)?;
        if let Some(marked) = request.within.as_ref().filter(|it| it.moved) {
            notes.push(format!(
                "the lines you named are now lines {}-{}.",
                marked.lines.start,
                marked.lines.end - 1
            ));
        }
        let rewrite = rewrite(view, &found, &new);
        if rewrite.splices.is_empty() {
            return Err(EditRefusal::new(
                EditRefusalKind::NoChange,
                "old_string and new_string mean the same text here; nothing to change.",
            ));
        }
        self.check_stub(&found, &new)?;
        if !rewrite.ignored.is_empty() {
            notes.insert(
                0,
                format!(
                    "matched ignoring {}; unchanged parts keep the file's own form.",
                    rewrite.ignored.join(", ")
                ),
            );
        }
        self.text.splice(&rewrite.splices).map_err(|err| unencodable(&err))?;
        Ok(Planned { splices: rewrite.splices, places: found.spans.len(), notes })
    }

    /// Finds lines that are named by marks.
    pub(crate) fn marked(&self, marks: &LineAnchors) -> Result<AnchoredRange, EditRefusal> {
        marks.find(self.text.view()).ok_or_else(|| {
            let view = self.text.view();
            let total = self.text.line_count();
            let stated = marks.stated();
            let start = stated.start.saturating_sub(CONTEXT).clamp(1, total.max(1));
            let end = (stated.end + CONTEXT).min(total + 1).min(start + SHOWN);
            self.saw(start..end);
            let lines = view.lines().zip(1_u64..).skip(index_of(start)).take(index_of(end) - index_of(start));
            let shown: Vec<String> = lines
                .map(|(line, number)| format!("{}\t{}", mark(number, line), haft_types::text::head(line, LINE_WIDTH)))
                .collect();
            let message = if shown.is_empty() { "lines: the file is empty.".to_owned() } else { format!(
                    "lines: what the marks name is not there any more. The file has there now:\n{}\nTake the marks \
                     from this text, or give old_string.",
                    shown.join("\n")
                ) };
            EditRefusal::new(EditRefusalKind::Stale, message)
        })
    }

    fn not_found(&self, old: &str, why: &NotFound) -> EditRefusal {
        let view = self.text.view();
        match why {
            NotFound::Ambiguous(places) => {
                let lines: Vec<String> =
                    places.iter().take(8).map(|at| line_of(view, *at).to_string()).collect();
                let more = if 8 < places.len() { ", …" } else { "" };
                EditRefusal::new(
                    EditRefusalKind::Ambiguous,
                    format!(
                        "old_string matches {} places (lines {}{more}). Add surrounding lines to old_string so that \
                         it is unique, or set replace_all to true.",
                        places.len(),
                        lines.join(", ")
                    ),
                )
            }
            NotFound::Missing => {
                if let Some(lines) = self.drifted(old) {
                    let path = self.snapshot.file().path();
                    let who = self.files.reads().writer(&self.viewer.agent, path, self.snapshot.hash());
                    return EditRefusal::new(
                        EditRefusalKind::Stale,
                        format!(
                            "old_string is no longer in the file: {who} changed this place after you read it. \
                             It now reads:\n{}\nMake the edit anew from this text.",
                            self.show(&lines)
                        ),
                    );
                }
                let mut message = "old_string was not found.".to_owned();
                if let Some(nearest) = nearest(view, old) {
                    let first = nearest.first_line as u64;
                    let lines = first..first + nearest.lines.len() as u64;
                    if let Some(difference) = &nearest.difference {
                        message.push_str(&format!(" Nearest text: {difference}."));
                    }
                    message.push_str(&format!(" The file has there:\n{}", self.show(&lines)));
                    message.push_str("\nCopy old_string from this text (without the line numbers).");
                } else {
                    message.push_str(" Nothing in the file looks like it; Read the file again or use Grep.");
                }
                EditRefusal::new(EditRefusalKind::NotFound, message)
            }
        }
    }

    /// Finds the current lines of text that was present when the agent read the file and has changed
    /// since.
    fn drifted(&self, old: &str) -> Option<Range<u64>> {
        // Text removed by an earlier edit of the same batch was not changed by someone else.
        if self.on_disk.view().contains(old) {
            return None;
        }
        let path = self.snapshot.file().path();
        let seen = self.files.reads().seen_text(&self.viewer.agent, path)?;
        let found = find(&seen, old, MatchCount::All).ok()?;
        let lines = lines_of(&seen, found.spans.first()?);
        let then: Vec<&str> = seen.lines().collect();
        let now: Vec<&str> = self.text.view().lines().collect();
        let deadline = Instant::now() + Duration::from_millis(300);
        let ops = capture_diff_slices_deadline(Algorithm::Myers, &then, &now, Some(deadline));
        let index = |line: u64| usize::try_from(line - 1).unwrap_or(usize::MAX);
        let wanted = index(lines.start)..index(lines.end);
        let touched = ops.iter().filter(|op| {
            let range = op.old_range();
            range.start < wanted.end && wanted.start < range.end.max(range.start + 1)
        });
        let mut place: Option<Range<usize>> = None;
        for op in touched {
            let range = match op.tag() {
                // Of unchanged lines, only those inside the requested range.
                DiffTag::Equal => {
                    let skip = wanted.start.saturating_sub(op.old_range().start);
                    let end = wanted.end.min(op.old_range().end) - op.old_range().start;
                    op.new_range().start + skip..op.new_range().start + end
                }
                _ => op.new_range(),
            };
            place = Some(place.map_or(range.clone(), |it| it.start.min(range.start)..it.end.max(range.end)));
        }
        place.map(|it| it.start as u64 + 1..it.end as u64 + 1)
    }

    /// Checks that the agent has seen the current content of the place. Compares with the text on disk;
    /// text inserted by an earlier replacement of the batch counts as seen. Returns notes about changes
    /// elsewhere in the file.
    fn check_freshness(&self, found: &Found, old: &str) -> Result<Vec<String>, EditRefusal> {
        let spans = if std::ptr::eq(self.text, self.on_disk) {
            found.spans.clone()
        } else {
            match find(self.on_disk.view(), old, MatchCount::All) {
                Ok(found) => found.spans,
                Err(_) => Vec::new(),
            }
        };
        let mut changed: Vec<Range<u64>> = Vec::new();
        for span in spans.iter().take(500) {
            let lines = lines_of(self.on_disk.view(), span);
            let reads = self.files.reads();
            let path = self.snapshot.file().path();
            match reads.freshness(&self.viewer.agent, path, &self.current(), &lines) {
                Freshness::Fresh => (),
                Freshness::ChangedElsewhere(ranges) => changed = ranges,
                Freshness::Unseen if is_exact(found) => (),
                Freshness::Unseen => {
                    return Err(EditRefusal::new(
                        EditRefusalKind::NotRead,
                        format!(
                            "old_string only resembles the text at line {}, which you have not read:\n{}\nCopy old_string \
                             from this text.",
                            lines.start,
                            self.show(&lines)
                        ),
                    ));
                }
                Freshness::NeverRead => {
                    return Err(EditRefusal::new(
                        EditRefusalKind::NotRead,
                        "this file has not been read in this session. Read it first, then edit.",
                    ));
                }
                Freshness::Stale => {
                    let who = reads.writer(&self.viewer.agent, path, self.snapshot.hash());
                    return Err(EditRefusal::new(
                        EditRefusalKind::Stale,
                        format!(
                            "this place was changed by {who} after you read it. It now reads:\n{}\nIf the edit is \
                             still right, repeat it.",
                            self.show(&lines)
                        ),
                    ));
                }
            }
        }
        Ok(self.foreign_changes(&changed))
    }

    /// Returns a note about changes that others made elsewhere in the file.
    fn foreign_changes(&self, changed: &[Range<u64>]) -> Vec<String> {
        let shown: Vec<Range<u64>> = changed.iter().filter(|it| !it.is_empty()).take(4).cloned().collect();
        if changed.is_empty() {
            return Vec::new();
        }
        let mut note = "the file was changed elsewhere since you read it".to_owned();
        let view = self.on_disk.view();
        for lines in &shown {
            let end = lines.end.min(lines.start + 8);
            note.push_str(&format!("\n{}", numbered(view, lines.start..end)));
            self.saw(lines.start..end);
        }
        vec![note]
    }

    fn check_stub(&self, found: &Found, new: &str) -> Result<(), EditRefusal> {
        let there = &self.text.view()[found.spans[0].clone()];
        if there.lines().count() < new.lines().count() + 5 {
            return Ok(());
        }
        match stub_in(new, there) {
            None => Ok(()),
            Some(problem) => Err(EditRefusal::new(
                EditRefusalKind::Stub,
                format!(
                    "new_string would remove text and leave a stand-in for it: {problem}. Write the whole text, or \
                    replace only the lines that change."
                ),
            )),
        }
    }

    /// Formats lines of the file with their surroundings, for an error. These lines then count as seen,
    /// so the next attempt needs no Read.
    fn show(&self, lines: &Range<u64>) -> String {
        let view = self.text.view();
        let total = haft_workspace::count_lines(view);
        let start = lines.start.saturating_sub(CONTEXT).max(1);
        let end = (lines.end + CONTEXT).min(total + 1).min(start + SHOWN);
        if std::ptr::eq(self.text, self.on_disk) {
            self.saw(start..end);
        }
        numbered(view, start..end)
    }

    fn saw(&self, lines: Range<u64>) {
        let view = self.on_disk.view();
        let skip = usize::try_from(lines.start - 1).unwrap_or(usize::MAX);
        let count = usize::try_from(lines.end.saturating_sub(lines.start)).unwrap_or(0);
        let shown: Vec<&str> = view.lines().skip(skip).take(count).collect();
        // A line that is not shown in full does not count as seen.
        let clipped = shown.iter().any(|line| LINE_WIDTH < line.chars().count());
        let view = LinesView {
            path: self.snapshot.file().path(),
            version: Some(self.snapshot.hash()),
            first: lines.start,
            lines: shown,
            total: haft_workspace::count_lines(view),
            clipped,
            text: Some(view),
        };
        // The lines count as seen, but not as a Read that a later "unchanged" reply could refer to.
        self.files.reads().knows(self.viewer, &view);
    }
}

/// Plans a replacement in text that is not on disk yet, so all of it counts as seen.
pub(crate) fn plan_in(text: &Text, request: &EditRequest<'_>) -> Result<Planned, EditRefusal> {
    let found = find(text.view(), request.old, request.wanted).map_err(|err| match err {
        NotFound::Missing => {
            EditRefusal::new(EditRefusalKind::NotFound, "old_string was not found in the new file.")
        }
        NotFound::Ambiguous(places) => EditRefusal::new(
            EditRefusalKind::Ambiguous,
            format!("old_string matches {} places of the new file.", places.len()),
        ),
    })?;
    let rewrite = rewrite(text.view(), &found, request.new);
    Ok(Planned { splices: rewrite.splices, places: found.spans.len(), notes: Vec::new() })
}

/// Converts a line number (from 1) to an index.
fn index_of(line: u64) -> usize {
    usize::try_from(line.saturating_sub(1)).unwrap_or(usize::MAX)
}

/// Maximum characters of a line shown in an error.
const LINE_WIDTH: usize = 400;

/// Formats lines with numbers, as Read does.
fn numbered(view: &str, lines: Range<u64>) -> String {
    let skip = usize::try_from(lines.start - 1).unwrap_or(usize::MAX);
    let count = usize::try_from(lines.end.saturating_sub(lines.start)).unwrap_or(0);
    let shown = view.lines().skip(skip).take(count).zip(lines.start..);
    shown
        .map(|(line, number)| format!("{number}\t{}", haft_types::text::head(line, LINE_WIDTH)))
        .collect::<Vec<_>>()
        .join("\n")
}

fn is_exact(found: &Found) -> bool {
    found.folds == super::matching::FoldRules::default()
        && found.transform == super::matching::Transform::None
}

/// Returns the number of the line at a byte offset, counted from 1.
pub(crate) fn line_of(view: &str, at: usize) -> u64 {
    memchr::memchr_iter(b'\n', &view.as_bytes()[..at]).count() as u64 + 1
}

/// Returns the numbers of the lines that a byte range touches.
pub(crate) fn lines_of(view: &str, span: &Range<usize>) -> Range<u64> {
    let start = line_of(view, span.start);
    // A line feed at the end of the range belongs to the line before it.
    let text = &view.as_bytes()[span.clone()];
    let breaks = memchr::memchr_iter(b'\n', text).count() as u64;
    let ends_line = text.last() == Some(&b'\n');
    start..start + breaks + u64::from(!ends_line || breaks == 0)
}

pub(crate) fn unencodable(err: &SpliceError) -> EditRefusal {
    let advice = match err {
        SpliceError::Unencodable(_) => {
            " Nothing was changed. Use a character the encoding has, or convert the file first (iconv)."
        }
        SpliceError::ReplacementCharacter => " Nothing was changed.",
    };
    EditRefusal::new(EditRefusalKind::Unencodable, format!("new_string: {err}.{advice}"))
}

/// Converts splices to edits of whole lines, for the read state. The inserted lines are collected in
/// `middle`; they were written by the agent itself, so they count as seen.
pub(crate) fn line_edits<'a>(view: &'a str, splices: &[Splice], middle: &'a mut String) -> Vec<LineEdit<'a>> {
    let (Some(first), Some(last)) = (splices.first(), splices.last()) else { return Vec::new() };
    let bytes = view.as_bytes();
    let start = memchr::memrchr(b'\n', &bytes[..first.range.start]).map_or(0, |it| it + 1);
    let end =
        memchr::memchr(b'\n', &bytes[last.range.end..]).map_or(view.len(), |it| last.range.end + it + 1);
    let mut done = start;
    for splice in splices {
        middle.push_str(&view[done..splice.range.start]);
        middle.push_str(&splice.text.replace("\r\n", "\n"));
        done = splice.range.end;
    }
    middle.push_str(&view[done..end]);
    let old_lines: Vec<&str> = view[start..end].lines().collect();
    let new_lines: Vec<&str> = middle.lines().collect();
    let before = line_of(view, start);
    let deadline = Instant::now() + Duration::from_millis(300);
    let ops = capture_diff_slices_deadline(Algorithm::Myers, &old_lines, &new_lines, Some(deadline));
    let line = |at: usize| before + at as u64;
    ops.into_iter()
        .filter(|op| op.tag() != DiffTag::Equal)
        .map(|op| LineEdit {
            old: line(op.old_range().start)..line(op.old_range().end),
            new: new_lines[op.new_range()].to_vec(),
        })
        .collect()
}
