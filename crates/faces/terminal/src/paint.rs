//! The main screen: rows that change at its end, and history above them that
//! never does.
//!
//! The painter knows the rows of the *region*: what may still change. A frame
//! brings rows that are finished and the new rows of the region. Rows that are
//! finished mostly stand in the right place already: the region's top moves down
//! over them. New rows come from line feeds at the bottom, so that the terminal
//! itself moves old rows into its history. Nothing is addressed absolutely, no
//! scroll region is used, nothing above the region is ever touched.

use std::sync::Arc;

use unicode_segmentation::UnicodeSegmentation as _;

use crate::{
    layout::ScreenRow,
    look::TermLook,
    model::ScreenSize,
    sgr::Pen,
    text::{Ink, grapheme_width},
};

/// Where the cursor stands after a frame, within the region.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Caret {
    /// The row of the region.
    pub row: usize,
    /// The column.
    pub column: usize,
}

/// Draws frames. Knows what the screen shows because everything it made was
/// written.
#[derive(Clone, Debug)]
pub struct Painter {
    look: TermLook,
    size: ScreenSize,
    rows: Vec<ScreenRow>,
    /// Where the cursor is; the column only when something is known about it.
    row: usize,
    column: Option<usize>,
    caret: Caret,
}

/// One grapheme on the screen.
#[derive(Clone, Copy, Debug, PartialEq)]
struct ScreenCell<'a> {
    text: &'a str,
    width: usize,
    ink: Ink,
    link: Option<&'a Arc<str>>,
}

impl Painter {
    /// Begins at column 0 of an empty row.
    pub fn new(look: TermLook, size: ScreenSize) -> Self {
        Self {
            look,
            size,
            rows: vec![ScreenRow::default()],
            row: 0,
            column: Some(0),
            caret: Caret::default(),
        }
    }

    /// What is drawn from now on looks like this; what may still change is drawn
    /// again.
    pub fn set_look(&mut self, look: &TermLook) {
        if self.look == *look {
            return;
        }
        self.look = look.clone();
        // Nothing that will be drawn has this ink.
        for span in self.rows.iter_mut().flat_map(|row| &mut row.spans) {
            span.ink.strike = !span.ink.strike;
        }
    }

    /// Rows of the region at most.
    pub fn most_rows(&self) -> usize {
        self.size.rows.saturating_sub(1).max(1)
    }

    /// The size frames are made for.
    pub fn size(&self) -> ScreenSize {
        self.size
    }

    /// The bytes that turn the screen into this frame; none when it is there.
    pub fn paint(&mut self, finished: &[ScreenRow], region: &[ScreenRow], caret: Caret) -> Vec<u8> {
        let mut new: Vec<ScreenRow> = Vec::with_capacity(finished.len() + region.len().max(1));
        new.extend_from_slice(finished);
        new.extend_from_slice(region);
        if region.is_empty() {
            new.push(ScreenRow::default());
        }
        let target = Caret { row: finished.len() + caret.row, column: caret.column };
        if finished.is_empty() && new == self.rows && self.caret == caret && self.column.is_some() {
            return Vec::new();
        }
        let mut out = Vec::with_capacity(64);
        out.extend_from_slice(b"\x1b[?2026h");
        let mut pen = Pen::new(&self.look);
        let same = self.rows.iter().zip(&new).take_while(|(old, new)| old == new).count();
        // Rows deleted at the very top of the screen end up in some terminals' history.
        let loses_top = new.len() < self.rows.len() && self.rows.ends_with(&new);
        if self.size.rows < new.len() || loses_top {
            self.write_on(&mut out, &mut pen, &new, same);
        } else {
            self.change(&mut out, &mut pen, &new, same);
        }
        self.go(&mut out, target.row, target.column);
        out.extend_from_slice(b"\x1b[?2026l");
        new.drain(..finished.len());
        self.row -= finished.len().min(self.row);
        self.rows = new;
        self.caret = caret;
        out
    }

