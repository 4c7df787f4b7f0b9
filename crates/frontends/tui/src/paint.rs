//! Paints the main screen: a region of rows that may change, below a history that never does.
//!
//! The painter knows the rows of the *region*. A frame consists of newly finished rows and the new rows
//! of the region. Finished rows usually are in the right place already, so that only the top of the
//! region moves down. New rows are created by line feeds at the bottom, so that the terminal itself
//! moves old rows to its scrollback. There is no absolute addressing and no scroll region, and nothing
//! above the region is ever touched.

mod parked_cursor;

use std::{collections::VecDeque, sync::Arc};

use unicode_segmentation::UnicodeSegmentation as _;

use crate::{
    app_state::ScreenSize,
    display_width,
    layout::ScreenRow,
    sgr::Pen,
    styled_text::{TextStyle, grapheme_width},
    terminal_caps::TerminalCaps,
};

/// Cursor position after a frame, within the region.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Caret {
    pub row: usize,
    pub column: usize,
}

/// Paints frames. Knows what is on the screen, provided that all its output was written.
#[derive(Clone, Debug)]
pub struct Painter {
    look: TerminalCaps,
    size: ScreenSize,
    rows: Vec<ScreenRow>,
    /// Row of the cursor. Its column is known only after some operations.
    row: usize,
    column: Option<usize>,
    caret: Caret,
    /// Whether the cursor is hidden at the top of the region.
    parked: bool,
    /// Graphemes whose width the terminal was asked for, each with its start column; `None` if answers
    /// are not read.
    asked: Option<VecDeque<(String, usize)>>,
}

/// A grapheme on the screen.
#[derive(Clone, Copy, Debug, PartialEq)]
struct ScreenCell<'a> {
    text: &'a str,
    width: usize,
    ink: TextStyle,
    link: Option<&'a Arc<str>>,
}

/// Maximum pending width queries.
const MAX_ASKED: usize = 32;
/// Maximum plausible width of a grapheme.
const MAX_ASKED_WIDTH: usize = 12;
/// Number of spaces from which moving the cursor is cheaper than writing them.
const WORTH_A_MOVE: usize = 6;
/// Bytes needed to move the cursor and shift the rest of a row.
const MOVE_COST: usize = 10;

impl ScreenCell<'_> {
    /// Whether it is an unstyled space.
    fn is_plain_blank(&self) -> bool {
        self.text == " "
            && self.link.is_none()
            && !self.ink.underline
            && !self.ink.reverse
            && !self.ink.strike
    }
}

impl Painter {
    /// Starts at column 0 of an empty row.
    pub fn new(look: TerminalCaps, size: ScreenSize) -> Self {
        Self {
            look,
            size,
            rows: vec![ScreenRow::default()],
            row: 0,
            column: Some(0),
            caret: Caret::default(),
            parked: false,
            asked: None,
        }
    }

    /// Enables queries for the width of graphemes that terminals disagree about. The caller must pass
    /// the answers to [`Self::cursor_was`].
    pub fn ask_widths(&mut self) {
        self.asked.get_or_insert_default();
    }

    /// Returns the number of pending answers.
    pub fn asked(&self) -> usize {
        self.asked.as_ref().map_or(0, VecDeque::len)
    }

    /// Handles a cursor position report: the column after the next grapheme that was asked about.
    /// Returns whether rows must be laid out and painted again.
    pub fn cursor_was(&mut self, column: usize) -> bool {
        let Some((grapheme, from)) = self.asked.as_mut().and_then(VecDeque::pop_front) else { return false };
        let Some(width) = column.checked_sub(from).filter(|it| *it <= MAX_ASKED_WIDTH) else { return false };
        if !display_width::learn(&grapheme, width) {
            return false;
        }
        self.distrust();
        true
    }

    /// Forgets the style of what is on the screen, so that everything is painted again.
    fn distrust(&mut self) {
        for span in self.rows.iter_mut().flat_map(|row| &mut row.spans) {
            span.ink.strike = !span.ink.strike;
        }
    }

    /// Changes the capabilities; the region is painted again.
    pub fn set_look(&mut self, look: &TerminalCaps) {
        if self.look == *look {
            return;
        }
        self.look = look.clone();
        self.distrust();
    }

