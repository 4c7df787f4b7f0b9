use std::{
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use crate::json_spans;

/// Source of settings, in ascending precedence.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum SettingsLayer {
    /// The user's files, for all projects.
    User,
    /// The project's shared files.
    Project,
    /// The project's local files, for this user only.
    Local,
    /// The command line.
    Flag,
    /// The organisation's managed settings.
    Managed,
}

impl SettingsLayer {
    /// Whether the layer's files are in the project directory, so that the project's authors may have
    /// written them.
    pub const fn is_of_the_project(self) -> bool {
        matches!(self, Self::Project | Self::Local)
    }

    /// Returns the display name.
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

/// One settings text and where it comes from.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SettingsText {
    pub layer: SettingsLayer,
    /// The file or argument.
    pub place: SettingsSourceKind,
    /// Directory that `/` at the start of a path rule in this text refers to.
    pub base: PathBuf,
    /// Content, kept to find the line of a value.
    text: Arc<str>,
    lines: LineIndex,
}

/// Positions of the values in a text, computed on first use because every rule of a file asks for its
/// line.
#[derive(Clone, Debug, Default)]
struct LineIndex(OnceLock<Option<ScannedText>>);

#[derive(Clone, Debug)]
struct ScannedText {
    root: json_spans::JsonNode,
    /// Byte offsets of all lines but the first.
    starts: Vec<usize>,
}

/// The index is derived from the text, so it is ignored in comparisons.
impl PartialEq for LineIndex {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl Eq for LineIndex {}

impl LineIndex {
    /// Returns the line, from 1, of the value at a JSON pointer.
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

/// A file or a command line argument.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum SettingsSourceKind {
    File(PathBuf),
    /// A command line argument, by name.
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

    /// Returns the path of a file; `None` for an argument.
    pub fn path(&self) -> Option<&Path> {
        match &self.place {
            SettingsSourceKind::File(path) => Some(path),
            SettingsSourceKind::Argument(_) => None,
        }
    }
}

/// Where a value was set.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SettingsOrigin {
    pub source: Arc<SettingsText>,
    /// Position of the value as a JSON pointer.
    pub pointer: String,
}

impl SettingsOrigin {
    /// Returns the line, from 1.
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

/// A value with its origin.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Sourced<T> {
    pub value: T,
    pub origin: SettingsOrigin,
}

impl<T> Sourced<T> {
    /// Converts the value, keeping the origin.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Sourced<U> {
        Sourced { value: change(self.value), origin: self.origin }
    }
}

/// A message to the user about a settings text.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SettingsNotice {
    pub place: SettingsSourceKind,
    /// Line and column, from 1, if known.
    pub position: Option<(usize, usize)>,
    /// The problem and its consequence.
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
    fn line_lookups_scan_text_once() {
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
