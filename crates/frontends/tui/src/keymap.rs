//! Key bindings: one table, used for help, documentation and settings.

use std::collections::HashMap;

use crate::event::KeyPress;

/// An action that can be bound to a key.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[expect(missing_docs, reason = "the table below says what each does")]
pub enum KeyAction {
    Send,
    Newline,
    Stop,
    Cancel,
    EndOfInput,
    Left,
    Right,
    WordLeft,
    WordRight,
    LineStart,
    LineEnd,
    Up,
    Down,
    DeleteLeft,
    DeleteRight,
    KillWord,
    KillWordRight,
    KillLineEnd,
    KillLineStart,
    Yank,
    YankOlder,
    Undo,
    Redo,
    Transpose,
    SearchHistory,
    Complete,
    NextMode,
    Editor,
    Unfold,
    Transcript,
    ToBackground,
    Tasks,
    PastePicture,
    ScrollUp,
    ScrollDown,
    Redraw,
    Suspend,
}

/// An action with its name in settings, its default keys and its description.
type KeyEntry = (KeyAction, &'static str, &'static [&'static str], &'static str);

/// All actions.
pub(crate) const KEYS: &[KeyEntry] = &[
    (KeyAction::Send, "send", &["enter"], "send the message; while it works: queue it for the next pause"),
    (
        KeyAction::Newline,
        "newline",
        &["shift+enter", "alt+enter", "ctrl+j", "ctrl+enter"],
        "begin a new line (so does \\ before enter)",
    ),
    (KeyAction::Stop, "stop", &["esc"], "stop what is being worked on; close lists; twice: rewind"),
    (
        KeyAction::Cancel,
        "cancel",
        &["ctrl+c"],
        "clear the draft, stop what is being worked on; twice when there is neither: leave",
    ),
    (KeyAction::EndOfInput, "leave", &["ctrl+d"], "leave, when the draft is empty"),
    (KeyAction::Left, "left", &["left", "ctrl+b"], "one character to the left"),
    (KeyAction::Right, "right", &["right", "ctrl+f"], "one character to the right"),
    (KeyAction::WordLeft, "wordLeft", &["alt+left", "ctrl+left", "alt+b"], "one word to the left"),
    (KeyAction::WordRight, "wordRight", &["alt+right", "ctrl+right", "alt+f"], "one word to the right"),
    (KeyAction::LineStart, "lineStart", &["home", "ctrl+a"], "to the beginning of the line"),
    (KeyAction::LineEnd, "lineEnd", &["end", "ctrl+e"], "to the end of the line"),
    (KeyAction::Up, "up", &["up", "ctrl+p"], "one row up; the queued message; the message before"),
    (KeyAction::Down, "down", &["down", "ctrl+n"], "one row down; the message after"),
    (KeyAction::DeleteLeft, "deleteLeft", &["backspace", "ctrl+h"], "delete to the left"),
    (KeyAction::DeleteRight, "deleteRight", &["delete"], "delete to the right"),
    (
        KeyAction::KillWord,
        "killWord",
        &["ctrl+w", "alt+backspace", "ctrl+backspace"],
        "cut the word to the left",
    ),
    (KeyAction::KillWordRight, "killWordRight", &["alt+d"], "cut the word to the right"),
    (KeyAction::KillLineEnd, "killLineEnd", &["ctrl+k"], "cut to the end of the line"),
    (KeyAction::KillLineStart, "killLineStart", &["ctrl+u"], "cut to the beginning of the line"),
    (KeyAction::Yank, "yank", &["ctrl+y"], "put back what was cut"),
    (KeyAction::YankOlder, "yankOlder", &["alt+y"], "put back what was cut before that"),
    (KeyAction::Undo, "undo", &["ctrl+7", "ctrl+_", "ctrl+/"], "take the last change of the draft back"),
    (KeyAction::Redo, "redo", &["alt+_", "alt+/"], "make it again"),
    (KeyAction::Transpose, "transpose", &["alt+t"], "exchange two characters"),
    (KeyAction::SearchHistory, "searchHistory", &["ctrl+r"], "search what was sent before"),
    (KeyAction::Complete, "complete", &["tab"], "complete a command or a file"),
    (KeyAction::NextMode, "nextMode", &["shift+tab"], "the next permission mode"),
    (KeyAction::Editor, "editor", &["ctrl+g"], "write in $EDITOR"),
    (KeyAction::Unfold, "unfold", &["ctrl+x"], "show a pasted text in the draft"),
    (KeyAction::Transcript, "transcript", &["ctrl+o", "ctrl+t"], "everything that was said and done, whole"),
    (KeyAction::ToBackground, "toBackground", &["alt+z"], "let a running command go on in the background"),
    (KeyAction::Tasks, "tasks", &["alt+j"], "commands in the background, and agents"),
    (KeyAction::PastePicture, "pastePicture", &["ctrl+v", "alt+v"], "paste a picture of the clipboard"),
    (KeyAction::ScrollUp, "scrollUp", &["pageup"], "older rows, where the conversation has its own screen"),
    (KeyAction::ScrollDown, "scrollDown", &["pagedown"], "newer rows, likewise"),
    (KeyAction::Redraw, "redraw", &["ctrl+l"], "draw the screen anew"),
    (KeyAction::Suspend, "suspend", &["ctrl+z"], "back to the shell; `fg` comes back"),
];

/// Key bindings.
#[derive(Clone, Debug)]
pub struct KeyMap {
    actions: HashMap<KeyPress, KeyAction>,
}

impl Default for KeyMap {
    fn default() -> Self {
        let mut actions = HashMap::new();
        for (action, _, keys, _) in KEYS {
            actions.extend(keys.iter().filter_map(|key| KeyPress::of_label(key)).map(|key| (key, *action)));
        }
        Self { actions }
    }
}

impl KeyMap {
    /// Returns the default bindings with changes from the settings; an action named there has exactly
    /// those keys. Invalid changes are returned as messages and ignored.
    pub fn with(changes: &[(String, Vec<String>)]) -> (Self, Vec<String>) {
        let (mut map, mut problems) = (Self::default(), Vec::new());
        let mut taken: HashMap<KeyPress, &str> = HashMap::new();
        for (name, keys) in changes {
            let Some((action, _, _, _)) = KEYS.iter().find(|it| it.1 == name) else {
                problems.push(format!("there is no action `{name}` for a key"));
                continue;
            };
            map.actions.retain(|_, it| it != action);
            for label in keys {
                let Some(key) = KeyPress::of_label(label) else {
                    problems.push(format!("`{label}` for {name} is no key"));
                    continue;
                };
                if let Some(other) = taken.insert(key, name) {
                    problems.push(format!("`{label}` is for {other} and for {name}: only {other} has it"));
                    continue;
                }
                map.actions.insert(key, *action);
            }
        }
        (map, problems)
    }

    /// Returns the action of a key.
    pub fn action(&self, key: KeyPress) -> Option<KeyAction> {
        self.actions.get(&key).copied()
    }

    /// Formats the first key of an action for display.
    pub fn label(&self, action: KeyAction) -> String {
        let usual = KEYS.iter().find(|it| it.0 == action).map_or(&[][..], |it| it.2);
        let is_usual = |label: &&&str| {
            KeyPress::of_label(label).is_some_and(|key| self.actions.get(&key) == Some(&action))
        };
        match usual.iter().find(is_usual) {
            Some(label) => (*label).to_owned(),
            None => {
                let mut labels: Vec<String> =
                    self.actions.iter().filter(|it| *it.1 == action).map(|it| it.0.label()).collect();
                labels.sort();
                labels.into_iter().next().unwrap_or_default()
            }
        }
    }
}

/// Returns the table as Markdown.
pub fn key_table() -> String {
    let mut page = String::from("| key | action | what it does |\n|---|---|---|\n");
    for (_, name, keys, about) in KEYS {
        let keys: Vec<String> = keys.iter().map(|key| format!("`{key}`")).collect();
        page.push_str(&format!("| {} | `{name}` | {about} |\n", keys.join(", ")));
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_has_one_action_and_settings_rebind() {
        let all: usize = KEYS.iter().map(|it| it.2.len()).sum();
        assert_eq!(KeyMap::default().actions.len(), all, "a key stands twice in the table, or is no key");
        let key = |label: &str| KeyPress::of_label(label).unwrap_or(KeyPress::ctrl('?'));
        let (map, problems) = KeyMap::with(&[
            (String::from("send"), vec![String::from("ctrl+s")]),
            (String::from("editor"), vec![String::from("ctrl+s"), String::from("nokey")]),
            (String::from("fly"), vec![String::from("a")]),
        ]);
        assert_eq!(map.action(key("ctrl+s")), Some(KeyAction::Send));
        assert_eq!(map.action(key("enter")), None);
        assert_eq!(map.label(KeyAction::Send), "ctrl+s");
        assert_eq!(
            problems,
            [
                "`ctrl+s` is for send and for editor: only send has it",
                "`nokey` for editor is no key",
                "there is no action `fly` for a key"
            ]
        );
    }
}
