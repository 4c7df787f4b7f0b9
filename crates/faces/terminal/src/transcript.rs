//! What was said and done, for whoever wants to see all of it.

use haft_tool::{Line, LineStyle};

use crate::{
    look::TermLook,
    markdown::{MarkdownStream, plain_lines},
    news::CallFinish,
    rendered,
    text::{Fit, Ink, InkLine, Tone},
};

/// One thing that was said or done.
#[derive(Clone, Debug)]
pub(crate) enum TranscriptItem {
    /// The person said it.
    Prompt(String),
    /// The model said it, in Markdown.
    Answer(String),
    /// The model thought it.
    Thought(String),
    /// A call.
    Call(Box<CallFinish>),
    /// Something the person should know.
    Notice(String),
    /// Something to read.
    Panel(Vec<InkLine>),
}

impl TranscriptItem {
    /// All of it.
    fn lines(&self, look: &TermLook, width: usize) -> Vec<InkLine> {
        match self {
            Self::Prompt(text) => prompt_lines(text),
            Self::Answer(source) => answer_lines(source, look, width),
            Self::Thought(text) => plain_lines(text.trim(), Ink { italic: true, ..Ink::DIM }, Fit::Flow),
            Self::Call(call) => match &call.whole {
                Some(whole) if !call.failed => {
                    let mut lines = rendered::card(call, 0);
                    lines.truncate(1);
                    lines.extend(rendered::body(&whole.make(), usize::MAX));
                    lines
                }
                _ => rendered::card(call, usize::MAX),
            },
            Self::Notice(text) => notice_lines(text),
            Self::Panel(lines) => lines.clone(),
        }
    }
}

/// Everything, as lines.
pub(crate) fn all_lines(items: &[TranscriptItem], look: &TermLook, width: usize) -> Vec<InkLine> {
    let mut out = Vec::new();
    for item in items {
        if !out.is_empty() {
            out.push(InkLine::blank());
        }
        out.extend(item.lines(look, width));
    }
    out
}

pub(crate) fn answer_lines(source: &str, look: &TermLook, width: usize) -> Vec<InkLine> {
    let mut stream = MarkdownStream::new(look, width);
    stream.feed(source);
    stream.end();
    stream.take_finished()
}

pub(crate) fn prompt_lines(text: &str) -> Vec<InkLine> {
    let ink = Ink::tone(Tone::Accent).bold();
    let mut lines: Vec<InkLine> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let sign = if number == 0 { "› " } else { "  " };
        lines.push(InkLine::of(sign, ink).with(line, Ink::BOLD));
    }
    lines
}

pub(crate) fn notice_lines(text: &str) -> Vec<InkLine> {
    let line = |text: &str| rendered::body_line(&Line::new(LineStyle::Dim, format!("· {text}")), 2);
    text.lines().filter(|it| !it.trim().is_empty()).map(line).collect()
}
