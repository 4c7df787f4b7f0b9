use std::{
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use crate::json_spans;

/// Who speaks, from the weakest to the strongest.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum SettingsLayer {
    /// The person, for all projects.
    User,
    /// The project, for everybody.
    Project,
    /// The project, for this person.
    Local,
    /// The command line.
    Flag,
    /// The organisation.
    Managed,
}

impl SettingsLayer {
    /// Whether the words come from the project's directory, and so from
    /// the authors of the project.
    pub const fn is_of_the_project(self) -> bool {
        matches!(self, Self::Project | Self::Local)
    }

    /// What people call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Project => "project",
            Self::Local => "local",
            Self::Flag => "flag",
            Self::Managed => "managed",
        }
    }
}

/// One text that settings come from.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SettingsText {
    /// The layer whose text this is.
    pub layer: SettingsLayer,
    /// Where it stands.
    pub place: SettingsSourceKind,
    /// What `/` at the start of a path rule of this source stands for.
    pub base: PathBuf,
    /// The text, so that a line can be named in a message.
    text: Arc<str>,
    lines: LineIndex,
}

/// Where the values of a text stand. Scanned once, when a line is asked for
/// first: every rule of a file asks.
#[derive(Clone, Debug, Default)]
struct LineIndex(OnceLock<Option<ScannedText>>);

#[derive(Clone, Debug)]
struct ScannedText {
    root: json_spans::JsonNode,
    /// Where each line starts but for the first.
    starts: Vec<usize>,
}

/// It follows from the text.
impl PartialEq for LineIndex {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl Eq for LineIndex {}

impl LineIndex {
    /// The line, counted from one, of the value at a JSON pointer.
    fn line(&self, text: &str, pointer: &str) -> Option<usize> {
        let scanned = self.0.get_or_init(|| {
            let starts = text.bytes().zip(1..).filter_map(|(byte, next)| (byte == b'\n').then_some(next));
            Some(ScannedText { root: json_spans::scan(text)?, starts: starts.collect() })
        });
        let ScannedText { root, starts } = scanned.as_ref()?;
        let at = root.at(pointer)?.range.start;
        Some(starts.partition_point(|start| *start <= at) + 1)
    }
}

/// Where a text stands.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum SettingsSourceKind {
    /// A file.
    File(PathBuf),
    /// An argument of the command line, by its name.
    Argument(String),
}

impl fmt::Display for SettingsSourceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Argument(name) => f.write_str(name),
        }
    }
}

impl SettingsText {
    pub(crate) fn new(
        layer: SettingsLayer,
        place: SettingsSourceKind,
        base: PathBuf,
        text: Arc<str>,
    ) -> Self {
        Self { layer, place, base, text, lines: LineIndex::default() }
    }

    /// The file, if it is one.
    pub fn path(&self) -> Option<&Path> {
        match &self.place {
            SettingsSourceKind::File(path) => Some(path),
            SettingsSourceKind::Argument(_) => None,
        }
    }
}

/// Where one value comes from.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SettingsOrigin {
    /// The text that holds the value.
    pub source: Arc<SettingsText>,
    /// Where in it, as a JSON pointer.
    pub pointer: String,
}

impl SettingsOrigin {
    /// The line, counted from one.
    pub fn line(&self) -> Option<usize> {
        self.source.lines.line(&self.source.text, &self.pointer)
    }
}

impl fmt::Display for SettingsOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line() {
            Some(line) => write!(f, "{}:{line}", self.source.place),
            None => write!(f, "{}", self.source.place),
        }
    }
}

/// A value that remembers where it comes from.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Sourced<T> {
    /// The value as it counts.
    pub value: T,
    /// Who said so.
    pub origin: SettingsOrigin,
}

impl<T> Sourced<T> {
    /// Another value from the same place.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Sourced<U> {
        Sourced { value: change(self.value), origin: self.origin }
    }
}

/// Something a person should know about a settings text.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SettingsNotice {
    /// The text that the notice is about.
    pub place: SettingsSourceKind,
    /// Line and column, counted from one, where they are known.
    pub position: Option<(usize, usize)>,
    /// What is the matter, and what follows.
    pub message: String,
}

impl fmt::Display for SettingsNotice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.position {
            Some((line, column)) => write!(f, "{}:{line}:{column}: {}", self.place, self.message),
            None => write!(f, "{}: {}", self.place, self.message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_many_values_scan_their_text_once() {
        let rules: Vec<String> = (0..1_000).map(|number| format!("    \"Read(f{number})\"")).collect();
        let text = format!("{{\n  \"deny\": [\n{}\n  ]\n}}\n", rules.join(",\n"));
        let place = SettingsSourceKind::Argument(String::from("--settings"));
        let source = Arc::new(SettingsText::new(SettingsLayer::User, place, PathBuf::new(), text.into()));
        let before = json_spans::scans();
        for number in 0..1_000 {
            let origin = SettingsOrigin { source: Arc::clone(&source), pointer: format!("/deny/{number}") };
            assert_eq!(origin.line(), Some(number + 3));
            assert_eq!(origin.to_string(), format!("--settings:{}", number + 3));
        }
        assert_eq!(json_spans::scans() - before, 1);
        let absent = SettingsOrigin { source, pointer: String::from("/deny/1000") };
        assert_eq!((absent.line(), absent.to_string()), (None, String::from("--settings")));
    }
}
