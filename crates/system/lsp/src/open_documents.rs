//! Documents that a server has open.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    path::{Path, PathBuf},
    time::{Instant, SystemTime},
};

use serde_json::{Value, json};

use crate::uri_of;

/// Maximum number of open documents.
const MAX_OPEN: usize = 50;

/// Messages that synchronise a document.
pub(crate) struct DocumentSync {
    pub(crate) messages: Vec<(&'static str, Value)>,
    /// Document version after these messages.
    pub(crate) version: i32,
    /// When the server got this version.
    pub(crate) since: Instant,
}

/// Documents that a server has open.
#[derive(Debug, Default)]
pub(crate) struct Documents {
    open: HashMap<PathBuf, OpenDocument>,
    uses: u64,
}

#[derive(Debug)]
struct OpenDocument {
    language: String,
    version: i32,
    print: u64,
    stamp: Option<DocumentStamp>,
    used: u64,
    since: Instant,
}

/// Modification time and size, to detect changes on disk.
type DocumentStamp = (SystemTime, u64);

fn stamp(path: &Path) -> Option<DocumentStamp> {
    let about = std::fs::metadata(path).ok()?;
    Some((about.modified().ok()?, about.len()))
}

fn print(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

impl Documents {
    /// Returns the messages that make the server know this text. Reads file metadata. `None` if the path
    /// has no URI.
    pub(crate) fn know(&mut self, path: &Path, language: &str, text: &str) -> Option<DocumentSync> {
        let uri = uri_of(path)?;
        self.uses += 1;
        let (used, now) = (self.uses, Instant::now());
        let mut messages = Vec::new();
        let new = print(text);
        match self.open.get_mut(path) {
            Some(document) => {
                (document.used, document.stamp) = (used, stamp(path));
                if document.print != new {
                    document.version = document.version.wrapping_add(1);
                    (document.print, document.since) = (new, now);
                    messages.push((
                        "textDocument/didChange",
                        json!({"textDocument": {"uri": uri, "version": document.version},
                            "contentChanges": [{"text": text}]}),
                    ));
                    messages
                        .push(("textDocument/didSave", json!({"textDocument": {"uri": uri}, "text": text})));
                }
                Some(DocumentSync { messages, version: document.version, since: document.since })
            }
            None => {
                messages.extend(self.close_oldest());
                let (language, stamp) = (language.to_owned(), stamp(path));
                messages.push((
                    "textDocument/didOpen",
                    json!({"textDocument": {"uri": uri, "languageId": language, "version": 1, "text": text}}),
                ));
                let document = OpenDocument { language, version: 1, print: new, stamp, used, since: now };
                self.open.insert(path.to_owned(), document);
                Some(DocumentSync { messages, version: 1, since: now })
            }
        }
    }

    fn close_oldest(&mut self) -> Option<(&'static str, Value)> {
        if self.open.len() < MAX_OPEN {
            return None;
        }
        let oldest = self.open.iter().min_by_key(|(_, it)| it.used).map(|(path, _)| path.clone())?;
        self.open.remove(&oldest);
        Some(("textDocument/didClose", json!({"textDocument": {"uri": uri_of(&oldest)?}})))
    }

    #[cfg(test)]
    fn is_open(&self, path: &Path) -> bool {
        self.open.contains_key(path)
    }

    /// Returns the messages about files that other programs changed since they were sent. Reads the
    /// disk.
    pub(crate) fn catch_up(&mut self) -> Vec<(&'static str, Value)> {
        let moved: Vec<(PathBuf, String)> = self
            .open
            .iter()
            .filter(|(path, document)| stamp(path) != document.stamp)
            .map(|(path, document)| (path.clone(), document.language.clone()))
            .collect();
        let mut messages = Vec::new();
        for (path, language) in moved {
            let Some(uri) = uri_of(&path) else { continue };
            let kind = match std::fs::read(&path) {
                Ok(bytes) => {
                    let text = String::from_utf8_lossy(&bytes).into_owned();
                    messages
                        .extend(self.know(&path, &language, &text).into_iter().flat_map(|it| it.messages));
                    2
                }
                Err(_) => {
                    self.open.remove(&path);
                    messages.push(("textDocument/didClose", json!({"textDocument": {"uri": uri}})));
                    3
                }
            };
            let change = json!({"changes": [{"uri": uri, "type": kind}]});
            messages.push(("workspace/didChangeWatchedFiles", change));
        }
        messages
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(messages: &[(&str, Value)]) -> Vec<String> {
        messages.iter().map(|it| it.0.rsplit('/').next().unwrap().to_owned()).collect()
    }

    #[test]
    fn documents_send_only_changes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.py");
        std::fs::write(&path, "1").unwrap();
        let mut documents = Documents::default();
        assert_eq!(names(&documents.know(&path, "python", "1").unwrap().messages), ["didOpen"]);
        assert_eq!(names(&documents.know(&path, "python", "1").unwrap().messages), Vec::<String>::new());
        let changed = documents.know(&path, "python", "2").unwrap();
        assert_eq!(
            (names(&changed.messages), changed.version),
            (vec!["didChange".into(), "didSave".into()], 2)
        );
        std::fs::write(&path, "changed by another").unwrap();
        assert_eq!(names(&documents.catch_up()), ["didChange", "didSave", "didChangeWatchedFiles"]);
        assert_eq!(names(&documents.catch_up()), Vec::<String>::new());
        std::fs::remove_file(&path).unwrap();
        assert_eq!(names(&documents.catch_up()), ["didClose", "didChangeWatchedFiles"]);
        for number in 0..80 {
            documents.know(&dir.path().join(format!("{number}.py")), "python", "");
        }
        assert_eq!(documents.open.len(), MAX_OPEN);
        assert!(documents.is_open(&dir.path().join("79.py")) && !documents.is_open(&dir.path().join("1.py")));
    }
}
