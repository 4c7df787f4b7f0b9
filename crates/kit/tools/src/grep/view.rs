use haft_search::LineKind;
use haft_tool::{Line, LineStyle, Rendered};

use super::Output;

/// How many lines a person gets to see.
const SHOWN: usize = 60;

/// Matches grouped by file, lines around them dim.
pub(super) fn rendered(output: &Output) -> Rendered {
    let mut lines = Vec::new();
    for (name, hits) in &output.groups {
        let style = if hits.is_empty() { LineStyle::Plain } else { LineStyle::Hunk };
        lines.push(Line::new(style, name));
        let width = hits.iter().map(|hit| hit.number.to_string().len()).max().unwrap_or(0);
        for hit in hits {
            let style = if hit.kind == LineKind::Match { LineStyle::Plain } else { LineStyle::Dim };
            if hit.after_gap {
                lines.push(Line::new(LineStyle::Dim, format!("  {:>width$}", "⋮")));
            }
            lines.push(Line::new(style, format!("  {:>width$}  {}", hit.number, hit.text)));
        }
    }
    if SHOWN < lines.len() {
        let more = lines.len() - SHOWN;
        lines.truncate(SHOWN);
        lines.push(Line::new(LineStyle::Dim, format!("… {more} more lines")));
    }
    lines.extend(output.notes.iter().map(|note| Line::new(LineStyle::Dim, note)));
    Rendered { headline: output.headline(), lines }
}
