use std::{fmt, path::PathBuf, sync::Arc};

/// What a person sees of a call: a headline and styled lines. Colours and
/// widths are the terminal's business.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Rendered {
    /// One line that says what happened; may be empty.
    pub headline: String,
    /// The body, or as much of it as is worth showing at first.
    pub lines: Vec<RenderedLine>,
    /// The rest of the body.
    pub rest: CollapsedLines,
    /// What else there is to know; stands below the body, however much of it is
    /// shown.
    pub notes: Vec<RenderedLine>,
}

/// What a body leaves out at first.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum CollapsedLines {
    /// Nothing.
    #[default]
    Nothing,
    /// These lines come behind.
    Lines(Vec<RenderedLine>),
    /// The body begins a text that is whole in a file.
    File {
        /// Which one.
        path: PathBuf,
        /// How many lines of it the body does not show.
        hidden: u64,
    },
}

/// One line of a rendered body.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RenderedLine {
    /// How it is shown.
    pub style: LineStyle,
    /// Its text, without a line break.
    pub text: String,
}

/// How a line is shown.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LineStyle {
    /// As it is.
    Plain,
    /// Less important.
    Dim,
    /// Part of a diff: was added.
    Added,
    /// Part of a diff: was removed.
    Removed,
    /// Part of a diff: where it is.
    Hunk,
    /// Something went wrong.
    Error,
}

impl RenderedLine {
    /// A line of the given style.
    pub fn new(style: LineStyle, text: impl Into<String>) -> Self {
        Self { style, text: text.into() }
    }
}

/// How many lines a preview shows before it says how many there are.
const PREVIEW_LINES: usize = 12;

impl Rendered {
    /// Only a headline.
    pub fn headline(headline: impl Into<String>) -> Self {
        Self { headline: headline.into(), ..Self::default() }
    }

    /// The first lines of a text; the others are its rest.
    pub fn preview(text: &str) -> Self {
        let lines = text.lines().map(|text| RenderedLine::new(LineStyle::Plain, text)).collect();
        Self { lines, ..Self::default() }.folded_to(PREVIEW_LINES)
    }

    /// The same with at most so many lines; the others are its rest.
    pub fn folded_to(mut self, most: usize) -> Self {
        if most < self.lines.len() && self.rest == CollapsedLines::Nothing {
            self.rest = CollapsedLines::Lines(self.lines.split_off(most));
        }
        self
    }

    /// At most so many lines of the body, how many there are beside them and how
    /// to see those, and the notes.
    pub fn folded(&self, most: usize, way: &str) -> Vec<RenderedLine> {
        let mut shown: Vec<RenderedLine> = self.lines.iter().take(most).cloned().collect();
        let behind = match &self.rest {
            CollapsedLines::Nothing => 0,
            CollapsedLines::Lines(lines) => lines.len() as u64,
            CollapsedLines::File { hidden, .. } => *hidden,
        };
        let hidden = behind + self.lines.len().saturating_sub(most) as u64;
        if 0 < hidden {
            shown.push(RenderedLine::new(LineStyle::Dim, format!("… {hidden} more lines{way}")));
        }
        shown.extend(self.notes.iter().cloned());
        shown
    }

    /// An error message.
    pub fn error(message: &str) -> Self {
        let lines = message.lines().map(|text| RenderedLine::new(LineStyle::Error, text)).collect();
        Self { lines, ..Self::default() }
    }
}

/// A rendering that is made only when somebody looks.
#[derive(Clone)]
pub struct Rendering(Arc<dyn Fn() -> Rendered + Send + Sync>);

impl Rendering {
    /// Made by this function when asked for.
    pub fn new(make: impl Fn() -> Rendered + Send + Sync + 'static) -> Self {
        Self(Arc::new(make))
    }

    /// A preview of a text.
    pub fn preview_of(text: String) -> Self {
        Self::new(move || Rendered::preview(&text))
    }

    /// Makes it.
    pub fn make(&self) -> Rendered {
        (self.0)()
    }
}

impl fmt::Debug for Rendering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Rendering")
    }
}
