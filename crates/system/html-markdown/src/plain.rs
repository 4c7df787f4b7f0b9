use std::borrow::Cow;

/// Makes invisible characters visible: writes control, bidirectional and tag characters as `\u{…}`,
/// normalizes line ends to `\n`, and drops byte order marks. Text without such characters is not copied.
pub fn visible<'a>(text: impl Into<Cow<'a, str>>) -> String {
    let text = text.into();
    let strange = |it: char| {
        (it.is_control() && !matches!(it, '\n' | '\t'))
            || matches!(it, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
            || matches!(it, '\u{e0000}'..='\u{e007f}')
    };
    let is_plain = |byte: u8| matches!(byte, b' '..=b'~' | b'\n' | b'\t');
    if text.bytes().all(is_plain) || !text.contains(strange) {
        return text.into_owned();
    }
    let mut shown = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(it) = chars.next() {
        match it {
            '\r' => {
                if chars.peek() != Some(&'\n') {
                    shown.push('\n');
                }
            }
            '\u{feff}' => {}
            it if strange(it) => shown.push_str(&format!("\\u{{{:x}}}", u32::from(it))),
            it => shown.push(it),
        }
    }
    shown
}

/// Returns the part of a text from character `start` on, at most `most` characters, and the start of the
/// next part if there is more. Ends at a paragraph, else at a line, if one ends in the last fifth; else
/// anywhere.
pub fn part(text: &str, start: usize, most: usize) -> (&str, Option<usize>) {
    let from = text.char_indices().nth(start).map_or(text.len(), |it| it.0);
    let rest = &text[from..];
    let Some((end, _)) = rest.char_indices().nth(most) else { return (rest, None) };
    let late = end - end / 5;
    let whole = &rest[..end];
    let end = match (whole.rfind("\n\n"), whole.rfind('\n')) {
        (Some(at), _) if late <= at => at + 2,
        (_, Some(at)) if late <= at => at + 1,
        _ => end,
    };
    let piece = &rest[..end];
    (piece, Some(start + piece.chars().count()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn invisible_characters_are_escaped() {
        for (text, want) in [
            ("a\r\nb\rc\n", "a\nb\nc\n"),
            ("\u{feff}x", "x"),
            ("a\u{202e}b", "a\\u{202e}b"),
            ("\u{1b}[31m", "\\u{1b}[31m"),
            ("tab\tand\nline", "tab\tand\nline"),
            ("\u{e0041}", "\\u{e0041}"),
        ] {
            assert_eq!(visible(text), want);
        }
    }

    proptest! {
        #[test]
        fn parts_add_up_to_the_whole(text in "(\\PC|\n){0,400}", most in 1_usize..50) {
            let (mut start, mut all) = (0, String::new());
            loop {
                let (piece, next) = part(&text, start, most);
                prop_assert!(piece.chars().count() <= most);
                all.push_str(piece);
                match next {
                    Some(next) => { prop_assert!(start < next); start = next; }
                    None => break,
                }
            }
            prop_assert_eq!(all, text);
        }
    }
}
