//! Formats a change for the model and for users.

use std::path::Path;

use haft_tool::{LineStyle, Rendered, RenderedLine};
use haft_workspace::{Hunk, counts, unified};
use serde::Serialize;

use super::thousands;

/// Size of a file before and after a change.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Sizes {
    pub old_lines: u64,
    pub new_lines: u64,
    pub old_bytes: u64,
    pub new_bytes: u64,
}

/// Maximum lines of a diff sent to the model.
const MODEL_LINES: usize = 60;

/// Maximum lines of a diff shown to the user.
pub(crate) const PERSON_LINES: usize = 120;

/// Maximum characters of a diff line; the rest is cut.
const WIDTH: usize = 300;

/// Formats sizes as `3,000 → 40 lines, 61,234 → 1,002 bytes`.
pub(crate) fn sizes(sizes: &Sizes) -> String {
    format!(
        "{} → {} lines, {} → {} bytes",
        thousands(sizes.old_lines),
        thousands(sizes.new_lines),
        thousands(sizes.old_bytes),
        thousands(sizes.new_bytes)
    )
}

/// Formats a diff for the model; only a short one is complete.
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

/// Formats notes, one per line.
pub(crate) fn notes(notes: &[String]) -> String {
    notes.iter().map(|note| format!("\nNote: {note}")).collect()
}

/// Maximum lines of a planned change in a permission prompt.
const PLANNED_LINES: usize = 10_000;

/// Formats a planned change in full, for the permission prompt.
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

/// Like [`planned`], for a replacement within a file: the text before and after the piece is not part of
/// it.
pub(crate) fn planned_piece(before: &str, after: &str) -> Vec<RenderedLine> {
    let mut lines = planned(before, after);
    lines.retain(|line| !line.text.starts_with('\\'));
    lines
}

/// Formats a change of one file for the user.
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
