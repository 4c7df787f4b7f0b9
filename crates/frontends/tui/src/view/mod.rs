//! Renders the state to rows of the screen.

mod footer;
mod question;

use crate::{
    app_state::{AppState, ConversationState, RunningCall, SPIN_MS, StreamingVoice},
    layout::{ScreenRow, layout, layout_all},
    paint::Caret,
    rendered_call::head_line,
    styled_text::{ColorRole, StyledLine, TextStyle, WrapMode},
    ui_update::{TodoState, TurnPhase},
};

/// Content of the screen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScreenFrame {
    /// Newly finished rows.
    pub finished: Vec<ScreenRow>,
    /// Rows that may still change.
    pub region: Vec<ScreenRow>,
    /// The caret, within the region.
    pub caret: Caret,
}

/// Maximum lines shown of a running command.
const TAIL_LINES: usize = 5;
/// Rows of the screen below which optional rows are dropped.
const SMALL: usize = 16;
/// Maximum queued messages shown (the newest).
const QUEUED: usize = 4;
/// Maximum completions shown.
const OFFERED: usize = 8;

/// Renders the state. The region has at most one row less than the screen.
pub fn view(model: &AppState) -> ScreenFrame {
    let width = model.size.columns;
    let finished = layout_all(&model.finished, width);
    if model.ended {
        return ScreenFrame { finished, region: Vec::new(), caret: Caret::default() };
    }
    let most = model.size.rows.saturating_sub(1).max(1);
    let (composer, caret) = composer_rows(model, most);
    // A question shows its own keys, so on a small screen it gets the footer's row.
    let is_asked = model.asks.shown().is_some() && model.hint.is_none() && model.size.rows < SMALL;
    let footer = if is_asked { Vec::new() } else { footer::rows(model) };
    let mut below = most.saturating_sub(composer.len() + footer.len());
    let mut above: Vec<Vec<ScreenRow>> = Vec::new();
    // From the bottom up as far as there is room, because what is close to the prompt matters most. The
    // option rows of a question are always shown.
    let beside = below.saturating_sub(question::least_rows(model));
    let mut nearest = [offer_rows(model), queue_rows(model)];
    nearest[0].truncate(beside);
    nearest[1].truncate(beside - nearest[0].len());
    below -= nearest.iter().map(Vec::len).sum::<usize>();
    above.extend(nearest);
    let asked = question::rows(model, below);
    for (mut rows, keeps_end) in
        [(asked, false), (activity_rows(model), false), (todo_rows(model), false), (call_rows(model), true)]
    {
        if below < rows.len() {
            if keeps_end { drop(rows.drain(..rows.len() - below)) } else { rows.truncate(below) }
        }
        below -= rows.len();
        above.push(rows);
    }
    let mut tail = tail_rows(model);
    let gap = usize::from(2 < below && (model.wants_gap || !tail.is_empty() || !model.calls.is_empty()));
    below = below.saturating_sub(gap);
    if below < tail.len() {
        tail.drain(..tail.len() - below);
        if let Some(first) = tail.first_mut() {
            first.soft = false;
        }
    }
    let mut region = tail;
    let calls = above.pop().unwrap_or_default();
    if !calls.is_empty() && 1 < below.saturating_sub(region.len()) && model.wants_gap {
        region.push(ScreenRow::default());
    }
    region.extend(calls);
    region.extend(std::iter::repeat_n(ScreenRow::default(), gap));
    for rows in above.into_iter().rev() {
        region.extend(rows);
    }
    let row = region.len();
    region.extend(composer);
    region.extend(footer);
    // Only on extremely narrow screens: rows that are too wide would wrap.
    for row in region.iter_mut().filter(|row| width < row.width()) {
        let line = StyledLine { spans: std::mem::take(&mut row.spans), fit: WrapMode::Cut };
        *row = one(line, width);
    }
    let caret = match question::caret(model, &region) {
        Some(caret) => caret,
        None => Caret { row: row + caret.row, column: caret.column.min(width.saturating_sub(1)) },
    };
    ScreenFrame { finished, region, caret }
}

