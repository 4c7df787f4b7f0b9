//! The line at the bottom: mode, model, window, money, and the keys that work
//! now.

use crate::{
    app_state::{AppState, ConversationState},
    keymap::KeyAction,
    layout::ScreenRow,
    styled_text::{ColorRole, StyledLine, TextStyle, width_of},
};

/// What can be typed into an empty prompt.
const IDLE_KEYS: &str = "/ commands · @ files · ? help";
/// Below this width the footer says one thing.
const NARROW: usize = 60;

pub(super) fn rows(model: &AppState) -> Vec<ScreenRow> {
    if model.size.rows < 4 {
        return Vec::new();
    }
    let width = model.size.columns;
    if let Some((hint, _)) = &model.hint {
        return vec![super::one(
            StyledLine::new(&format!("  {hint}"), TextStyle::tone(ColorRole::Warn)),
            width,
        )];
    }
    let mut rows = Vec::new();
    let meter = &model.meter;
    if let Some(status) = meter.status_line.as_ref().filter(|it| !it.is_empty()) {
        rows.push(super::one(StyledLine::new(&format!("  {status}"), TextStyle::PLAIN), width));
    }
    let keys = keys(model);
    let mode = meter.mode.clone().filter(|it| it != "default");
    let mode = mode.map(|it| (it, TextStyle::tone(ColorRole::Warn)));
    let plain = |text: String| (text, TextStyle::DIM);
    let mut items: Vec<(String, TextStyle)> = Vec::new();
    items.extend(
        model.vi.label().filter(|_| model.look.vi).map(|it| (it, TextStyle::tone(ColorRole::Accent).bold())),
    );
    items.extend(mode);
    if width < NARROW {
        if items.is_empty() {
            items.push(plain(keys));
        }
    } else {
        let model_name = match (&meter.model, &meter.effort) {
            (Some(name), Some(effort)) => Some(format!("{name} ({effort})")),
            (name, _) => name.clone(),
        };
        items.extend(model_name.map(plain));
        items.extend(meter.context_percent.map(context));
        items.extend(meter.usd.map(|it| plain(money(it))));
        let tasks = model.tasks.len();
        if 0 < tasks {
            items.push(plain(format!("{tasks} in background")));
        }
        if model.session == ConversationState::Opening {
            items.push(plain(String::from("opening…")));
        }
        items.push(plain(keys));
    }
    // What does not fit is left out, the keys first.
    let wide = |items: &[(String, TextStyle)]| items.iter().map(|it| width_of(&it.0) + 3).sum::<usize>();
    if width < wide(&items)
        && let Some(last) = items.last_mut().filter(|it| it.0 == IDLE_KEYS)
    {
        last.0 = String::from("? help");
    }
    while 1 < items.len() && width < wide(&items) {
        items.pop();
    }
    let mut line = StyledLine::new("  ", TextStyle::PLAIN);
    for (number, (text, ink)) in items.iter().enumerate() {
        if 0 < number {
            line.push(" · ", TextStyle::DIM);
        }
        line.push(text, *ink);
    }
    rows.push(super::one(line, width));
    rows
}

fn context(percent: u8) -> (String, TextStyle) {
    let ink = match percent {
        0..70 => TextStyle::DIM,
        70..90 => TextStyle::tone(ColorRole::Warn),
        _ => TextStyle::tone(ColorRole::Bad),
    };
    (format!("{percent} % of context"), ink)
}

fn money(usd: f64) -> String {
    if usd < 0.995 { format!("${usd:.3}") } else { format!("${usd:.2}") }
}

/// The keys that matter now.
fn keys(model: &AppState) -> String {
    let key = |action| model.keys.label(action);
    if model.asks.state.folded && !model.asks.waiting.is_empty() {
        return String::from("tab answers the question");
    }
    if model.asks.shown().is_some() {
        // Esc and Enter may belong to the question, whose own row says so.
        let is_written = !model.composer.is_empty() && model.asks.state.selected.is_none();
        return if is_written {
            format!("{} queues", key(KeyAction::Send))
        } else {
            format!("{} stops", key(KeyAction::Cancel))
        };
    }
    if model.is_working() || model.runs_own_commands() {
        return if model.composer.is_empty() {
            format!("{} stops", key(KeyAction::Stop))
        } else {
            format!("{} stops · {} queues", key(KeyAction::Stop), key(KeyAction::Send))
        };
    }
    if model.composer.is_empty() {
        return String::from(IDLE_KEYS);
    }
    format!("{} sends · {} new line", key(KeyAction::Send), key(KeyAction::Newline))
}
