//! Paints overlays on the alternate screen.

use crate::{layout::ScreenRow, paint::Caret, sgr::Pen, terminal_caps::TerminalCaps};

/// Paints overlays row by row.
#[derive(Clone, Debug)]
pub struct AlternatePainter {
    look: TerminalCaps,
    rows: Vec<ScreenRow>,
    caret: Caret,
}

impl AlternatePainter {
    /// Switches to the alternate screen. The mouse wheel sends arrow keys there; no other mouse events
    /// are captured.
    pub fn enter(look: &TerminalCaps) -> (Self, Vec<u8>) {
        let painter = Self { look: look.clone(), rows: Vec::new(), caret: Caret::default() };
        (painter, b"\x1b[?1049h\x1b[?1007h\x1b[>1u\x1b[2J".to_vec())
    }

    /// Switches to the alternate screen for the whole conversation. The mouse wheel does not send arrow
    /// keys, which would walk through the prompt history.
    pub fn enter_to_stay(look: &TerminalCaps) -> (Self, Vec<u8>) {
        let painter = Self { look: look.clone(), rows: Vec::new(), caret: Caret::default() };
        (painter, b"\x1b[?1049h\x1b[?1007l\x1b[>1u\x1b[2J".to_vec())
    }

    /// Changes the capabilities; everything is painted again.
    pub fn set_look(&mut self, look: &TerminalCaps) {
        if self.look != *look {
            self.look = look.clone();
            self.rows.clear();
        }
    }

    /// Returns the bytes that leave the alternate screen.
    pub fn leave() -> Vec<u8> {
        b"\x1b[<u\x1b[?1007l\x1b[?1049l".to_vec()
    }

    /// Returns the bytes that change the screen to these rows.
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

    /// Forgets what is on the screen, after a resize: everything is painted again.
    pub fn forget(&mut self) {
        self.rows.clear();
    }
}