    /// Returns the maximum rows of the region.
    pub fn most_rows(&self) -> usize {
        self.size.rows.saturating_sub(1).max(1)
    }

    /// Returns the screen size.
    pub fn size(&self) -> ScreenSize {
        self.size
    }

    /// Returns the bytes that change the screen to this frame; empty if nothing changed.
    pub fn paint(&mut self, finished: &[ScreenRow], region: &[ScreenRow], caret: Caret) -> Vec<u8> {
        if self.parked {
            return self.paint_unparked(finished, region, caret);
        }
        let mut new: Vec<ScreenRow> = Vec::with_capacity(finished.len() + region.len().max(1));
        new.extend_from_slice(finished);
        new.extend_from_slice(region);
        if region.is_empty() {
            new.push(ScreenRow::default());
        }
        trim(&mut new);
        let target = Caret { row: finished.len() + caret.row, column: caret.column };
        if finished.is_empty() && new == self.rows && self.caret == caret && self.column.is_some() {
            return Vec::new();
        }
        let mut out = Vec::with_capacity(64);
        out.extend_from_slice(b"\x1b[?2026h");
        let mut pen = Pen::new(&self.look);
        let same = self.rows.iter().zip(&new).take_while(|(old, new)| old == new).count();
        // Some terminals move rows deleted at the top of the screen to their scrollback.
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

    /// Erases from the first row that differs and writes the rest; the screen scrolls by itself.
    fn write_on(&mut self, out: &mut Vec<u8>, pen: &mut Pen, new: &[ScreenRow], same: usize) {
        let first = same.min(self.rows.len() - 1).min(new.len() - 1);
        if 0 < first && self.rows[first].soft && !new[first].soft {
            self.end_line(out, pen, &new[first - 1], first - 1);
        }
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

    /// Updates only what differs. Everything fits on the screen, before and after.
    fn change(&mut self, out: &mut Vec<u8>, pen: &mut Pen, new: &[ScreenRow], same: usize) {
        let mut old = std::mem::take(&mut self.rows);
        let mut flowing: Vec<bool> = old.iter().skip(1).map(|it| it.soft).chain([false]).collect();
        let most = old.len().min(new.len()) - same;
        let tail = old.iter().rev().zip(new.iter().rev()).take(most).take_while(|(old, new)| old == new);
        let tail = tail.count();
        let (before, after) = (old.len() - same - tail, new.len() - same - tail);
        if before < after {
            let more = after - before;
            self.move_row(out, old.len() - 1);
            out.extend(std::iter::repeat_n(b'\n', more));
            self.row += more;
            if 0 < tail {
                self.go(out, same + before, 0);
                command(out, more, b'L');
            }
            old.splice(same + before..same + before, std::iter::repeat_n(ScreenRow::default(), more));
            flowing.splice(same + before..same + before, std::iter::repeat_n(false, more));
        } else if after < before {
            let less = before - after;
            self.go(out, same + after, 0);
            command(out, less, b'M');
            old.drain(same + after..same + before);
            flowing.drain(same + after..same + before);
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
        // Erasing the rest of a shorter row has ended its line.
        for at in (0..new.len()).filter(|at| flowing[*at]) {
            let goes_on = new.get(at + 1).is_some_and(|it| it.soft);
            if !goes_on && self.size.columns <= new[at].width() + 1 {
                self.end_line(out, pen, &new[at], at);
            }
        }
    }

    /// Ends the soft-wrapped line at this full row, by erasing and writing its end again.
    fn end_line(&mut self, out: &mut Vec<u8>, pen: &mut Pen, row: &ScreenRow, at: usize) {
        let cells = cells(row);
        let Some(last) = cells.last() else { return };
        self.go(out, at, row.width() - last.width);
        out.extend_from_slice(b"\x1b[K");
        pen.write_text(out, last.text, last.ink, last.link);
        pen.lift(out);
        self.column = None;
    }

    /// Writes a row directly after the one it continues, so that the terminal treats both as one line.
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

    /// Writes the last grapheme of a full row again, so that the cursor is in the pending-wrap state.
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

    /// Writes the differences in a row. Returns whether its end was written.
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
        if self.widen_row(out, pen, &was, &is, at) {
            return false;
        }
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
        self.write_cells(out, pen, &is[head..end], old_width);
        let reached = from + columns(&is[head..end]);
        if new_width < old_width {
            out.extend_from_slice(b"\x1b[K");
        }
        self.column = (reached < self.size.columns).then_some(reached);
        end == is.len()
    }

    /// Writes cells at the cursor. The row is known to be blank from `blank_from` on, so spaces there
    /// are skipped.
    fn write_cells(&mut self, out: &mut Vec<u8>, pen: &mut Pen, cells: &[ScreenCell<'_>], blank_from: usize) {
        let mut column = self.column.unwrap_or(0);
        let mut rest = cells;
        while let Some(cell) = rest.first() {
            let blanks = if blank_from <= column {
                rest.iter()
                    .take_while(|it| it.text == " " && it.ink == TextStyle::GAP && it.link.is_none())
                    .count()
            } else {
                0
            };
            if WORTH_A_MOVE <= blanks && blanks < rest.len() {
                pen.lift(out);
                command(out, blanks, b'C');
                column += blanks;
                rest = &rest[blanks..];
                continue;
            }
            pen.write_text(out, cell.text, cell.ink, cell.link);
            self.ask_width(out, cell, column);
            column += cell.width;
            rest = &rest[1..];
        }
        pen.lift(out);
    }

    /// Queries the cursor position after a grapheme, then moves to the expected position.
    fn ask_width(&mut self, out: &mut Vec<u8>, cell: &ScreenCell<'_>, column: usize) {
        let Some(asked) = &mut self.asked else { return };
        let has_room = column + MAX_ASKED_WIDTH < self.size.columns;
        if cell.text.is_ascii() || !has_room || !display_width::is_to_be_asked(cell.text) {
            return;
        }
        if MAX_ASKED <= asked.len() || asked.iter().any(|it| it.0 == cell.text) {
            return;
        }
        asked.push_back((cell.text.to_owned(), column));
        out.extend_from_slice(b"\x1b[6n");
        command(out, column + cell.width + 1, b'G');
    }

    /// Shifts the content of a row to the right if only spaces were inserted, as in table columns.
    /// Returns whether that was the only change.
    fn widen_row(
        &mut self,
        out: &mut Vec<u8>,
        pen: &mut Pen,
        was: &[ScreenCell<'_>],
        is: &[ScreenCell<'_>],
        at: usize,
    ) -> bool {
        let Some(gaps) = gaps_between(was, is) else { return false };
        // Shifting is worthwhile only if it saves more bytes than the cursor movements cost.
        let first = gaps.first().map_or(0, |it| it.0);
        if gaps.is_empty() || was.len() - first.min(was.len()) <= MOVE_COST * gaps.len() {
            return false;
        }
        for (cell, count) in gaps {
            let column = is[..cell].iter().map(|it| it.width).sum();
            self.go(out, at, column);
            command(out, count, b'@');
            if !is[cell].is_plain_blank() {
                for blank in &is[cell..cell + count] {
                    pen.write_text(out, blank.text, blank.ink, blank.link);
                }
                pen.lift(out);
                self.column = Some(column + count);
            }
        }
        true
    }

    fn go(&mut self, out: &mut Vec<u8>, row: usize, column: usize) {
        self.move_row(out, row);
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

    fn move_row(&mut self, out: &mut Vec<u8>, row: usize) {
        if row < self.row {
            command(out, self.row - row, b'A');
        } else if self.row < row {
            command(out, row - self.row, b'B');
        }
        self.row = row;
    }

    /// Handles a resize: erases the region, wherever the terminal has moved it. The next frame paints it
    /// again.
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

    /// Returns how many rows the terminal shows between the top of the region and the cursor at another
    /// width.
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
            // Continued rows are full, except before a wide character that did not fit.
            line += if at < self.row { row.width() } else { self.caret.column.min(row.width()) };
        }
        // A cursor after the end of the text stays at the margin and does not wrap.
        let is_behind = self.rows.get(self.row).is_none_or(|row| row.width() <= self.caret.column);
        rows += if is_behind { line.saturating_sub(1) / columns } else { line / columns };
        rows.min(size.rows.saturating_sub(1))
    }

    /// Erases the region and moves to an empty row for other output.
    pub fn leave(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        self.go(&mut out, 0, 0);
        out.extend_from_slice(b"\x1b[J");
        self.show_cursor(&mut out);
        self.forget();
        out
    }

    /// Forgets the screen, after it was cleared or other output was written: the region starts at the
    /// cursor, on an empty row.
    pub fn forget(&mut self) {
        self.rows = vec![ScreenRow::default()];
        (self.row, self.column) = (0, Some(0));
        self.caret = Caret::default();
    }
}

/// Removes trailing spaces of lines: they are invisible, would be copied, and terminals disagree about
/// them when wrapping again.
fn trim(rows: &mut [ScreenRow]) {
    for at in 0..rows.len() {
        if rows.get(at + 1).is_some_and(|next| next.soft) {
            continue;
        }
        let spans = &mut rows[at].spans;
        while let Some(last) = spans.last_mut() {
            let text = last.text.as_str();
            let seen = text.trim_end_matches(' ').len();
            if !last.hides_blanks() || seen == text.len() {
                break;
            }
            if seen == 0 {
                spans.pop();
            } else {
                last.text = last.text.slice(0..seen);
            }
        }
    }
}

/// Returns where spaces were inserted in a row, as cell indices and counts; `None` if anything else
/// changed.
fn gaps_between(was: &[ScreenCell<'_>], is: &[ScreenCell<'_>]) -> Option<Vec<(usize, usize)>> {
    let mut gaps = Vec::new();
    let (mut old, mut new) = (0, 0);
    while old < was.len() {
        let cell = is.get(new)?;
        if was[old] == *cell {
            (old, new) = (old + 1, new + 1);
            continue;
        }
        let is_same_blank =
            |it: &&ScreenCell<'_>| it.text == " " && it.ink == cell.ink && it.link == cell.link;
        let count = is[new..].iter().take_while(is_same_blank).count();
        if count == 0 {
            return None;
        }
        gaps.push((new, count));
        new += count;
    }
    (new == is.len()).then_some(gaps)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::styled_text::StyledSpan;

    fn row(text: &str) -> ScreenRow {
        ScreenRow { spans: vec![StyledSpan::new(text, TextStyle::PLAIN)], soft: false }
    }

    /// A disputed grapheme is queried once, and painted again if the guess was wrong.
    #[test]
    fn reported_width_corrects_painting() {
        let size = ScreenSize { columns: 80, rows: 24 };
        let mut painter = Painter::new(TerminalCaps::default(), size);
        painter.ask_widths();
        // No other test uses these graphemes (the table is global).
        let rows = [row("a🤚🏾b"), row("🤚🏾 and 🖖🏾")];
        let bytes = painter.paint(&[], &rows, Caret { row: 0, column: 4 });
        let text = String::from_utf8_lossy(&bytes).into_owned();
        assert_eq!((text.matches("\x1b[6n").count(), painter.asked()), (2, 2), "{text:?}");
        assert!(painter.cursor_was(5), "four columns, not two");
        assert!(!painter.cursor_was(9), "two columns, as was guessed");
        assert_eq!(rows[0].width(), 6);
        let again = painter.paint(&[], &rows, Caret { row: 0, column: 6 });
        let text = String::from_utf8_lossy(&again).into_owned();
        assert!(text.contains("a🤚🏾b") && !text.contains("\x1b[6n"), "{text:?}");
    }

    /// Table columns that become wider are shifted in place.
    #[test]
    fn rows_are_widened_in_place() {
        let size = ScreenSize { columns: 80, rows: 24 };
        let mut painter = Painter::new(TerminalCaps::default(), size);
        let before = row("one    two and some more words behind it to keep");
        painter.paint(&[], &[before], Caret::default());
        let after = row("one        two and some more words behind it to keep");
        let bytes = painter.paint(&[], &[after], Caret::default());
        let text = String::from_utf8_lossy(&bytes).into_owned();
        assert!(text.contains("\x1b[4@") && !text.contains("two"), "{text:?}");
    }
}
