//! Frames for terminals that wrap rows again before they report a resize.
//!
//! A multiplexer reports a new size up to a quarter of a second after it has wrapped everything again. A
//! frame that moves from the caret by counting rows would go wrong in that time: lines would be
//! duplicated or erased. So during frequent updates the cursor is *parked* at the top of the region. At
//! any width it stays with the text it is on: everything above is history, everything below belongs to
//! the region. The caret is drawn as a cell.

use unicode_segmentation::UnicodeSegmentation as _;

use super::{Caret, Painter, command, trim};
use crate::{
    layout::ScreenRow,
    sgr::Pen,
    styled_text::{StyledSpan, TextStyle, grapheme_width},
};

impl Painter {
    /// Whether the cursor is parked and the caret is drawn.
    pub fn is_parked(&self) -> bool {
        self.parked
    }

    /// Returns the bytes that change the screen to this frame, whatever its current width, with the
    /// cursor parked. Finished lines are wrapped by the terminal, rows of the region are cut at its
    /// margin.
    pub fn paint_parked(&mut self, finished: &[ScreenRow], region: &[ScreenRow], caret: Caret) -> Vec<u8> {
        let mut rows = rows_of(region);
        if let Some(row) = rows.get_mut(caret.row) {
            *row = with_caret(row, caret.column);
        }
        if self.parked && finished.is_empty() && rows == self.rows {
            return Vec::new();
        }
        let mut out = b"\x1b[?2026h\x1b[?25l".to_vec();
        self.write_anew(&mut out, finished, rows);
        out.extend_from_slice(b"\x1b[?2026l");
        (self.caret, self.parked) = (Caret::default(), true);
        out
    }

    /// Like [`paint_parked`](Self::paint_parked), and moves the cursor to the caret. Writes everything
    /// again, because a terminal that was temporarily lower has dropped rows below the cursor.
    pub(super) fn paint_unparked(
        &mut self,
        finished: &[ScreenRow],
        region: &[ScreenRow],
        caret: Caret,
    ) -> Vec<u8> {
        let mut out = b"\x1b[?2026h".to_vec();
        self.write_anew(&mut out, finished, rows_of(region));
        self.go(&mut out, caret.row, caret.column);
        self.show_cursor(&mut out);
        out.extend_from_slice(b"\x1b[?2026l");
        self.caret = caret;
        out
    }

    /// Forgets the rows below the cursor, which the screen may have dropped: the next frame is written
    /// completely.
    pub fn distrust_below(&mut self) {
        if self.parked {
            self.distrust();
        }
    }

    /// Erases the region and writes everything from its top; the cursor ends at the new top.
    fn write_anew(&mut self, out: &mut Vec<u8>, finished: &[ScreenRow], rows: Vec<ScreenRow>) {
        let mut pen = Pen::new(&self.look);
        self.go(out, 0, 0);
        out.extend_from_slice(b"\x1b[J");
        let mut finished = finished.to_vec();
        trim(&mut finished);
        for (at, row) in finished.iter().enumerate() {
            if 0 < at && !row.soft {
                out.extend_from_slice(b"\r\n");
            }
            self.write_row(out, &mut pen, row);
        }
        if !finished.is_empty() {
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(b"\x1b[?7l");
        for (at, row) in rows.iter().enumerate() {
            if 0 < at {
                out.extend_from_slice(b"\r\n");
            }
            self.write_row(out, &mut pen, row);
        }
        out.extend_from_slice(b"\x1b[?7h\r");
        if 1 < rows.len() {
            command(out, rows.len() - 1, b'A');
        }
        (self.rows, self.row, self.column) = (rows, 0, Some(0));
    }

    /// Shows the cursor if it is hidden; it stays at the top.
    pub(super) fn show_cursor(&mut self, out: &mut Vec<u8>) {
        if std::mem::take(&mut self.parked) {
            out.extend_from_slice(b"\x1b[?25h");
        }
    }
}

/// Returns the rows of a region, at least one. Each is written as a separate line; the next unparked
/// frame joins those that continue.
fn rows_of(region: &[ScreenRow]) -> Vec<ScreenRow> {
    let mut rows = region.to_vec();
    if rows.is_empty() {
        rows.push(ScreenRow::default());
    }
    trim(&mut rows);
    for row in &mut rows {
        row.soft = false;
    }
    rows
}

/// Returns a row with the caret drawn in this column.
fn with_caret(row: &ScreenRow, column: usize) -> ScreenRow {
    let mut spans: Vec<StyledSpan> = Vec::with_capacity(row.spans.len() + 2);
    let (mut at, mut is_drawn) = (0, false);
    for span in &row.spans {
        let mut from = 0;
        for (start, grapheme) in span.text.as_str().grapheme_indices(true) {
            let wide = grapheme_width(grapheme);
            if !is_drawn && column < at + wide {
                let end = start + grapheme.len();
                let part = |range| StyledSpan { text: span.text.slice(range), ..span.clone() };
                spans.extend((from < start).then(|| part(from..start)));
                let cell = part(start..end);
                spans.push(StyledSpan { ink: TextStyle { reverse: !cell.ink.reverse, ..cell.ink }, ..cell });
                (from, is_drawn) = (end, true);
            }
            at += wide;
        }
        if from < span.text.as_str().len() {
            let text = span.text.slice(from..span.text.as_str().len());
            spans.push(StyledSpan { text, ..span.clone() });
        }
    }
    if !is_drawn {
        let blanks = column.saturating_sub(at);
        spans.extend((0 < blanks).then(|| StyledSpan::new(&" ".repeat(blanks), TextStyle::PLAIN)));
        spans.push(StyledSpan::new(" ", TextStyle { reverse: true, ..TextStyle::PLAIN }));
    }
    ScreenRow { spans, soft: row.soft }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parked_caret_is_drawn_as_cell() {
        let reversed = |text: &str, column| -> (String, Vec<String>) {
            let row = ScreenRow { spans: vec![StyledSpan::new(text, TextStyle::PLAIN)], soft: false };
            let row = with_caret(&row, column);
            let cells = row.spans.iter().filter(|it| it.ink.reverse).map(|it| it.text.as_str().to_owned());
            (row.to_text(), cells.collect())
        };
        for (text, column, want, cell) in [
            ("› abc", 0, "› abc", "›"),
            ("› abc", 3, "› abc", "b"),
            ("› abc", 5, "› abc ", " "),
            ("› ", 4, "›    ", " "),
            ("漢字x", 3, "漢字x", "字"),
            ("", 0, " ", " "),
        ] {
            let (all, cells) = reversed(text, column);
            assert_eq!(
                (all.as_str(), cells.as_slice()),
                (want, [cell.to_owned()].as_slice()),
                "{text} {column}"
            );
        }
    }
}
