//! Incremental table renderer.
//!
//! A table is shown in columns while they fit; once it is too wide it becomes a list of names and
//! values, of which every complete row is final. Rows in columns are held back, because a later row may
//! need wider columns. After a screenful the widths become final.

use pulldown_cmark::Alignment;

use crate::styled_text::{StyledLine, TextStyle, WrapMode};

/// Maximum rows held back until the column widths become final.
const MAX_HELD: usize = 24;
/// Spaces between columns.
const BETWEEN: usize = 2;

/// Rows of cells, starting with the head.
#[derive(Clone, Debug, Default)]
pub(super) struct TableRows {
    pub(super) rows: Vec<Vec<StyledLine>>,
    pub(super) alignments: Vec<Alignment>,
}

impl TableRows {
    /// Renders the whole table at this width.
    pub(super) fn lines(self, width: usize) -> Vec<StyledLine> {
        let mut rows = self.rows.into_iter();
        let mut table = TableStream::new(rows.next().unwrap_or_default(), self.alignments, width);
        let mut out: Vec<StyledLine> = rows.flat_map(|row| table.push(row)).collect();
        out.extend(table.end());
        out
    }
}

/// A table that is still growing.
#[derive(Clone, Debug)]
pub(super) struct TableStream {
    head: Vec<StyledLine>,
    alignments: Vec<Alignment>,
    /// Current column widths.
    widths: Vec<usize>,
    /// Complete rows held back.
    held: Vec<Vec<StyledLine>>,
    stage: TableStage,
    /// Screen width.
    width: usize,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum TableStage {
    /// Widths may still change; nothing was emitted.
    Held,
    /// Widths are final; the head was emitted.
    Settled,
    /// Names and values; whether a row was emitted.
    Listed(bool),
}

impl TableStream {
    pub(super) fn new(head: Vec<StyledLine>, alignments: Vec<Alignment>, width: usize) -> Self {
        let widths = head.iter().map(StyledLine::width).collect();
        Self { head, alignments, widths, held: Vec::new(), stage: TableStage::Held, width }
    }

    /// Returns the number of columns.
    pub(super) fn columns(&self) -> usize {
        self.head.len()
    }

    pub(super) fn set_width(&mut self, width: usize) {
        self.width = width;
    }

    /// Adds a complete row. Returns lines that will not change any more.
    pub(super) fn push(&mut self, row: Vec<StyledLine>) -> Vec<StyledLine> {
        match self.stage {
            TableStage::Listed(any) => {
                self.stage = TableStage::Listed(true);
                return self.listed(&row, any);
            }
            TableStage::Settled => return vec![self.row(&row)],
            TableStage::Held => (),
        }
        for (width, cell) in self.widths.iter_mut().zip(&row) {
            *width = (*width).max(cell.width());
        }
        self.held.push(row);
        if !self.fits() {
            return self.list_held();
        }
        if self.held.len() < MAX_HELD {
            return Vec::new();
        }
        self.settle()
    }

    /// Ends the table.
    pub(super) fn end(&mut self) -> Vec<StyledLine> {
        match self.stage {
            TableStage::Held if self.fits() => self.settle(),
            TableStage::Held => self.list_held(),
            TableStage::Settled | TableStage::Listed(_) => Vec::new(),
        }
    }

    fn settle(&mut self) -> Vec<StyledLine> {
        self.stage = TableStage::Settled;
        let held = std::mem::take(&mut self.held);
        std::iter::once(self.head_line()).chain(held.iter().map(|row| self.row(row))).collect()
    }

    fn list_held(&mut self) -> Vec<StyledLine> {
        let held = std::mem::take(&mut self.held);
        self.stage = TableStage::Listed(!held.is_empty());
        self.listed_all(&held)
    }

    /// Renders the held-back rows and an incomplete row. The latter does not widen columns, or
    /// everything above would shift with each character.
    pub(super) fn tail(&self, partial: Option<&[StyledLine]>) -> Vec<StyledLine> {
        match self.stage {
            TableStage::Listed(any) => partial.map(|row| self.listed(row, any)).unwrap_or_default(),
            TableStage::Settled => partial.map(|row| self.row(row)).into_iter().collect(),
            TableStage::Held => {
                let is_wide = partial.is_some_and(|row| self.width < self.row(row).width());
                if is_wide || !self.fits() {
                    let rows: Vec<Vec<StyledLine>> =
                        self.held.iter().cloned().chain(partial.map(<[StyledLine]>::to_vec)).collect();
                    return self.listed_all(&rows);
                }
                let rows = self.held.iter().map(Vec::as_slice).chain(partial);
                std::iter::once(self.head_line()).chain(rows.map(|row| self.row(row))).collect()
            }
        }
    }

    fn fits(&self) -> bool {
        let between = BETWEEN * self.widths.len().saturating_sub(1);
        self.widths.iter().sum::<usize>() + between <= self.width
    }

    /// Renders the head, underlined to the end of the last column.
    fn head_line(&self) -> StyledLine {
        let mut line = self.cells(&self.head, /*to_the_end*/ true);
        for span in &mut line.spans {
            (span.ink.bold, span.ink.underline, span.ink.dim) = (true, true, false);
        }
        line.fit(WrapMode::Cut)
    }

    /// Renders a row in columns. A cell wider than its column shifts the rest of the row, which wraps if
    /// necessary; nothing is truncated.
    fn row(&self, row: &[StyledLine]) -> StyledLine {
        self.cells(row, /*to_the_end*/ false)
    }

    fn cells(&self, row: &[StyledLine], to_the_end: bool) -> StyledLine {
        let mut line = StyledLine::blank();
        // Spaces are written before the next word, so that none end a line.
        let mut blanks = 0;
        for (column, width) in self.widths.iter().enumerate() {
            let cell = row.get(column);
            let room = width.saturating_sub(cell.map_or(0, StyledLine::width));
            let left = match self.alignments.get(column) {
                Some(Alignment::Right) => room,
                Some(Alignment::Center) => room / 2,
                _ => 0,
            };
            if let Some(cell) = cell.filter(|it| !it.spans.is_empty()) {
                line.push(&" ".repeat(blanks + left), TextStyle::GAP);
                line.spans.extend(cell.spans.iter().cloned());
                blanks = room - left + BETWEEN;
            } else {
                blanks += width + BETWEEN;
            }
        }
        if to_the_end {
            line.push(&" ".repeat(blanks.saturating_sub(BETWEEN)), TextStyle::GAP);
        }
        line
    }

    fn listed_all(&self, rows: &[Vec<StyledLine>]) -> Vec<StyledLine> {
        rows.iter().enumerate().flat_map(|(at, row)| self.listed(row, 0 < at)).collect()
    }

    /// Renders a row as names and values.
    fn listed(&self, row: &[StyledLine], follows: bool) -> Vec<StyledLine> {
        let mut out = if follows { vec![StyledLine::blank()] } else { Vec::new() };
        for (head, cell) in self.head.iter().zip(row) {
            let mut line = StyledLine::blank();
            for span in &head.spans {
                line.push(span.text.as_str(), TextStyle::BOLD);
            }
            line.push(": ", TextStyle::PLAIN);
            line.spans.extend(cell.spans.iter().cloned());
            out.push(line.fit(WrapMode::Hang(2)));
        }
        out
    }
}
