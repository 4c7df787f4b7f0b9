//! Line mode, for screen readers and terminals without cursor movement: only appends lines.

use std::{
    io::{self, Write},
    sync::{Arc, mpsc},
    time::Instant,
};

use crate::{
    app_state::{AppState, ConversationState, ScreenSize},
    driver::{TerminalSetup, TextEditor},
    effect::TermEffect,
    event::{KeyCode, KeyPress, TermEvent},
    question_card::{CardAnswer, ChosenOption, DEAF_MS, QuestionCard, QuestionKind},
    ui_update::{PickerRow, TurnPhase, UiUpdate},
};

/// A typed line, or an event.
pub enum PlainInput {
    Line(String),
    /// An event for [`AppState::update`](crate::AppState::update).
    Event(TermEvent),
    /// Ctrl-C: interrupts the turn; pressed twice without one, exits.
    Interrupt,
    /// End of input.
    End,
}

/// The line-mode terminal.
pub struct PlainTerminal<W> {
    model: AppState,
    out: W,
    effects: Arc<dyn Fn(TermEffect) + Send + Sync>,
    editor: TextEditor,
    begun: Instant,
    phase: String,
    asked: String,
    hint: String,
    /// Open picker: purpose and row ids, selectable by number.
    picks: Option<(String, Vec<String>)>,
    /// Question and row that need a second confirmation.
    confirming: Option<(String, usize)>,
    /// Lines before this time were typed before the question was visible.
    hears_at: u64,
}

impl<W: Write> PlainTerminal<W> {
    /// Creates a terminal that writes to `out`.
    pub fn new(setup: TerminalSetup, out: W) -> Self {
        let mut look = setup.look;
        look.colours = crate::terminal_caps::ColorSupport::None;
        (look.motion, look.links) = (false, false);
        let size = ScreenSize { columns: 200, rows: 50 };
        let mut model = AppState::new(look, size, setup.history);
        model.greet(setup.greeting);
        model.set_keys(setup.keys.0, &setup.keys.1);
        Self {
            model,
            out,
            effects: setup.effects,
            editor: setup.editor,
            begun: Instant::now(),
            phase: String::new(),
            asked: String::new(),
            hint: String::new(),
            picks: None,
            confirming: None,
            hears_at: 0,
        }
    }

    /// Runs until [`UiUpdate::Farewell`].
    pub fn run(mut self, input: &mpsc::Receiver<PlainInput>) -> io::Result<()> {
        self.show()?;
        while let Ok(input) = input.recv() {
            match input {
                PlainInput::Line(line) => self.line(&line),
                PlainInput::Event(TermEvent::News(UiUpdate::PickMore { purpose, rows })) => {
                    self.list_more(&purpose, &rows)?;
                }
                PlainInput::Event(event) => self.update(event),
                PlainInput::Interrupt => self.update(TermEvent::Key(KeyPress::ctrl('c'))),
                PlainInput::End => (self.effects)(TermEffect::Quit),
            }
            self.show()?;
            if self.model.has_ended() {
                break;
            }
        }
        Ok(())
    }

