//! Renders one Markdown block to lines.

use std::sync::Arc;

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

use super::table::{TableRows, TableStream};
use crate::{
    highlight::CodeHighlighter,
    styled_text::{ColorRole, StyledLine, StyledSpan, TextStyle, WrapMode, width_of},
};

/// Enabled Markdown extensions.
const OPTIONS: Options =
    Options::ENABLE_TABLES.union(Options::ENABLE_STRIKETHROUGH).union(Options::ENABLE_TASKLISTS);

/// Renders blocks.
#[derive(Clone, Debug)]
pub(super) struct BlockRenderer {
    /// Wrap mode of prose.
    pub(super) fit: WrapMode,
    pub(super) width: usize,
    /// Whether Markdown markers are kept, because styles are not visible.
    pub(super) marks: bool,
}

/// Lines under construction.
struct BlockLines<'a> {
    maker: &'a BlockRenderer,
    out: Vec<StyledLine>,
    line: StyledLine,
    ink: Vec<TextStyle>,
    links: Vec<(Arc<str>, usize)>,
    /// Prefixes of rows: quotes and list items.
    lead: Vec<String>,
    /// Current number of each open list; `None` for bullets.
    lists: Vec<Option<u64>>,
    table: Option<TableRows>,
    /// The open code block.
    code: Option<CodeHighlighter>,
}

impl BlockRenderer {
    /// A line of a code block, without any prefix, so that it can be copied.
    pub(super) fn code_line(&self, spans: Vec<StyledSpan>) -> StyledLine {
        let mut line = StyledLine { spans, fit: WrapMode::Flow };
        if self.marks {
            line.spans.iter_mut().for_each(|span| span.ink = TextStyle::PLAIN);
        }
        line
    }

    /// The fence of a code block, shown if styles are not visible.
    pub(super) fn fence_line(&self, text: &str) -> Option<StyledLine> {
        self.marks.then(|| StyledLine::new(text, TextStyle::PLAIN))
    }

    /// Renders a whole block. An indented block after a list item belongs to it.
    pub(super) fn lines(&self, source: &str, after_item: bool) -> Vec<StyledLine> {
        if self.marks {
            return source
                .lines()
                .map(|line| StyledLine::new(line, TextStyle::PLAIN).fit(self.fit))
                .collect();
        }
        let blanks = source.bytes().take_while(|it| *it == b' ').count();
        let indent = if after_item { blanks.min(8) } else { 0 };
        let source = if 0 < indent {
            let cut = |line: &str| {
                line[line.len() - line.trim_start().len().max(line.len() - indent.min(line.len()))..]
                    .to_owned()
            };
            source.lines().map(cut).collect::<Vec<_>>().join("\n")
        } else {
            source.to_owned()
        };
        let mut lines = BlockLines::new(self);
        if 0 < indent {
            lines.lead.push(" ".repeat(indent));
        }
        for event in Parser::new_ext(&source, OPTIONS) {
            lines.take(event);
        }
        lines.break_line();
        lines.out
    }

    /// Starts a table, if the two lines are its head and delimiter.
    pub(super) fn table(&self, head: &str, delimiter: &str) -> Option<TableStream> {
        let rows = self.table_rows(&format!("{}\n{}\n", head.trim(), delimiter.trim()))?;
        let head = rows.rows.into_iter().next()?;
        Some(TableStream::new(head, rows.alignments, self.width))
    }

    /// Returns the table that would start if a delimiter followed this line.
    pub(super) fn pending_table(&self, head: &str) -> Option<TableStream> {
        let head = head.trim();
        let inner = head.trim_start_matches('|');
        let inner = inner.strip_suffix('|').unwrap_or(inner);
        let count = inner.replace("\\|", "").matches('|').count() + 1;
        self.table(head, &format!("|{}", "-|".repeat(count)))
    }

    /// Splits a table row into cells, if the line is one.
    pub(super) fn table_row(&self, table: &TableStream, line: &str) -> Option<Vec<StyledLine>> {
        let columns = table.columns();
        let (head, delimiter) = ("|x".repeat(columns), "|-".repeat(columns));
        let rows = self.table_rows(&format!("{head}|\n{delimiter}|\n{}\n", line.trim()))?;
        rows.rows.into_iter().nth(1)
    }

    fn table_rows(&self, source: &str) -> Option<TableRows> {
        let mut lines = BlockLines::new(self);
        for event in Parser::new_ext(source, OPTIONS) {
            if matches!(event, Event::End(TagEnd::Table)) {
                return lines.table;
            }
            lines.take(event);
        }
        None
    }
}

impl<'a> BlockLines<'a> {
    fn new(maker: &'a BlockRenderer) -> Self {
        Self {
            maker,
            out: Vec::new(),
            line: StyledLine::blank(),
            ink: vec![TextStyle::PLAIN],
            links: Vec::new(),
            lead: Vec::new(),
            lists: Vec::new(),
            table: None,
            code: None,
        }
    }

    fn ink(&self) -> TextStyle {
        self.ink.last().copied().unwrap_or_default()
    }

    fn put(&mut self, text: &str, ink: TextStyle) {
        self.begin_line();
        let mut span = StyledSpan::new(text, ink);
        span.link = self.links.last().map(|it| Arc::clone(&it.0));
        match self.line.spans.last_mut().filter(|it| it.ink == span.ink && it.link == span.link) {
            Some(last) => last.text.push(&span.text),
            None => self.line.spans.push(span),
        }
    }

