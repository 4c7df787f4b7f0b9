//! What a server last said about each file.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use serde_json::Value;
use tokio::sync::watch;

use crate::path_of;

/// How bad something is.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum DiagnosticSeverity {
    /// It does not work.
    Error,
    /// It may not be meant.
    Warning,
    /// Worth knowing.
    Information,
    /// A hint.
    Hint,
}

impl DiagnosticSeverity {
    /// One word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Information => "info",
            Self::Hint => "hint",
        }
    }
}

/// Something a server says about a place.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: DiagnosticSeverity,
    /// The line, from nought.
    pub line: u32,
    /// The column, as the server counts.
    pub column: u32,
    /// Where it ends: line and column.
    pub end: (u32, u32),
    /// What is wrong.
    pub message: String,
    /// Its name, if it has one.
    pub code: Option<String>,
    /// Who says so.
    pub source: Option<String>,
}

impl Diagnostic {
    /// What stays the same when lines move.
    pub fn print(&self) -> (DiagnosticSeverity, &str, Option<&str>) {
        (self.severity, self.message.as_str(), self.code.as_deref())
    }

    /// Reads a list of them; what is none is left out.
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

/// Of one file.
const MAX_ITEMS: usize = 2_000;
/// Characters of a message.
const MAX_MESSAGE: usize = 1_500;
/// Of all files that are remembered.
const MAX_IN_ALL: usize = 50_000;
/// Files that are remembered.
const MAX_FILES: usize = 5_000;

/// What was last said about a file.
#[derive(Clone, Debug)]
pub struct FileDiagnostics {
    /// About which version of it, where that was said.
    pub version: Option<i32>,
    /// When.
    pub at: Instant,
    /// What.
    pub items: Vec<Diagnostic>,
}

/// Whether a file was looked at.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum CheckState {
    /// It was, as it is now.
    Now(Vec<Diagnostic>),
    /// Nothing was said about it as it is now.
    NotYet,
}

/// What was said about all files.
#[derive(Debug, Default)]
pub(crate) struct DiagnosticStore {
    files: Mutex<HashMap<PathBuf, FileDiagnostics>>,
    /// Counts reports, so that one can be waited for.
    told: watch::Sender<u64>,
}

impl DiagnosticStore {
    fn files(&self) -> MutexGuard<'_, HashMap<PathBuf, FileDiagnostics>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A `publishDiagnostics` notification. Which file it was about.
    pub(crate) fn published(&self, params: &Value) -> Option<PathBuf> {
        let path = params["uri"].as_str().and_then(path_of)?;
        let version = params["version"].as_i64().and_then(|it| i32::try_from(it).ok());
        self.put(&path, version, Diagnostic::read_all(&params["diagnostics"]));
        Some(path)
    }

    /// A report, however it came.
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

    /// Waits for a report about this version of a file, or, from servers that
    /// name no version, for one that came after `since`; then for the end of
    /// what follows it closely.
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
            // Nobody can have looked at a text before it was told, whatever version is named.
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
    async fn old_reports_do_not_count() {
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
        // Without a version the time decides.
        ledger.published(&said(None, "any"));
        assert!(matches!(ledger.wait(path, 9, now, short, none).await, CheckState::Now(_)));
        assert_eq!(ledger.wait(path, 9, Instant::now(), short, none).await, CheckState::NotYet);
        assert_eq!(ledger.published(&json!({"uri": "x:y", "diagnostics": []})), None);
        // Of a text that was not told yet nobody says anything, whatever they claim.
        ledger.published(&said(Some(i32::MAX), "guessed"));
        assert_eq!(ledger.wait(path, 9, Instant::now(), short, none).await, CheckState::NotYet);
    }

    #[test]
    fn a_flood_of_reports_is_not_kept() {
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