    /// Erases from the first row that differs and writes on from there; the
    /// screen scrolls by itself.
    fn write_on(&mut self, out: &mut Vec<u8>, pen: &mut Pen, new: &[ScreenRow], same: usize) {
        let first = same.min(self.rows.len() - 1).min(new.len() - 1);
        self.go(out, first, 0);
        out.extend_from_slice(b"\x1b[J");
        for (at, row) in new.iter().enumerate().skip(first) {
            if row.soft && 0 < at {
                if at == first {
                    self.rewrite_last(out, pen, &new[at - 1], at - 1);
                }
            } else if first < at {
                out.extend_from_slice(b"\r\n");
            }
            self.write_row(out, pen, row);
            self.row = at;
        }
        self.column = None;
    }

    /// Changes only what differs. Everything is on the screen, before and after.
    fn change(&mut self, out: &mut Vec<u8>, pen: &mut Pen, new: &[ScreenRow], same: usize) {
        let mut old = std::mem::take(&mut self.rows);
        let most = old.len().min(new.len()) - same;
        let tail = old.iter().rev().zip(new.iter().rev()).take(most).take_while(|(old, new)| old == new);
        let tail = tail.count();
        let (before, after) = (old.len() - same - tail, new.len() - same - tail);
        if before < after {
            let more = after - before;
            self.go_row(out, old.len() - 1);
            out.extend(std::iter::repeat_n(b'\n', more));
            self.row += more;
            if 0 < tail {
                self.go(out, same + before, 0);
                command(out, more, b'L');
            }
            old.splice(same + before..same + before, std::iter::repeat_n(ScreenRow::default(), more));
        } else if after < before {
            let less = before - after;
            self.go(out, same + after, 0);
            command(out, less, b'M');
            old.drain(same + after..same + before);
        }
        let mut rewritten = false;
        for at in same..new.len() {
            let flows_on = rewritten && new[at].soft && 0 < at;
            if new.len() - tail <= at && !flows_on {
                break;
            }
            rewritten = if flows_on || (0 < at && new[at].soft && old[at] != new[at] && !old[at].soft) {
                self.flow_on(out, pen, &new[at - 1], &new[at], at)
            } else {
                self.change_row(out, pen, &old[at], &new[at], at)
            };
        }
    }

    /// Writes a row behind the one it continues, so that the terminal knows they
    /// are one line.
    fn flow_on(
        &mut self,
        out: &mut Vec<u8>,
        pen: &mut Pen,
        before: &ScreenRow,
        row: &ScreenRow,
        at: usize,
    ) -> bool {
        self.rewrite_last(out, pen, before, at - 1);
        self.write_row(out, pen, row);
        self.row = at;
        self.column = None;
        if row.width() < self.size.columns {
            out.extend_from_slice(b"\x1b[K");
        }
        true
    }

    /// Writes the last grapheme of a full row again: the cursor waits at the
    /// margin then.
    fn rewrite_last(&mut self, out: &mut Vec<u8>, pen: &mut Pen, row: &ScreenRow, at: usize) {
        let cells = cells(row);
        if let Some(last) = cells.last() {
            self.go(out, at, row.width() - last.width);
            pen.write_text(out, last.text, last.ink, last.link);
        }
    }

    fn write_row(&self, out: &mut Vec<u8>, pen: &mut Pen, row: &ScreenRow) {
        for span in &row.spans {
            pen.write(out, span);
        }
        pen.lift(out);
    }

