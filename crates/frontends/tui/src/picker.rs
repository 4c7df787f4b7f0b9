//! Picker: a searchable list on the alternate screen.

use haft_tool::RenderedLine;

use crate::{
    app_state::ScreenSize,
    composer::{CaretMove, Composer},
    event::{KeyCode, KeyPress},
    layout::{ScreenRow, layout, layout_all},
    overlay::{OverlayStep, title_row},
    paint::Caret,
    question_card::DEAF_MS,
    rendered_call,
    slash_commands::is_within,
    styled_text::{ColorRole, StyledLine, TextStyle, WrapMode},
    ui_update::PickerRow,
};

/// A searchable list.
#[derive(Clone, Debug)]
pub struct Picker {
    purpose: String,
    title: String,
    rows: Vec<PickerRow>,
    /// Lower-case search text of each row.
    sought: Vec<SearchableRow>,
    filter: Composer,
    /// Indices of rows that match the search.
    fitting: Vec<usize>,
    /// Index of the selected row in `fitting`.
    selected: usize,
    /// Whether previews are loaded on demand, and the rows for which they were requested.
    previews: Option<Vec<String>>,
    action: Option<PickAction>,
    /// First visible line of the preview.
    preview_top: usize,
    pub(crate) hearing: PickReadiness,
}

/// When a picker accepts Enter.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum PickReadiness {
    /// Now.
    #[default]
    Now,
    /// Not before it is visible.
    Unseen,
    /// From this time on; an earlier key postpones it.
    From(u64),
}

/// Width in columns below which only the most important keys are listed.
const ROOMY: usize = 60;
/// Minimum reaction time of a user in milliseconds; an earlier key was meant for something else.
const REACTION_MS: u64 = 200;

/// An additional action for a row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PickAction {
    pub(crate) key: &'static str,
    pub(crate) about: &'static str,
    pub(crate) purpose: &'static str,
}

impl PickAction {
    fn is(self, key: KeyPress) -> bool {
        KeyPress::of_label(self.key) == Some(key)
    }
}

/// Search text of a row, precomputed because every key press searches possibly thousands of rows.
#[derive(Clone, Debug)]
struct SearchableRow {
    title: String,
    detail: String,
}

impl SearchableRow {
    fn from_row(row: &PickerRow) -> Self {
        Self { title: row.title.to_lowercase(), detail: row.detail.to_lowercase() }
    }

    fn fits(&self, words: &[String]) -> bool {
        let fits = |word: &String| {
            self.title.contains(word) || self.detail.contains(word) || is_within(word, &self.title)
        };
        words.iter().all(fits)
    }
}

impl Picker {
    pub(crate) fn new(purpose: String, title: String, rows: Vec<PickerRow>) -> Self {
        let mut picker = Self {
            purpose: purpose.clone(),
            title,
            rows: Vec::new(),
            sought: Vec::new(),
            filter: Composer::default(),
            fitting: Vec::new(),
            selected: 0,
            previews: None,
            action: None,
            preview_top: 0,
            hearing: PickReadiness::Now,
        };
        picker.add(&purpose, rows);
        picker
    }

    pub(crate) fn ask_for_previews(&mut self) {
        self.previews = Some(Vec::new());
    }

    pub(crate) fn offer(&mut self, action: PickAction) {
        self.action = Some(action);
    }

    /// Adds rows, if the purpose matches. Keeps the selection.
    pub(crate) fn add(&mut self, purpose: &str, rows: Vec<PickerRow>) {
        if self.purpose != purpose {
            return;
        }
        let words = self.typed_words();
        for row in rows {
            let sought = SearchableRow::from_row(&row);
            if sought.fits(&words) {
                self.fitting.push(self.rows.len());
            }
            self.rows.push(row);
            self.sought.push(sought);
        }
    }

    pub(crate) fn listed(&self) -> (&str, &str, &[PickerRow]) {
        (&self.purpose, &self.title, &self.rows)
    }

    pub(crate) fn preview_request(&mut self) -> Option<(String, String)> {
        let id = self.chosen()?.id.clone();
        let asked = self.previews.as_mut()?;
        if asked.contains(&id) {
            return None;
        }
        asked.push(id.clone());
        Some((self.purpose.clone(), id))
    }

    pub(crate) fn show(&mut self, id: &str, lines: Vec<RenderedLine>) {
        if let Some(row) = self.rows.iter_mut().find(|row| row.id == id) {
            row.preview = lines;
        }
    }

    fn typed_words(&self) -> Vec<String> {
        self.filter.whole().to_lowercase().split_whitespace().map(str::to_owned).collect()
    }

