//! Removes invisible characters from text of servers.

/// Whether a character is visible. Tag characters, bidirectional overrides and control characters can
/// hide instructions to the model from the user.
pub(super) fn is_visible(it: char) -> bool {
    match it {
        '\n' | '\t' => true,
        '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' => false,
        '\u{e0000}'..='\u{e007f}' => false,
        other => !other.is_control(),
    }
}

/// Returns the text with visible characters only.
pub(crate) fn visible(text: &str) -> String {
    text.chars().filter(|it| is_visible(*it)).collect()
}
