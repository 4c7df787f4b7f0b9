//! The transcript of the conversation.

use haft_tool::{LineStyle, RenderedLine};

use crate::{
    markdown::{MarkdownStream, plain_lines},
    rendered_call,
    styled_text::{ColorRole, StyledLine, TextStyle, WrapMode},
    terminal_caps::TerminalCaps,
    ui_update::FinishedCall,
};

/// An item of the transcript.
#[derive(Clone, Debug)]
pub(crate) enum TranscriptItem {
    /// A user message.
    Prompt(String),
    /// An answer of the model, in Markdown.
    Answer(String),
    /// Thinking of the model.
    Thought(String),
    Call(Box<FinishedCall>),
    /// A notice to the user.
    Notice(String),
    /// A panel with text.
    Panel(Vec<StyledLine>),
}

impl TranscriptItem {
    /// Renders the complete item.
    fn lines(&self, look: &TerminalCaps, width: usize) -> Vec<StyledLine> {
        match self {
            Self::Prompt(text) => prompt_lines(text),
            Self::Answer(source) => answer_lines(source, look, width),
            Self::Thought(text) => {
                plain_lines(text.trim(), TextStyle { italic: true, ..TextStyle::DIM }, WrapMode::Flow)
            }
            Self::Call(call) => match &call.whole {
                Some(whole) if !call.failed => {
                    let mut lines = rendered_call::card(call, 0);
                    lines.truncate(1);
                    lines.extend(rendered_call::body(&whole.make(), usize::MAX));
                    lines
                }
                _ => rendered_call::card(call, usize::MAX),
            },
            Self::Notice(text) => notice_lines(text),
            Self::Panel(lines) => lines.clone(),
        }
    }
}

/// Maximum lines rendered at once. Output of earlier calls is omitted, because it may exceed the memory
/// many times.
const MAX_UNFOLDED: usize = if cfg!(test) { 200 } else { 200_000 };

/// Renders the whole transcript.
pub(crate) fn all_lines(items: &[TranscriptItem], look: &TerminalCaps, width: usize) -> Vec<StyledLine> {
    let mut room = MAX_UNFOLDED;
    // Start from the newest, which users want to see most.
    let mut parts: Vec<Vec<StyledLine>> = Vec::with_capacity(items.len());
    for item in items.iter().rev() {
        let lines = match item {
            TranscriptItem::Call(call) if room == 0 => folded(call),
            _ => item.lines(look, width),
        };
        room = room.saturating_sub(lines.len());
        parts.push(lines);
    }
    let mut out = Vec::new();
    for lines in parts.into_iter().rev() {
        if !out.is_empty() {
            out.push(StyledLine::blank());
        }
        out.extend(lines);
    }
    out
}

fn folded(call: &FinishedCall) -> Vec<StyledLine> {
    let mut lines = rendered_call::card(call, 1);
    let words = format!("    … not shown: {MAX_UNFOLDED} lines stand below");
    lines.push(StyledLine::new(&words, TextStyle::DIM).fit(WrapMode::Cut));
    lines
}

pub(crate) fn answer_lines(source: &str, look: &TerminalCaps, width: usize) -> Vec<StyledLine> {
    let mut stream = MarkdownStream::new(look, width);
    stream.feed(source);
    stream.end();
    stream.take_finished()
}

pub(crate) fn prompt_lines(text: &str) -> Vec<StyledLine> {
    let ink = TextStyle::tone(ColorRole::Accent).bold();
    let mut lines: Vec<StyledLine> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let sign = if number == 0 { "› " } else { "  " };
        lines.push(StyledLine::new(sign, ink).with(line, TextStyle::BOLD));
    }
    lines
}

/// Maximum lines, and bytes, of a prompt that are shown.
const SHOWN_LINES: usize = 24;
const SHOWN_BYTES: usize = 4000;

/// Renders the beginning of a prompt, with a note about what is omitted.
pub(crate) fn shown_prompt_lines(text: &str) -> Vec<StyledLine> {
    let mut shown = 0;
    let mut cut = text.len();
    for (number, line) in text.split_inclusive('\n').enumerate() {
        if number == SHOWN_LINES {
            cut = shown;
            break;
        }
        if SHOWN_BYTES < shown + line.len() {
            cut = text.floor_char_boundary(SHOWN_BYTES.max(shown));
            break;
        }
        shown += line.len();
    }
    let mut lines = prompt_lines(&text[..cut]);
    let rest = &text[cut..];
    if !rest.is_empty() {
        let words = match rest.lines().count() {
            1 => format!("  … {} more bytes (ctrl+o shows them)", rest.len()),
            count => format!("  … {count} more lines (ctrl+o shows them)"),
        };
        lines.push(StyledLine::new(&words, TextStyle::DIM).fit(WrapMode::Cut));
    }
    lines
}

pub(crate) fn notice_lines(text: &str) -> Vec<StyledLine> {
    let line =
        |text: &str| rendered_call::body_line(&RenderedLine::new(LineStyle::Dim, format!("· {text}")), 2);
    text.lines().filter(|it| !it.trim().is_empty()).map(line).collect()
}

#[cfg(test)]
mod tests {
    use haft_tool::{Rendered, Rendering};

    use super::*;

    #[test]
    fn long_prompt_shows_beginning_and_count() {
        let text = |prompt: &str| -> Vec<String> {
            shown_prompt_lines(prompt).iter().map(StyledLine::to_text).collect()
        };
        assert_eq!(text("one\ntwo"), ["› one", "  two"]);
        let many = text(&"row\n".repeat(200_000));
        assert_eq!(
            (many.len(), many[SHOWN_LINES].as_str()),
            (25, "  … 199976 more lines (ctrl+o shows them)")
        );
        let wide = text(&"ä".repeat(1 << 20));
        assert_eq!((wide.len(), wide[1].as_str()), (2, "  … 2093152 more bytes (ctrl+o shows them)"));
    }

    #[test]
    fn transcript_omits_old_output_beyond_limit() {
        let call = |id: usize| {
            let text = (0..150).map(|line| format!("out-{id}-{line}\n")).collect::<String>();
            let lines = text.lines().map(|it| RenderedLine::new(LineStyle::Plain, it)).collect();
            let rendered = Rendered { lines, ..Rendered::default() };
            let whole = Some(Rendering::new({
                let rendered = rendered.clone();
                move || rendered.clone()
            }));
            let (name, headline) = (String::from("Bash"), format!("$ run {id}"));
            let call = FinishedCall {
                id: id.to_string(),
                agent: None,
                name,
                headline,
                failed: false,
                rendered,
                whole,
            };
            TranscriptItem::Call(Box::new(call))
        };
        let items: Vec<TranscriptItem> = (0..4).map(call).collect();
        let shown: Vec<String> =
            all_lines(&items, &TerminalCaps::default(), 80).iter().map(StyledLine::to_text).collect();
        for id in 0..4 {
            let lines = shown.iter().filter(|line| line.contains(&format!("out-{id}-"))).count();
            assert_eq!(lines, if id < 2 { 1 } else { 150 }, "{id}");
            assert!(shown.iter().any(|line| line.contains(&format!("$ run {id}"))));
        }
    }
}
