//! A look at the raw text, before any grammar.

use super::risk::Risk;

/// Longest text that is judged, in characters.
pub const MAX_CHARS: usize = 10_000;

/// Doubts that need no parser.
pub(crate) fn screen(source: &str) -> Vec<Risk> {
    let mut doubts = Vec::new();
    // Bytes first: most texts are short and plain.
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

/// Characters that make a text look like something else than the shell sees:
/// controls, blanks that are none for the shell, marks that are not shown or
/// turn the direction of writing.
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
