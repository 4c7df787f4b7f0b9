//! Incremental Markdown renderer.
//!
//! The source is split into blocks from left to right, by rules without lookahead, and a complete block
//! is rendered once. So the finished lines of a prefix are always a prefix of the finished lines of the
//! whole. pulldown-cmark parses the content of blocks.

use crate::{
    highlight::CodeHighlighter,
    styled_text::{StyledLine, TextStyle, WrapMode},
    terminal_caps::{TerminalCaps, WrapStyle},
};

mod block;
mod table;

use block::BlockRenderer;
use table::TableStream;

/// Maximum lines of an unfinished block that are held back.
const MAX_HELD: usize = 200;

/// A Markdown text that is still growing.
#[derive(Clone, Debug)]
pub struct MarkdownStream {
    maker: BlockRenderer,
    /// Complete lines of the open block.
    open: Vec<String>,
    /// The incomplete last line.
    partial: String,
    fence: Option<CodeFence>,
    table: Option<TableStream>,
    /// Whether a blank line came before the next block.
    gap: bool,
    last: LastBlock,
    finished: Vec<StyledLine>,
}

#[derive(Clone, Debug)]
struct CodeFence {
    mark: char,
    length: usize,
    indent: usize,
    inker: CodeHighlighter,
}

/// The previous block, for spacing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum LastBlock {
    Nothing,
    Prose,
    Item,
    Code,
    Table,
    Heading,
}

impl MarkdownStream {
    /// Creates an empty stream.
    pub fn new(look: &TerminalCaps, width: usize) -> Self {
        let fit = match look.wrap {
            WrapStyle::Terminal => WrapMode::Flow,
            WrapStyle::Words => WrapMode::Hang(0),
        };
        Self {
            maker: BlockRenderer { fit, width, marks: !look.can_draw() },
            open: Vec::new(),
            partial: String::new(),
            fence: None,
            table: None,
            gap: false,
            last: LastBlock::Nothing,
            finished: Vec::new(),
        }
    }

    /// Changes the width.
    pub fn set_width(&mut self, width: usize) {
        self.maker.width = width;
        if let Some(table) = &mut self.table {
            table.set_width(width);
        }
    }

    /// Appends text.
    pub fn feed(&mut self, text: &str) {
        let mut rest = text;
        while let Some((line, more)) = rest.split_once('\n') {
            let mut whole = std::mem::take(&mut self.partial);
            whole.push_str(line);
            self.take_line(whole.trim_end_matches('\r').to_owned());
            rest = more;
        }
        self.partial.push_str(rest);
    }

    /// Ends the text.
    pub fn end(&mut self) {
        let last = std::mem::take(&mut self.partial);
        if !last.is_empty() {
            self.take_line(last);
        }
        self.close();
        self.fence = None;
    }

    /// Returns lines that will not change any more, each once.
    pub fn take_finished(&mut self) -> Vec<StyledLine> {
        std::mem::take(&mut self.finished)
    }

    /// Renders the unfinished rest.
    pub fn tail(&self) -> Vec<StyledLine> {
        if self.fence.is_some() {
            return self.code_tail();
        }
        if let Some(table) = &self.table {
            return self.table_tail(table);
        }
        let mut lines = self.open.clone();
        if !self.partial.is_empty() {
            lines.push(self.partial.clone());
        }
        if lines.iter().all(|line| line.trim().is_empty()) {
            return Vec::new();
        }
        let mut out = Vec::new();
        let sort = self.sort_of(&lines);
        // A fence that is just being written is not shown.
        let opens = |line: &String| line.trim_start().starts_with("```") || line.trim() == "`";
        if lines.len() == 1 && opens(&lines[0]) {
            return out;
        }
        if self.wants_blank(sort) {
            out.push(StyledLine::blank());
        }
        let head = (sort == LastBlock::Table).then(|| self.head_tail(&lines)).flatten();
        match (head, sort) {
            (Some(head), _) => out.extend(head),
            (None, LastBlock::Table) => {
                out.extend(lines.iter().map(|line| StyledLine::new(line, TextStyle::PLAIN)))
            }
            _ => {
                out.extend(self.maker.lines(&closed_for_now(&lines.join("\n")), self.last == LastBlock::Item))
            }
        }
        out
    }

