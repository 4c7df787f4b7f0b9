//! Live output without a prompt, at the end of a terminal.

use haft_tool::{LineStyle, Rendered, RenderedLine};
use haft_tui::{FinishedCall, LinePrinter, LiveLines, ScreenSize, TerminalCaps};

struct Live {
    lines: LiveLines,
    emulator: avt::Terminal,
}

impl Live {
    fn new(columns: usize, rows: usize) -> Self {
        let lines = LiveLines::new(TerminalCaps::default(), ScreenSize { columns, rows });
        Self { lines, emulator: avt::Terminal::with_scrollback(columns, rows, None).unwrap() }
    }

    fn write(&mut self, bytes: &[u8]) {
        self.emulator.feed(std::str::from_utf8(bytes).unwrap());
    }

    fn draw(&mut self, change: impl FnOnce(&mut LiveLines) -> Vec<u8>) {
        let bytes = change(&mut self.lines);
        self.write(&bytes);
    }

    fn resize(&mut self, columns: usize, rows: usize) {
        self.emulator.resize(columns, rows);
        self.draw(|lines| lines.resize(ScreenSize { columns, rows }));
    }

    fn text(&self) -> String {
        let rows: Vec<String> =
            self.emulator.screen().all_lines().map(|line| line.text().trim_end().to_owned()).collect();
        rows.join("\n").trim_end().to_owned()
    }
}

fn call(failed: bool) -> FinishedCall {
    FinishedCall {
        id: String::from("1"),
        agent: None,
        name: String::from("Bash"),
        headline: String::from("$ make"),
        failed,
        rendered: Rendered {
            headline: String::from("exit 0"),
            lines: vec![RenderedLine::new(LineStyle::Plain, "built\u{1b}[2J")],
            ..Rendered::default()
        },
        whole: None,
    }
}

#[test]
fn live_answer_is_painted_with_one_status_line() {
    let mut live = Live::new(60, 12);
    for piece in ["I will **bui", "ld** it.\n\n```rust\nfn ma", "in() {}\n```\n"] {
        live.draw(|lines| lines.speak(piece));
    }
    live.draw(|lines| lines.status(Some("$ make")));
    assert!(live.text().ends_with("◦ $ make"), "{}", live.text());
    live.draw(|lines| lines.call(&call(false), 12));
    live.draw(|lines| lines.status(None));
    live.draw(|lines| lines.notice("a notice"));
    live.draw(|lines| lines.speak("Done."));
    live.draw(LiveLines::leave);
    live.write(b"the shell");
    assert_eq!(
        live.text(),
        "I will build it.\n\nfn main() {}\n\n✓ Bash $ make\n  exit 0\n    built␛[2J\n  · a notice\n\nDone.\nthe shell"
    );
}

#[test]
fn live_lines_appear_once_at_any_size() {
    let mut live = Live::new(80, 10);
    let sizes = [(60, 10), (40, 20), (100, 8), (80, 24)];
    for number in 0..60 {
        live.draw(|lines| lines.speak(&format!("Line <{number:02}> and some words behind it.\n\n")));
        live.draw(|lines| lines.status(Some("working")));
        if number % 7 == 3 {
            let (columns, rows) = sizes[number / 7 % sizes.len()];
            live.resize(columns, rows);
        }
    }
    live.draw(LiveLines::leave);
    let text = live.text();
    for number in 0..60 {
        assert_eq!(text.matches(&format!("<{number:02}>")).count(), 1, "{number}\n{text}");
    }
    assert!(!text.contains("working"), "{text}");
}

#[test]
fn plain_printer_prints_source_without_colours() {
    let source = "Some **bold** words.\n\n```rust\nfn main() {}\n```\n";
    assert_eq!(LinePrinter::plain().markdown(source).replace("\n\n", "\n"), source.replace("\n\n", "\n"));
    assert!(!LinePrinter::plain().call(&call(true), 5).contains('\u{1b}'));
}
