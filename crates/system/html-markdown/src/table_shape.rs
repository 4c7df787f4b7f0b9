//! Classifies tables: data, page layout, menu, or code with line numbers.

use super::{
    code_lines::{is_heading, names_numbers},
    tags::{HtmlToken, HtmlTokens, OpenTag},
};

/// Maximum number of columns; cells beyond it are merged.
pub(super) const MAX_COLUMNS: usize = 128;
/// Maximum characters of a layout row without block elements that is written as one line.
const LINE_CHARS: usize = 200;
/// Maximum characters of nested tables that stay inside a data cell.
const SMALL_CHARS: usize = 300;
/// Maximum lines of code in a data cell.
const CELL_CODE_LINES: usize = 3;

/// The purpose of a table.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum TableUse {
    /// Data in rows and columns.
    Data,
    /// A small table inside a data cell.
    Inside,
    /// Boxes arranged next to each other.
    Layout,
    /// A menu that consists of links.
    Links,
    /// One row per line of code, with the line number in the first cell.
    Code,
    /// A column of line numbers next to a code block.
    Numbered,
}

/// The classification of a table.
#[derive(Debug)]
pub(super) struct TableShape {
    pub(super) used: TableUse,
    pub(super) columns: u8,
    /// Amount of text in each row; only for [`TableUse::Layout`].
    rows: Box<[RowText]>,
}

impl TableShape {
    /// Whether a row (counted from 1) is written as one line.
    pub(super) fn is_line(&self, row: usize) -> bool {
        row.checked_sub(1).and_then(|it| self.rows.get(it)).is_some_and(|it| it.is_line())
    }
}

/// Number of characters in a row, saturating at 255. One byte, because a page can have a row per word.
#[derive(Clone, Copy, Debug, Default)]
struct RowText(u8);

impl RowText {
    fn add(&mut self, chars: usize) {
        self.0 = self.0.saturating_add(u8::try_from(chars).unwrap_or(u8::MAX));
    }

    /// Marks the row as containing a block element.
    fn block(&mut self) {
        self.0 = u8::MAX;
    }

    fn is_line(self) -> bool {
        usize::from(self.0) <= LINE_CHARS
    }
}

/// Tracks the column of the next cell, taking `rowspan` and `colspan` into account.
#[derive(Debug, Default)]
pub(super) struct SpanGrid {
    /// For every column, the number of further rows that a cell above occupies.
    taken: Vec<u32>,
    pub(super) column: usize,
}

impl SpanGrid {
    pub(super) fn begin_row(&mut self) {
        if self.column != 0 || !self.taken.is_empty() {
            // Columns after the last cell of the previous row were occupied there as well.
            for rows in self.taken.iter_mut().skip(self.column) {
                *rows = rows.saturating_sub(1);
            }
            while self.taken.last() == Some(&0) {
                self.taken.pop();
            }
        }
        self.column = 0;
    }

    /// Places a cell. Returns the number of occupied columns skipped before it.
    pub(super) fn place(&mut self, tag: &OpenTag<'_>) -> usize {
        let number = |name: &str| tag.attribute(name).and_then(|it| it.trim().parse::<u32>().ok());
        let wide = number("colspan").unwrap_or(1).clamp(1, MAX_COLUMNS as u32) as usize;
        // `rowspan="0"` means all following rows.
        let high = number("rowspan").map_or(1, |it| if it == 0 { u32::MAX } else { it });
        let from = self.column;
        while let Some(rows) = self.taken.get_mut(self.column).filter(|it| **it != 0) {
            *rows -= 1;
            self.column += 1;
        }
        let free = self.column - from;
        let end = (self.column + wide).min(MAX_COLUMNS);
        if 1 < high && self.column < end {
            if self.taken.len() < end {
                self.taken.resize(end, 0);
            }
            self.taken[self.column..end].fill(high - 1);
        }
        self.column = end.max(self.column);
        free
    }
}

