//! Renders a question with everything that has to be read before answering.

use haft_tool::LineStyle;

use crate::{
    app_state::AppState,
    composer::columns_before,
    layout::{ScreenRow, layout, layout_all},
    paint::Caret,
    question_card::{ChoiceOption, QuestionCard, QuestionInput, QuestionKind},
    rendered_call,
    styled_text::{ColorRole, StyledLine, StyledSpan, TextStyle, WrapMode},
};

/// Marker of the row with the text field, by which the caret is found.
const FIELD_SIGN: &str = "    › ";

/// Renders a question in at most `most` rows. Option rows are always shown; what is hidden is counted.
pub(super) fn rows(model: &AppState, most: usize) -> Vec<ScreenRow> {
    let width = model.size.columns;
    let waiting = model.asks.waiting.len();
    let Some(first) = model.asks.waiting.front() else { return Vec::new() };
    if model.asks.state.folded {
        let words = format!("? {} {} · tab answers", first.title, first.headline);
        return vec![super::one(StyledLine::new(&words, TextStyle::tone(ColorRole::Warn)), width)];
    }
    let state = &model.asks.state;
    let room = most.saturating_sub(1);
    let mut head = vec![super::one(head_line(first, waiting), width)];
    if !first.headline.is_empty() {
        let what = StyledLine::new("  ", TextStyle::PLAIN)
            .with(&first.headline, TextStyle::BOLD)
            .fit(WrapMode::Hang(2));
        head.extend(layout(&what, width));
    }
    let body: Vec<StyledLine> = first.body.iter().map(|line| rendered_call::body_line(line, 2)).collect();
    let body = layout_all(&body, width);
    let mut choices = choice_rows(first, state, width, /*details*/ true);
    if room < choices.len() + head.len() + usize::from(!body.is_empty()) {
        choices = choice_rows(first, state, width, /*details*/ false);
    }
    // With little room, the subject takes one row and the number of hidden lines is shown.
    let mut hidden = 0;
    if room < choices.len() + head.len() + usize::from(!body.is_empty()) {
        let line =
            head_line(first, waiting).with(" ", TextStyle::PLAIN).with(&first.headline, TextStyle::BOLD);
        hidden = usize::from(width < line.width());
        head = vec![super::one(line, width)];
    }
    choices = around_selected(choices, state, room.saturating_sub(1).max(1), width);
    let left = room.saturating_sub(head.len() + choices.len());
    let mut out = head;
    if body.len() <= left {
        out.extend(body);
    } else if left == 0 {
        hidden += body.len();
    } else {
        let shown = left - 1;
        let top = state.top.min(body.len().saturating_sub(shown));
        let unseen = body.len() - shown;
        out.extend(body.into_iter().skip(top).take(shown));
        let how = if width < 70 { "ctrl+o" } else { "pgup pgdn scroll, ctrl+o shows all" };
        let words = format!("  … {unseen} rows are not shown: {how}");
        out.push(super::one(StyledLine::new(&words, TextStyle::tone(ColorRole::Warn)), width));
    }
    out.extend(choices);
    out.truncate(room.max(1));
    out.push(status_row(model, hidden, width));
    out.truncate(most.max(1));
    out
}

/// Returns the options that fit, including the selected one; the others are counted.
fn around_selected(rows: Vec<ScreenRow>, state: &QuestionInput, room: usize, width: usize) -> Vec<ScreenRow> {
    if rows.len() <= room {
        return rows;
    }
    let (all, shown) = (rows.len(), room.saturating_sub(1));
    let first = (state.selected.unwrap_or(0) + 1).saturating_sub(shown).min(all - shown);
    let mut out: Vec<ScreenRow> = rows.into_iter().skip(first).take(shown).collect();
    let words = format!("  … {} more answers (↑↓)", all - shown);
    out.push(super::one(StyledLine::new(&words, TextStyle::tone(ColorRole::Warn)), width));
    out
}

/// Returns the minimum rows of a question.
pub(super) fn least_rows(model: &AppState) -> usize {
    let Some(first) = model.asks.waiting.front() else { return 0 };
    if model.asks.state.folded {
        return 1;
    }
    let choices = choice_rows(first, &model.asks.state, model.size.columns, /*details*/ false);
    // Subject and keys.
    choices.len() + 2
}

fn head_line(card: &QuestionCard, waiting: usize) -> StyledLine {
    let mut line = StyledLine::new("? ", TextStyle::tone(ColorRole::Warn).bold());
    if let Some(from) = &card.from {
        line.push(&format!("{from} · "), TextStyle::tone(ColorRole::Info));
    }
    line.push(&card.title, TextStyle::tone(ColorRole::Warn).bold());
    if 1 < waiting {
        line.push(&format!(" · {} more wait", waiting - 1), TextStyle::DIM);
    }
    line
}

