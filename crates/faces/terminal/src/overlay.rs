//! Views on a screen of their own: something to read, something to choose.

use haft_tool::Line;

use crate::{
    commands::is_within,
    composer::{CaretMove, Composer},
    event::{KeyCode, KeyPress},
    layout::{ScreenRow, layout, layout_all},
    model::ScreenSize,
    news::PickRow,
    paint::Caret,
    rendered,
    text::{Fit, Ink, InkLine, Tone},
};

/// A view on a screen of its own.
#[derive(Clone, Debug)]
pub enum Overlay {
    /// Something to read.
    Pager(Pager),
    /// Something to choose from.
    Picker(Picker),
}

/// Something to read.
#[derive(Clone, Debug)]
pub struct Pager {
    title: String,
    lines: Vec<InkLine>,
    /// Rows at one width.
    rows: (usize, Vec<ScreenRow>),
    top: usize,
    search: Option<Composer>,
    found: String,
}

/// Something to choose from.
#[derive(Clone, Debug)]
pub struct Picker {
    purpose: String,
    title: String,
    rows: Vec<PickRow>,
    filter: Composer,
    selected: usize,
    /// Whether previews are asked for, and for which rows they were.
    previews: Option<Vec<String>>,
    action: Option<PickAction>,
    /// The first line of the preview that is shown.
    preview_top: usize,
}

/// Something else that can be done with a row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PickAction {
    pub(crate) key: &'static str,
    pub(crate) about: &'static str,
    pub(crate) purpose: &'static str,
}

/// What a key did to an overlay.
#[derive(Debug, PartialEq)]
pub(crate) enum OverlayStep {
    Stay,
    Close,
    Picked { purpose: String, id: String },
}

impl Overlay {
    pub(crate) fn pager(title: &str, lines: Vec<InkLine>, at_end: bool) -> Self {
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

    pub(crate) fn picker(purpose: String, title: String, rows: Vec<PickRow>) -> Self {
        Self::Picker(Picker {
            purpose,
            title,
            rows,
            filter: Composer::default(),
            selected: 0,
            previews: None,
            action: None,
            preview_top: 0,
        })
    }

    /// The same picker, with previews that are asked for.
    pub(crate) fn previewed(mut self) -> Self {
        if let Self::Picker(picker) = &mut self {
            picker.previews = Some(Vec::new());
        }
        self
    }

    /// The same picker, with something else that can be done.
    pub(crate) fn with_action(mut self, action: PickAction) -> Self {
        if let Self::Picker(picker) = &mut self {
            picker.action = Some(action);
        }
        self
    }

    /// The row whose preview is wanted: what the choice is for, and which row.
    pub(crate) fn preview_wish(&mut self) -> Option<(String, String)> {
        let Self::Picker(picker) = self else { return None };
        let id = picker.fitting().get(picker.selected).map(|row| row.id.clone())?;
        let asked = picker.previews.as_mut()?;
        if asked.contains(&id) {
            return None;
        }
        asked.push(id.clone());
        Some((picker.purpose.clone(), id))
    }

    /// What a row shows.
    pub(crate) fn preview(&mut self, id: &str, lines: Vec<Line>) {
        if let Self::Picker(picker) = self
            && let Some(row) = picker.rows.iter_mut().find(|row| row.id == id)
        {
            row.preview = lines;
        }
    }

    /// The rows of a picker, and what they are for: for those who choose by number.
    pub(crate) fn listed(&self) -> Option<(&str, &str, &[PickRow])> {
        match self {
            Self::Picker(picker) => Some((&picker.purpose, &picker.title, &picker.rows)),
            Self::Pager(_) => None,
        }
    }

    pub(crate) fn key(&mut self, key: KeyPress, size: ScreenSize) -> OverlayStep {
        match self {
            Self::Pager(pager) => pager.key(key, size),
            Self::Picker(picker) => picker.key(key),
        }
    }

    /// All rows of the screen, and the caret.
    pub fn rows(&mut self, size: ScreenSize) -> (Vec<ScreenRow>, Caret) {
        match self {
            Self::Pager(pager) => pager.draw(size),
            Self::Picker(picker) => picker.draw(size),
        }
    }
}

/// The row with what was found turned around.
fn marked(row: ScreenRow, found: &str) -> ScreenRow {
    let text = row.to_text();
    let Some(at) = text.to_lowercase().find(&found.to_lowercase()) else { return row };
    // Letters that change their length with their case are marked roughly.
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

fn title_row(title: &str, hint: &str, width: usize) -> ScreenRow {
    let line = InkLine::of(title, Ink::tone(Tone::Accent).bold()).with(&format!("  {hint}"), Ink::DIM);
    layout(&line.fit(Fit::Cut), width).remove(0)
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
        // Beyond the end it goes on at the other one.
        let found = match back {
            false => rows
                .iter()
                .skip(from)
                .position(fits)
                .map(|at| from + at)
                .or_else(|| rows.iter().position(fits)),
            true => rows.iter().take(from).rposition(fits).or_else(|| rows.iter().rposition(fits)),
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
            Some(search) => InkLine::of(&format!("/{}", search.text()), Ink::PLAIN),
            None => InkLine::of("↑↓ space b scroll · / search · n next · q back", Ink::DIM),
        };
        let bottom = layout(&bottom.fit(Fit::Cut), size.columns).remove(0);
        let column = if self.search.is_some() { bottom.width() } else { 0 };
        rows.push(bottom);
        (rows, Caret { row: size.rows.saturating_sub(1), column })
    }
}

impl Picker {
    fn fitting(&self) -> Vec<&PickRow> {
        let typed = self.filter.whole().to_lowercase();
        let fits = |row: &&PickRow| {
            let all = format!("{} {}", row.title, row.detail).to_lowercase();
            typed
                .split_whitespace()
                .all(|word| all.contains(word) || is_within(word, &row.title.to_lowercase()))
        };
        self.rows.iter().filter(fits).collect()
    }

