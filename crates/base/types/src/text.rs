//! Safe truncation of text.
//!
//! Half an escape sequence would corrupt the user's terminal, and half a character is not valid text.
//! [`head`] and [`tail`] therefore move the cut towards the kept part, so the result is never longer
//! than requested.

/// The longest prefix of at most `max` characters that does not split an escape sequence.
pub fn head(text: &str, max: usize) -> &str {
    match text.char_indices().nth(max) {
        None => text,
        Some((end, _)) => &text[..enclosing_escape(text, end).map_or(end, |escape| escape.start)],
    }
}

/// The longest suffix of at most `max` characters that does not split an escape sequence.
pub fn tail(text: &str, max: usize) -> &str {
    let Some(last) = max.checked_sub(1) else { return "" };
    match text.char_indices().rev().nth(last) {
        None | Some((0, _)) => text,
        Some((start, _)) => &text[enclosing_escape(text, start).map_or(start, |escape| escape.end)..],
    }
}

/// The first line of `text`, at most `max` characters, ending in `…` if anything was left out.
pub fn one_line(text: &str, max: usize) -> String {
    let line = text.trim().lines().next().unwrap_or_default().trim_end();
    let cut = head(line, max);
    if cut.len() == line.len() && line.len() == text.trim().len() {
        return line.to_owned();
    }
    format!("{}…", head(line, max.saturating_sub(1)).trim_end())
}

/// Bytes searched backwards for the start of an escape sequence; longer sequences (such as an OSC with a
/// whole file) are treated as text.
const ESCAPE_WINDOW: usize = 4096;

/// The escape sequence that a cut at byte `at` would split, if any.
fn enclosing_escape(text: &str, at: usize) -> Option<std::ops::Range<usize>> {
    let window_start = text.floor_char_boundary(at.saturating_sub(ESCAPE_WINDOW));
    let mut from = window_start;
    while let Some(found) = text[from..at].find('\u{1b}') {
        let start = from + found;
        let end = escape_end(text, start);
        if at < end {
            return Some(start..end);
        }
        from = end.max(start + 1);
    }
    None
}

/// End of the escape sequence that starts at `start`. An unterminated one extends to the end of the text
/// or line.
fn escape_end(text: &str, start: usize) -> usize {
    let rest = &text[start + 1..];
    let unfinished = rest.find('\n').map_or(text.len(), |found| start + 1 + found);
    let end = match rest.as_bytes().first() {
        // CSI: parameters and intermediates, then one final byte.
        Some(b'[') => {
            let body = rest[1..].find(|it: char| !(' '..='?').contains(&it));
            body.map(|found| start + 2 + found + char_len(&rest[1 + found..]))
        }
        // OSC, DCS, SOS, PM, APC: up to BEL or ST.
        Some(b']' | b'P' | b'X' | b'^' | b'_') => {
            let bell = rest.find('\u{7}').map(|found| start + 1 + found + 1);
            let string_end = rest.find("\u{1b}\\").map(|found| start + 1 + found + 2);
            match (bell, string_end) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            }
        }
        // Intermediates such as `ESC ( B`, then one final byte.
        Some(_) => {
            let body = rest.find(|it: char| !(' '..='/').contains(&it));
            body.map(|found| start + 1 + found + char_len(&rest[found..]))
        }
        None => None,
    };
    end.map_or(unfinished, |end| end.min(unfinished.max(start + 1)))
}

fn char_len(text: &str) -> usize {
    text.chars().next().map_or(0, char::len_utf8)
}

/// Formats a number with separators between thousands.
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (idx, digit) in digits.chars().enumerate() {
        if 0 < idx && (digits.len() - idx).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(digit);
    }
    out
}

/// Lower-case hexadecimal, two digits per byte.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn head_and_tail_do_not_split_characters_or_escapes() {
        for (text, max, want_head, want_tail) in [
            ("abc", 5, "abc", "abc"),
            ("abc", 2, "ab", "bc"),
            ("a😀b", 2, "a😀", "😀b"),
            ("ab\u{1b}[31mred", 4, "ab", "red"),
            ("\u{1b}[31mred\u{1b}[0m", 5, "\u{1b}[31m", "d\u{1b}[0m"),
            ("\u{1b}[31mred\u{1b}[0m", 3, "", ""),
            ("x\u{1b}]0;title\u{7}y", 3, "x", "y"),
            ("x\u{1b}]8;;u\u{1b}\\y", 4, "x", "y"),
            ("\u{1b}(Bx", 2, "", "x"),
            ("abc", 0, "", ""),
        ] {
            assert_eq!((head(text, max), tail(text, max)), (want_head, want_tail), "{text:?} {max}");
        }
    }

    #[test]
    fn one_line_ends_with_ellipsis_when_shortened() {
        for (text, max, want) in [
            ("short", 10, "short"),
            ("two\nlines", 10, "two…"),
            ("0123456789", 5, "0123…"),
            ("  a  ", 3, "a"),
        ] {
            assert_eq!(one_line(text, max), want);
        }
    }

    proptest! {
        #[test]
        fn head_and_tail_never_exceed_the_maximum(text in "(\\PC|\u{1b}\\[[0-9;]{0,3}m|\u{1b}\\]|\u{7}|\n){0,40}", max in 0_usize..50) {
            prop_assert!(head(&text, max).chars().count() <= max);
            prop_assert!(tail(&text, max).chars().count() <= max);
            prop_assert!(text.starts_with(head(&text, max)));
            prop_assert!(text.ends_with(tail(&text, max)));
        }
    }
}
