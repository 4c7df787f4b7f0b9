//! Prints what an agent does, for a user who watches it.

use std::{
    collections::HashMap,
    io::{self, Write},
    sync::Arc,
};

use haft_agent::{AgentEvent, RetractedAnswer};
use haft_model::ModelEvent;
use haft_tool::{LineStyle, Rendered};
use haft_tool_runtime::{AnsweredCall, CallDisplay, CallReport};
use haft_tui::{FinishedCall, LiveLines, ScreenSize};
use haft_types::{CallId, text};

use crate::{
    event_lines::agent_line,
    style::{clean, painted},
};

/// Maximum lines shown of a tool result.
const MAX_LINES: usize = 14;

#[derive(Clone, Copy, Debug)]
pub struct PrintStyle {
    /// Whether to use colours.
    pub colours: bool,
    /// Whether lines may be redrawn; requires a terminal.
    pub live: bool,
    /// Width of the terminal in columns.
    pub width: usize,
    pub detail: PrintDetail,
}

/// How much is printed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum PrintDetail {
    /// The model's text, and calls with their results.
    Full,
    /// The model's text, and one line per call.
    Talk,
    /// One line per call; the answer is printed elsewhere.
    Calls,
}

/// Prints agent events as they arrive: the model's text while it is generated, and each call with its
/// result.
pub struct EventPrinter<W> {
    out: W,
    look: PrintStyle,
    cwd: Arc<std::path::Path>,
    column: usize,
    /// Whether a space is pending before the next word.
    blank: bool,
    speaking: Option<OutputKind>,
    /// Running calls: display name and headline.
    running: HashMap<CallId, (String, String)>,
    /// The part of the output that may still be redrawn; `None` without a terminal.
    live: Option<LiveLines>,
    /// The model's last text, unwrapped.
    said: String,
}

/// Kind of model text.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum OutputKind {
    Said,
    Thought,
}

impl<W: Write> EventPrinter<W> {
    /// Creates a printer that writes to `out`. Paths in `cwd` are shown relative.
    pub fn new(out: W, look: PrintStyle, cwd: Arc<std::path::Path>) -> Self {
        let live = look.live.then(|| LiveLines::new(crate::style::look(), size()));
        Self {
            live,
            said: String::new(),
            out,
            look,
            cwd,
            column: 0,
            blank: false,
            speaking: None,
            running: HashMap::new(),
        }
    }

    /// Prints an event. Fails if writing to the output fails.
    pub fn take(&mut self, event: &AgentEvent) -> io::Result<()> {
        match event {
            AgentEvent::Model(_) if self.look.detail == PrintDetail::Calls => Ok(()),
            AgentEvent::Model(ModelEvent::Text(piece)) => {
                if self.speaking != Some(OutputKind::Said) {
                    self.said.clear();
                }
                self.said.push_str(piece);
                self.speak(piece, OutputKind::Said)
            }
            AgentEvent::Model(ModelEvent::Thinking(piece)) => self.speak(piece, OutputKind::Thought),
            AgentEvent::Block(_) => self.hush(),
            AgentEvent::Called(call) => self.called(call),
            AgentEvent::CallFinished(it) => self.ended(it),
            AgentEvent::Notice(notice) => self.note(notice),
            AgentEvent::Withdrawn(it) => self.withdrawn(it),
            other => agent_line(other).map_or(Ok(()), |line| self.note(&line)),
        }
    }

    /// Handles an answer that was cut off and will be generated again. Its text cannot be erased, so a
    /// line below marks it as void.
    fn withdrawn(&mut self, answer: &RetractedAnswer) -> io::Result<()> {
        self.said.clear();
        for call in &answer.calls {
            self.running.remove(call);
        }
        if self.look.detail == PrintDetail::Calls {
            return self.show_running();
        }
        self.hush()?;
        self.note("the answer broke off here and does not count")
    }

    /// Prints a line of the program itself, not of the model.
    pub fn line(&mut self, line: &str) -> io::Result<()> {
        self.leave()?;
        self.hush()?;
        writeln!(self.out, "{line}")?;
        self.out.flush()
    }

    /// The last text of the model, as generated.
    pub fn said(&self) -> &str {
        &self.said
    }

    /// Makes the live part permanent, so that other code may write to the terminal.
    pub fn leave(&mut self) -> io::Result<()> {
        self.speaking = None;
        self.draw(LiveLines::leave)
    }

    /// Changes and redraws the live part; does nothing without a terminal.
    fn draw(&mut self, change: impl FnOnce(&mut LiveLines) -> Vec<u8>) -> io::Result<()> {
        let Some(live) = &mut self.live else { return Ok(()) };
        let mut bytes = live.resize(size());
        bytes.extend(change(live));
        self.out.write_all(&bytes)?;
        self.out.flush()
    }

    /// Prints a notice: one line, at most 300 characters.
    pub fn note(&mut self, text: &str) -> io::Result<()> {
        if self.live.is_some() {
            let words = text::one_line(text, 300);
            return self.draw(|live| live.notice(&words));
        }
        let line = painted(&format!("  · {}", text::one_line(&clean(text), 300)), "2", self.look.colours);
        self.line(&line)
    }

