//! Full-screen mode: stores all rows of the conversation and scrolls them.

use crate::{
    app_state::{AppState, ScreenSize},
    layout::{ScreenRow, layout_all},
    paint::Caret,
    styled_text::{StyledLine, StyledSpan, TextStyle},
    view::ScreenFrame,
};

/// All finished rows.
#[derive(Debug, Default)]
pub(super) struct FullScreen {
    rows: Vec<ScreenRow>,
}

impl FullScreen {
    /// Adds finished rows.
    pub(super) fn take(&mut self, finished: Vec<ScreenRow>) {
        self.rows.extend(finished);
    }

    /// Lays out everything for a width, including finished lines that are not painted yet.
    pub(super) fn lay_out(&mut self, model: &AppState, size: ScreenSize) {
        let lines: Vec<StyledLine> = model.all_finished_lines();
        self.rows = layout_all(&lines, size.columns);
    }

    /// Returns the rows of the whole screen, the caret, and the scroll position.
    pub(super) fn screen(
        &self,
        frame: &ScreenFrame,
        size: ScreenSize,
        scrolled: usize,
    ) -> (Vec<ScreenRow>, Caret, usize) {
        let room = size.rows.saturating_sub(frame.region.len());
        let scrolled = scrolled.min(self.rows.len().saturating_sub(room));
        let end = self.rows.len() - scrolled;
        let first = end.saturating_sub(room);
        let mut rows: Vec<ScreenRow> = self.rows[first..end].to_vec();
        if let Some(last) = rows.last_mut().filter(|_| 0 < scrolled) {
            let words = format!("… {} newer rows (pagedown)", scrolled + 1);
            *last = ScreenRow { spans: vec![StyledSpan::new(&words, TextStyle::DIM)], soft: false };
        }
        let caret = Caret { row: rows.len() + frame.caret.row, column: frame.caret.column };
        rows.extend(frame.region.iter().cloned());
        rows.iter_mut().for_each(|row| row.soft = false);
        rows.resize(size.rows, ScreenRow::default());
        (rows, caret, scrolled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_screen_scrolls_rows_above_prompt() {
        let row =
            |text: &str| ScreenRow { spans: vec![StyledSpan::new(text, TextStyle::PLAIN)], soft: false };
        let mut full = FullScreen::default();
        full.take((0..10).map(|number| row(&number.to_string())).collect());
        let frame = ScreenFrame {
            region: vec![row("›"), row("footer")],
            caret: Caret { row: 0, column: 2 },
            ..ScreenFrame::default()
        };
        let size = ScreenSize { columns: 20, rows: 6 };
        for (scrolled, want, caret, kept) in [
            (0, "6 7 8 9 › footer", 4, 0),
            (2, "4 5 6 … 3 newer rows (pagedown) › footer", 4, 2),
            (99, "0 1 2 … 7 newer rows (pagedown) › footer", 4, 6),
        ] {
            let (rows, at, far) = full.screen(&frame, size, scrolled);
            let text: Vec<String> = rows.iter().map(ScreenRow::to_text).collect();
            assert_eq!((text.join(" ").as_str(), at.row, far), (want, caret, kept));
        }
    }
}
