//! Overlays: pager and picker.

use haft_tool::RenderedLine;

use crate::{
    app_state::ScreenSize,
    composer::{CaretMove, Composer},
    event::{KeyCode, KeyPress},
    layout::{ScreenRow, layout, layout_all},
    paint::Caret,
    picker::{PickAction, PickReadiness, Picker},
    styled_text::{ColorRole, StyledLine, TextStyle, WrapMode},
    ui_update::PickerRow,
};

/// An overlay on the alternate screen.
#[derive(Clone, Debug)]
pub enum Overlay {
    /// A text to read.
    Pager(Pager),
    /// A list to pick from.
    Picker(Picker),
}

/// A scrollable text.
#[derive(Clone, Debug)]
pub struct Pager {
    title: String,
    lines: Vec<StyledLine>,
    /// Width, and the rows wrapped to it.
    rows: (usize, Vec<ScreenRow>),
    top: usize,
    search: Option<Composer>,
    found: String,
}

/// Result of a key press in an overlay.
#[derive(Debug, PartialEq)]
pub(crate) enum OverlayStep {
    Stay,
    Close,
    Picked { purpose: String, id: String },
}

impl Overlay {
    pub(crate) fn pager(title: &str, lines: Vec<StyledLine>, at_end: bool) -> Self {
        let top = if at_end { usize::MAX } else { 0 };
        Self::Pager(Pager {
            title: title.to_owned(),
            lines,
            rows: (0, Vec::new()),
            top,
            search: None,
            found: String::new(),
        })
    }

    pub(crate) fn picker(purpose: String, title: String, rows: Vec<PickerRow>) -> Self {
        Self::Picker(Picker::new(purpose, title, rows))
    }

    /// Enables previews that are loaded on demand.
    pub(crate) fn previewed(mut self) -> Self {
        if let Self::Picker(picker) = &mut self {
            picker.ask_for_previews();
        }
        self
    }

    /// Adds an action for a row.
    pub(crate) fn with_action(mut self, action: PickAction) -> Self {
        if let Self::Picker(picker) = &mut self {
            picker.offer(action);
        }
        self
    }

    /// Adds rows to a picker, if it is still open.
    pub(crate) fn more_rows(&mut self, purpose: &str, rows: Vec<PickerRow>) {
        if let Self::Picker(picker) = self {
            picker.add(purpose, rows);
        }
    }

    /// Returns purpose and row whose preview has to be loaded.
    pub(crate) fn preview_request(&mut self) -> Option<(String, String)> {
        let Self::Picker(picker) = self else { return None };
        picker.preview_request()
    }

    /// Sets the preview of a row.
    pub(crate) fn preview(&mut self, id: &str, lines: Vec<RenderedLine>) {
        if let Self::Picker(picker) = self {
            picker.show(id, lines);
        }
    }

    /// Returns purpose, title and rows of a picker, for line mode.
    pub(crate) fn listed(&self) -> Option<(&str, &str, &[PickerRow])> {
        match self {
            Self::Picker(picker) => Some(picker.listed()),
            Self::Pager(_) => None,
        }
    }

    /// Returns title and lines of a pager, for line mode.
    pub(crate) fn read(&self) -> Option<(&str, &[StyledLine])> {
        match self {
            Self::Pager(pager) => Some((&pager.title, &pager.lines)),
            Self::Picker(_) => None,
        }
    }

    /// Ignores keys until the picker is visible, because it was requested some time ago and the user may
    /// still be typing.
    pub(crate) fn require_visible(mut self) -> Self {
        if let Self::Picker(picker) = &mut self {
            picker.hearing = PickReadiness::Unseen;
        }
        self
    }

    /// Whether it accepts keys.
    pub(crate) fn accepts_keys(&self) -> bool {
        !matches!(self, Self::Picker(picker) if picker.hearing == PickReadiness::Unseen)
    }

    /// Marks it as visible.
    pub(crate) fn is_seen(&mut self, now: u64) {
        if let Self::Picker(picker) = self {
            picker.is_seen(now);
        }
    }

    /// Called when no key is waiting in the input queue.
    pub(crate) fn arm(&mut self, now: u64) {
        if let Self::Picker(picker) = self {
            picker.arm(now);
        }
    }

    /// Returns when it changes without an event.
    pub(crate) fn deadline(&self) -> Option<u64> {
        match self {
            Self::Picker(Picker { hearing: PickReadiness::From(at), .. }) => Some(*at),
            _ => None,
        }
    }

    pub(crate) fn key(&mut self, key: KeyPress, size: ScreenSize, now: u64) -> OverlayStep {
        match self {
            Self::Pager(pager) => pager.key(key, size),
            Self::Picker(picker) => picker.key(key, now),
        }
    }

    /// Searches for pasted text.
    pub(crate) fn paste(&mut self, text: &str) {
        if let Self::Picker(picker) = self {
            picker.paste(text);
        }
    }

    /// Returns all rows of the screen, and the caret.
    pub fn rows(&mut self, size: ScreenSize) -> (Vec<ScreenRow>, Caret) {
        match self {
            Self::Pager(pager) => pager.draw(size),
            Self::Picker(picker) => picker.draw(size),
        }
    }
}

