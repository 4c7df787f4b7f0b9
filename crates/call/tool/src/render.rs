use std::{fmt, sync::Arc};

/// What a person sees of a call: a headline and styled lines. Colours and
/// widths are the terminal's business.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Rendered {
    /// One line that says what happened; may be empty.
    pub headline: String,
    /// The body.
    pub lines: Vec<Line>,
}

/// One line of a rendered body.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Line {
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

impl Line {
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
        Self { headline: headline.into(), lines: Vec::new() }
    }

    /// The first lines of a text, and how many more there are.
    pub fn preview(text: &str) -> Self {
        let total = text.lines().count();
        let mut lines: Vec<Line> =
            text.lines().take(PREVIEW_LINES).map(|text| Line::new(LineStyle::Plain, text)).collect();
        if PREVIEW_LINES < total {
            lines.push(Line::new(LineStyle::Dim, format!("… {} more lines", total - PREVIEW_LINES)));
        }
        Self { headline: String::new(), lines }
    }

    /// An error message.
    pub fn error(message: &str) -> Self {
        let lines = message.lines().map(|text| Line::new(LineStyle::Error, text)).collect();
        Self { headline: String::new(), lines }
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
