//! Sending messages.

use crate::{
    app_state::{AppState, ConversationState},
    effect::TermEffect,
    keymap::KeyAction,
    overlay::Overlay,
    slash_commands::{self, SlashTarget},
    terminal_caps::ScreenKind,
    transcript::{TranscriptItem, answer_lines, shown_prompt_lines},
};

impl AppState {
    /// Handles Enter.
    pub(super) fn send(&mut self, effects: &mut Vec<TermEffect>) {
        let at_end = self.composer.at() == self.composer.text().len();
        if at_end && self.composer.text().ends_with('\\') {
            self.composer.delete(crate::composer::CaretMove::Left);
            self.composer.insert("\n");
            return;
        }
        if self.composer.whole().trim().is_empty() {
            if self.editing_queued.take().is_some() {
                self.composer.take();
                self.hint("the queued message is gone");
                return self.send_waiting(effects);
            }
            if self.asks.state.folded {
                self.unfold_question();
            }
            return;
        }
        if self.session == ConversationState::Closed && !self.composer.text().starts_with('/') {
            return self.hint("there is no model to ask yet: see above");
        }
        let text = self.composer.take();
        self.vi.insert();
        self.offers.dismiss();
        self.history.add(&text, self.epoch_ms + self.now);
        let text = text.trim_end().to_owned();
        if let Some(at) = self.editing_queued.take() {
            self.queue.insert(at.min(self.queue.len()), text);
            return self.send_waiting(effects);
        }
        if self.own_command(&text, effects) {
            return;
        }
        self.queue.push(text);
        self.send_waiting(effects);
    }

    /// Shows a postponed question again.
    pub(super) fn unfold_question(&mut self) {
        self.asks.state.folded = false;
        self.asks.was_hidden(self.now);
    }

    /// Sends the next queued message, if the session is idle.
    pub(super) fn send_waiting(&mut self, effects: &mut Vec<TermEffect>) {
        if self.is_idle() && self.editing_queued.is_none() && !self.queue.is_empty() {
            let text = self.queue.remove(0);
            self.say(text, effects);
        }
    }

    /// Sends queued messages between two steps of the agent, except for commands.
    pub(super) fn send_between(&mut self, effects: &mut Vec<TermEffect>) {
        if self.editing_queued.is_some() || !self.calls.is_empty() {
            return;
        }
        while self.queue.first().is_some_and(|it| !it.starts_with('/')) {
            let text = self.queue.remove(0);
            self.say(text, effects);
        }
    }

    fn say(&mut self, text: String, effects: &mut Vec<TermEffect>) {
        self.finish_speaking();
        let lines = shown_prompt_lines(&text);
        self.show_item(TranscriptItem::Prompt(text.clone()), lines);
        if self.is_idle() {
            self.session = ConversationState::Working(self.now, crate::ui_update::TurnPhase::Waiting);
        }
        effects.push(TermEffect::Send(text));
    }

    /// Runs a command of the user interface or frontend. Returns whether it was one.
    fn own_command(&mut self, text: &str, effects: &mut Vec<TermEffect>) -> bool {
        let is_line = !text.contains('\n');
        if let Some(command) = text.strip_prefix('!').filter(|it| !it.trim().is_empty()) {
            let lines = shown_prompt_lines(text);
            self.finish_speaking();
            self.show_item(TranscriptItem::Prompt(text.to_owned()), lines);
            effects.push(TermEffect::Shell(command.trim().to_owned()));
            return true;
        }
        if let Some(note) = text.strip_prefix('#').filter(|it| is_line && !it.trim().is_empty()) {
            effects.push(TermEffect::Remember(note.trim().to_owned()));
            return true;
        }
        let Some(typed) = text.strip_prefix('/') else { return false };
        let (name, arguments) = typed.split_once(char::is_whitespace).unwrap_or((typed, ""));
        let Some(command) = slash_commands::find(name) else {
            let is_path = name.contains('/');
            let known = self.slash.iter().any(|it| it.name == name);
            if is_path || known || name.is_empty() || self.session == ConversationState::Opening {
                return false;
            }
            self.composer.set(text);
            self.hint(&format!("there is no command /{name}; /help lists them"));
            return true;
        };
        match command.target {
            SlashTarget::Session => return false,
            SlashTarget::Face => effects.push(TermEffect::Command {
                name: command.name.to_owned(),
                arguments: arguments.trim().to_owned(),
            }),
            SlashTarget::Terminal => self.terminal_command(command.name, effects),
        }
        true
    }

    fn terminal_command(&mut self, name: &str, effects: &mut Vec<TermEffect>) {
        match name {
            "help" => self.open_help(),
            "transcript" => self.open_transcript(),
            "tasks" => self.open_tasks(effects),
            "history" => self.act(KeyAction::SearchHistory, effects),
            "paste" => self.act(KeyAction::PastePicture, effects),
            "background" => self.act(KeyAction::ToBackground, effects),
            "redraw" => self.act(KeyAction::Redraw, effects),
            "screen" => self.switch_screen(),
            "editor" => effects.push(TermEffect::Edit(self.composer.whole())),
            "copy" => self.copy_answer(effects),
            "vim" => {
                self.look.vi = !self.look.vi;
                self.vi.insert();
                self.hint(if self.look.vi {
                    "keys of vi: esc for orders, i for text"
                } else {
                    "keys of emacs"
                });
            }
            _ => effects.push(TermEffect::Quit),
        }
    }

    fn switch_screen(&mut self) {
        self.look.screen = match self.look.screen {
            ScreenKind::Inline => ScreenKind::Alternate,
            ScreenKind::Alternate => ScreenKind::Inline,
        };
        self.scrolled = 0;
        self.hint(match self.look.screen {
            ScreenKind::Inline => "the conversation is in the terminal's scrollback",
            ScreenKind::Alternate => "the conversation has its own screen: pageup and pagedown",
        });
    }

    pub(super) fn open_help(&mut self) {
        let lines = answer_lines(&slash_commands::help_page(), &self.look, self.size.columns);
        self.overlay = Some(Overlay::pager("Help", lines, false));
    }

    fn copy_answer(&mut self, effects: &mut Vec<TermEffect>) {
        if self.last_answer.is_empty() {
            return self.hint("there is no answer to copy yet");
        }
        effects.push(TermEffect::Copy(self.last_answer.clone()));
        self.hint("the last answer is copied, as it was written");
    }
}
