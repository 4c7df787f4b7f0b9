use std::{fmt, path::PathBuf, sync::Arc};

/// Display form of a call: a headline and styled lines. Colours and widths are up to the frontend.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Rendered {
    /// One line that says what happened; may be empty.
    pub headline: String,
    /// The body, or the part of it shown at first.
    pub lines: Vec<RenderedLine>,
    /// The rest of the body.
    pub rest: CollapsedLines,
    /// Notes shown below the body, whether it is collapsed or not.
    pub notes: Vec<RenderedLine>,
}

/// The part of a body that is not shown at first.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum CollapsedLines {
    /// None.
    #[default]
    Nothing,
    /// These further lines.
    Lines(Vec<RenderedLine>),
    /// The body is the beginning of a text in a file.
    File {
        /// Path of the file.
        path: PathBuf,
        /// Number of its lines that the body does not show.
        hidden: u64,
    },
}

/// One line of a rendered body.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RenderedLine {
    /// Its style.
    pub style: LineStyle,
    /// Its text, without a line break.
    pub text: String,
}

/// Style of a line.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LineStyle {
    /// Normal text.
    Plain,
    /// Less important text.
    Dim,
    /// An added line of a diff.
    Added,
    /// A removed line of a diff.
    Removed,
    /// A hunk header of a diff.
    Hunk,
    /// An error.
    Error,
}

impl RenderedLine {
    /// Creates a line of the given style.
    pub fn new(style: LineStyle, text: impl Into<String>) -> Self {
        Self { style, text: text.into() }
    }
}

/// Number of lines a preview shows.
const PREVIEW_LINES: usize = 12;

impl Rendered {
    /// A rendering with only a headline.
    pub fn headline(headline: impl Into<String>) -> Self {
        Self { headline: headline.into(), ..Self::default() }
    }

    /// The first lines of a text; the others are collapsed.
    pub fn preview(text: &str) -> Self {
        let lines = text.lines().map(|text| RenderedLine::new(LineStyle::Plain, text)).collect();
        Self { lines, ..Self::default() }.folded_to(PREVIEW_LINES)
    }

    /// Collapses all but the first `most` lines.
    pub fn folded_to(mut self, most: usize) -> Self {
        if most < self.lines.len() && self.rest == CollapsedLines::Nothing {
            self.rest = CollapsedLines::Lines(self.lines.split_off(most));
        }
        self
    }

    /// At most `most` lines of the body, then a line with the number of hidden lines and how to show
    /// them (`way`), then the notes.
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

    /// The rendering of an error message.
    pub fn error(message: &str) -> Self {
        let lines = message.lines().map(|text| RenderedLine::new(LineStyle::Error, text)).collect();
        Self { lines, ..Self::default() }
    }
}

/// A rendering that is computed on demand.
#[derive(Clone)]
pub struct Rendering(Arc<dyn Fn() -> Rendered + Send + Sync>);

impl Rendering {
    /// Computed by this function.
    pub fn new(make: impl Fn() -> Rendered + Send + Sync + 'static) -> Self {
        Self(Arc::new(make))
    }

    /// A preview of a text.
    pub fn preview_of(text: String) -> Self {
        Self::new(move || Rendered::preview(&text))
    }

    /// Computes the rendering.
    pub fn make(&self) -> Rendered {
        (self.0)()
    }
}

impl fmt::Debug for Rendering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Rendering")
    }
}