    fn update(&mut self, event: TermEvent) {
        let now = self.now();
        for effect in self.model.update(event, now) {
            match effect {
                TermEffect::Edit(text) => {
                    let edited = (self.editor)(&text);
                    self.update(TermEvent::Edited(edited));
                }
                effect => (self.effects)(effect),
            }
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(0)
    }

    /// Handles a typed line: an answer to the current question, or a message. A line that comes right
    /// after a question, before anyone can have read it, is a message.
    fn line(&mut self, line: &str) {
        if self.now() < self.hears_at {
            self.picks = None;
            self.model.hint("that was typed before the question: it is a message");
            return self.message(line);
        }
        if let Some(card) = self.model.asks.waiting.front().cloned() {
            return self.answer(&card, line);
        }
        if let Some((purpose, ids)) = self.picks.take() {
            let number = line.trim().parse::<usize>().ok().and_then(|it| it.checked_sub(1));
            if let Some(id) = number.and_then(|at| ids.get(at)) {
                return (self.effects)(TermEffect::Picked { purpose, id: id.clone() });
            }
            if line.trim().is_empty() {
                return;
            }
        }
        self.message(line);
    }

    fn message(&mut self, line: &str) {
        self.update(TermEvent::Paste(line.to_owned()));
        self.update(TermEvent::Key(KeyPress::plain(KeyCode::Enter)));
    }

    /// Answers a question with a line; if it is not a valid answer, asks again.
    fn answer(&mut self, card: &QuestionCard, line: &str) {
        self.asked.clear();
        let Some(mut answer) = answer(card, line) else { return };
        if let (CardAnswer::Choice(choice), QuestionKind::Choice(rows)) = (&mut answer, &card.kind)
            && let Some(row) = rows.get(choice.row)
        {
            let is_confirmed = std::mem::take(&mut self.confirming) == Some((card.id.clone(), choice.row));
            if row.twice && !is_confirmed {
                self.confirming = Some((card.id.clone(), choice.row));
                return;
            }
            if let Some(text) = &row.edits {
                // The question stays open until the edited text is accepted.
                let Some(words) = (self.editor)(text) else { return };
                choice.words = words;
                self.asked.clone_from(&card.id);
                return (self.effects)(TermEffect::Answer { id: card.id.clone(), answer });
            }
        }
        self.asked.clone_from(&card.id);
        if !self.model.asks.may_refuse(&answer) {
            let now = self.now();
            self.model.asks.answered(now);
        }
        (self.effects)(TermEffect::Answer { id: card.id.clone(), answer });
    }

    /// Lists additional picker rows, unless a choice was made.
    fn list_more(&mut self, purpose: &str, rows: &[PickerRow]) -> io::Result<()> {
        let Some((_, ids)) = self.picks.as_mut().filter(|(it, _)| it == purpose) else { return Ok(()) };
        let safe = |text: &str| crate::styled_text::SafeText::new(text).as_str().to_owned();
        for row in rows {
            ids.push(row.id.clone());
            writeln!(self.out, "{}. {}  {}", ids.len(), safe(&row.title), safe(&row.detail))?;
        }
        Ok(())
    }

    fn show(&mut self) -> io::Result<()> {
        for line in std::mem::take(&mut self.model.finished) {
            writeln!(self.out, "{}", line.to_text())?;
        }
        // Overlays are printed as a whole.
        if let Some(overlay) = self.model.overlay.take() {
            if let Some((purpose, title, rows)) = overlay.listed() {
                let safe = |text: &str| crate::styled_text::SafeText::new(text).as_str().to_owned();
                writeln!(self.out, "{}:", safe(title))?;
                let (purpose, rows) = (purpose.to_owned(), rows.to_vec());
                self.picks = Some((purpose.clone(), Vec::new()));
                self.list_more(&purpose, &rows)?;
                writeln!(self.out, "Choose with a number; an empty line chooses nothing:")?;
                self.hears_at = self.now() + DEAF_MS;
                return self.out.flush();
            }
            if let Some((title, lines)) = overlay.read() {
                writeln!(self.out, "{}:", crate::styled_text::SafeText::new(title).as_str())?;
                for line in lines {
                    writeln!(self.out, "{}", line.to_text())?;
                }
            }
        }
        let phase = phase_words(&self.model);
        if phase != self.phase {
            self.phase = phase;
            if !self.phase.is_empty() {
                writeln!(self.out, "[{}]", self.phase)?;
            }
        }
        let hint = self.model.hint.as_ref().map(|it| it.0.clone()).unwrap_or_default();
        if hint != self.hint {
            self.hint = hint;
            if !self.hint.is_empty() {
                writeln!(self.out, "({})", self.hint)?;
            }
        }
        self.ask()?;
        self.out.flush()
    }

    /// Prints the current question once, and again after an invalid answer.
    fn ask(&mut self) -> io::Result<()> {
        if let Some(problem) = self.model.asks.state.problem.take() {
            writeln!(self.out, "({})", crate::styled_text::SafeText::new(&problem).as_str())?;
            self.asked.clear();
        }
        let Some(card) = self.model.asks.waiting.front() else {
            self.asked.clear();
            return Ok(());
        };
        if card.id == self.asked {
            return Ok(());
        }
        match &self.confirming {
            Some((id, row)) if *id == card.id => {
                let number = row + 1;
                writeln!(self.out, "That allows more than this call. Say {number} once more to mean it:")?;
            }
            _ => write!(self.out, "{}", question_text(card))?,
        }
        self.asked.clone_from(&card.id);
        self.hears_at = self.now() + DEAF_MS;
        Ok(())
    }
}

fn phase_words(model: &AppState) -> String {
    match &model.session {
        ConversationState::Working(_, phase) => match phase {
            _ if !model.calls.is_empty() => {
                let heads = model.calls.iter().map(|call| {
                    // Some headlines start with the tool's name.
                    let own = call.headline.strip_prefix(&call.name).filter(|it| it.starts_with(' '));
                    format!("{} {}", call.name, own.unwrap_or(&call.headline).trim())
                });
                format!("running {}", heads.collect::<Vec<_>>().join(", "))
            }
            TurnPhase::Retrying { why, .. } => format!("asking again: {why}"),
            TurnPhase::Compacting => String::from("summing up"),
            TurnPhase::Answering => String::from("answering"),
            TurnPhase::Calling(name) => format!("writing a call of {name}"),
            TurnPhase::Waiting | TurnPhase::Thinking => String::from("working"),
        },
        ConversationState::Opening => String::new(),
        ConversationState::Idle | ConversationState::Closed => String::from("ready"),
    }
}

fn question_text(card: &QuestionCard) -> String {
    let safe = |text: &str| crate::styled_text::SafeText::new(text).as_str().to_owned();
    let mut text = format!("\nQuestion: {} {}\n", safe(&card.title), safe(&card.headline));
    for line in &card.body {
        text.push_str(&format!("  {}\n", safe(&line.text)));
    }
    match &card.kind {
        QuestionKind::Choice(rows) | QuestionKind::Many(rows) => {
            for (at, row) in rows.iter().enumerate() {
                text.push_str(&format!("{}. {}\n", at + 1, safe(&row.label)));
                for detail in &row.detail {
                    text.push_str(&format!("   {}\n", safe(detail)));
                }
            }
            text.push_str("Answer with a number, and words behind it where they are wanted:\n");
        }
        QuestionKind::Form(fields) => {
            for field in fields {
                text.push_str(&format!("{}: {}\n", safe(&field.label), safe(&field.hint)));
            }
            text.push_str("Answer with the values, separated by `;`, or `cancel`:\n");
        }
    }
    text
}

/// Interprets a line as an answer; `None` if it is not one.
fn answer(card: &QuestionCard, line: &str) -> Option<CardAnswer> {
    let line = line.trim();
    if line == "cancel" {
        return Some(CardAnswer::Cancelled);
    }
    let (number, words) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let words = words.trim().to_owned();
    match &card.kind {
        QuestionKind::Choice(rows) => {
            let row = number.parse::<usize>().ok()?.checked_sub(1).filter(|at| *at < rows.len())?;
            let chosen = &rows[row];
            // A sentence that starts with a number is not an answer.
            if !words.is_empty() && !chosen.words {
                return None;
            }
            let words = if words.is_empty() { chosen.given.clone() } else { words };
            Some(CardAnswer::Choice(ChosenOption { row, words }))
        }
        QuestionKind::Many(rows) => {
            let marked: Option<Vec<usize>> = line
                .split([',', ' '])
                .filter(|it| !it.is_empty())
                .map(|it| it.parse::<usize>().ok()?.checked_sub(1))
                .collect();
            let marked = marked?;
            marked.iter().all(|at| *at < rows.len()).then_some(CardAnswer::Many(marked, String::new()))
        }
        QuestionKind::Form(fields) => {
            let values: Vec<String> = line.split(';').map(|it| it.trim().to_owned()).collect();
            (values.len() == fields.len()).then_some(CardAnswer::Form(values))
        }
    }
}
