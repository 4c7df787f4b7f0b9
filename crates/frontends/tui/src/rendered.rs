//! Rendered calls as lines.

use haft_tool::{LineStyle, Rendered, RenderedLine};

use crate::{
    news::CallFinish,
    text::{Fit, Ink, InkLine, Tone},
};

/// Lines of a result that are shown.
pub(crate) const MOST_LINES: usize = 12;

/// The ink of a style.
pub(crate) fn ink_of(style: LineStyle) -> Ink {
    match style {
        LineStyle::Plain => Ink::PLAIN,
        LineStyle::Dim => Ink::DIM,
        LineStyle::Added => Ink::tone(Tone::Good),
        LineStyle::Removed | LineStyle::Error => Ink::tone(Tone::Bad),
        LineStyle::Hunk => Ink::tone(Tone::Accent),
    }
}

/// A line of a body, indented.
pub(crate) fn body_line(line: &RenderedLine, indent: u16) -> InkLine {
    let lead = " ".repeat(usize::from(indent));
    let mut out = InkLine::blank().with(&lead, Ink::PLAIN);
    out.push(&line.text, ink_of(line.style));
    out.fit(Fit::Hang(indent))
}

/// The line that says what a call does.
pub(crate) fn head_line(mark: &str, ink: Ink, agent: Option<&str>, name: &str, headline: &str) -> InkLine {
    let mut line = InkLine::blank().with(mark, ink).with(" ", Ink::PLAIN);
    if let Some(agent) = agent {
        line.push(&format!("{agent} "), Ink::tone(Tone::Info));
    }
    line.push(name, Ink::BOLD);
    // Some tools begin with their own name.
    let words = headline.strip_prefix(name).filter(|it| it.starts_with(' ')).unwrap_or(headline).trim();
    let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
    if !words.is_empty() {
        line.push(" ", Ink::PLAIN).push(&words, Ink::PLAIN);
    }
    line
}

/// A call that is done, folded.
pub(crate) fn card(call: &CallFinish, most: usize) -> Vec<InkLine> {
    let (mark, tone) = if call.failed { ("✗", Tone::Bad) } else { ("✓", Tone::Good) };
    let head = head_line(mark, Ink::tone(tone), call.agent.as_deref(), &call.name, &call.headline);
    let mut out = vec![head.fit(Fit::Hang(2))];
    out.extend(body(&call.rendered, most));
    out
}

/// The body of a rendered call: its headline and its first lines.
pub(crate) fn body(rendered: &Rendered, most: usize) -> Vec<InkLine> {
    let mut out = Vec::new();
    if !rendered.headline.is_empty() {
        let line = RenderedLine::new(LineStyle::Dim, rendered.headline.as_str());
        out.push(body_line(&line, 2));
    }
    let lines = rendered.folded(most, " (ctrl+o shows them)");
    out.extend(lines.iter().map(|line| body_line(line, 4)));
    out
}