    /// Renders the incomplete line of code, unless it may be the closing fence.
    fn code_tail(&self) -> Vec<StyledLine> {
        let Some(fence) = &self.fence else { return Vec::new() };
        let begins_end =
            fence.is_closed_by(&self.partial) || self.partial.trim().chars().all(|it| it == fence.mark);
        if self.partial.is_empty() || begins_end {
            return Vec::new();
        }
        vec![self.maker.code_line(fence.inker.partial(fence.text(&self.partial)))]
    }

    /// Renders a line as a table head, if what follows may become its delimiter.
    fn head_tail(&self, lines: &[String]) -> Option<Vec<StyledLine>> {
        let is_on_the_way = |it: &String| it.chars().all(|it| matches!(it, '|' | '-' | ':' | ' '));
        if self.maker.marks || 2 < lines.len() || !lines.iter().skip(1).all(is_on_the_way) {
            return None;
        }
        Some(self.maker.pending_table(&lines[0])?.tail(None))
    }

    /// Renders the unfinished part of a table, including its incomplete row.
    fn table_tail(&self, table: &TableStream) -> Vec<StyledLine> {
        let partial = self.partial.as_str();
        if partial.contains('|') {
            return table.tail(self.maker.table_row(table, &closed_for_now(partial)).as_deref());
        }
        let mut out = table.tail(None);
        if !partial.trim().is_empty() && !partial.trim_start().starts_with('`') {
            out.push(StyledLine::blank());
            out.extend(self.maker.lines(partial, /*after_item*/ false));
        }
        out
    }

    fn wants_blank(&self, sort: LastBlock) -> bool {
        let set_apart = |it| matches!(it, LastBlock::Code | LastBlock::Table | LastBlock::Heading);
        self.last != LastBlock::Nothing
            && (self.gap || set_apart(sort) || (set_apart(self.last) && self.last != LastBlock::Heading))
    }

    fn take_line(&mut self, line: String) {
        if let Some(fence) = &mut self.fence {
            if fence.is_closed_by(&line) {
                if let Some(line) = self.maker.fence_line("```") {
                    self.finished.push(line);
                }
                self.fence = None;
                self.gap = true;
            } else {
                let spans = fence.inker.line(fence.text(&line));
                self.finished.push(self.maker.code_line(spans));
            }
            return;
        }
        if self.take_row(&line) {
            return;
        }
        if line.trim().is_empty() {
            self.close();
            self.gap = true;
            return;
        }
        if let Some((fence, info)) = CodeFence::opened_by(&line) {
            self.close();
            if self.wants_blank(LastBlock::Code) {
                self.finished.push(StyledLine::blank());
            }
            self.finished.extend(self.maker.fence_line(&format!("```{info}")));
            (self.fence, self.last, self.gap) = (Some(fence), LastBlock::Code, false);
            return;
        }
        if self.begin_table(&line) {
            return;
        }
        let is_table = self.sort_of(&self.open) == LastBlock::Table && !self.open.is_empty();
        let begins = is_heading(&line)
            || is_item(&line)
            || (is_table && !line.contains('|'))
            || (!is_table && line.trim_start().starts_with('|') && !self.open.is_empty())
            || MAX_HELD < self.open.len();
        if begins {
            self.close();
        }
        let ends = is_heading(&line) || (!self.open.is_empty() && is_underline(&line) && !is_table);
        self.open.push(line);
        if ends {
            self.close();
        }
    }

    /// Starts a table if the line is its delimiter. Returns whether it did. Tables in lists are rendered
    /// when complete.
    fn begin_table(&mut self, line: &str) -> bool {
        let [head] = self.open.as_slice() else { return false };
        let is_inner = head.starts_with("    ") || (self.last == LastBlock::Item && head.starts_with("  "));
        let is_head = head.contains('|') && !is_item(head) && !head.trim_start().starts_with('>');
        if self.maker.marks || is_inner || !is_head || !is_delimiter(line) {
            return false;
        }
        let Some(table) = self.maker.table(head, line) else { return false };
        self.open.clear();
        if self.wants_blank(LastBlock::Table) {
            self.finished.push(StyledLine::blank());
        }
        (self.table, self.last, self.gap) = (Some(table), LastBlock::Table, false);
        true
    }

    /// Adds the line to the open table if it is a row; otherwise the table ends.
    fn take_row(&mut self, line: &str) -> bool {
        let Some(table) = &mut self.table else { return false };
        let is_row = line.contains('|') && !is_heading(line) && !is_item(line);
        let row = is_row.then(|| self.maker.table_row(table, line)).flatten();
        let Some(row) = row else {
            self.finished.extend(table.end());
            self.table = None;
            return false;
        };
        self.finished.extend(table.push(row));
        true
    }

