//! Handles keys.

use crate::{
    app_state::{AppState, ConversationState, HistorySearch},
    composer::{CaretMove, Composer},
    effect::TermEffect,
    event::{KeyCode, KeyPress},
    keymap::KeyAction,
    question_card::QuestionKeyResult,
};

/// Maximum milliseconds between two Ctrl-C to exit.
const LEAVING_MS: u64 = 2000;
/// Maximum milliseconds between two Esc to rewind.
const REWINDING_MS: u64 = 800;

/// Maximum milliseconds after an Esc that interrupted the turn for another Esc to stop all agents.
const STOPPING_MS: u64 = 2000;

impl AppState {
    pub(super) fn key(&mut self, key: KeyPress, effects: &mut Vec<TermEffect>) {
        if let Some(overlay) = self.overlay.as_mut().filter(|it| it.accepts_keys()) {
            let step = overlay.key(key, self.size, self.now);
            return self.overlay_step(step, effects);
        }
        if self.asks.accepts_enter() {
            let step = self.asks.key(key, self.now);
            if step != QuestionKeyResult::NotMine {
                return self.ask_step(step, effects);
            }
        }
        self.asks.on_other_key(self.now);
        if self.search.is_some() {
            return self.search_key(key, effects);
        }
        if self.look.vi && self.vi_key(key, effects) {
            return;
        }
        match self.keys.action(key) {
            Some(action) => self.act(action, effects),
            None => {
                if let Some(it) = key.typed() {
                    self.type_char(it, effects);
                }
            }
        }
    }

    fn type_char(&mut self, it: char, effects: &mut Vec<TermEffect>) {
        if it == '?' && self.composer.is_empty() {
            return self.open_help();
        }
        self.composer.insert(&it.to_string());
        self.history.reset_cursor();
        self.draft_changed(effects);
    }

    pub(super) fn act(&mut self, action: KeyAction, effects: &mut Vec<TermEffect>) {
        if self.offers.is_open() && self.offer_action(action, effects) {
            return;
        }
        match action {
            KeyAction::Send => self.send(effects),
            KeyAction::Newline => self.composer.insert("\n"),
            KeyAction::Stop => self.stop(effects),
            KeyAction::Cancel => self.cancel(effects),
            KeyAction::EndOfInput if self.composer.is_empty() => effects.push(TermEffect::Quit),
            KeyAction::EndOfInput => self.composer.delete(CaretMove::Right),
            KeyAction::Up => self.go_up(),
            KeyAction::Down => self.go_down(),
            KeyAction::SearchHistory => {
                let draft = self.composer.whole();
                self.search = Some(HistorySearch { typed: Composer::default(), skip: 0, draft });
            }
            KeyAction::Complete if self.asks.state.folded => self.unfold_question(),
            KeyAction::Complete => self.draft_changed(effects),
            KeyAction::NextMode => effects.push(TermEffect::NextMode),
            KeyAction::Editor => effects.push(TermEffect::Edit(self.composer.whole())),
            KeyAction::Unfold => {
                if !self.composer.expand_paste() {
                    self.hint("there is no pasted text in the draft");
                }
            }
            KeyAction::Transcript => self.open_transcript(),
            KeyAction::ToBackground => effects.push(TermEffect::ToBackground),
            KeyAction::Tasks => self.open_tasks(effects),
            KeyAction::PastePicture => effects.push(TermEffect::ClipboardPicture),
            KeyAction::ScrollUp => self.scrolled += self.size.rows.saturating_sub(6).max(1),
            KeyAction::ScrollDown => {
                self.scrolled = self.scrolled.saturating_sub(self.size.rows.saturating_sub(6).max(1));
            }
            KeyAction::Redraw => effects.push(TermEffect::Redraw),
            KeyAction::Suspend => effects.push(TermEffect::Suspend),
            _ => self.edit(action),
        }
        if !matches!(action, KeyAction::Send | KeyAction::Stop | KeyAction::Cancel) {
            self.draft_changed(effects);
        }
    }

