//! Converts repository paths, which are bytes, to text for JSON and back.

use std::{ffi::OsString, os::unix::ffi::OsStringExt as _, path::PathBuf};

/// Formats a path. A path that is not UTF-8, or that looks quoted itself, is quoted with octal escapes
/// as git does.
pub fn path_text(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if !is_in_quotes(text) => text.to_owned(),
        _ => in_quotes(bytes),
    }
}

/// Parses the notation of [`path_text`]; any other text is the path itself.
pub fn path_bytes(text: &str) -> Vec<u8> {
    let written = is_in_quotes(text).then(|| out_of_quotes(&text[1..text.len() - 1])).flatten();
    match written.filter(|it| path_text(it) == text) {
        Some(bytes) => bytes,
        None => text.as_bytes().to_vec(),
    }
}

/// Like [`path_bytes`], as a `PathBuf`.
pub fn path_named(text: &str) -> PathBuf {
    PathBuf::from(OsString::from_vec(path_bytes(text)))
}

fn is_in_quotes(text: &str) -> bool {
    2 <= text.len() && text.starts_with('"') && text.ends_with('"')
}

fn in_quotes(bytes: &[u8]) -> String {
    let mut text = String::from("\"");
    for chunk in bytes.utf8_chunks() {
        for it in chunk.valid().chars() {
            match it {
                '"' | '\\' => text.extend(['\\', it]),
                it if it.is_ascii_control() => text.push_str(&format!("\\{:03o}", u32::from(it))),
                it => text.push(it),
            }
        }
        chunk.invalid().iter().for_each(|byte| text.push_str(&format!("\\{byte:03o}")));
    }
    text.push('"');
    text
}

fn out_of_quotes(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'\\' {
            bytes.push(*first);
            continue;
        }
        match rest {
            [it @ (b'"' | b'\\'), after @ ..] => {
                bytes.push(*it);
                rest = after;
            }
            [a, b, c, after @ ..] => {
                let digits =
                    std::str::from_utf8(&[*a, *b, *c]).ok().and_then(|it| u8::from_str_radix(it, 8).ok());
                // A path contains no NUL byte.
                bytes.push(digits.filter(|it| *it != 0)?);
                rest = after;
            }
            _ => return None,
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn path_text_quotes_unusual_bytes() {
        for (bytes, want) in [
            (&b"plain.txt"[..], "plain.txt"),
            (b"caf\xe9.txt", "\"caf\\351.txt\""),
            ("größe".as_bytes(), "größe"),
            (b"line\nbreak", "line\nbreak"),
            (b"a\xff\nb\"\\", "\"a\\377\\012b\\\"\\\\\""),
            (b"\"quoted\"", "\"\\\"quoted\\\"\""),
            (b"\"", "\""),
            (b"", ""),
        ] {
            assert_eq!(path_text(bytes), want);
            assert_eq!(path_bytes(want), bytes, "{want}");
        }
        // Text that [`path_text`] never produces is taken literally.
        for text in ["\"abc\"", "\"\\351", "\"a\\9\"", "\"\\000\\377\"", "\"\\101\\377\""] {
            assert_eq!(path_bytes(text), text.as_bytes(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn path_text_round_trips(bytes in prop::collection::vec(1_u8.., 0..40)) {
            prop_assert_eq!(path_bytes(&path_text(&bytes)), bytes);
        }
    }
}
