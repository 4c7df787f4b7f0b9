//! The screen of overlays: all of its rows are ours.

use crate::{layout::ScreenRow, paint::Caret, sgr::Pen, terminal_caps::TerminalCaps};

/// Draws overlays, row by row.
#[derive(Clone, Debug)]
pub struct AlternatePainter {
    look: TerminalCaps,
    rows: Vec<ScreenRow>,
    caret: Caret,
}

impl AlternatePainter {
    /// Goes to the other screen. The wheel moves like arrow keys there; nothing
    /// else of the mouse is taken.
    pub fn enter(look: &TerminalCaps) -> (Self, Vec<u8>) {
        let painter = Self { look: look.clone(), rows: Vec::new(), caret: Caret::default() };
        (painter, b"\x1b[?1049h\x1b[?1007h\x1b[>1u\x1b[2J".to_vec())
    }

    /// Goes to the other screen to stay there: the wheel must not walk through what
    /// was sent before.
    pub fn enter_to_stay(look: &TerminalCaps) -> (Self, Vec<u8>) {
        let painter = Self { look: look.clone(), rows: Vec::new(), caret: Caret::default() };
        (painter, b"\x1b[?1049h\x1b[?1007l\x1b[>1u\x1b[2J".to_vec())
    }

    /// The look has changed: everything is drawn again.
    pub fn set_look(&mut self, look: &TerminalCaps) {
        if self.look != *look {
            self.look = look.clone();
            self.rows.clear();
        }
    }

    /// Goes back.
    pub fn leave() -> Vec<u8> {
        b"\x1b[<u\x1b[?1007l\x1b[?1049l".to_vec()
    }

    /// The bytes that turn the screen into these rows.
    pub fn paint(&mut self, rows: Vec<ScreenRow>, caret: Caret) -> Vec<u8> {
        if rows == self.rows && caret == self.caret {
            return Vec::new();
        }
        let mut out = b"\x1b[?2026h".to_vec();
        let mut pen = Pen::new(&self.look);
        for (at, row) in rows.iter().enumerate() {
            if self.rows.get(at) == Some(row) && self.rows.len() == rows.len() {
                continue;
            }
            out.extend_from_slice(format!("\x1b[{}H\x1b[2K", at + 1).as_bytes());
            for span in &row.spans {
                pen.write(&mut out, span);
            }
            pen.lift(&mut out);
        }
        out.extend_from_slice(format!("\x1b[{};{}H\x1b[?2026l", caret.row + 1, caret.column + 1).as_bytes());
        (self.rows, self.caret) = (rows, caret);
        out
    }

    /// The screen has another size: everything is drawn again.
    pub fn forget(&mut self) {
        self.rows.clear();
    }
}