/// Statistics of a table while it is read.
#[derive(Debug, Default)]
struct TableStats {
    index: usize,
    grid: SpanGrid,
    columns: usize,
    rows: Vec<RowText>,
    cells: usize,
    heads: usize,
    head_row: bool,
    presents: bool,
    /// Number of nested tables, their characters, and whether one of them is more than a few words.
    inner: usize,
    inner_text: usize,
    inner_large: bool,
    blocks: bool,
    paragraphs: usize,
    code_lines: usize,
    has_code: bool,
    text: usize,
    link_text: usize,
    /// Position of the cell in its row, and whether the first cell contains only digits.
    cell: usize,
    number_cell: Option<bool>,
    numbers: bool,
    numbers_said: usize,
    numbered_rows: usize,
    paired_rows: usize,
}

impl TableStats {
    fn row(&mut self) {
        self.end_row();
        self.grid.begin_row();
        self.rows.push(RowText::default());
        self.cell = 0;
        self.number_cell = None;
        self.numbers = false;
    }

    fn end_row(&mut self) {
        self.columns = self.columns.max(self.grid.column);
        if self.cell == 2 {
            self.paired_rows += 1;
            if self.number_cell == Some(true) {
                self.numbered_rows += 1;
            }
        }
        self.cell = 0;
    }

    fn cell(&mut self, tag: &OpenTag<'_>) {
        if self.rows.is_empty() {
            self.row();
        }
        self.grid.place(tag);
        self.columns = self.columns.max(self.grid.column);
        self.cells += 1;
        self.cell += 1;
        self.paragraphs = 0;
        if tag.name == "th" {
            self.heads += 1;
            self.head_row |= self.rows.len() == 1;
        }
        if self.cell == 1 {
            self.number_cell = Some(true);
            if names_numbers(tag) {
                self.numbers_said += 1;
            }
        }
    }

    fn text(&mut self, text: &str, in_link: bool) {
        let chars = text.bytes().filter(|it| !it.is_ascii_whitespace() && it & 0xc0 != 0x80).count();
        self.text += chars;
        if in_link {
            self.link_text += chars;
        }
        if let Some(row) = self.rows.last_mut() {
            row.add(chars);
        }
        if chars != 0 && self.cell == 1 {
            self.numbers = true;
            if self.number_cell == Some(true)
                && text.bytes().any(|it| !it.is_ascii_digit() && !it.is_ascii_whitespace())
            {
                self.number_cell = Some(false);
            }
        }
    }

    fn tag(&mut self, tag: &OpenTag<'_>) {
        let name = &*tag.name;
        let hard = is_heading(name) || matches!(name, "pre" | "hr" | "blockquote" | "form");
        self.paragraphs += usize::from(name == "p");
        self.blocks |= hard || 1 < self.paragraphs;
        let soft = matches!(name, "p" | "div") && 1 < self.paragraphs;
        if (hard || soft || matches!(name, "ul" | "ol" | "dl"))
            && let Some(row) = self.rows.last_mut()
        {
            row.block();
        }
    }

    fn decide(&self) -> TableUse {
        let numbered = self.paired_rows != 0
            && self.paired_rows == self.rows.len()
            && self.numbered_rows == self.paired_rows
            && self.inner == 0;
        if numbered && self.numbers_said == self.rows.len() && !self.has_code {
            return TableUse::Code;
        }
        if numbered && self.has_code && (self.rows.len() == 1 || self.numbers_said == self.rows.len()) {
            return TableUse::Numbered;
        }
        if self.presents {
            return TableUse::Layout;
        }
        if self.inner != 0 {
            let keeps = self.heads != 0
                && 1 < self.columns
                && !self.inner_large
                && self.code_lines <= CELL_CODE_LINES;
            return if keeps && self.inner_text <= SMALL_CHARS { TableUse::Data } else { TableUse::Layout };
        }
        let links = self.heads == 0 && self.text != 0 && self.text * 9 / 10 < self.link_text;
        if links && 1 < self.cells && !self.blocks {
            return TableUse::Links;
        }
        let column = self.columns <= 1 && !(self.head_row && 2 < self.rows.len() && !self.blocks);
        if column || self.heads == 0 && self.blocks || CELL_CODE_LINES < self.code_lines {
            return TableUse::Layout;
        }
        TableUse::Data
    }