/// Highlights the matches in a row.
fn marked(row: ScreenRow, found: &str) -> ScreenRow {
    let text = row.to_text();
    let Some(at) = text.to_lowercase().find(&found.to_lowercase()) else { return row };
    // Approximate for characters whose length changes with their case.
    let (from, to) = (text.floor_char_boundary(at), text.floor_char_boundary(at + found.len()));
    let (mut spans, mut begins) = (Vec::new(), 0);
    for span in row.spans {
        let length = span.text.as_str().len();
        let cuts =
            [0, from.saturating_sub(begins).min(length), to.saturating_sub(begins).min(length), length];
        for (number, pair) in cuts.windows(2).enumerate().filter(|(_, pair)| pair[0] < pair[1]) {
            let mut piece = span.clone();
            piece.text = span.text.slice(pair[0]..pair[1]);
            piece.ink.reverse |= number == 1;
            spans.push(piece);
        }
        begins += length;
    }
    ScreenRow { spans, soft: row.soft }
}

pub(crate) fn title_row(title: &str, hint: &str, width: usize) -> ScreenRow {
    let line = StyledLine::new(title, TextStyle::tone(ColorRole::Accent).bold())
        .with(&format!("  {hint}"), TextStyle::DIM);
    layout(&line.fit(WrapMode::Cut), width).remove(0)
}

impl Pager {
    fn room(size: ScreenSize) -> usize {
        size.rows.saturating_sub(2).max(1)
    }

    fn lay_out(&mut self, size: ScreenSize) {
        if self.rows.0 != size.columns {
            self.rows = (size.columns, layout_all(&self.lines, size.columns));
        }
        self.top = self.top.min(self.rows.1.len().saturating_sub(Self::room(size)));
    }

    fn key(&mut self, key: KeyPress, size: ScreenSize) -> OverlayStep {
        self.lay_out(size);
        let room = Self::room(size);
        if let Some(search) = &mut self.search {
            match key.code {
                KeyCode::Enter => {
                    self.found = search.whole();
                    self.search = None;
                    self.seek(/*back*/ false, /*from*/ self.top);
                }
                KeyCode::Esc => self.search = None,
                KeyCode::Backspace => search.delete(CaretMove::Left),
                _ => {
                    if let Some(it) = key.typed() {
                        search.insert(&it.to_string());
                    }
                }
            }
            return OverlayStep::Stay;
        }
        match key.code {
            KeyCode::Esc | KeyCode::Char('q') => return OverlayStep::Close,
            KeyCode::Char('c' | 'o' | 't') if key.ctrl => return OverlayStep::Close,
            KeyCode::Up | KeyCode::Char('k') => self.top = self.top.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') | KeyCode::Enter => self.top += 1,
            KeyCode::PageUp | KeyCode::Char('b') => self.top = self.top.saturating_sub(room),
            KeyCode::PageDown | KeyCode::Char(' ' | 'f') => self.top += room,
            KeyCode::Home | KeyCode::Char('g') => self.top = 0,
            KeyCode::End | KeyCode::Char('G') => self.top = usize::MAX,
            KeyCode::Char('/') => self.search = Some(Composer::default()),
            KeyCode::Char('n') => self.seek(false, self.top + 1),
            KeyCode::Char('N') => self.seek(true, self.top),
            _ => (),
        }
        self.lay_out(size);
        OverlayStep::Stay
    }

    fn seek(&mut self, back: bool, from: usize) {
        let wanted = self.found.to_lowercase();
        if wanted.is_empty() {
            return;
        }
        let fits = |row: &ScreenRow| row.to_text().to_lowercase().contains(&wanted);
        let rows = &self.rows.1;
        // Wraps around at the end.
        let found = if back {
            rows.iter().take(from).rposition(fits).or_else(|| rows.iter().rposition(fits))
        } else {
            rows.iter().skip(from).position(fits).map(|at| from + at).or_else(|| rows.iter().position(fits))
        };
        if let Some(at) = found {
            self.top = at;
        }
    }

    fn draw(&mut self, size: ScreenSize) -> (Vec<ScreenRow>, Caret) {
        self.lay_out(size);
        let room = Self::room(size);
        let all = self.rows.1.len();
        let last = (self.top + room).min(all);
        let mut rows = vec![title_row(&self.title, &format!("{last} of {all} rows"), size.columns)];
        for row in &self.rows.1[self.top.min(last)..last] {
            let mut row = row.clone();
            row.soft = false;
            if !self.found.is_empty() {
                row = marked(row, &self.found);
            }
            rows.push(row);
        }
        rows.resize(size.rows.saturating_sub(1), ScreenRow::default());
        let bottom = match &self.search {
            Some(search) => StyledLine::new(&format!("/{}", search.text()), TextStyle::PLAIN),
            None => StyledLine::new("↑↓ space b scroll · / search · n next · q back", TextStyle::DIM),
        };
        let bottom = layout(&bottom.fit(WrapMode::Cut), size.columns).remove(0);
        let column = if self.search.is_some() { bottom.width() } else { 0 };
        rows.push(bottom);
        (rows, Caret { row: size.rows.saturating_sub(1), column })
    }
}