    /// Writes what differs in a row; says whether its end was written.
    fn change_row(
        &mut self,
        out: &mut Vec<u8>,
        pen: &mut Pen,
        old: &ScreenRow,
        new: &ScreenRow,
        at: usize,
    ) -> bool {
        if old.spans == new.spans {
            return false;
        }
        let (was, is) = (cells(old), cells(new));
        let head = was.iter().zip(&is).take_while(|(a, b)| a == b).count();
        let columns = |cells: &[ScreenCell<'_>]| cells.iter().map(|it| it.width).sum::<usize>();
        let (old_width, new_width) = (columns(&was), columns(&is));
        let mut end = is.len();
        if old_width == new_width {
            let most = was.len().min(is.len()) - head;
            let tail = was.iter().rev().zip(is.iter().rev()).take(most).take_while(|(a, b)| a == b);
            end -= tail.count();
        }
        let from = columns(&is[..head]);
        self.go(out, at, from);
        for cell in &is[head..end] {
            pen.write_text(out, cell.text, cell.ink, cell.link);
        }
        pen.lift(out);
        let reached = from + columns(&is[head..end]);
        if new_width < old_width {
            out.extend_from_slice(b"\x1b[K");
        }
        self.column = (reached < self.size.columns).then_some(reached);
        end == is.len()
    }

    fn go(&mut self, out: &mut Vec<u8>, row: usize, column: usize) {
        self.go_row(out, row);
        if self.column == Some(column) {
            return;
        }
        if column == 0 {
            out.push(b'\r');
        } else {
            command(out, column + 1, b'G');
        }
        self.column = Some(column);
    }

    fn go_row(&mut self, out: &mut Vec<u8>, row: usize) {
        if row < self.row {
            command(out, self.row - row, b'A');
        } else if self.row < row {
            command(out, row - self.row, b'B');
        }
        self.row = row;
    }

    /// The screen has another size: erases the region, wherever the terminal
    /// has moved it. The next frame draws it anew.
    pub fn resize(&mut self, size: ScreenSize) -> Vec<u8> {
        let mut out = Vec::new();
        let up = self.rows_above_cursor(size);
        out.extend_from_slice(b"\x1b[?2026h");
        if 0 < up {
            command(&mut out, up, b'A');
        }
        out.extend_from_slice(b"\r\x1b[J\x1b[?2026l");
        self.size = size;
        self.forget();
        out
    }

    /// How many rows the terminal shows between the top of the region and the
    /// cursor, at another width.
    fn rows_above_cursor(&self, size: ScreenSize) -> usize {
        if !self.look.reflows || size.columns == self.size.columns {
            return self.row.min(size.rows.saturating_sub(1));
        }
        let columns = size.columns.max(1);
        let (mut rows, mut line) = (0, 0);
        for (at, row) in self.rows.iter().enumerate().take(self.row + 1) {
            if 0 < at && !row.soft {
                rows += usize::max(line, 1).div_ceil(columns);
                line = 0;
            }
            // Rows that flow on are full, but for a wide character that did not fit.
            line += if at < self.row { row.width() } else { self.caret.column.min(row.width()) };
        }
        rows += line / columns;
        rows.min(size.rows.saturating_sub(1))
    }

    /// Takes the region away, and ends on an empty row. What follows is written
    /// by somebody else.
    pub fn leave(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        self.go(&mut out, 0, 0);
        out.extend_from_slice(b"\x1b[J");
        self.forget();
        out
    }

    /// The screen was cleared, or somebody else wrote on it: the region begins
    /// at the cursor, on an empty row.
    pub fn forget(&mut self) {
        self.rows = vec![ScreenRow::default()];
        (self.row, self.column) = (0, Some(0));
        self.caret = Caret::default();
    }
}

fn command(out: &mut Vec<u8>, count: usize, what: u8) {
    out.extend_from_slice(b"\x1b[");
    if count != 1 {
        out.extend_from_slice(count.to_string().as_bytes());
    }
    out.push(what);
}

fn cells(row: &ScreenRow) -> Vec<ScreenCell<'_>> {
    let cell = |text, ink, link| ScreenCell { text, width: grapheme_width(text), ink, link };
    row.spans
        .iter()
        .flat_map(|span| {
            span.text.as_str().graphemes(true).map(move |it| cell(it, span.ink, span.link.as_ref()))
        })
        .collect()
}