    /// Writes quote and list prefixes before the first word of a line.
    fn begin_line(&mut self) {
        if !self.line.spans.is_empty() || self.table.is_some() {
            return;
        }
        for lead in &mut self.lead {
            let ink = if lead.contains('│') { TextStyle::DIM } else { TextStyle::tone(ColorRole::Accent) };
            self.line.spans.push(StyledSpan::new(lead, ink));
            // A list marker appears on its first line only.
            if !lead.contains('│') {
                *lead = " ".repeat(width_of(lead));
            }
        }
    }

    fn break_line(&mut self) {
        if self.line.spans.is_empty() {
            return;
        }
        let mut line = std::mem::take(&mut self.line);
        let lead: usize = self.lead.iter().map(|it| width_of(it)).sum();
        line.fit = if 0 < lead { WrapMode::Hang(u16::try_from(lead).unwrap_or(0)) } else { self.maker.fit };
        if self.code.is_some() {
            line.fit = WrapMode::Flow;
        }
        self.out.push(line);
    }

    fn add_ink(&mut self, change: impl FnOnce(&mut TextStyle)) {
        let mut ink = self.ink();
        change(&mut ink);
        self.ink.push(ink);
    }

    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) if self.code.is_some() => {
                for line in text.lines() {
                    let spans = self.code.as_mut().map(|it| it.line(line)).unwrap_or_default();
                    self.begin_line();
                    self.line.spans.extend(spans);
                    self.break_line();
                }
            }
            Event::Text(text) => self.put(&text, self.ink()),
            Event::Code(code) => {
                let ink = TextStyle { tone: ColorRole::Code, ..self.ink() };
                self.put(&code, ink);
            }
            Event::Html(text) | Event::InlineHtml(text) => {
                let mut lines = text.split('\n').peekable();
                while let Some(line) = lines.next() {
                    self.put(line, self.ink());
                    if lines.peek().is_some() {
                        self.break_line();
                    }
                }
            }
            Event::SoftBreak => self.put(" ", self.ink()),
            Event::HardBreak => self.break_line(),
            Event::Rule => self.put("───", TextStyle::DIM),
            Event::TaskListMarker(done) => {
                self.put(if done { "☑ " } else { "☐ " }, TextStyle::PLAIN);
            }
            Event::FootnoteReference(name) => self.put(&format!("[^{name}]"), TextStyle::DIM),
            Event::InlineMath(text) | Event::DisplayMath(text) => self.put(&text, self.ink()),
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Heading { .. } => self.add_ink(|ink| ink.bold = true),
            Tag::BlockQuote(_) => {
                self.lead.push(String::from("│ "));
                self.add_ink(|ink| ink.italic = true);
            }
            Tag::CodeBlock(kind) => {
                let language = match kind {
                    CodeBlockKind::Fenced(info) => info.to_string(),
                    CodeBlockKind::Indented => String::new(),
                };
                self.code = Some(CodeHighlighter::new(&language));
            }
            Tag::List(first) => {
                self.break_line();
                self.lists.push(first);
            }
            Tag::Item => {
                self.break_line();
                let mark = match self.lists.last_mut() {
                    Some(Some(number)) => {
                        *number += 1;
                        format!("{}. ", *number - 1)
                    }
                    _ => String::from("• "),
                };
                self.lead.push(mark);
            }
            Tag::Emphasis => self.add_ink(|ink| ink.italic = true),
            Tag::Strong => self.add_ink(|ink| ink.bold = true),
            Tag::Strikethrough => self.add_ink(|ink| ink.strike = true),
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                self.begin_line();
                self.links.push((Arc::from(&*dest_url), self.line.width()));
                self.add_ink(|ink| ink.underline = true);
            }
            Tag::Table(alignments) => self.table = Some(TableRows { rows: Vec::new(), alignments }),
            Tag::TableHead | Tag::TableRow => {
                if let Some(table) = &mut self.table {
                    table.rows.push(Vec::new());
                }
            }
            Tag::Paragraph => self.break_line(),
            _ => (),
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph => self.break_line(),
            TagEnd::Heading(_) => {
                self.ink.pop();
                self.break_line();
            }
            TagEnd::BlockQuote(_) => {
                self.break_line();
                self.ink.pop();
                self.lead.pop();
            }
            TagEnd::CodeBlock => {
                self.break_line();
                self.code = None;
            }
            TagEnd::List(_) => drop(self.lists.pop()),
            TagEnd::Item => {
                // Keep the marker of an empty item.
                if self.lead.last().is_some_and(|mark| !mark.trim().is_empty()) {
                    self.begin_line();
                }
                self.break_line();
                self.lead.pop();
            }
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough => drop(self.ink.pop()),
            TagEnd::Link | TagEnd::Image => self.end_link(),
            TagEnd::TableCell => {
                let cell = std::mem::take(&mut self.line);
                if let Some(row) = self.table.as_mut().and_then(|table| table.rows.last_mut()) {
                    row.push(cell);
                }
            }
            TagEnd::Table => {
                if let Some(table) = self.table.take() {
                    self.out.extend(table.lines(self.maker.width));
                }
            }
            _ => (),
        }
    }

    /// Appends the target of a link, unless its text already contains it.
    fn end_link(&mut self) {
        self.ink.pop();
        let Some((url, from)) = self.links.pop() else { return };
        let words: String = self.line.to_text();
        let shown = words
            .char_indices()
            .find(|(at, _)| width_of(&words[..*at]) >= from)
            .map_or("", |it| &words[it.0..]);
        if !url.is_empty() && !url.contains(shown.trim()) && !url.starts_with('#') {
            self.put(&format!(" ({url})"), TextStyle::DIM);
        }
    }
}
