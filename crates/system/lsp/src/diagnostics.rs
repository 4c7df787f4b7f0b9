//! Latest diagnostics of each file.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use serde_json::Value;
use tokio::sync::watch;

use crate::path_of;

/// Severity of a diagnostic.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum DiagnosticSeverity {
    /// An error.
    Error,
    /// A warning.
    Warning,
    /// Information.
    Information,
    Hint,
}

impl DiagnosticSeverity {
    pub fn word(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Information => "info",
            Self::Hint => "hint",
        }
    }
}

/// A diagnostic.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Diagnostic {
    pub severity: DiagnosticSeverity,
    /// Line, from 0.
    pub line: u32,
    /// Column, in the server's encoding.
    pub column: u32,
    /// End: line and column.
    pub end: (u32, u32),
    pub message: String,
    /// Code of the diagnostic, such as `E0308`.
    pub code: Option<String>,
    /// Tool that reported it.
    pub source: Option<String>,
}

impl Diagnostic {
    /// The parts that stay equal when lines move: severity, message and code.
    pub fn print(&self) -> (DiagnosticSeverity, &str, Option<&str>) {
        (self.severity, self.message.as_str(), self.code.as_deref())
    }

    /// Parses a list of diagnostics; skips invalid ones.
    pub fn read_all(items: &Value) -> Vec<Self> {
        let all = items.as_array().map(Vec::as_slice).unwrap_or_default();
        all.iter().take(MAX_ITEMS).filter_map(Self::read).collect()
    }

    fn read(item: &Value) -> Option<Self> {
        let number = |value: &Value| value.as_u64().map(|it| u32::try_from(it).unwrap_or(u32::MAX));
        let (start, end) = (&item["range"]["start"], &item["range"]["end"]);
        let text = |it: &str, most: usize| haft_types::text::head(it, most).to_owned();
        Some(Self {
            severity: match item["severity"].as_u64() {
                Some(2) => DiagnosticSeverity::Warning,
                Some(3) => DiagnosticSeverity::Information,
                Some(4) => DiagnosticSeverity::Hint,
                _ => DiagnosticSeverity::Error,
            },
            line: number(&start["line"])?,
            column: number(&start["character"])?,
            end: (number(&end["line"])?, number(&end["character"])?),
            message: text(item["message"].as_str()?.trim(), MAX_MESSAGE),
            code: match &item["code"] {
                Value::String(code) => Some(text(code, 100)),
                Value::Number(code) => Some(code.to_string()),
                _ => None,
            },
            source: item["source"].as_str().map(|it| text(it, 60)),
        })
    }
}

/// Maximum diagnostics per file.
const MAX_ITEMS: usize = 2_000;
/// Maximum characters of a message.
const MAX_MESSAGE: usize = 1_500;
/// Maximum diagnostics of all files together.
const MAX_IN_ALL: usize = 50_000;
/// Maximum number of files with diagnostics.
const MAX_FILES: usize = 5_000;

/// The latest diagnostics of a file.
#[derive(Clone, Debug)]
pub struct FileDiagnostics {
    /// Document version they refer to, if the server reported it.
    pub version: Option<i32>,
    /// When they arrived.
    pub at: Instant,
    pub items: Vec<Diagnostic>,
}

/// Whether the server has checked the current text of a file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum CheckState {
    /// It has; the diagnostics.
    Now(Vec<Diagnostic>),
    /// No diagnostics for the current text yet.
    NotYet,
}

/// Latest diagnostics of all files.
#[derive(Debug, Default)]
pub(crate) struct DiagnosticStore {
    files: Mutex<HashMap<PathBuf, FileDiagnostics>>,
    /// Number of reports so far, to wait for a change.
    told: watch::Sender<u64>,
}

impl DiagnosticStore {
    fn files(&self) -> MutexGuard<'_, HashMap<PathBuf, FileDiagnostics>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores a `publishDiagnostics` notification. Returns the file.
    pub(crate) fn published(&self, params: &Value) -> Option<PathBuf> {
        let path = params["uri"].as_str().and_then(path_of)?;
        let version = params["version"].as_i64().and_then(|it| i32::try_from(it).ok());
        self.put(&path, version, Diagnostic::read_all(&params["diagnostics"]));
        Some(path)
    }

