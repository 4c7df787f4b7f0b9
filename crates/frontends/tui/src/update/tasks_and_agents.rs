//! Sub-agents, background tasks, and the terminal's background colour.

use haft_tool::{LineStyle, RenderedLine};

use crate::{
    app_state::{AgentView, AnswerStart, AppState},
    effect::TermEffect,
    keymap::KeyMap,
    overlay::Overlay,
    picker::PickAction,
    terminal_caps::{ScreenKind, WrapStyle},
    theme::{TermBackground, Theme},
    transcript::{TranscriptItem, all_lines},
    ui_update::{PastedImage, PickerRow, TermPreferences, UiUpdate},
};

/// Maximum lines of an agent's transcript in its preview.
const PREVIEWED: usize = 200;

impl AppState {
    pub(super) fn background(&mut self, background: TermBackground) {
        if self.look.follows_background {
            self.look.theme = Theme::of_background(background);
        }
    }

    pub(super) fn prefer(&mut self, wanted: &TermPreferences) {
        let (map, problems) = KeyMap::with(&wanted.keys);
        self.set_keys(map, &problems);
        self.look.vi = wanted.vi;
        self.look.motion &= !wanted.still;
        if wanted.by_words {
            self.look.wrap = WrapStyle::Words;
        }
        if wanted.own_screen {
            self.look.screen = ScreenKind::Alternate;
        }
        self.folds.clone_from(&wanted.folds);
        self.look.alert = wanted.alert.unwrap_or(self.look.alert);
        let mut problems = Vec::new();
        match wanted.theme.as_deref() {
            None | Some("auto") => (),
            Some(name) => match Theme::named(name) {
                Some(theme) => (self.look.theme, self.look.follows_background) = (theme, false),
                None => {
                    let known: Vec<&str> = Theme::names().collect();
                    problems
                        .push(format!("there is no theme `{name}`; there are auto, {}", known.join(", ")));
                }
            },
        }
        for (tone, colour) in &wanted.colours {
            self.look.follows_background = false;
            problems.extend(self.look.theme.set(tone, colour).err());
        }
        for problem in problems {
            self.notice(&problem);
        }
    }

    /// Adds an update to an agent's own transcript.
    pub(super) fn agent_news(&mut self, id: &str, news: UiUpdate) {
        let Some(agent) = self.agents.iter_mut().find(|it| it.id == id) else { return };
        match news {
            UiUpdate::Text(piece) => agent.speaking.push_str(&piece),
            UiUpdate::AnswerBegan => {
                agent.end_speaking();
                agent.answer_began.items = agent.items.len();
            }
            UiUpdate::AnswerBroke { .. } => {
                agent.speaking.clear();
                agent.answer_began.take_back(&mut agent.items);
            }
            UiUpdate::SaidBefore(text) => agent.items.push(TranscriptItem::Prompt(text)),
            UiUpdate::CallEnded(call) => {
                agent.end_speaking();
                agent.items.push(TranscriptItem::Call(call));
            }
            UiUpdate::Notice(text) => {
                agent.end_speaking();
                agent.items.push(TranscriptItem::Notice(text));
            }
            _ => agent.end_speaking(),
        }
    }

    pub(super) fn agent_began(&mut self, id: String, title: String) {
        match self.agents.iter_mut().find(|it| it.id == id) {
            Some(agent) => agent.title = title,
            None => self.agents.push(AgentView {
                id,
                title,
                items: Vec::new(),
                speaking: String::new(),
                answer_began: AnswerStart::default(),
            }),
        }
    }

    /// Opens an agent's transcript. Returns whether the agent exists.
    pub(super) fn open_agent(&mut self, id: &str) -> bool {
        let Some(agent) = self.agents.iter().find(|it| it.id == id) else { return false };
        let lines = all_lines(&agent.told(), &self.look, self.size.columns);
        self.overlay = Some(Overlay::pager(&agent.title, lines, true));
        true
    }

    /// Returns the end of an agent's transcript.
    pub(super) fn agent_lines(&self, id: &str) -> Option<Vec<RenderedLine>> {
        let agent = self.agents.iter().find(|it| it.id == id)?;
        let lines = all_lines(&agent.told(), &self.look, self.size.columns);
        let from = lines.len().saturating_sub(PREVIEWED);
        Some(lines[from..].iter().map(|line| RenderedLine::new(LineStyle::Plain, line.to_text())).collect())
    }

    /// Opens the list of background tasks and agents.
    pub(super) fn open_tasks(&mut self, effects: &mut Vec<TermEffect>) {
        let mut rows = self.tasks.clone();
        for agent in self.agents.iter().rev() {
            if !rows.iter().any(|row| row.id == agent.id) {
                let running = self.calls.iter().any(|it| it.note.contains(&agent.title));
                let detail = if running { "works" } else { "agent" };
                rows.push(PickerRow {
                    id: agent.id.clone(),
                    title: agent.title.clone(),
                    detail: detail.to_owned(),
                    preview: Vec::new(),
                });
            }
        }
        if rows.is_empty() {
            return self.hint("nothing runs in the background, and no agent has worked here");
        }
        let (purpose, title) = (String::from("task"), String::from("In the background"));
        let action = PickAction { key: "ctrl+x", about: "stops it", purpose: "task-stop" };
        self.overlay = Some(Overlay::picker(purpose, title, rows).previewed().with_action(action));
        self.request_preview(effects);
    }

    pub(super) fn picture(&mut self, news: PastedImage, effects: &mut Vec<TermEffect>) {
        match news {
            PastedImage::There { path, label } => {
                let named = if path.contains(char::is_whitespace) {
                    format!("@\"{path}\"")
                } else {
                    format!("@{path}")
                };
                self.composer.insert_mark(&named, &label);
                self.composer.insert(" ");
            }
            PastedImage::Missing { text, why } => {
                if !text.is_empty() {
                    self.composer.paste(&text);
                }
                self.hint(&why);
            }
        }
        self.draft_changed(effects);
    }
}

impl AgentView {
    fn end_speaking(&mut self) {
        let said = std::mem::take(&mut self.speaking);
        if !said.trim().is_empty() {
            self.items.push(TranscriptItem::Answer(said));
        }
    }

    /// Returns the transcript including the text being streamed.
    fn told(&self) -> Vec<TranscriptItem> {
        let mut items = self.items.clone();
        if !self.speaking.trim().is_empty() {
            items.push(TranscriptItem::Answer(self.speaking.clone()));
        }
        items
    }
}