    /// Prints a piece of model text, wrapped at the width.
    fn speak(&mut self, piece: &str, voice: OutputKind) -> io::Result<()> {
        if self.live.is_some() {
            self.speaking = Some(voice);
            return match voice {
                OutputKind::Said => self.draw(|live| live.speak(piece)),
                OutputKind::Thought => self.draw(|live| live.status(Some("thinking"))),
            };
        }
        if self.speaking != Some(voice) {
            self.hush()?;
            if piece.trim().is_empty() {
                return Ok(());
            }
            writeln!(self.out)?;
            self.column = 0;
            self.speaking = Some(voice);
        }
        let paint = if voice == OutputKind::Thought { "2;3" } else { "" };
        for word in piece.split_inclusive(char::is_whitespace) {
            self.word(word, paint)?;
        }
        self.out.flush()
    }

    fn word(&mut self, word: &str, paint: &str) -> io::Result<()> {
        let bare = clean(word.trim_end());
        let length = bare.chars().count();
        let blank = usize::from(self.blank);
        if 0 < self.column && 0 < length && self.look.width < self.column + blank + length {
            writeln!(self.out)?;
            (self.column, self.blank) = (0, false);
        }
        if 0 < length {
            let before = if std::mem::take(&mut self.blank) { " " } else { "" };
            write!(self.out, "{before}{}", painted(&bare, paint, self.look.colours))?;
            self.column += before.len() + length;
        }
        match word.chars().last() {
            Some('\n') => {
                writeln!(self.out)?;
                (self.column, self.blank) = (0, false);
            }
            // Printed before the next word if that is on the same line.
            Some(it) if it.is_whitespace() && 0 < self.column => self.blank = true,
            _ => (),
        }
        Ok(())
    }

    /// Ends the current text with a line break.
    fn hush(&mut self) -> io::Result<()> {
        if self.live.is_some() {
            self.speaking = None;
            return self.draw(LiveLines::end_speech);
        }
        if self.speaking.take().is_some() {
            if 0 < self.column {
                writeln!(self.out)?;
            }
            (self.column, self.blank) = (0, false);
            self.out.flush()?;
        }
        Ok(())
    }

    fn called(&mut self, call: &CallDisplay) -> io::Result<()> {
        self.hush()?;
        let head = (clean(&call.name), self.headline(call));
        self.running.insert(call.id.clone(), head);
        self.show_running()
    }

    /// The headline of a call, in its tool's words.
    fn headline(&self, call: &CallDisplay) -> String {
        // Some headlines begin with the tool's name, which is already printed.
        let words = &call.headline;
        let words = words.strip_prefix(&format!("{} ", call.name)).unwrap_or(words).to_owned();
        let room = self.look.width.saturating_sub(call.name.chars().count() + 6);
        text::one_line(&clean(&self.shortened(&words)), room.max(20))
    }

    fn ended(&mut self, AnsweredCall { call, report }: &AnsweredCall) -> io::Result<()> {
        self.hush()?;
        let (name, head) = self.running.remove(&report.id).unwrap_or_else(|| {
            let input = call.input.to_string();
            (report.name.clone(), text::one_line(&clean(&input), self.look.width))
        });
        if self.live.is_some() {
            let call = self.finish_of(report, name, head);
            let most = if self.look.detail == PrintDetail::Full { MAX_LINES } else { 0 };
            self.draw(|live| live.call(&call, most))?;
            return self.show_running();
        }
        let (mark, paint) = if report.error.is_some() { ("✗", "31") } else { ("✓", "32") };
        let (colours, full) = (self.look.colours, self.look.detail == PrintDetail::Full);
        writeln!(
            self.out,
            "{}  {} {} {}",
            if full { "\n" } else { "" },
            painted(mark, paint, colours),
            painted(&name, "1", colours),
            painted(&head, "2", colours)
        )?;
        let rendered = match (&report.rendering, report.error) {
            (Some(rendering), None) => rendering.make(),
            _ => Rendered::error(&report.content.to_text()),
        };
        if full {
            self.body(&rendered)?;
        }
        self.show_running()
    }

    /// The rendering of a finished call, shortened to the level of detail.
    fn finish_of(&self, report: &CallReport, name: String, headline: String) -> FinishedCall {
        let failed = report.error.is_some();
        let mut rendered = match &report.rendering {
            Some(rendering) if !failed => rendering.make(),
            _ => Rendered::error(&report.content.to_text()),
        };
        rendered.headline = self.shortened(&rendered.headline);
        for line in &mut rendered.lines {
            line.text = self.shortened(&line.text);
        }
        if self.look.detail != PrintDetail::Full {
            (rendered.headline, rendered.lines) = if failed {
                (rendered.lines.first().map(|it| it.text.clone()).unwrap_or_default(), Vec::new())
            } else {
                (String::new(), Vec::new())
            };
        }
        let id = report.id.to_string();
        FinishedCall { id, agent: None, name, headline, failed, rendered, whole: None }
    }