fn composer_rows(model: &AppState, most: usize) -> (Vec<ScreenRow>, Caret) {
    let ink = TextStyle::tone(ColorRole::Accent).bold();
    let sign = match model.composer.text().chars().next() {
        Some('!') => "! ",
        Some('#') if !model.composer.text().contains('\n') => "# ",
        _ if model.look.vi && !model.vi.is_inserting() => ": ",
        _ => "› ",
    };
    let selected = model.vi.selection(&model.composer).unwrap_or(0..0);
    let (mut rows, mut caret) = model.composer.rows_with(model.size.columns, sign, ink, selected);
    let room = (most / 2).max(1);
    if room < rows.len() {
        let first = caret.row.saturating_sub(room - 1);
        rows.drain(..first);
        rows.truncate(room);
        caret.row -= first;
    }
    (rows, caret)
}

fn one(line: StyledLine, width: usize) -> ScreenRow {
    layout(&line.fit(WrapMode::Cut), width).into_iter().next().unwrap_or_default()
}

fn tail_rows(model: &AppState) -> Vec<ScreenRow> {
    match &model.speaking {
        StreamingVoice::Answer(stream, _) => layout_all(&stream.tail(), model.size.columns),
        _ => Vec::new(),
    }
}

fn seconds(ms: u64) -> String {
    match ms / 1000 {
        it @ 0..60 => format!("{it} s"),
        it @ 60..3600 => format!("{} min {} s", it / 60, it % 60),
        it => format!("{} h {} min", it / 3600, it % 3600 / 60),
    }
}

fn call_rows(model: &AppState) -> Vec<ScreenRow> {
    let width = model.size.columns;
    let shows_tails = model.calls.len() <= 2;
    let mut rows = Vec::new();
    for call in &model.calls {
        rows.push(one(running_line(model, call), width));
        let lines = call.tail.iter().rev().take(TAIL_LINES).rev().filter(|_| shows_tails);
        for line in lines {
            rows.push(one(StyledLine::new(&format!("    {line}"), TextStyle::DIM), width));
        }
    }
    rows
}

fn running_line(model: &AppState, call: &RunningCall) -> StyledLine {
    let agent = call.agent.as_deref();
    let mut line = head_line("◦", TextStyle::tone(ColorRole::Warn), agent, &call.name, &call.headline);
    let past = model.now.saturating_sub(call.since);
    if 1000 <= past {
        line.push(&format!(" · {}", seconds(past)), TextStyle::DIM);
    }
    if !call.note.is_empty() {
        line.push(&format!(" · {}", call.note), TextStyle::DIM);
    }
    line
}

/// Renders what the session is doing or waiting for.
fn activity_rows(model: &AppState) -> Vec<ScreenRow> {
    let ConversationState::Working(since, phase) = &model.session else { return Vec::new() };
    let past = model.now.saturating_sub(*since);
    let words = match phase {
        _ if !model.asks.waiting.is_empty() => String::from("waiting for you"),
        TurnPhase::Waiting if !model.calls.is_empty() => match model.calls.len() {
            1 => format!("running {}", model.calls[0].name),
            count => format!("running {count} calls"),
        },
        TurnPhase::Waiting => String::from("waiting for the model"),
        TurnPhase::Thinking => String::from("thinking"),
        TurnPhase::Answering => String::from("answering"),
        TurnPhase::Calling(name) => format!("writing a call of {name}"),
        TurnPhase::Retrying { why, attempt: (now, most), in_ms } => {
            let left = in_ms.saturating_sub(model.now.saturating_sub(model.phase_since));
            match left.div_ceil(1000) {
                0 => format!("asking again ({now} of {most}): {why}"),
                left => format!("asking again in {left} s ({now} of {most}): {why}"),
            }
        }
        TurnPhase::Compacting => String::from("summing the conversation up"),
    };
    let turn = usize::try_from(past / SPIN_MS).unwrap_or(0) % 4;
    let sign = if model.look.motion { ["◐", "◓", "◑", "◒"][turn] } else { "·" };
    let mut line =
        StyledLine::new(sign, TextStyle::tone(ColorRole::Accent)).with(&format!(" {words}"), TextStyle::DIM);
    if 1000 <= past {
        line.push(&format!(" · {}", seconds(past)), TextStyle::DIM);
    }
    vec![one(line, model.size.columns)]
}

