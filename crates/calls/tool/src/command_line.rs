use std::{any::Any, fmt, sync::Arc};

/// A command line in the reach of a call, and what the tool found out about it
/// when the call was parsed.
///
/// The finding has the type of whoever analyses command lines, which this crate
/// does not know: the contract of tools must not depend on a shell. Tool and
/// permission engine know the type, and a line without a finding is analysed by
/// whoever needs one, so a missing finding costs time and never safety. Two
/// lines are the same when their texts are and both are guarded or none is.
#[derive(Clone)]
pub struct CommandLine {
    text: Arc<str>,
    finding: Option<Arc<dyn Any + Send + Sync>>,
    guarded: bool,
}

impl CommandLine {
    /// A line nobody has analysed.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self { text: text.into(), finding: None, guarded: false }
    }

    /// With what was found out about it.
    pub fn with_finding<F: Any + Send + Sync>(mut self, finding: Arc<F>) -> Self {
        self.finding = Some(finding);
        self
    }

    /// Says that the line stands for what the tool does itself, in a way that runs
    /// no program that files around it name. Rules about the line hold as ever.
    pub fn guarded(mut self) -> Self {
        self.guarded = true;
        self
    }

    /// Whether no program that files around it name is run.
    pub fn is_guarded(&self) -> bool {
        self.guarded
    }

    /// The line as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What was found out about it, if that is of this type.
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
