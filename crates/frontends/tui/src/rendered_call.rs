//! Rendered calls as lines.

use haft_tool::{LineStyle, Rendered, RenderedLine};

use crate::{
    styled_text::{ColorRole, StyledLine, TextStyle, WrapMode},
    ui_update::FinishedCall,
};

/// Lines of a result that are shown.
pub(crate) const MAX_LINES: usize = 12;

/// The ink of a style.
pub(crate) fn ink_of(style: LineStyle) -> TextStyle {
    match style {
        LineStyle::Plain => TextStyle::PLAIN,
        LineStyle::Dim => TextStyle::DIM,
        LineStyle::Added => TextStyle::tone(ColorRole::Good),
        LineStyle::Removed | LineStyle::Error => TextStyle::tone(ColorRole::Bad),
        LineStyle::Hunk => TextStyle::tone(ColorRole::Accent),
    }
}

/// A line of a body, indented.
pub(crate) fn body_line(line: &RenderedLine, indent: u16) -> StyledLine {
    let lead = " ".repeat(usize::from(indent));
    let mut out = StyledLine::blank().with(&lead, TextStyle::PLAIN);
    out.push(&line.text, ink_of(line.style));
    out.fit(WrapMode::Hang(indent))
}

/// The line that says what a call does.
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
    // Some tools begin with their own name.
    let words = headline.strip_prefix(name).filter(|it| it.starts_with(' ')).unwrap_or(headline).trim();
    let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
    if !words.is_empty() {
        line.push(" ", TextStyle::PLAIN).push(&words, TextStyle::PLAIN);
    }
    line
}

/// A call that is done, folded.
pub(crate) fn card(call: &FinishedCall, most: usize) -> Vec<StyledLine> {
    let (mark, tone) = if call.failed { ("✗", ColorRole::Bad) } else { ("✓", ColorRole::Good) };
    let head = head_line(mark, TextStyle::tone(tone), call.agent.as_deref(), &call.name, &call.headline);
    let mut out = vec![head.fit(WrapMode::Hang(2))];
    out.extend(body(&call.rendered, most));
    out
}

/// The body of a rendered call: its headline and its first lines.
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