fn choice_rows(card: &QuestionCard, state: &QuestionInput, width: usize, details: bool) -> Vec<ScreenRow> {
    match &card.kind {
        QuestionKind::Choice(rows) => choices(rows, state, width, details, false),
        QuestionKind::Many(rows) => choices(rows, state, width, details, true),
        QuestionKind::Form(fields) => {
            let mut out = Vec::new();
            for (at, field) in fields.iter().enumerate() {
                let ink = selected_ink(state, at);
                let value = state.values.get(at).map_or("", String::as_str);
                let line = StyledLine::new("  ", ink).with(&field.label, ink).with(": ", TextStyle::DIM);
                out.push(super::one(
                    line.with(value, TextStyle::PLAIN).with(&format!("  {}", field.hint), TextStyle::DIM),
                    width,
                ));
                out.extend(field_row(state, at, width));
            }
            let ink = selected_ink(state, fields.len());
            out.push(super::one(StyledLine::new("  send it", ink), width));
            let ink = selected_ink(state, fields.len() + 1);
            out.push(super::one(StyledLine::new("  decline", ink), width));
            out
        }
    }
}

fn selected_ink(state: &QuestionInput, at: usize) -> TextStyle {
    if state.selected == Some(at) { TextStyle::tone(ColorRole::Accent).bold() } else { TextStyle::PLAIN }
}

fn choices(
    rows: &[ChoiceOption],
    state: &QuestionInput,
    width: usize,
    details: bool,
    many: bool,
) -> Vec<ScreenRow> {
    let mut out = Vec::new();
    for (at, row) in rows.iter().enumerate() {
        let ink = selected_ink(state, at);
        let is_it = state.selected == Some(at) || state.pending.is_some_and(|it| it.0 == at);
        let sign = if is_it { "› " } else { "  " };
        let mut line = StyledLine::new(sign, TextStyle::tone(ColorRole::Accent).bold());
        line.push(&format!("{} ", row.key), TextStyle::tone(ColorRole::Accent));
        if many && at + 1 < rows.len() {
            line.push(if state.marked.contains(&at) { "☑ " } else { "☐ " }, ink);
        }
        line.push(&row.label, ink);
        if state.confirm == Some(at) {
            line.push("  once more: it allows more than this call", TextStyle::tone(ColorRole::Bad));
        }
        out.push(super::one(line, width));
        for detail in row.detail.iter().filter(|_| details) {
            let style = haft_tool::RenderedLine::new(LineStyle::Dim, detail.as_str());
            out.extend(layout(&rendered_call::body_line(&style, 4), width));
        }
        out.extend(field_row(state, at, width));
    }
    out
}

fn field_row(state: &QuestionInput, at: usize, width: usize) -> Option<ScreenRow> {
    let (row, field) = state.field.as_ref().filter(|it| it.0 == at)?;
    debug_assert_eq!(*row, at);
    // Show the end of the typed text.
    let room = width.saturating_sub(FIELD_SIGN.chars().count() + 2);
    let text = field.text().replace('\n', " ");
    let start = text.char_indices().rev().nth(room).map_or(0, |it| it.0 + 1);
    let text = text.get(start..).unwrap_or(&text);
    let spans = vec![
        StyledSpan::new(FIELD_SIGN, TextStyle::tone(ColorRole::Accent)),
        StyledSpan::new(text, TextStyle::PLAIN),
    ];
    Some(ScreenRow { spans, soft: false })
}

/// Returns the caret, if it is in a field of the question.
pub(super) fn caret(model: &AppState, region: &[ScreenRow]) -> Option<Caret> {
    model.asks.shown()?;
    let (_, field) = model.asks.state.field.as_ref()?;
    let row =
        region.iter().position(|row| row.spans.first().is_some_and(|it| it.text.as_str() == FIELD_SIGN))?;
    let behind = columns_before(field.text(), field.text().len()) - columns_before(field.text(), field.at());
    let column = region[row].width().saturating_sub(behind).min(model.size.columns.saturating_sub(1));
    Some(Caret { row, column })
}

fn status_row(model: &AppState, hidden: usize, width: usize) -> ScreenRow {
    let state = &model.asks.state;
    let (words, ink) = match &state.problem {
        Some(problem) => (problem.clone(), TextStyle::tone(ColorRole::Bad)),
        None if state.field.is_some() => (String::from("enter sends it · esc back"), TextStyle::DIM),
        None if !model.asks.accepts_enter() => {
            (String::from("what you type now is text; stop for a moment to answer"), TextStyle::DIM)
        }
        None if 0 < hidden => {
            (format!("ctrl+o shows {hidden} more rows · esc later"), TextStyle::tone(ColorRole::Warn))
        }
        None => (String::from("a letter, or ↑↓ and enter · esc later"), TextStyle::DIM),
    };
    super::one(StyledLine::new(&format!("  {words}"), ink), width)
}
