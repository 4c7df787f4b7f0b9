use std::{any::Any, fmt, sync::Arc};

/// A command line that a call runs, optionally with its analysis from when the call was parsed.
///
/// The analysis is type-erased, because the tool contract must not depend on a shell. Tool and
/// permission engine know the type; a line without an analysis is analysed when needed, so a missing one
/// costs time, never safety. Two command lines are equal if their texts are and both or none are
/// guarded.
#[derive(Clone)]
pub struct CommandLine {
    text: Arc<str>,
    finding: Option<Arc<dyn Any + Send + Sync>>,
    guarded: bool,
}

impl CommandLine {
    /// A line without an analysis.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self { text: text.into(), finding: None, guarded: false }
    }

    /// Attaches an analysis.
    pub fn with_finding<F: Any + Send + Sync>(mut self, finding: Arc<F>) -> Self {
        self.finding = Some(finding);
        self
    }

    /// Declares that the line describes what the tool does itself, without running programs named by
    /// files in the directory (such as git hooks). Rules about the line apply as usual.
    pub fn guarded(mut self) -> Self {
        self.guarded = true;
        self
    }

    /// Whether no program named by surrounding files is run.
    pub fn is_guarded(&self) -> bool {
        self.guarded
    }

    /// The line as written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The attached analysis, if it has this type.
    pub fn finding<F: Any + Send + Sync>(&self) -> Option<Arc<F>> {
        Arc::clone(self.finding.as_ref()?).downcast().ok()
    }
}

impl PartialEq for CommandLine {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text && self.guarded == other.guarded
    }
}

impl Eq for CommandLine {}

impl fmt::Debug for CommandLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}

impl From<&str> for CommandLine {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<String> for CommandLine {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}
