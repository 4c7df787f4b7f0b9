//! Formats output for programs that only print, without controlling the terminal.

use haft_tool::{Rendered, RenderedLine};

use crate::{
    app_state::ScreenSize,
    layout::{ScreenRow, layout, layout_all},
    markdown::MarkdownStream,
    paint::{Caret, Painter},
    rendered_call,
    sgr::Pen,
    styled_text::{ColorRole, StyledLine, TextStyle, WrapMode},
    terminal_caps::{ColorSupport, TerminalCaps},
    transcript::{answer_lines, notice_lines, prompt_lines},
    ui_update::FinishedCall,
};

/// Formats items as coloured text.
#[derive(Clone, Debug)]
pub struct LinePrinter {
    look: TerminalCaps,
    columns: usize,
}

impl LinePrinter {
    /// Creates a printer for a terminal with these capabilities and width.
    pub fn new(look: TerminalCaps, columns: usize) -> Self {
        Self { look, columns: columns.max(20) }
    }

    /// Creates a printer for output other than a terminal: no colours, no wrapping.
    pub fn plain() -> Self {
        let look = TerminalCaps { colours: ColorSupport::None, links: false, ..TerminalCaps::default() };
        Self { look, columns: 100_000 }
    }

    /// Formats lines. Flowing lines are left to the terminal to wrap.
    pub fn lines(&self, lines: &[StyledLine]) -> String {
        let mut out = Vec::new();
        let mut pen = Pen::new(&self.look);
        for line in lines {
            let rows = match line.fit {
                WrapMode::Flow => vec![ScreenRow { spans: line.spans.clone(), soft: false }],
                WrapMode::Hang(_) | WrapMode::Cut => layout(line, self.columns),
            };
            for row in rows {
                for span in &row.spans {
                    pen.write(&mut out, span);
                }
                pen.lift(&mut out);
                out.push(b'\n');
            }
        }
        String::from_utf8(out).unwrap_or_default()
    }

    /// Formats a Markdown answer.
    pub fn markdown(&self, source: &str) -> String {
        self.lines(&answer_lines(source, &self.look, self.columns))
    }

    /// Formats a user message.
    pub fn prompt(&self, words: &str) -> String {
        self.lines(&prompt_lines(words))
    }

    /// Formats a notice.
    pub fn notice(&self, words: &str) -> String {
        self.lines(&notice_lines(words))
    }

    /// Formats a finished call with at most `most` lines of its result.
    pub fn call(&self, call: &FinishedCall, most: usize) -> String {
        self.lines(&rendered_call::card(call, most))
    }

    /// Formats the complete rendering of a call.
    pub fn rendered(&self, rendered: &Rendered) -> String {
        let headline =
            (!rendered.headline.is_empty()).then(|| StyledLine::new(&rendered.headline, TextStyle::BOLD));
        let body = rendered.folded(usize::MAX, "");
        let body = body.iter().map(|line| rendered_call::body_line(line, 0).fit(WrapMode::Flow));
        let lines: Vec<StyledLine> = headline.into_iter().chain(body).collect();
        self.lines(&lines)
    }
}

/// Paints an agent's output live at the end of a terminal shared with other output, without a prompt.
#[derive(Debug)]
pub struct LiveLines {
    look: TerminalCaps,
    size: ScreenSize,
    painter: Painter,
    stream: Option<MarkdownStream>,
    /// Finished lines that are not painted yet.
    finished: Vec<StyledLine>,
    /// One line of status.
    status: Option<StyledLine>,
    wants_gap: bool,
}

impl LiveLines {
    /// Starts at column 0 of an empty row.
    pub fn new(look: TerminalCaps, size: ScreenSize) -> Self {
        Self {
            painter: Painter::new(look.clone(), size),
            look,
            size,
            stream: None,
            finished: Vec::new(),
            status: None,
            wants_gap: false,
        }
    }

    fn begin(&mut self) {
        self.hush();
        if std::mem::replace(&mut self.wants_gap, true) {
            self.finished.push(StyledLine::blank());
        }
    }

    /// Adapts to a new size; the live part is painted again.
    pub fn resize(&mut self, size: ScreenSize) -> Vec<u8> {
        if size == self.size {
            return Vec::new();
        }
        self.size = size;
        if let Some(stream) = &mut self.stream {
            stream.set_width(size.columns);
        }
        self.painter.resize(size)
    }

    /// Adds a text delta.
    pub fn speak(&mut self, piece: &str) -> Vec<u8> {
        if self.stream.is_none() {
            if piece.trim().is_empty() {
                return Vec::new();
            }
            self.begin();
            self.stream = Some(MarkdownStream::new(&self.look, self.size.columns));
        }
        if let Some(stream) = &mut self.stream {
            stream.feed(piece);
            self.finished.extend(stream.take_finished());
        }
        self.draw()
    }

    /// Ends the streamed text.
    fn hush(&mut self) {
        if let Some(mut stream) = self.stream.take() {
            stream.end();
            self.finished.extend(stream.take_finished());
        }
    }

    /// Ends the streamed text.
    pub fn end_speech(&mut self) -> Vec<u8> {
        self.hush();
        self.draw()
    }

    /// Adds a finished call with at most `most` lines of its result.
    pub fn call(&mut self, call: &FinishedCall, most: usize) -> Vec<u8> {
        let lines = rendered_call::card(call, most);
        // Calls of one line are not separated by blank lines.
        if lines.len() == 1 && self.stream.is_none() && most == 0 {
            self.wants_gap = false;
        }
        self.begin();
        self.finished.extend(lines);
        self.draw()
    }

    /// Adds a notice.
    pub fn notice(&mut self, words: &str) -> Vec<u8> {
        self.hush();
        self.finished.extend(notice_lines(words));
        self.draw()
    }

    /// Adds rendered lines unchanged.
    pub fn lines(&mut self, lines: &[RenderedLine]) -> Vec<u8> {
        self.hush();
        self.finished.extend(lines.iter().map(|line| rendered_call::body_line(line, 0).fit(WrapMode::Flow)));
        self.draw()
    }

    /// Sets or clears the status line.
    pub fn status(&mut self, words: Option<&str>) -> Vec<u8> {
        let line = |words: &str| {
            StyledLine::new("◦ ", TextStyle::tone(ColorRole::Warn))
                .with(words, TextStyle::DIM)
                .fit(WrapMode::Cut)
        };
        self.status = words.map(line);
        self.draw()
    }

    /// Ends the live part: keeps what is shown and moves the cursor below it.
    pub fn leave(&mut self) -> Vec<u8> {
        self.hush();
        self.status = None;
        let mut out = self.draw();
        out.extend(self.painter.leave());
        // Separate output of other programs from what follows.
        self.wants_gap = true;
        out
    }

    fn draw(&mut self) -> Vec<u8> {
        let finished = layout_all(&std::mem::take(&mut self.finished), self.size.columns);
        let tail = self.stream.as_ref().map(MarkdownStream::tail).unwrap_or_default();
        let mut region = layout_all(&tail, self.size.columns);
        if let Some(status) = &self.status {
            region.extend(layout(status, self.size.columns));
        }
        let most = self.painter.most_rows();
        if most < region.len() {
            region.drain(..region.len() - most);
            if let Some(first) = region.first_mut() {
                first.soft = false;
            }
        }
        let caret = Caret { row: region.len().saturating_sub(1), column: 0 };
        self.painter.paint(&finished, &region, caret)
    }
}
