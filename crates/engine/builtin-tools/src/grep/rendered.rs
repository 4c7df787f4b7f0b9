use haft_search::LineKind;
use haft_tool::{LineStyle, Rendered, RenderedLine};

use super::Output;

/// Maximum number of lines shown to the user.
const SHOWN: usize = 60;

/// Formats matches for the user, grouped by file, with context lines dimmed.
pub(super) fn rendered(output: &Output) -> Rendered {
    let mut lines = Vec::new();
    for (name, hits) in &output.groups {
        let style = if hits.is_empty() { LineStyle::Plain } else { LineStyle::Hunk };
        lines.push(RenderedLine::new(style, name));
        let width = hits.iter().map(|hit| hit.number.to_string().len()).max().unwrap_or(0);
        for hit in hits {
            let style = if hit.kind == LineKind::Match { LineStyle::Plain } else { LineStyle::Dim };
            if hit.after_gap {
                lines.push(RenderedLine::new(LineStyle::Dim, format!("  {:>width$}", "⋮")));
            }
            lines.push(RenderedLine::new(style, format!("  {:>width$}  {}", hit.number, hit.text)));
        }
    }
    let notes = output.notes.iter().map(|note| RenderedLine::new(LineStyle::Dim, note)).collect();
    // The notes say what was searched.
    let headline = if lines.is_empty() { String::from("no matches") } else { output.headline() };
    Rendered { headline, lines, notes, ..Rendered::default() }.folded_to(SHOWN)
}
