//! Text of strangers as far as a person can see it.

/// Characters a person can see. Tag characters, bidirectional overrides and
/// control characters only serve to tell the model what its user cannot read.
pub(super) fn is_visible(it: char) -> bool {
    match it {
        '\n' | '\t' => true,
        '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' => false,
        '\u{e0000}'..='\u{e007f}' => false,
        other => !other.is_control(),
    }
}

/// The text without the others.
pub(crate) fn visible(text: &str) -> String {
    text.chars().filter(|it| is_visible(*it)).collect()
}
