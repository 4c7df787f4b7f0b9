//! Registers.

use std::collections::HashMap;

/// A text in a register.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct ViText {
    pub(super) text: String,
    /// Whether it consists of whole lines.
    pub(super) lines: bool,
}

/// Registers by name; the unnamed one holds the last text.
#[derive(Clone, Debug, Default)]
pub(super) struct ViRegisters {
    last: ViText,
    yanked: ViText,
    named: HashMap<char, ViText>,
}

impl ViRegisters {
    /// Returns a register; `0` is the last yank.
    pub(super) fn get(&self, name: Option<char>) -> ViText {
        match name {
            Some('0') => self.yanked.clone(),
            Some(name) if name.is_ascii_alphabetic() => {
                self.named.get(&name.to_ascii_lowercase()).cloned().unwrap_or_default()
            }
            _ => self.last.clone(),
        }
    }

    /// Stores a text. An upper-case name appends, `_` discards.
    pub(super) fn keep(&mut self, name: Option<char>, text: ViText, is_yank: bool) {
        if name == Some('_') {
            return;
        }
        if let Some(name) = name.filter(char::is_ascii_alphabetic) {
            let held = self.named.entry(name.to_ascii_lowercase()).or_default();
            if name.is_ascii_uppercase() {
                if text.lines || held.lines {
                    let old = held.text.trim_end_matches('\n');
                    held.text = format!("{old}\n{}", text.text);
                    held.lines = true;
                } else {
                    held.text.push_str(&text.text)
                }
            } else {
                *held = text.clone()
            }
        } else if is_yank {
            self.yanked = text.clone();
        }
        self.last = text;
    }
}