/// Renders the to-do list on one line.
fn todo_rows(model: &AppState) -> Vec<ScreenRow> {
    let all = model.todos.len();
    let done = model.todos.iter().filter(|it| it.1 == TodoState::Done).count();
    if all == 0 || all == done || !model.is_working() {
        return Vec::new();
    }
    let now = model
        .todos
        .iter()
        .find(|it| it.1 == TodoState::Doing)
        .or(model.todos.iter().find(|it| it.1 == TodoState::Open));
    let words = now.map_or("", |it| it.0.as_str());
    vec![one(
        StyledLine::new(&format!("☐ {} of {all} · {words}", done + 1), TextStyle::DIM),
        model.size.columns,
    )]
}

fn queue_rows(model: &AppState) -> Vec<ScreenRow> {
    let width = model.size.columns;
    let mut rows = Vec::new();
    let hidden = model.queue.len().saturating_sub(QUEUED);
    if 0 < hidden {
        rows.push(one(StyledLine::new(&format!("  ↳ … {hidden} more"), TextStyle::DIM), width));
    }
    for text in &model.queue[hidden..] {
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let line = StyledLine::new("  ↳ ", TextStyle::tone(ColorRole::Accent)).with(&words, TextStyle::DIM);
        rows.push(one(line, width));
    }
    if !rows.is_empty() && model.editing_queued.is_none() {
        let when =
            if model.is_opening() { "sent when the session is open" } else { "heard at the next pause" };
        rows.push(one(StyledLine::new(&format!("    {when} · up changes it"), TextStyle::DIM), width));
    }
    rows
}

fn offer_rows(model: &AppState) -> Vec<ScreenRow> {
    let width = model.size.columns;
    if let Some(search) = &model.search {
        let line = StyledLine::new("search: ", TextStyle::tone(ColorRole::Accent))
            .with(search.typed.text(), TextStyle::PLAIN);
        return vec![one(line.with("  ctrl+r older · enter takes it · esc back", TextStyle::DIM), width)];
    }
    if !model.offers.is_open() {
        return Vec::new();
    }
    let offers = &model.offers;
    let first = offers.selected.saturating_sub(OFFERED - 1);
    let widest =
        offers.rows.iter().skip(first).take(OFFERED).map(|it| it.name.chars().count()).max().unwrap_or(0);
    let mut rows = Vec::new();
    for (at, row) in offers.rows.iter().enumerate().skip(first).take(OFFERED) {
        let is_it = at == offers.selected;
        let (sign, ink) = if is_it {
            ("› ", TextStyle::tone(ColorRole::Accent).bold())
        } else {
            ("  ", TextStyle::PLAIN)
        };
        let slash = if offers.kind == crate::completion::CompletionKind::Command { "/" } else { "" };
        let room = " ".repeat(widest.saturating_sub(row.name.chars().count()) + 2);
        let mut line = StyledLine::new(sign, ink).with(&format!("{slash}{}", row.name), ink);
        if !row.about.is_empty() {
            line.push(&format!("{room}{} {}", row.about, row.hint), TextStyle::DIM);
        }
        rows.push(one(line, width));
    }
    let hidden = offers.rows.len().saturating_sub(first + OFFERED);
    if 0 < hidden {
        rows.push(one(StyledLine::new(&format!("  … {hidden} more"), TextStyle::DIM), width));
    }
    rows
}
