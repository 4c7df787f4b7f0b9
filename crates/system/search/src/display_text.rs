//! Formats file names and lines safely for models, logs and terminals.

use std::ops::Range;

/// Formats a path. Distinct paths look distinct: invalid UTF-8, control characters and direction
/// overrides are quoted as `$'…'`, which shells understand.
pub fn path_text(path: &[u8]) -> String {
    match std::str::from_utf8(path) {
        Ok(text) if !text.starts_with("$'") && !text.chars().any(is_unsafe) => text.to_owned(),
        _ => quoted(path),
    }
}

fn quoted(path: &[u8]) -> String {
    let mut out = String::from("$'");
    for chunk in path.utf8_chunks() {
        for char in chunk.valid().chars() {
            match char {
                '\\' | '\'' => out.extend(['\\', char]),
                '\n' => out.push_str("\\n"),
                '\t' => out.push_str("\\t"),
                '\r' => out.push_str("\\r"),
                char if char.is_ascii_control() => push_byte(&mut out, char as u8),
                char if is_unsafe(char) => out.push_str(&format!("\\u{:04x}", char as u32)),
                char => out.push(char),
            }
        }
        for byte in chunk.invalid() {
            push_byte(&mut out, *byte);
        }
    }
    out.push('\'');
    out
}

fn push_byte(out: &mut String, byte: u8) {
    out.push_str(&format!("\\x{byte:02x}"));
}

/// Control characters and characters that change the direction or end of a line, which a terminal would
/// obey.
fn is_unsafe(char: char) -> bool {
    char.is_control()
        || matches!(char, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' | '\u{feff}')
}

/// Formats a line: invalid UTF-8 and control characters become `\xNN`; tabs stay.
pub fn line_text(line: &[u8]) -> String {
    let mut out = String::with_capacity(line.len());
    for chunk in line.utf8_chunks() {
        for char in chunk.valid().chars() {
            match char {
                '\t' => out.push(char),
                char if char.is_ascii_control() => push_byte(&mut out, char as u8),
                char if is_unsafe(char) => out.push_str(&format!("\\u{{{:x}}}", char as u32)),
                char => out.push(char),
            }
        }
        for byte in chunk.invalid() {
            push_byte(&mut out, *byte);
        }
    }
    out
}

/// Maximum characters of a line; longer ones are shortened.
pub const MAX_LINE: usize = 500;

/// Characters of a shortened line shown before the match.
const LEAD: usize = 100;

/// Formats a line; a long one is shortened to the part around `focus`, with the byte position. So a
/// minified file cannot fill the answer with one line.
pub fn clipped(line: &[u8], focus: &Range<usize>) -> String {
    if line.len() <= MAX_LINE {
        return line_text(line);
    }
    let mut start = focus.start.min(line.len()).saturating_sub(LEAD);
    start = start.min(line.len() - MAX_LINE);
    let start = char_start(line, start);
    let end = char_start(line, (start + MAX_LINE).min(line.len()));
    let text = line_text(&line[start..end]);
    let before = if 0 < start { "…" } else { "" };
    let after = if end < line.len() { "…" } else { "" };
    format!("{before}{text}{after} [columns {}-{end} of {}]", start + 1, line.len())
}

/// The part of a line around `focus`, for lines of unknown length.
pub(crate) fn around(line: &[u8], focus: &Range<usize>) -> String {
    let start = char_start(line, focus.start.saturating_sub(LEAD));
    let end = char_start(line, (start + MAX_LINE).min(line.len()));
    format!("…{}…", line_text(&line[start..end]))
}

/// Start of the character that contains the byte at `at`; `at` itself in invalid UTF-8.
fn char_start(line: &[u8], at: usize) -> usize {
    let is_start = |at: &usize| line.get(*at).is_none_or(|byte| byte & 0xc0 != 0x80);
    (at.saturating_sub(3)..=at).rev().find(is_start).unwrap_or(at)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn path_text_quotes_unusual_names() {
        for (path, want) in [
            (&b"src/main.rs"[..], "src/main.rs"),
            ("caf\u{e9}".as_bytes(), "caf\u{e9}"),
            (b"\xffA.bin", r"$'\xffA.bin'"),
            (br"\xffA.bin", r"\xffA.bin"),
            (br"$'\xffA.bin'", r"$'$\'\\xffA.bin\''"),
            (b"a\nb", r"$'a\nb'"),
            ("x\u{202e}y".as_bytes(), r"$'x\u202ey'"),
            (b"\x1b[31m", r"$'\x1b[31m'"),
        ] {
            assert_eq!(path_text(path), want);
        }
    }

    #[test]
    fn clipped_shows_long_line_around_the_match() {
        let line = format!("{}needle{}", "é".repeat(1000), "x".repeat(1000));
        let text = clipped(line.as_bytes(), &(2000..2006));
        assert!(text.starts_with("…é") && text.contains("needlex"), "{text}");
        assert!(text.ends_with("… [columns 1901-2400 of 3006]"), "{text}");
        assert_eq!(clipped(b"a\x1b[2J\xff\tb", &(0..1)), "a\\x1b[2J\\xff\tb");
        assert!(clipped("x".repeat(600).as_bytes(), &(590..600)).ends_with("x [columns 101-600 of 600]"));
    }

    proptest! {
        #[test]
        fn line_text_is_safe_and_bounded(line in prop::collection::vec(any::<u8>(), 0..2000), at in 0_usize..3000) {
            let text = clipped(&line, &(at..at + 1));
            prop_assert!(text.chars().all(|char| char == '\t' || !is_unsafe(char)));
            prop_assert!(text.len() <= MAX_LINE * 4 + 80);
        }

        #[test]
        fn path_text_is_distinct_for_distinct_paths(a in prop::collection::vec(any::<u8>(), 1..6), b in prop::collection::vec(any::<u8>(), 1..6)) {
            prop_assert_eq!(path_text(&a) == path_text(&b), a == b);
        }
    }
}