    /// Renders the complete open block.
    fn close(&mut self) {
        if let Some(mut table) = self.table.take() {
            self.finished.extend(table.end());
        }
        if self.open.is_empty() {
            return;
        }
        let lines = std::mem::take(&mut self.open);
        let sort = self.sort_of(&lines);
        if self.wants_blank(sort) {
            self.finished.push(StyledLine::blank());
        }
        let after_item = self.last == LastBlock::Item;
        self.finished.extend(self.maker.lines(&lines.join("\n"), after_item));
        let goes_on = after_item && lines[0].starts_with("  ");
        self.last = if goes_on { LastBlock::Item } else { sort };
        self.gap = false;
    }

    fn sort_of(&self, lines: &[String]) -> LastBlock {
        match lines.first() {
            Some(line) if is_heading(line) => LastBlock::Heading,
            Some(line) if is_item(line) => LastBlock::Item,
            Some(line) if line.trim_start().starts_with('|') => LastBlock::Table,
            Some(line) if line.contains('|') && lines.get(1).is_some_and(|it| is_delimiter(it)) => {
                LastBlock::Table
            }
            _ => LastBlock::Prose,
        }
    }
}

impl CodeFence {
    fn opened_by(line: &str) -> Option<(Self, String)> {
        let indent = line.bytes().take_while(|it| *it == b' ').count();
        let rest = &line[indent..];
        let mark = rest.chars().next().filter(|it| matches!(it, '`' | '~'))?;
        let length = rest.chars().take_while(|it| *it == mark).count();
        let info = rest[length..].trim();
        let fits = 3 <= length && (mark == '~' || !info.contains('`'));
        let inker = CodeHighlighter::new(info);
        fits.then(|| (Self { mark, length, indent, inker }, info.to_owned()))
    }

    /// Returns a line without the indentation of its fence.
    fn text<'a>(&self, line: &'a str) -> &'a str {
        let blanks = line.bytes().take_while(|it| *it == b' ').count();
        &line[blanks.min(self.indent)..]
    }

    fn is_closed_by(&self, line: &str) -> bool {
        let line = line.trim();
        self.length <= line.len() && line.chars().all(|it| it == self.mark)
    }
}

fn is_heading(line: &str) -> bool {
    let marks = line.bytes().take_while(|it| *it == b'#').count();
    (1..=6).contains(&marks) && matches!(line.as_bytes().get(marks), Some(b' ') | None)
}

/// Whether a line is a top-level list item.
fn is_item(line: &str) -> bool {
    let rest = line.strip_prefix(' ').unwrap_or(line);
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    match rest.as_bytes().first() {
        Some(b'-' | b'*' | b'+') => rest.as_bytes().get(1) == Some(&b' '),
        Some(b'0'..=b'9') if digits < 10 => {
            matches!(rest.as_bytes().get(digits), Some(b'.' | b')'))
                && rest.as_bytes().get(digits + 1) == Some(&b' ')
        }
        _ => false,
    }
}

fn is_underline(line: &str) -> bool {
    let line = line.trim();
    1 < line.len() && (line.bytes().all(|it| it == b'=') || line.bytes().all(|it| it == b'-'))
}

fn is_delimiter(line: &str) -> bool {
    line.contains('-') && line.chars().all(|it| matches!(it, '|' | '-' | ':' | ' '))
}

/// Closes open code spans and emphasis in an incomplete text, so that it is rendered like the final one.
fn closed_for_now(source: &str) -> String {
    let mut text = source.to_owned();
    if text.matches('`').count() % 2 == 1 {
        match text.strip_suffix('`') {
            Some(before) => text.truncate(before.len()),
            None => {
                text.push('`');
                return text;
            }
        }
    }
    if text.matches("**").count() % 2 == 1 {
        let before = text.trim_end().len();
        text.truncate(before);
        match text.strip_suffix("**") {
            Some(before) => text.truncate(before.len()),
            None if text.ends_with('*') => text.push('*'),
            None => text.push_str("**"),
        }
    }
    text
}

/// Renders thinking and other unformatted text.
pub(crate) fn plain_lines(text: &str, ink: TextStyle, fit: WrapMode) -> Vec<StyledLine> {
    text.lines().map(|line| StyledLine::new(line, ink).fit(fit)).collect()
}

#[cfg(test)]
mod tests;
