//! State of the user's editor: the selection, and files the user wants to mention. The editor sends it
//! as notifications in its own format; unexpected ones are ignored.

use std::{
    path::PathBuf,
    sync::{Mutex, PoisonError},
};

use haft_mcp_client::ServerEvent;
use serde_json::Value;
use tokio::sync::broadcast::{Receiver, error::TryRecvError};

/// Maximum characters of a selection; the rest is cut off.
const MAX_SELECTION_CHARS: usize = 20_000;

/// Maximum number of pending mentions; further ones are ignored.
const MAX_MENTIONS: usize = 10;

/// The current state of an editor.
pub(crate) struct EditorContext {
    server: String,
    state: Mutex<EditorState>,
}

struct EditorState {
    events: Receiver<ServerEvent>,
    selected: Option<EditorSelection>,
    /// The selection last reported to the model; `None` before the first report and after a selection
    /// was cleared.
    told: Option<EditorSelection>,
    mentioned: Vec<EditorSelection>,
}

/// A part of a file in an editor.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct EditorSelection {
    pub(crate) path: PathBuf,
    /// First and last line, starting at 1; `None` for the whole file.
    pub(crate) lines: Option<(u64, u64)>,
    /// The text in the editor, which may be unsaved.
    pub(crate) text: String,
}

impl EditorContext {
    pub(crate) fn new(server: &str, events: Receiver<ServerEvent>) -> Self {
        let state = EditorState { events, selected: None, told: None, mentioned: Vec::new() };
        Self { server: server.to_owned(), state: Mutex::new(state) }
    }

    /// Takes the selection, unless it was reported to the model already, and the new mentions.
    pub(crate) fn take(&self) -> (Option<EditorSelection>, Vec<EditorSelection>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match state.events.try_recv() {
                Ok(ServerEvent::Own { server, method, params }) if server == self.server => {
                    state.hear(&method, &params)
                }
                Ok(_) | Err(TryRecvError::Lagged(_)) => (),
                Err(TryRecvError::Empty | TryRecvError::Closed) => break,
            }
        }
        let mentioned = std::mem::take(&mut state.mentioned);
        if state.selected == state.told {
            return (None, mentioned);
        }
        let selected = state.selected.clone();
        state.told.clone_from(&selected);
        (selected, mentioned)
    }
}

impl EditorState {
    fn hear(&mut self, method: &str, params: &Value) {
        match method {
            "selection_changed" => self.selected = selection(params),
            "at_mentioned" if self.mentioned.len() < MAX_MENTIONS => self.mentioned.extend(mention(params)),
            _ => (),
        }
    }
}

fn path(params: &Value) -> Option<PathBuf> {
    params["filePath"].as_str().map(PathBuf::from).filter(|it| it.is_absolute())
}

/// Parses a selection; `None` if nothing is selected.
fn selection(params: &Value) -> Option<EditorSelection> {
    let text = params["text"].as_str().filter(|it| !it.trim().is_empty())?;
    let (start, end) = (&params["selection"]["start"], &params["selection"]["end"]);
    let (first, last) = (start["line"].as_u64()?, end["line"].as_u64()?);
    // A selection that ends before the first character of a line does not include it.
    let last = if end["character"] == 0 && first < last { last - 1 } else { last };
    let text = haft_types::text::head(text, MAX_SELECTION_CHARS).to_owned();
    Some(EditorSelection {
        path: path(params)?,
        lines: Some((first.saturating_add(1), last.saturating_add(1))),
        text,
    })
}

fn mention(params: &Value) -> Option<EditorSelection> {
    let lines = params["lineStart"].as_u64().zip(params["lineEnd"].as_u64());
    let lines = lines.map(|(first, last)| (first.saturating_add(1), last.max(first).saturating_add(1)));
    Some(EditorSelection { path: path(params)?, lines, text: String::new() })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_an_editor_says_counts_once_and_nonsense_not_at_all() {
        let (sender, events) = tokio::sync::broadcast::channel(16);
        let news = EditorContext::new("ide", events);
        let say = |server: &str, method: &str, params: Value| {
            let (server, method) = (server.to_owned(), method.to_owned());
            sender.send(ServerEvent::Own { server, method, params }).unwrap();
        };
        let selected = |text: &str, last: u64| {
            json!({"text": text, "filePath": "/x/a.rs", "fileUrl": "file:///x/a.rs", "selection":
                {"start": {"line": 2, "character": 0}, "end": {"line": last, "character": 4}, "isEmpty": false}})
        };
        let place = |text: &str, last: u64| EditorSelection {
            path: "/x/a.rs".into(),
            lines: Some((3, last)),
            text: text.to_owned(),
        };
        assert_eq!(news.take(), (None, Vec::new()));
        say("ide", "selection_changed", selected("old", 2));
        say("ide", "selection_changed", selected("new", 4));
        say("other", "selection_changed", selected("foreign", 4));
        assert_eq!(news.take(), (Some(place("new", 5)), Vec::new()));
        assert_eq!(news.take(), (None, Vec::new()), "it is told once");
        say("ide", "selection_changed", selected("new", 4));
        assert_eq!(news.take(), (None, Vec::new()));
        for nonsense in [
            json!(null),
            json!({"text": 3}),
            json!({"text": "x", "filePath": "relative", "selection": {"start": {"line": 1}, "end": {"line": 1}}}),
            json!({"text": "x", "filePath": "/x", "selection": {"start": {"line": -1}, "end": {}}}),
        ] {
            say("ide", "selection_changed", nonsense);
            assert_eq!(news.take(), (None, Vec::new()));
        }
        // What is selected again after that is news again.
        say("ide", "selection_changed", selected("new", 4));
        say("ide", "at_mentioned", json!({"filePath": "/x/b.rs", "lineStart": 9, "lineEnd": 11}));
        say("ide", "at_mentioned", json!({"filePath": "b.rs"}));
        let (now, mentioned) = news.take();
        assert_eq!(now, Some(place("new", 5)));
        assert_eq!(
            mentioned,
            [EditorSelection { path: "/x/b.rs".into(), lines: Some((10, 12)), text: String::new() }]
        );
    }
}
