//! Checks of the raw text before parsing.

use super::risk::Risk;

/// Maximum length of a command line in characters; a longer one is a [`Risk::TooLong`].
pub const MAX_CHARS: usize = 10_000;

/// Risks that can be seen without parsing.
pub(crate) fn screen(source: &str) -> Vec<Risk> {
    let mut doubts = Vec::new();
    // Byte length first: most texts are short ASCII.
    if MAX_CHARS < source.len() {
        let chars = source.chars().count();
        if MAX_CHARS < chars {
            doubts.push(Risk::TooLong { chars });
        }
    }
    if let Some(c) = source.chars().find(|c| is_misleading(*c)) {
        doubts.push(Risk::Character(c));
    }
    if source.starts_with(['-', '+']) {
        doubts.push(Risk::LeadingDash);
    }
    doubts
}

/// Characters that make a text look different from what the shell sees: control characters, spaces that
/// are not blanks for the shell, invisible characters, and direction overrides.
pub(crate) fn is_misleading(c: char) -> bool {
    match c {
        '\n' | '\t' | ' '..='~' => false,
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' => true,
        '\u{a0}' | '\u{ad}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{1680}' | '\u{17b4}' | '\u{17b5}' => {
            true
        }
        '\u{180b}'..='\u{180f}' | '\u{2000}'..='\u{200f}' | '\u{2028}'..='\u{202f}' => true,
        '\u{205f}'..='\u{206f}' | '\u{3000}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}' => true,
        '\u{fff0}'..='\u{fffb}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}' => true,
        _ => false,
    }
}