    fn key(&mut self, key: KeyPress) -> OverlayStep {
        let count = self.fitting().len();
        let before = self.selected;
        if let Some(action) = self.action.filter(|it| KeyPress::of_label(it.key) == Some(key)) {
            let picked = self.fitting().get(self.selected).map(|row| row.id.clone());
            return match picked {
                Some(id) => OverlayStep::Picked { purpose: action.purpose.to_owned(), id },
                None => OverlayStep::Stay,
            };
        }
        match key.code {
            KeyCode::Down if key.shift || key.alt => self.preview_top += 3,
            KeyCode::Up if key.shift || key.alt => self.preview_top = self.preview_top.saturating_sub(3),
            KeyCode::Esc => return OverlayStep::Close,
            KeyCode::Char('c') if key.ctrl => return OverlayStep::Close,
            KeyCode::Enter => {
                let picked = self.fitting().get(self.selected).map(|row| row.id.clone());
                if let Some(id) = picked {
                    return OverlayStep::Picked { purpose: self.purpose.clone(), id };
                }
            }
            KeyCode::Up => self.selected = self.selected.saturating_sub(1),
            KeyCode::Down => self.selected = (self.selected + 1).min(count.saturating_sub(1)),
            KeyCode::Char('p') if key.ctrl => self.selected = self.selected.saturating_sub(1),
            KeyCode::Char('n') if key.ctrl => {
                self.selected = (self.selected + 1).min(count.saturating_sub(1))
            }
            KeyCode::PageUp => self.selected = self.selected.saturating_sub(10),
            KeyCode::PageDown => self.selected = (self.selected + 10).min(count.saturating_sub(1)),
            KeyCode::Backspace => {
                self.filter.delete(CaretMove::Left);
                self.selected = 0;
            }
            _ => {
                if let Some(it) = key.typed() {
                    self.filter.insert(&it.to_string());
                    self.selected = 0;
                }
            }
        }
        if before != self.selected {
            self.preview_top = 0;
        }
        OverlayStep::Stay
    }

    fn draw(&self, size: ScreenSize) -> (Vec<ScreenRow>, Caret) {
        let fitting = self.fitting();
        let mut hint =
            format!("{} of {} · type to search · enter chooses · esc back", fitting.len(), self.rows.len());
        if let Some(action) = &self.action {
            hint = format!("{hint} · {} {}", action.key, action.about);
        }
        let mut rows = vec![title_row(&self.title, &hint, size.columns)];
        let field = InkLine::of("› ", Ink::tone(Tone::Accent)).with(self.filter.text(), Ink::PLAIN);
        rows.push(layout(&field.fit(Fit::Cut), size.columns).remove(0));
        let has_preview = self.previews.is_some() || fitting.iter().any(|row| !row.preview.is_empty());
        let room = size.rows.saturating_sub(2);
        // As many as there are in all, so that the preview stays where it is.
        let listed = if has_preview { (room / 2).min(self.rows.len()).max(1) } else { room };
        let first = self.selected.saturating_sub(listed.saturating_sub(1));
        for (at, row) in fitting.iter().enumerate().skip(first).take(listed) {
            let is_it = at == self.selected;
            let (sign, ink) =
                if is_it { ("› ", Ink::tone(Tone::Accent).bold()) } else { ("  ", Ink::PLAIN) };
            let line =
                InkLine::of(sign, ink).with(&row.title, ink).with(&format!("  {}", row.detail), Ink::DIM);
            rows.push(layout(&line.fit(Fit::Cut), size.columns).remove(0));
        }
        if let Some(row) = fitting.get(self.selected).filter(|it| !it.preview.is_empty()) {
            rows.resize(2 + listed, ScreenRow::default());
            rows.push(ScreenRow::default());
            let preview = row.preview.iter().map(|line: &Line| rendered::body_line(line, 2).fit(Fit::Cut));
            let lines: Vec<InkLine> = preview.collect();
            let lines = layout_all(&lines, size.columns);
            let room = size.rows.saturating_sub(rows.len());
            let top = self.preview_top.min(lines.len().saturating_sub(room));
            let hidden = lines.len().saturating_sub(top + room);
            rows.extend(lines.into_iter().skip(top).take(room));
            if 0 < hidden && 1 < room {
                let words = format!("  … {} more lines (shift+↓)", hidden + 1);
                rows.truncate(size.rows.saturating_sub(1));
                rows.push(layout(&InkLine::of(&words, Ink::DIM).fit(Fit::Cut), size.columns).remove(0));
            }
        }
        rows.resize(size.rows, ScreenRow::default());
        let caret = Caret {
            row: 1,
            column: 2 + crate::composer::columns_before(self.filter.text(), self.filter.at()),
        };
        (rows, caret)
    }
}