    fn edit(&mut self, action: KeyAction) {
        let composer = &mut self.composer;
        match action {
            KeyAction::Left => composer.go(CaretMove::Left),
            KeyAction::Right => composer.go(CaretMove::Right),
            KeyAction::WordLeft => composer.go(CaretMove::WordLeft),
            KeyAction::WordRight => composer.go(CaretMove::WordRight),
            KeyAction::LineStart => composer.go(CaretMove::LineStart),
            KeyAction::LineEnd => composer.go(CaretMove::LineEnd),
            KeyAction::DeleteLeft => composer.delete(CaretMove::Left),
            KeyAction::DeleteRight => composer.delete(CaretMove::Right),
            KeyAction::KillWord => composer.kill(CaretMove::WordLeft),
            KeyAction::KillWordRight => composer.kill(CaretMove::WordRight),
            KeyAction::KillLineEnd => composer.kill(CaretMove::LineEnd),
            KeyAction::KillLineStart => composer.kill(CaretMove::LineStart),
            KeyAction::Yank => composer.yank(),
            KeyAction::YankOlder => composer.yank_pop(),
            KeyAction::Undo => composer.undo(),
            KeyAction::Redo => composer.redo(),
            KeyAction::Transpose => composer.transpose(),
            _ => (),
        }
        let moves = [KeyAction::Left, KeyAction::Right, KeyAction::WordLeft, KeyAction::WordRight];
        if !moves.contains(&action) && !matches!(action, KeyAction::LineStart | KeyAction::LineEnd) {
            self.history.reset_cursor();
        }
    }

    /// Handles a key while completions are shown. Returns whether it was used.
    fn offer_action(&mut self, action: KeyAction, effects: &mut Vec<TermEffect>) -> bool {
        match action {
            KeyAction::Up => self.offers.step(true),
            KeyAction::Down => self.offers.step(false),
            KeyAction::Stop => self.offers.dismiss(),
            KeyAction::Complete => {
                self.offers.accept(&mut self.composer);
                self.draft_changed(effects);
            }
            KeyAction::Send if !self.offers.is_exact() => {
                let is_command = self.offers.kind == crate::completion::CompletionKind::Command;
                self.offers.accept(&mut self.composer);
                if is_command && self.composer.text().ends_with(' ') {
                    // A command without arguments is sent at once.
                    let name = self.composer.text().trim_start_matches('/').trim().to_owned();
                    let takes = crate::slash_commands::find(&name).is_none_or(|it| !it.hint.is_empty());
                    if !takes {
                        self.composer.delete(CaretMove::Left);
                        self.send(effects);
                    }
                }
            }
            _ => return false,
        }
        true
    }

    fn go_up(&mut self) {
        if !self.history.is_walking() && self.composer.move_row(false, self.size.columns) {
            return;
        }
        if self.composer.is_empty() && self.editing_queued.is_none() && !self.queue.is_empty() {
            let at = self.queue.len() - 1;
            let text = self.queue.remove(at);
            self.composer.set(&text);
            self.editing_queued = Some(at);
            return;
        }
        if let Some(prompt) = self.history.back(&self.composer.whole()) {
            self.composer.set(&prompt);
        }
    }

    fn go_down(&mut self) {
        if !self.history.is_walking() && self.composer.move_row(true, self.size.columns) {
            return;
        }
        if let Some(prompt) = self.history.forward() {
            self.composer.set(&prompt);
        }
    }

    /// Handles Esc.
    pub(super) fn stop(&mut self, effects: &mut Vec<TermEffect>) {
        if self.asks.state.folded && !self.asks.waiting.is_empty() && !self.is_working() {
            return self.unfold_question();
        }
        let agents = self.agents_in_background();
        if self.now < self.stopping_until && 0 < agents {
            self.stopping_until = 0;
            effects.push(TermEffect::StopAgents);
            return self.hint(&format!("stopping {} in the background…", counted(agents)));
        }
        if self.is_working() || self.runs_own_commands() {
            return self.interrupt(effects);
        }
        if 0 < agents {
            self.stopping_until = self.now + STOPPING_MS;
            let hint = format!("esc again stops {} in the background", counted(agents));
            self.hint = Some((hint, self.stopping_until));
            return;
        }
        if self.now < self.rewinding_until {
            self.rewinding_until = 0;
            self.hint = None;
            effects.push(TermEffect::Command { name: String::from("rewind"), arguments: String::new() });
        } else {
            self.rewinding_until = self.now + REWINDING_MS;
            self.hint =
                Some((String::from("esc again: go back to an earlier message"), self.rewinding_until));
        }
    }