    fn body(&mut self, rendered: &Rendered) -> io::Result<()> {
        let colours = self.look.colours;
        if !rendered.headline.is_empty() {
            let headline = clean(&self.shortened(&rendered.headline));
            writeln!(self.out, "    {}", painted(&text::one_line(&headline, self.look.width), "2", colours))?;
        }
        for line in rendered.folded(MAX_LINES, "") {
            let paint = match line.style {
                LineStyle::Plain => "",
                LineStyle::Dim => "2",
                LineStyle::Added => "32",
                LineStyle::Removed | LineStyle::Error => "31",
                LineStyle::Hunk => "36",
            };
            let shown = clean(&self.shortened(&line.text));
            for piece in wrapped(&shown, self.look.width.saturating_sub(4).max(20)) {
                writeln!(self.out, "    {}", painted(&piece, paint, colours))?;
            }
        }
        self.out.flush()
    }

    /// Replaces absolute paths in the working directory by relative ones.
    fn shortened(&self, words: &str) -> String {
        let cwd = self.cwd.display().to_string();
        words.replace(&format!("{cwd}/"), "").replace(&cwd, ".")
    }

    /// Draws a line with the running calls; the next event erases it.
    fn show_running(&mut self) -> io::Result<()> {
        let mut heads: Vec<&str> = self.running.values().map(|it| it.1.as_str()).collect();
        heads.sort_unstable();
        let words = (!heads.is_empty()).then(|| heads.join(", "));
        self.draw(|live| live.status(words.as_deref()))
    }
}

/// Size of the terminal.
fn size() -> ScreenSize {
    let of = |size: rustix::termios::Winsize| ScreenSize {
        columns: usize::from(size.ws_col),
        rows: usize::from(size.ws_row),
    };
    let found =
        rustix::termios::tcgetwinsize(io::stdout()).or_else(|_| rustix::termios::tcgetwinsize(io::stderr()));
    match found.map(of) {
        Ok(size) if 0 < size.columns && 0 < size.rows => size,
        _ => ScreenSize { columns: 88, rows: 24 },
    }
}

/// Wraps a long line, at spaces if there are any.
fn wrapped(line: &str, width: usize) -> Vec<String> {
    let mut out = Vec::new();
    let mut rest: Vec<char> = line.chars().collect();
    while width < rest.len() && out.len() < MAX_LINES {
        let blank = rest[..=width].iter().rposition(|it| *it == ' ').filter(|at| width / 3 < *at);
        let at = blank.unwrap_or(width);
        let tail = rest.split_off(at);
        out.push(rest.iter().collect::<String>().trim_end().to_owned());
        rest = tail.into_iter().skip_while(|it| *it == ' ').collect();
    }
    out.push(rest.into_iter().collect());
    out
}

/// Columns of the terminal on this descriptor, limited to 40 to 100; 88 if unknown.
pub fn width(terminal: impl std::os::fd::AsFd) -> usize {
    let columns = rustix::termios::tcgetwinsize(terminal).map(|size| usize::from(size.ws_col)).unwrap_or(0);
    if columns == 0 { 88 } else { columns.clamp(40, 100) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Text that was already printed stays; a line below marks it as void.
    #[test]
    fn words_of_an_answer_that_broke_off_are_marked() {
        for (detail, is_marked) in
            [(PrintDetail::Talk, true), (PrintDetail::Full, true), (PrintDetail::Calls, false)]
        {
            let look = PrintStyle { colours: false, live: false, width: 80, detail };
            let mut out = Vec::new();
            let mut watcher = EventPrinter::new(&mut out, look, Arc::from(std::path::Path::new("/")));
            for event in [
                AgentEvent::Model(ModelEvent::Text(String::from("First try."))),
                AgentEvent::Withdrawn(RetractedAnswer::default()),
                AgentEvent::Model(ModelEvent::Text(String::from("Second try."))),
            ] {
                watcher.take(&event).expect("a vector takes everything");
            }
            assert_eq!(watcher.said(), if is_marked { "Second try." } else { "" });
            let shown = String::from_utf8(out).expect("words");
            let mark = shown.find("does not count");
            assert_eq!(mark.is_some(), is_marked, "{shown}");
            if let Some(mark) = mark {
                let (first, second) = (shown.find("First").expect("it"), shown.find("Second").expect("it"));
                assert!(first < mark && mark < second, "{shown}");
            }
        }
    }

    #[test]
    fn long_lines_break_at_blanks() {
        for (line, want) in [
            ("short", vec!["short"]),
            ("", vec![""]),
            ("aaaa bbbb cccc", vec!["aaaa bbbb", "cccc"]),
            ("aaaaaaaaaaaaaaaa", vec!["aaaaaaaaaa", "aaaaaa"]),
            ("größe größe größe", vec!["größe", "größe", "größe"]),
        ] {
            assert_eq!(wrapped(line, 10), want, "{line}");
        }
    }
}