    fn shape(mut self) -> TableShape {
        self.end_row();
        let used = self.decide();
        // Rows are only needed for layout tables.
        let rows = if used == TableUse::Layout { self.rows.into() } else { Box::default() };
        TableShape { used, columns: u8::try_from(self.columns).unwrap_or(u8::MAX), rows }
    }
}

/// Classifies the outermost table that begins here and the tables nested in it, in the order of their
/// start tags. Keeps only one outermost table in memory, because a page can consist of tables.
pub(super) fn table_shapes(
    outermost: &OpenTag<'_>,
    pieces: &mut HtmlTokens<'_>,
    around: PageContext,
) -> Vec<TableShape> {
    let mut walk = Walk { around, ..Walk::default() };
    walk.piece(&HtmlToken::Open(outermost.clone()));
    while !walk.open.is_empty()
        && let Some(piece) = pieces.next()
    {
        walk.piece(&piece);
    }
    while let Some(facts) = walk.open.pop() {
        walk.end(facts);
    }
    walk.found
}

/// Which elements around the current position matter for tables.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PageContext {
    link: bool,
    code: bool,
}

impl PageContext {
    pub(super) fn hear(&mut self, piece: &HtmlToken<'_>) {
        match piece {
            HtmlToken::Open(tag) => {
                self.link |= tag.name == "a" && tag.attribute("href").is_some();
                self.code |= tag.name == "pre";
            }
            HtmlToken::Close(name) => {
                self.link &= name != "a";
                self.code &= name != "pre";
            }
            HtmlToken::Text(_) => {}
        }
    }
}

#[derive(Default)]
struct Walk {
    open: Vec<TableStats>,
    /// In the order of the start tags.
    found: Vec<TableShape>,
    around: PageContext,
}

impl Walk {
    fn piece(&mut self, piece: &HtmlToken<'_>) {
        let around = self.around;
        match piece {
            HtmlToken::Open(tag) if tag.name == "table" => {
                if let Some(outer) = self.open.last_mut() {
                    outer.inner += 1;
                    if let Some(row) = outer.rows.last_mut() {
                        row.block();
                    }
                }
                let presents = tag.attribute("role").is_some_and(|it| matches!(it, "presentation" | "none"));
                let index = self.found.len();
                self.found.push(TableShape { used: TableUse::Layout, columns: 0, rows: Box::default() });
                self.open.push(TableStats { index, presents, ..TableStats::default() });
            }
            HtmlToken::Close(name) if name == "table" => {
                if let Some(facts) = self.open.pop() {
                    self.end(facts);
                }
            }
            HtmlToken::Open(tag) => {
                self.around.hear(piece);
                let Some(table) = self.open.last_mut() else { return };
                match &*tag.name {
                    "tr" => table.row(),
                    "td" | "th" => table.cell(tag),
                    _ => table.tag(tag),
                }
                table.has_code |= tag.name == "pre" && table.cell == 2;
            }
            HtmlToken::Close(_) => self.around.hear(piece),
            HtmlToken::Text(text) => {
                let Some(table) = self.open.last_mut() else { return };
                table.text(text, around.link);
                if around.code {
                    let lines = text.trim().bytes().filter(|it| *it == b'\n').count() + 1;
                    table.code_lines = table.code_lines.max(lines);
                }
            }
        }
    }

    /// Finishes a table and adds its text to the statistics of the table around it.
    fn end(&mut self, facts: TableStats) {
        if let Some(outer) = self.open.last_mut() {
            outer.inner_text += facts.text + facts.inner_text;
            outer.inner_large |= facts.blocks || facts.inner != 0;
        }
        let index = facts.index;
        self.found[index] = facts.shape();
    }
}
