//! Input events of the user interface.

use crate::{app_state::ScreenSize, ui_update::UiUpdate};

/// A key.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum KeyCode {
    /// A character; upper case with shift.
    Char(char),
    Enter,
    Esc,
    Tab,
    Backspace,
    Delete,
    Up,
    Down,
    Left,
    Right,
    Home,
    End,
    PageUp,
    PageDown,
    Insert,
    F(u8),
}

/// A key press with modifiers.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct KeyPress {
    pub code: KeyCode,
    pub ctrl: bool,
    pub alt: bool,
    /// Shift; for characters only where it is not visible in the character itself.
    pub shift: bool,
}

impl KeyPress {
    /// A key without modifiers.
    pub const fn plain(code: KeyCode) -> Self {
        Self { code, ctrl: false, alt: false, shift: false }
    }

    /// A character with Ctrl.
    pub const fn ctrl(char: char) -> Self {
        Self { code: KeyCode::Char(char), ctrl: true, alt: false, shift: false }
    }

    /// A key with Alt.
    pub const fn alt(code: KeyCode) -> Self {
        Self { code, ctrl: false, alt: true, shift: false }
    }

    /// Returns the character it types, if any.
    pub fn typed(&self) -> Option<char> {
        match self.code {
            KeyCode::Char(it) if !self.ctrl && !self.alt => Some(it),
            _ => None,
        }
    }

    /// Formats for display: `ctrl+r`, `alt+enter`, `up`.
    pub fn label(&self) -> String {
        let mut label = String::new();
        for (held, name) in [(self.ctrl, "ctrl+"), (self.alt, "alt+"), (self.shift, "shift+")] {
            if held {
                label.push_str(name);
            }
        }
        match self.code {
            KeyCode::Char(' ') => label.push_str("space"),
            KeyCode::Char(it) => label.push(it),
            KeyCode::F(number) => label.push_str(&format!("f{number}")),
            code => label.push_str(code_name(code)),
        }
        label
    }

    /// Parses the format of [`Self::label`].
    pub fn of_label(label: &str) -> Option<Self> {
        let mut key = Self::plain(KeyCode::Esc);
        let mut rest = label.trim();
        loop {
            let held = [("ctrl+", 0), ("alt+", 1), ("shift+", 2)];
            let found = held.iter().find(|(name, _)| rest.len() > name.len() && rest.starts_with(name));
            let Some((name, which)) = found else { break };
            match which {
                0 => key.ctrl = true,
                1 => key.alt = true,
                _ => key.shift = true,
            }
            rest = &rest[name.len()..];
        }
        let mut chars = rest.chars();
        key.code = match (chars.next(), chars.next()) {
            (Some(it), None) => KeyCode::Char(it),
            _ if rest == "space" => KeyCode::Char(' '),
            (Some('f'), Some('0'..='9')) => KeyCode::F(rest[1..].parse().ok()?),
            _ => *NAMED.iter().find(|it| code_name(**it) == rest)?,
        };
        Some(key)
    }
}

const NAMED: [KeyCode; 14] = [
    KeyCode::Enter,
    KeyCode::Esc,
    KeyCode::Tab,
    KeyCode::Backspace,
    KeyCode::Delete,
    KeyCode::Up,
    KeyCode::Down,
    KeyCode::Left,
    KeyCode::Right,
    KeyCode::Home,
    KeyCode::End,
    KeyCode::PageUp,
    KeyCode::PageDown,
    KeyCode::Insert,
];

fn code_name(code: KeyCode) -> &'static str {
    match code {
        KeyCode::Enter => "enter",
        KeyCode::Esc => "esc",
        KeyCode::Tab => "tab",
        KeyCode::Backspace => "backspace",
        KeyCode::Delete => "delete",
        KeyCode::Up => "up",
        KeyCode::Down => "down",
        KeyCode::Left => "left",
        KeyCode::Right => "right",
        KeyCode::Home => "home",
        KeyCode::End => "end",
        KeyCode::PageUp => "pageup",
        KeyCode::PageDown => "pagedown",
        KeyCode::Insert => "insert",
        KeyCode::Char(_) | KeyCode::F(_) => "",
    }
}

/// An event for [`AppState::update`](crate::AppState::update).
#[derive(Clone, Debug)]
pub enum TermEvent {
    Key(KeyPress),
    /// Pasted text, or a burst of input that contains line breaks.
    Paste(String),
    /// Continuation of the last paste.
    PasteMore(String),
    /// Whether the terminal has the focus.
    Focus(bool),
    /// The terminal has reported its background.
    Background(crate::theme::TermBackground),
    /// The screen has a new size.
    Resize(ScreenSize),
    /// A time returned by `deadline` has come.
    Tick,
    /// An update from the session.
    News(UiUpdate),
    /// The editor was closed with this text; `None` if it failed.
    Edited(Option<String>),
}
