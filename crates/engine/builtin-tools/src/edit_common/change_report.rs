//! What a change looks like to the model and to a person.

use std::path::Path;

use haft_tool::{LineStyle, Rendered, RenderedLine};
use haft_workspace::{Hunk, counts, unified};
use serde::Serialize;

use super::thousands;

/// Sizes before and after.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Sizes {
    /// Lines before.
    pub old_lines: u64,
    /// Lines after.
    pub new_lines: u64,
    /// Bytes before.
    pub old_bytes: u64,
    /// Bytes after.
    pub new_bytes: u64,
}

/// How many lines of a diff the model is shown.
const MODEL_LINES: usize = 60;

/// How many lines of a diff a person is shown.
pub(crate) const PERSON_LINES: usize = 120;

/// How wide a line of a diff may be.
const WIDTH: usize = 300;

/// `3,000 → 40 lines, 61,234 → 1,002 bytes`.
pub(crate) fn sizes(sizes: &Sizes) -> String {
    format!(
        "{} → {} lines, {} → {} bytes",
        thousands(sizes.old_lines),
        thousands(sizes.new_lines),
        thousands(sizes.old_bytes),
        thousands(sizes.new_bytes)
    )
}

/// A diff for the model: whole where it is short.
pub(crate) fn diff_for_model(hunks: &[Hunk]) -> String {
    let diff = unified(hunks);
    let lines: Vec<&str> = diff.lines().collect();
    let cut = |line: &&str| haft_types::text::head(line, WIDTH).to_owned();
    if lines.len() <= MODEL_LINES {
        return lines.iter().map(cut).collect::<Vec<_>>().join("\n");
    }
    let head: Vec<String> = lines[..MODEL_LINES / 2].iter().map(cut).collect();
    let tail: Vec<String> = lines[lines.len() - MODEL_LINES / 2..].iter().map(cut).collect();
    let left_out = lines.len() - MODEL_LINES;
    format!("{}\n[{left_out} lines of the diff not shown]\n{}", head.join("\n"), tail.join("\n"))
}

/// Notes, one line each.
pub(crate) fn notes(notes: &[String]) -> String {
    notes.iter().map(|note| format!("\nNote: {note}")).collect()
}

/// Lines of a change that is asked about, at most.
const PLANNED_LINES: usize = 10_000;

/// A change that was not made yet, whole: it is read before it is agreed to.
pub(crate) fn planned(before: &str, after: &str) -> Vec<RenderedLine> {
    let line = |mark: char, style, text: &str| RenderedLine::new(style, format!("{mark}{text}"));
    let mut lines: Vec<RenderedLine> = Vec::new();
    for hunk in haft_workspace::patch(before, after) {
        lines.extend(hunk.lines.iter().map(|text| match text.as_bytes().first() {
            Some(b'+') => line('+', LineStyle::Added, text.get(1..).unwrap_or_default()),
            Some(b'-') => line('-', LineStyle::Removed, text.get(1..).unwrap_or_default()),
            _ => RenderedLine::new(LineStyle::Plain, text.as_str()),
        }));
    }
    if let Some(more) = lines.len().checked_sub(PLANNED_LINES).filter(|more| 0 < *more) {
        lines.truncate(PLANNED_LINES);
        lines.push(RenderedLine::new(LineStyle::Error, format!("… {more} more lines")));
    }
    lines
}

/// A piece of a file that is to be another: where it ends, the file goes on.
pub(crate) fn planned_piece(before: &str, after: &str) -> Vec<RenderedLine> {
    let mut lines = planned(before, after);
    lines.retain(|line| !line.text.starts_with('\\'));
    lines
}

/// How a change to one file is shown to a person.
pub(crate) fn render(verb: &str, path: &Path, hunks: &[Hunk]) -> Rendered {
    let (added, removed) = counts(hunks);
    let mut lines = Vec::new();
    for hunk in hunks {
        lines.push(RenderedLine::new(
            LineStyle::Hunk,
            format!("@@ -{},{} +{},{} @@", hunk.old_start, hunk.old_lines, hunk.new_start, hunk.new_lines),
        ));
        lines.extend(hunk.lines.iter().map(|line| {
            let style = match line.as_bytes().first() {
                Some(b'+') => LineStyle::Added,
                Some(b'-') => LineStyle::Removed,
                Some(b'\\') => LineStyle::Dim,
                _ => LineStyle::Plain,
            };
            RenderedLine::new(style, haft_types::text::head(line, WIDTH))
        }));
    }
    let headline = format!("{verb} {} (+{added} -{removed})", path.display());
    Rendered { headline, lines, ..Rendered::default() }.folded_to(PERSON_LINES)
}
