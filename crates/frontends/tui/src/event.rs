//! What the terminal hears of.

use crate::{app_state::ScreenSize, ui_update::UiUpdate};

/// A key, as far as terminals tell.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum KeyCode {
    /// A character; upper case when shift was held.
    Char(char),
    /// Enter.
    Enter,
    /// Escape.
    Esc,
    /// Tab.
    Tab,
    /// Backspace.
    Backspace,
    /// Delete.
    Delete,
    /// Arrow up.
    Up,
    /// Arrow down.
    Down,
    /// Arrow left.
    Left,
    /// Arrow right.
    Right,
    /// Home.
    Home,
    /// End.
    End,
    /// Page up.
    PageUp,
    /// Page down.
    PageDown,
    /// Insert.
    Insert,
    /// A function key.
    F(u8),
}

/// A key that was pressed, with what was held.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct KeyPress {
    /// The key.
    pub code: KeyCode,
    /// Control was held.
    pub ctrl: bool,
    /// Alt was held.
    pub alt: bool,
    /// Shift was held; for characters only where it does not show in the
    /// character itself.
    pub shift: bool,
}

impl KeyPress {
    /// A key alone.
    pub const fn plain(code: KeyCode) -> Self {
        Self { code, ctrl: false, alt: false, shift: false }
    }

    /// A character with control held.
    pub const fn ctrl(char: char) -> Self {
        Self { code: KeyCode::Char(char), ctrl: true, alt: false, shift: false }
    }

    /// A key with alt held.
    pub const fn alt(code: KeyCode) -> Self {
        Self { code, ctrl: false, alt: true, shift: false }
    }

    /// The character it types, if it types one.
    pub fn typed(&self) -> Option<char> {
        match self.code {
            KeyCode::Char(it) if !self.ctrl && !self.alt => Some(it),
            _ => None,
        }
    }

    /// As people write it: `ctrl+r`, `alt+enter`, `up`.
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

    /// Reads [`Self::label`].
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

/// What happened, for [`AppState::update`](crate::AppState::update).
#[derive(Clone, Debug)]
pub enum TermEvent {
    /// A key.
    Key(KeyPress),
    /// Text that was pasted, or came in one burst with line breaks in it.
    Paste(String),
    /// What was pasted last goes on.
    PasteMore(String),
    /// The terminal has the keyboard, or not.
    Focus(bool),
    /// The terminal says what its background is.
    Background(crate::theme::TermBackground),
    /// The screen has this size.
    Resize(ScreenSize),
    /// A moment that was asked for has come.
    Tick,
    /// The session tells something.
    News(UiUpdate),
    /// An editor was left with this text; none when it failed.
    Edited(Option<String>),
}