    /// Updates the matching rows and selects the first.
    fn seek(&mut self) {
        let words = self.typed_words();
        let fits = |(at, sought): (usize, &SearchableRow)| sought.fits(&words).then_some(at);
        self.fitting = self.sought.iter().enumerate().filter_map(fits).collect();
        self.selected = 0;
    }

    fn chosen(&self) -> Option<&PickerRow> {
        self.rows.get(*self.fitting.get(self.selected)?)
    }

    pub(crate) fn is_seen(&mut self, now: u64) {
        if self.hearing == PickReadiness::Unseen {
            self.hearing = PickReadiness::From(now + REACTION_MS);
        }
    }

    pub(crate) fn arm(&mut self, now: u64) {
        if matches!(self.hearing, PickReadiness::From(at) if at <= now) {
            self.hearing = PickReadiness::Now;
        }
    }

    pub(crate) fn paste(&mut self, text: &str) {
        self.filter.insert(text.lines().next().unwrap_or_default());
        self.seek();
    }

    pub(crate) fn key(&mut self, key: KeyPress, now: u64) -> OverlayStep {
        let count = self.fitting.len();
        let before = self.selected;
        let decides = key.code == KeyCode::Enter || self.action.is_some_and(|it| it.is(key));
        if let PickReadiness::From(at) = self.hearing {
            self.hearing = PickReadiness::From(at.max(now + DEAF_MS));
            if decides {
                return OverlayStep::Stay;
            }
        }
        if let Some(action) = self.action.filter(|it| it.is(key)) {
            let picked = self.chosen().map(|row| row.id.clone());
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
                let picked = self.chosen().map(|row| row.id.clone());
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
                self.seek();
            }
            _ => {
                if let Some(it) = key.typed() {
                    self.filter.insert(&it.to_string());
                    self.seek();
                }
            }
        }
        if before != self.selected {
            self.preview_top = 0;
        }
        OverlayStep::Stay
    }

    pub(crate) fn draw(&self, size: ScreenSize) -> (Vec<ScreenRow>, Caret) {
        let mut hint = format!("{} of {} · esc back", self.fitting.len(), self.rows.len());
        if ROOMY <= size.columns {
            hint.push_str(" · type to search");
        }
        if let Some(action) = &self.action {
            hint = format!("{hint} · {} {}", action.key, action.about);
        }
        if self.hearing == PickReadiness::Now {
            hint.push_str(" · enter chooses");
        }
        let mut rows = vec![title_row(&self.title, &hint, size.columns)];
        let field = StyledLine::new("› ", TextStyle::tone(ColorRole::Accent))
            .with(self.filter.text(), TextStyle::PLAIN);
        rows.push(layout(&field.fit(WrapMode::Cut), size.columns).remove(0));
        let has_preview = self.previews.is_some() || self.rows.iter().any(|row| !row.preview.is_empty());
        let room = size.rows.saturating_sub(2);
        // Based on the number of all rows, so that the preview does not move while searching.
        let listed = if has_preview { (room / 2).min(self.rows.len()).max(1) } else { room };
        let first = self.selected.saturating_sub(listed.saturating_sub(1));
        let shown = self.fitting.iter().filter_map(|at| self.rows.get(*at));
        for (at, row) in shown.enumerate().skip(first).take(listed) {
            let is_it = at == self.selected;
            let (sign, ink) = if is_it {
                ("› ", TextStyle::tone(ColorRole::Accent).bold())
            } else {
                ("  ", TextStyle::PLAIN)
            };
            let line = StyledLine::new(sign, ink)
                .with(&row.title, ink)
                .with(&format!("  {}", row.detail), TextStyle::DIM);
            rows.push(layout(&line.fit(WrapMode::Cut), size.columns).remove(0));
        }
        if let Some(row) = self.chosen().filter(|it| !it.preview.is_empty()) {
            rows.resize(2 + listed, ScreenRow::default());
            rows.push(ScreenRow::default());
            let preview = row
                .preview
                .iter()
                .map(|line: &RenderedLine| rendered_call::body_line(line, 2).fit(WrapMode::Cut));
            let lines: Vec<StyledLine> = preview.collect();
            let lines = layout_all(&lines, size.columns);
            let room = size.rows.saturating_sub(rows.len());
            let top = self.preview_top.min(lines.len().saturating_sub(room));
            let hidden = lines.len().saturating_sub(top + room);
            rows.extend(lines.into_iter().skip(top).take(room));
            if 0 < hidden && 1 < room {
                let words = format!("  … {} more lines (shift+↓)", hidden + 1);
                rows.truncate(size.rows.saturating_sub(1));
                rows.push(
                    layout(&StyledLine::new(&words, TextStyle::DIM).fit(WrapMode::Cut), size.columns)
                        .remove(0),
                );
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
