//! Converts rendered calls to lines.

use haft_tool::{LineStyle, Rendered, RenderedLine};

use crate::{
    styled_text::{ColorRole, StyledLine, TextStyle, WrapMode},
    ui_update::FinishedCall,
};

/// Maximum lines shown of a result.
pub(crate) const MAX_LINES: usize = 12;

/// Returns the text style of a line style.
pub(crate) fn ink_of(style: LineStyle) -> TextStyle {
    match style {
        LineStyle::Plain => TextStyle::PLAIN,
        LineStyle::Dim => TextStyle::DIM,
        LineStyle::Added => TextStyle::tone(ColorRole::Good),
        LineStyle::Removed | LineStyle::Error => TextStyle::tone(ColorRole::Bad),
        LineStyle::Hunk => TextStyle::tone(ColorRole::Accent),
    }
}

/// Formats a line of the body, indented.
pub(crate) fn body_line(line: &RenderedLine, indent: u16) -> StyledLine {
    let lead = " ".repeat(usize::from(indent));
    let mut out = StyledLine::blank().with(&lead, TextStyle::PLAIN);
    out.push(&line.text, ink_of(line.style));
    out.fit(WrapMode::Hang(indent))
}

/// Formats the headline of a call.
pub(crate) fn head_line(
    mark: &str,
    ink: TextStyle,
    agent: Option<&str>,
    name: &str,
    headline: &str,
) -> StyledLine {
    let mut line = StyledLine::blank().with(mark, ink).with(" ", TextStyle::PLAIN);
    if let Some(agent) = agent {
        line.push(&format!("{agent} "), TextStyle::tone(ColorRole::Info));
    }
    line.push(name, TextStyle::BOLD);
    // Some headlines start with the tool's name.
    let words = headline.strip_prefix(name).filter(|it| it.starts_with(' ')).unwrap_or(headline).trim();
    let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
    if !words.is_empty() {
        line.push(" ", TextStyle::PLAIN).push(&words, TextStyle::PLAIN);
    }
    line
}

/// Formats a finished call with at most `most` lines of its result.
pub(crate) fn card(call: &FinishedCall, most: usize) -> Vec<StyledLine> {
    let (mark, tone) = if call.failed { ("✗", ColorRole::Bad) } else { ("✓", ColorRole::Good) };
    let head = head_line(mark, TextStyle::tone(tone), call.agent.as_deref(), &call.name, &call.headline);
    let mut out = vec![head.fit(WrapMode::Hang(2))];
    out.extend(body(&call.rendered, most));
    out
}

/// Formats the body of a rendering: headline and first lines.
pub(crate) fn body(rendered: &Rendered, most: usize) -> Vec<StyledLine> {
    let mut out = Vec::new();
    if !rendered.headline.is_empty() {
        let line = RenderedLine::new(LineStyle::Dim, rendered.headline.as_str());
        out.push(body_line(&line, 2));
    }
    let lines = rendered.folded(most, " (ctrl+o shows them)");
    out.extend(lines.iter().map(|line| body_line(line, 4)));
    out
}
