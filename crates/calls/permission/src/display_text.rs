use std::{borrow::Cow, path::Path};

use haft_types::text;

/// Longer texts are cut where they are shown.
const MAX_SHOWN: usize = 300;

/// A path for people and models.
pub(crate) fn path(path: &Path) -> String {
    self::text(&path.to_string_lossy())
}

/// A text for people and models: one line, bounded, and without characters
/// that move the cursor or turn the reading direction. A name is data; it must
/// not be able to draw a different question than the one that is asked.
pub(crate) fn text(text: &str) -> String {
    let visible: Cow<'_, str> = if text.chars().any(is_deceptive) {
        text.chars().map(|it| if is_deceptive(it) { escaped(it) } else { it.to_string() }).collect()
    } else {
        Cow::Borrowed(text)
    };
    match text::head(&visible, MAX_SHOWN) {
        cut if cut.len() < visible.len() => format!("{cut}…"),
        whole => whole.to_owned(),
    }
}

fn escaped(it: char) -> String {
    match it {
        '\n' | '\r' | '\t' => it.escape_default().collect(),
        _ => it.escape_unicode().collect(),
    }
}

fn is_deceptive(it: char) -> bool {
    it.is_control()
        || matches!(it, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deceptive_characters_are_spelt_out() {
        for (given, want) in [
            ("plain ünïcode 漢", "plain ünïcode 漢"),
            ("a\nb\tc", "a\\nb\\tc"),
            ("\u{1b}[2Jx", "\\u{1b}[2Jx"),
            ("safe\u{202e}txt.exe", "safe\\u{202e}txt.exe"),
        ] {
            assert_eq!(text(given), want);
        }
        assert_eq!(text(&"x".repeat(400)).chars().count(), MAX_SHOWN + 1);
    }
}