    /// Stores diagnostics, pushed or pulled.
    pub(crate) fn put(&self, path: &Path, version: Option<i32>, items: Vec<Diagnostic>) {
        let mut files = self.files();
        files.remove(path);
        let mut all: usize = files.values().map(|it| it.items.len()).sum::<usize>() + items.len();
        while MAX_FILES <= files.len() || (MAX_IN_ALL < all && !files.is_empty()) {
            let oldest = files.iter().min_by_key(|(_, it)| it.at).map(|(path, _)| path.clone());
            let gone = oldest.and_then(|path| files.remove(&path));
            all -= gone.map_or(0, |it| it.items.len());
        }
        files.insert(path.to_owned(), FileDiagnostics { version, at: Instant::now(), items });
        drop(files);
        self.told.send_modify(|count| *count += 1);
    }

    pub(crate) fn get(&self, path: &Path) -> Option<FileDiagnostics> {
        self.files().get(path).cloned()
    }

    pub(crate) fn all(&self) -> Vec<(PathBuf, FileDiagnostics)> {
        let mut all: Vec<_> = self.files().iter().map(|(path, it)| (path.clone(), it.clone())).collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all
    }

    /// Waits for diagnostics of at least this document version or, from servers that report no version,
    /// that arrived after `since`; then until none has arrived for `settle`.
    pub(crate) async fn wait(
        &self,
        path: &Path,
        version: i32,
        since: Instant,
        patience: Duration,
        settle: Duration,
    ) -> CheckState {
        let deadline = Instant::now() + patience;
        let mut told = self.told.subscribe();
        loop {
            told.borrow_and_update();
            // Diagnostics that arrived before the text was sent cannot be about it, whatever version
            // they claim.
            let fits = |it: &FileDiagnostics| since <= it.at && it.version.is_none_or(|said| version <= said);
            let found = self.get(path).filter(fits);
            let until = match &found {
                Some(found) => (found.at + settle).min(deadline),
                None => deadline,
            };
            if let Some(found) = found
                && until <= Instant::now()
            {
                return CheckState::Now(found.items);
            }
            if deadline <= Instant::now() {
                return CheckState::NotYet;
            }
            let _changed = tokio::time::timeout_at(until.into(), told.changed()).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn said(version: Option<i32>, message: &str) -> Value {
        json!({"uri": "file:///a.py", "version": version, "diagnostics": [
            {"range": {"start": {"line": 1, "character": 2}, "end": {"line": 1, "character": 3}}, "message": message},
            {"range": 7, "message": "no place"}, {"message": 3}, null]})
    }

    #[tokio::test]
    async fn wait_ignores_diagnostics_of_older_versions() {
        let (ledger, path) = (DiagnosticStore::default(), Path::new("/a.py"));
        let (now, short, none) = (Instant::now(), Duration::from_millis(20), Duration::ZERO);
        assert_eq!(ledger.wait(path, 1, now, short, none).await, CheckState::NotYet);
        ledger.published(&said(Some(1), "old"));
        let CheckState::Now(items) = ledger.wait(path, 1, now, short, none).await else { panic!("not yet") };
        assert_eq!(items.len(), 1);
        assert_eq!(ledger.wait(path, 2, now, short, none).await, CheckState::NotYet);
        ledger.published(&said(Some(3), "new"));
        let CheckState::Now(items) = ledger.wait(path, 2, now, short, none).await else { panic!("not yet") };
        assert_eq!(items[0].message, "new");
        // Without a version, the arrival time decides.
        ledger.published(&said(None, "any"));
        assert!(matches!(ledger.wait(path, 9, now, short, none).await, CheckState::Now(_)));
        assert_eq!(ledger.wait(path, 9, Instant::now(), short, none).await, CheckState::NotYet);
        assert_eq!(ledger.published(&json!({"uri": "x:y", "diagnostics": []})), None);
        // Diagnostics for a text that was not sent yet are ignored, whatever version they claim.
        ledger.published(&said(Some(i32::MAX), "guessed"));
        assert_eq!(ledger.wait(path, 9, Instant::now(), short, none).await, CheckState::NotYet);
    }

    #[test]
    fn diagnostic_store_bounds_flood_of_reports() {
        let ledger = DiagnosticStore::default();
        let items =
            Diagnostic::read_all(&Value::Array(vec![said(None, "x")["diagnostics"][0].clone(); 9_000]));
        assert_eq!(items.len(), MAX_ITEMS);
        for file in 0..200 {
            ledger.put(Path::new(&format!("/{file}.x")), None, items.clone());
        }
        let all: Vec<PathBuf> = ledger.all().into_iter().map(|it| it.0).collect();
        assert_eq!(all.len(), MAX_IN_ALL / MAX_ITEMS);
        assert!(all.contains(&PathBuf::from("/199.x")), "{all:?}");
        for file in 0..MAX_FILES + 10 {
            ledger.put(Path::new(&format!("/empty/{file}.x")), None, Vec::new());
        }
        assert_eq!(ledger.all().len(), MAX_FILES);
    }
}
