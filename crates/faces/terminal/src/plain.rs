//! For screen readers and terminals that cannot draw: only lines, one after the
//! other, never anything above them.

use std::{
    io::{self, Write},
    sync::{Arc, mpsc},
    time::Instant,
};

use crate::{
    asks::{AskAnswer, AskCard, AskChoice, AskKind},
    effect::TermEffect,
    event::{KeyCode, KeyPress, TermEvent},
    model::{ScreenSize, TalkState, TermModel},
    news::TurnPhase,
    shell::{TerminalSetup, TextEditor},
};

/// A line somebody typed, or something for the model.
pub enum PlainInput {
    /// A line.
    Line(String),
    /// For the model.
    Event(TermEvent),
    /// Nobody types any more.
    End,
}

/// A terminal of lines.
pub struct PlainTerminal<W> {
    model: TermModel,
    out: W,
    effects: Arc<dyn Fn(TermEffect) + Send + Sync>,
    editor: TextEditor,
    begun: Instant,
    phase: String,
    asked: String,
    /// What can be chosen by number: what for, and the rows.
    picks: Option<(String, Vec<String>)>,
}

impl<W: Write> PlainTerminal<W> {
    /// Says everything on `out`.
    pub fn new(setup: TerminalSetup, out: W) -> Self {
        let mut look = setup.look;
        look.colours = crate::look::Colours::None;
        (look.motion, look.links) = (false, false);
        let size = ScreenSize { columns: 200, rows: 50 };
        let mut model = TermModel::new(look, size, setup.history);
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
            picks: None,
        }
    }

    /// Works until the session says farewell.
    pub fn run(mut self, input: &mpsc::Receiver<PlainInput>) -> io::Result<()> {
        self.show()?;
        while let Ok(input) = input.recv() {
            match input {
                PlainInput::Line(line) => self.line(&line),
                PlainInput::Event(event) => self.update(event),
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
        let now = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(0);
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

    /// A whole line was typed: the answer to a question, or a message.
    fn line(&mut self, line: &str) {
        if let Some(card) = self.model.asks.waiting.front().cloned() {
            match answer(&card, line) {
                Some(answer) => {
                    let now = self.model.now;
                    self.model.asks.answered(now);
                    (self.effects)(TermEffect::Answer { id: card.id, answer });
                }
                None => self.asked.clear(),
            }
            return;
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
        self.update(TermEvent::Paste(line.to_owned()));
        self.update(TermEvent::Key(KeyPress::plain(KeyCode::Enter)));
    }

    fn show(&mut self) -> io::Result<()> {
        for line in std::mem::take(&mut self.model.finished) {
            writeln!(self.out, "{}", line.to_text())?;
        }
        // What opens on a screen of its own is read here, from its beginning.
        if let Some(mut overlay) = self.model.overlay.take() {
            if let Some((purpose, title, rows)) = overlay.listed() {
                let safe = |text: &str| crate::text::SafeText::of(text).as_str().to_owned();
                writeln!(self.out, "{}:", safe(title))?;
                for (at, row) in rows.iter().enumerate() {
                    writeln!(self.out, "{}. {}  {}", at + 1, safe(&row.title), safe(&row.detail))?;
                }
                writeln!(self.out, "Choose with a number; an empty line chooses nothing:")?;
                self.picks = Some((purpose.to_owned(), rows.iter().map(|row| row.id.clone()).collect()));
                return self.out.flush();
            }
            let size = ScreenSize { columns: 200, rows: 400 };
            for row in overlay.rows(size).0.iter().filter(|row| !row.spans.is_empty()) {
                writeln!(self.out, "{}", row.to_text())?;
            }
        }
        let phase = phase_words(&self.model);
        if phase != self.phase {
            self.phase = phase;
            if !self.phase.is_empty() {
                writeln!(self.out, "[{}]", self.phase)?;
            }
        }
        let asked = self.model.asks.waiting.front().map(|card| card.id.clone()).unwrap_or_default();
        if asked != self.asked {
            if let Some(card) = self.model.asks.waiting.front() {
                write!(self.out, "{}", question_text(card))?;
            }
            self.asked = asked;
        }
        self.out.flush()
    }
}

fn phase_words(model: &TermModel) -> String {
    match &model.session {
        TalkState::Working(_, phase) => match phase {
            _ if !model.calls.is_empty() => {
                let heads = model.calls.iter().map(|call| format!("{} {}", call.name, call.headline));
                format!("running {}", heads.collect::<Vec<_>>().join(", "))
            }
            TurnPhase::Retrying { why, .. } => format!("asking again: {why}"),
            TurnPhase::Compacting => String::from("summing up"),
            TurnPhase::Answering => String::from("answering"),
            TurnPhase::Calling(name) => format!("writing a call of {name}"),
            TurnPhase::Waiting | TurnPhase::Thinking => String::from("working"),
        },
        TalkState::Opening => String::new(),
        TalkState::Idle | TalkState::Closed => String::from("ready"),
    }
}

fn question_text(card: &AskCard) -> String {
    let safe = |text: &str| crate::text::SafeText::of(text).as_str().to_owned();
    let mut text = format!("\nQuestion: {} {}\n", safe(&card.title), safe(&card.headline));
    for line in &card.body {
        text.push_str(&format!("  {}\n", safe(&line.text)));
    }
    match &card.kind {
        AskKind::Choice(rows) | AskKind::Many(rows) => {
            for (at, row) in rows.iter().enumerate() {
                text.push_str(&format!("{}. {}\n", at + 1, safe(&row.label)));
                for detail in &row.detail {
                    text.push_str(&format!("   {}\n", safe(detail)));
                }
            }
            text.push_str("Answer with a number, and words behind it where they are wanted:\n");
        }
        AskKind::Form(fields) => {
            for field in fields {
                text.push_str(&format!("{}: {}\n", safe(&field.label), safe(&field.hint)));
            }
            text.push_str("Answer with the values, separated by `;`, or `cancel`:\n");
        }
    }
    text
}

/// The answer a line is, if it is one.
fn answer(card: &AskCard, line: &str) -> Option<AskAnswer> {
    let line = line.trim();
    if line == "cancel" {
        return Some(AskAnswer::Cancelled);
    }
    let (number, words) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let words = words.trim().to_owned();
    match &card.kind {
        AskKind::Choice(rows) => {
            let row = number.parse::<usize>().ok()?.checked_sub(1).filter(|at| *at < rows.len())?;
            Some(AskAnswer::Choice(AskChoice { row, words }))
        }
        AskKind::Many(rows) => {
            let marked: Option<Vec<usize>> = line
                .split([',', ' '])
                .filter(|it| !it.is_empty())
                .map(|it| it.parse::<usize>().ok()?.checked_sub(1))
                .collect();
            let marked = marked?;
            marked.iter().all(|at| *at < rows.len()).then_some(AskAnswer::Many(marked, String::new()))
        }
        AskKind::Form(fields) => {
            let values: Vec<String> = line.split(';').map(|it| it.trim().to_owned()).collect();
            (values.len() == fields.len()).then_some(AskAnswer::Form(values))
        }
    }
}
