//! The main screen: rows that change at its end, and history above them that
//! never does.
//!
//! The painter knows the rows of the *region*: what may still change. A frame
//! brings rows that are finished and the new rows of the region. Rows that are
//! finished mostly stand in the right place already: the region's top moves down
//! over them. New rows come from line feeds at the bottom, so that the terminal
//! itself moves old rows into its history. Nothing is addressed absolutely, no
//! scroll region is used, nothing above the region is ever touched.

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
    look: TerminalCaps,
    size: ScreenSize,
    rows: Vec<ScreenRow>,
    /// Where the cursor is; the column only when something is known about it.
    row: usize,
    column: Option<usize>,
    caret: Caret,
    /// Whether the cursor is hidden at the top of the region.
    parked: bool,
    /// Graphemes the terminal was asked about, each with the column it began at;
    /// none where nobody reads its answers.
    asked: Option<VecDeque<(String, usize)>>,
}

/// One grapheme on the screen.
#[derive(Clone, Copy, Debug, PartialEq)]
struct ScreenCell<'a> {
    text: &'a str,
    width: usize,
    ink: TextStyle,
    link: Option<&'a Arc<str>>,
}

/// The terminal is not asked about more at a time.
const MAX_ASKED: usize = 32;
/// No grapheme is wider.
const MAX_ASKED_WIDTH: usize = 12;
/// So many blanks cost more than moving over them.
const WORTH_A_MOVE: usize = 6;
/// Bytes of going somewhere and moving the rest of the row.
const MOVE_COST: usize = 10;

impl ScreenCell<'_> {
    /// Whether nothing is seen of it.
    fn is_plain_blank(&self) -> bool {
        self.text == " "
            && self.link.is_none()
            && !self.ink.underline
            && !self.ink.reverse
            && !self.ink.strike
    }
}

impl Painter {
    /// Begins at column 0 of an empty row.
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

    /// Asks the terminal how wide it draws what terminals disagree about. Answers
    /// are to be handed to [`Self::cursor_was`].
    pub fn ask_widths(&mut self) {
        self.asked.get_or_insert_default();
    }

    /// How many answers are to come.
    pub fn asked(&self) -> usize {
        self.asked.as_ref().map_or(0, VecDeque::len)
    }

    /// The terminal says in which column its cursor was behind the next grapheme it
    /// was asked about. Says whether rows have to be laid out anew; they are drawn
    /// again then.
    pub fn cursor_was(&mut self, column: usize) -> bool {
        let Some((grapheme, from)) = self.asked.as_mut().and_then(VecDeque::pop_front) else { return false };
        let Some(width) = column.checked_sub(from).filter(|it| *it <= MAX_ASKED_WIDTH) else { return false };
        if !display_width::learn(&grapheme, width) {
            return false;
        }
        self.distrust();
        true
    }

    /// Nothing that will be drawn has this ink: everything is drawn again.
    fn distrust(&mut self) {
        for span in self.rows.iter_mut().flat_map(|row| &mut row.spans) {
            span.ink.strike = !span.ink.strike;
        }
    }

    /// What is drawn from now on looks like this; what may still change is drawn
    /// again.
    pub fn set_look(&mut self, look: &TerminalCaps) {
        if self.look == *look {
            return;
        }
        self.look = look.clone();
        self.distrust();
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

    /// Changes only what differs. Everything is on the screen, before and after.
    fn change(&mut self, out: &mut Vec<u8>, pen: &mut Pen, new: &[ScreenRow], same: usize) {
        let mut old = std::mem::take(&mut self.rows);
        let mut flowing: Vec<bool> = old.iter().skip(1).map(|it| it.soft).chain([false]).collect();
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
        // Rows that became shorter ended their line when the rest was erased.
        for at in (0..new.len()).filter(|at| flowing[*at]) {
            let goes_on = new.get(at + 1).is_some_and(|it| it.soft);
            if !goes_on && self.size.columns <= new[at].width() + 1 {
                self.end_line(out, pen, &new[at], at);
            }
        }
    }

    /// Tells the terminal that the line ends with this row, which is full and went on
    /// before: its end is erased and written again.
    fn end_line(&mut self, out: &mut Vec<u8>, pen: &mut Pen, row: &ScreenRow, at: usize) {
        let cells = cells(row);
        let Some(last) = cells.last() else { return };
        self.go(out, at, row.width() - last.width);
        out.extend_from_slice(b"\x1b[K");
        pen.write_text(out, last.text, last.ink, last.link);
        pen.lift(out);
        self.column = None;
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

    /// Writes cells from where the cursor is. From this column on the row is blank:
    /// blanks need not be written there.
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

    /// Asks where the cursor stands behind a grapheme that was written at a column,
    /// and goes to where it should.
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

    /// Moves what stands in a row to the right where only blanks came in between, as
    /// columns of a table do; says whether that was all.
    fn widen_row(
        &mut self,
        out: &mut Vec<u8>,
        pen: &mut Pen,
        was: &[ScreenCell<'_>],
        is: &[ScreenCell<'_>],
        at: usize,
    ) -> bool {
        let Some(gaps) = gaps_between(was, is) else { return false };
        // What is the same costs nothing, so it must be more than what the moves do.
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
        // A cursor behind the text waits at the margin, it does not go on to the next row.
        let is_behind = self.rows.get(self.row).is_none_or(|row| row.width() <= self.caret.column);
        rows += if is_behind { line.saturating_sub(1) / columns } else { line / columns };
        rows.min(size.rows.saturating_sub(1))
    }

    /// Takes the region away, and ends on an empty row. What follows is written
    /// by somebody else.
    pub fn leave(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        self.go(&mut out, 0, 0);
        out.extend_from_slice(b"\x1b[J");
        self.show_cursor(&mut out);
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

/// Takes blanks away that end a line: nobody sees them, they would be copied, and
/// terminals disagree whether a line that is wrapped anew has them.
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

/// Where blanks came into a row, as cells of the new one and how many; none if
/// anything else changed.
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

    /// What terminals disagree about is asked once, and drawn anew if it was guessed
    /// wrong.
    #[test]
    fn the_terminal_says_how_wide_it_draws() {
        let size = ScreenSize { columns: 80, rows: 24 };
        let mut painter = Painter::new(TerminalCaps::default(), size);
        painter.ask_widths();
        // No other test draws these.
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

    /// Columns of a table that become wider move what stands in them.
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