    /// Interrupts the turn. Queued messages go back to the prompt, so that they are neither sent nor
    /// lost.
    fn interrupt(&mut self, effects: &mut Vec<TermEffect>) {
        let mut texts: Vec<String> = std::mem::take(&mut self.queue);
        self.editing_queued = None;
        if !texts.is_empty() {
            let draft = self.composer.whole();
            if !draft.trim().is_empty() {
                texts.push(draft);
            }
            self.composer.set(&texts.join("\n"));
        }
        effects.push(TermEffect::Interrupt);
        match self.agents_in_background() {
            0 => self.hint("stopping…"),
            agents => {
                self.stopping_until = self.now + STOPPING_MS;
                let hint = format!("stopping…; esc again stops {} in the background, too", counted(agents));
                self.hint = Some((hint, self.stopping_until));
            }
        }
    }

    /// Returns the number of background agents.
    fn agents_in_background(&self) -> usize {
        self.tasks.iter().filter(|row| self.agents.iter().any(|it| it.id == row.id)).count()
    }

    /// Handles Ctrl-C: clears the prompt, else interrupts the turn, else exits.
    fn cancel(&mut self, effects: &mut Vec<TermEffect>) {
        if !self.composer.is_empty() {
            let text = self.composer.take();
            self.history.add(&text, self.epoch_ms + self.now);
            self.offers.dismiss();
            self.editing_queued = None;
            return self.hint("the draft is in the history (up)");
        }
        if self.is_working() || self.runs_own_commands() {
            return self.interrupt(effects);
        }
        if self.now < self.leaving_until {
            effects.push(TermEffect::Quit);
            return;
        }
        self.leaving_until = self.now + LEAVING_MS;
        let hint = match self.tasks.len() {
            0 => String::from("ctrl+c again to leave; everything is kept"),
            count => format!("ctrl+c again to leave; this ends {count} commands in the background"),
        };
        self.hint = Some((hint, self.leaving_until));
    }

    fn search_key(&mut self, key: KeyPress, effects: &mut Vec<TermEffect>) {
        let Some(mut search) = self.search.take() else { return };
        match key.code {
            KeyCode::Char('r') if key.ctrl => search.skip += 1,
            KeyCode::Char('c' | 'g') if key.ctrl => return self.composer.set(&search.draft),
            KeyCode::Esc => return self.composer.set(&search.draft),
            KeyCode::Enter | KeyCode::Tab | KeyCode::Right | KeyCode::Left => {
                return self.draft_changed(effects);
            }
            KeyCode::Backspace => {
                search.typed.delete(CaretMove::Left);
                search.skip = 0;
            }
            _ => match key.typed() {
                Some(it) => {
                    search.typed.insert(&it.to_string());
                    search.skip = 0;
                }
                None => return self.draft_changed(effects),
            },
        }
        let typed = search.typed.whole();
        let found = self.history.search(&typed, search.skip).map(str::to_owned);
        match found.filter(|_| !typed.is_empty()) {
            Some(prompt) => self.composer.set(&prompt),
            None if 0 < search.skip => search.skip -= 1,
            None => (),
        }
        self.search = Some(search);
    }

    /// Whether the session is still being opened.
    pub(crate) fn is_opening(&self) -> bool {
        self.session == ConversationState::Opening
    }
}

fn counted(agents: usize) -> String {
    match agents {
        1 => String::from("an agent"),
        count => format!("{count} agents"),
    }
}
