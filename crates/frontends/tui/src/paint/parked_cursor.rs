//! Frames for terminals that wrap old rows anew before they say so.
//!
//! A multiplexer tells a program of a new size up to a quarter of a second after it
//! has wrapped everything anew. A frame that finds its way from the caret by counting
//! rows would go wrong in the meantime: lines would stand twice or be erased. So while
//! much is drawn the cursor is *parked* at the top of the region: whatever width the
//! terminal has, the cursor stays with the text it stands on, everything above it is
//! history and everything below is ours. The caret is drawn as a cell.

use unicode_segmentation::UnicodeSegmentation as _;

use super::{Caret, Painter, command, trim};
use crate::{
    layout::ScreenRow,
    sgr::Pen,
    styled_text::{StyledSpan, TextStyle, grapheme_width},
};

impl Painter {
    /// Whether the cursor stands at the top of the region and the caret is drawn.
    pub fn is_parked(&self) -> bool {
        self.parked
    }

    /// The bytes that turn the screen into this frame, whatever width it has got in the
    /// meantime; the cursor is parked. Lines that are finished are wrapped by the
    /// terminal itself, rows of the region are cut at its margin.
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

    /// The same, and the cursor goes from its parking place to the caret. Everything is
    /// written again: a terminal that became lower and higher again has thrown rows below
    /// the cursor away.
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

    /// The screen may have lost rows below the cursor: the next frame is drawn whole.
    pub fn distrust_below(&mut self) {
        if self.parked {
            self.distrust();
        }
    }

    /// Erases the region and writes everything from its top on; the cursor is at the new
    /// top then.
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

    /// The cursor is shown again, if it was hidden; it still stands at the top.
    pub(super) fn show_cursor(&mut self, out: &mut Vec<u8>) {
        if std::mem::take(&mut self.parked) {
            out.extend_from_slice(b"\x1b[?25h");
        }
    }
}

/// The rows of a region, of which there is at least one. Each is written as a line of its
/// own, and the next frame at the caret joins those that flow on.
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

/// The row with a caret in this column.
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
    fn the_caret_is_a_cell_of_its_row() {
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
