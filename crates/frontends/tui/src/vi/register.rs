//! What was cut and copied, by names.

use std::collections::HashMap;

/// A text that was taken out.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct ViText {
    pub(super) text: String,
    /// Whether it is whole lines.
    pub(super) lines: bool,
}

/// Texts by their names; the last one has none.
#[derive(Clone, Debug, Default)]
pub(super) struct ViRegisters {
    last: ViText,
    yanked: ViText,
    named: HashMap<char, ViText>,
}

impl ViRegisters {
    /// What a name holds; `0` is what was copied last.
    pub(super) fn get(&self, name: Option<char>) -> ViText {
        match name {
            Some('0') => self.yanked.clone(),
            Some(name) if name.is_ascii_alphabetic() => {
                self.named.get(&name.to_ascii_lowercase()).cloned().unwrap_or_default()
            }
            _ => self.last.clone(),
        }
    }

    /// Keeps a text. Big letters add to what the small one holds, `_` keeps
    /// nothing.
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
