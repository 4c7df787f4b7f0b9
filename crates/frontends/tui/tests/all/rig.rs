//! A terminal without a tty: events in, the screen of an emulator out.

use haft_tui::{
    AlternatePainter, AppState, ChoiceOption, KeyPress, Painter, PromptHistory, QuestionCard, QuestionKind,
    ScreenFrame, ScreenSize, TermEffect, TermEvent, TerminalCaps, UiUpdate, view,
};

pub(crate) struct Rig {
    pub(crate) model: AppState,
    painter: Painter,
    alternate: Option<AlternatePainter>,
    pub(crate) emulator: avt::Terminal,
    pub(crate) now: u64,
    pub(crate) effects: Vec<TermEffect>,
    /// All bytes written.
    pub(crate) written: Vec<u8>,
    /// Whether every frame is compared with the screen.
    pub(crate) compares: bool,
}

impl Rig {
    /// A rig with an open session and this screen size.
    pub(crate) fn new(columns: usize, rows: usize) -> Self {
        let mut rig = Self::opening(columns, rows, TerminalCaps::default());
        rig.news(UiUpdate::Ready(Vec::new()));
        rig.frame();
        rig
    }

    pub(crate) fn opening(columns: usize, rows: usize, look: TerminalCaps) -> Self {
        let size = ScreenSize { columns, rows };
        Self {
            model: AppState::new(look.clone(), size, PromptHistory::none()),
            painter: Painter::new(look, size),
            alternate: None,
            emulator: avt::Terminal::with_scrollback(columns, rows, None).unwrap(),
            now: 1000,
            effects: Vec::new(),
            written: Vec::new(),
            compares: false,
        }
    }

    pub(crate) fn event(&mut self, event: TermEvent) {
        let effects = self.model.update(event, self.now);
        self.effects.extend(effects);
    }

    pub(crate) fn news(&mut self, news: UiUpdate) {
        self.event(TermEvent::News(news));
    }

    /// Presses a key, in the notation of settings.
    pub(crate) fn key(&mut self, label: &str) {
        self.event(TermEvent::Key(KeyPress::of_label(label).unwrap()));
        self.frame();
    }

    pub(crate) fn typed(&mut self, text: &str) {
        for it in text.chars() {
            let label = if it == ' ' { String::from("space") } else { it.to_string() };
            self.key(&label);
        }
    }

    /// Lets time pass after everything was painted.
    pub(crate) fn wait(&mut self, ms: u64) {
        self.frame();
        self.pass(ms);
    }

    /// Lets time pass before anything is painted.
    pub(crate) fn pass(&mut self, ms: u64) {
        self.now += ms;
        self.event(TermEvent::Tick);
        self.frame();
    }

    fn write(&mut self, bytes: &[u8]) {
        self.written.extend_from_slice(bytes);
        let text = std::str::from_utf8(bytes).unwrap().to_owned();
        self.emulator.feed(text.as_str());
    }

    pub(crate) fn frame(&mut self) {
        let size = self.painter.size();
        if let Some(overlay) = self.model.overlay() {
            let (rows, caret) = overlay.rows(size);
            if self.alternate.is_none() {
                let (painter, bytes) = AlternatePainter::enter(&TerminalCaps::default());
                self.alternate = Some(painter);
                self.write(&bytes);
            }
            let bytes = self.alternate.as_mut().unwrap().paint(rows, caret);
            self.write(&bytes);
            return self.model.shown(self.now);
        }
        if self.alternate.take().is_some() {
            self.write(&AlternatePainter::leave());
        }
        self.painter.set_look(self.model.look());
        let frame = view(&self.model);
        assert!(frame.region.len() < size.rows.max(2), "the region has {} rows", frame.region.len());
        assert!(frame.caret.row < frame.region.len().max(1), "the caret is outside");
        assert!(frame.region.iter().all(|row| row.width() <= size.columns), "a row is too wide");
        let parks = self.model.can_park_cursor() && self.model.is_working();
        let bytes = if parks {
            self.painter.paint_parked(&frame.finished, &frame.region, frame.caret)
        } else {
            self.painter.paint(&frame.finished, &frame.region, frame.caret)
        };
        self.model.drawn();
        self.write(&bytes);
        self.model.shown(self.now);
        if parks {
            return;
        }
        let cursor = self.emulator.cursor();
        if !frame.region.is_empty() {
            assert_eq!(cursor.col, frame.caret.column, "the real cursor is at the caret");
            assert!(cursor.visible, "input methods open at the cursor: it is never hidden");
            if self.compares {
                self.check_region(&frame);
            }
        }
    }

    /// Checks that the region on the screen equals one painted from scratch.
    fn check_region(&self, frame: &ScreenFrame) {
        let rows: Vec<String> =
            self.emulator.screen().visible_lines().map(|line| line.text().trim_end().to_owned()).collect();
        let top =
            self.emulator.cursor().row.checked_sub(frame.caret.row).expect("the region is on the screen");
        for (at, row) in frame.region.iter().enumerate() {
            assert_eq!(rows[top + at], row.to_text().trim_end(), "row {at} of\n{}", rows.join("\n"));
        }
    }

    /// Resizes the terminal, and reports the new size.
    pub(crate) fn resize(&mut self, columns: usize, rows: usize) {
        self.emulator.resize(columns, rows);
        self.follow(columns, rows);
    }

    /// Reports the size of the terminal.
    pub(crate) fn follow(&mut self, columns: usize, rows: usize) {
        let size = ScreenSize { columns, rows };
        let bytes = self.painter.resize(size);
        self.write(&bytes);
        self.event(TermEvent::Resize(size));
        self.frame();
    }

    /// Returns the content of the screen.
    pub(crate) fn screen(&self) -> String {
        let rows: Vec<String> =
            self.emulator.screen().visible_lines().map(|line| line.text().trim_end().to_owned()).collect();
        rows.join("\n").trim_end().to_owned()
    }

    /// Returns scrollback and screen with wrapped rows joined.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        let mut open = false;
        for row in self.emulator.screen().all_lines() {
            let text = row.text();
            let text = if row.is_wrapped() { text } else { text.trim_end().to_owned() };
            match lines.last_mut().filter(|_| open) {
                Some(last) => last.push_str(&text),
                None => lines.push(text),
            }
            open = row.is_wrapped();
        }
        while lines.last().is_some_and(|it| it.trim().is_empty()) {
            lines.pop();
        }
        lines
    }
}

pub(crate) fn text(piece: &str) -> UiUpdate {
    UiUpdate::Text(piece.to_owned())
}

pub(crate) fn ended() -> UiUpdate {
    UiUpdate::TurnEnded { problem: None, interrupted: false }
}

/// A question about a command.
pub(crate) fn question(id: &str) -> UiUpdate {
    let row = |key, label: &str, words, twice| ChoiceOption {
        key,
        label: label.to_owned(),
        detail: Vec::new(),
        twice,
        words,
        given: String::new(),
        edits: None,
    };
    let rows = vec![
        row('y', "Yes, this once", false, false),
        row('a', "Yes, always", false, true),
        row('n', "No, and say what to do instead", true, false),
        row('x', "No, and stop", false, false),
    ];
    UiUpdate::Asked(Box::new(QuestionCard {
        id: id.to_owned(),
        from: None,
        title: String::from("Bash wants to run"),
        headline: String::from("$ rm -rf build"),
        body: vec![haft_tool::RenderedLine::new(
            haft_tool::LineStyle::Plain,
            "? rm -rf build: it removes files",
        )],
        kind: QuestionKind::Choice(rows),
    }))
}
