//! Detects stateful encodings, which switch character sets by escape sequences.
//!
//! They consist of ASCII bytes only and look like plain text, but the meaning of bytes depends on what
//! precedes them. Such a file must not be edited as plain text.

use memchr::{memchr, memchr_iter, memmem};

/// Bytes examined.
const LOOKED_AT: usize = 1024 * 1024;

/// Name of the encoding, if the file uses one of these.
pub fn shifted(bytes: &[u8]) -> Option<&'static str> {
    let head = &bytes[..bytes.len().min(LOOKED_AT)];
    if memchr(0x1b, head).is_some() && head.is_ascii() && has_iso_2022(head) {
        return Some("ISO-2022");
    }
    if memmem::find(head, b"~{").is_some() && head.is_ascii() && is_hz(head) {
        return Some("HZ");
    }
    None
}

/// Whether an escape sequence switches to a two-byte character set. Terminal sequences differ.
fn has_iso_2022(head: &[u8]) -> bool {
    memchr_iter(0x1b, head).any(|at| {
        matches!(
            head.get(at + 1..),
            Some([b'$', b'@' | b'A' | b'B', ..] | [b'$', b'(' | b')' | b'*' | b'+', b'A'..=b'S', ..])
        )
    })
}

/// Whether all tildes are those of HZ and enough characters are enclosed. Lisp format strings have other
/// tildes.
fn is_hz(head: &[u8]) -> bool {
    const ENOUGH: usize = 4;
    let mut at = 0;
    let mut characters = 0;
    while let Some(found) = memchr(b'~', &head[at..]) {
        at += found + 2;
        match head.get(at - 1) {
            Some(b'~' | b'\n') | None => (),
            Some(b'{') => {
                let Some(end) = memmem::find(&head[at..], b"~}") else { return false };
                let inside = &head[at..at + end];
                // The last byte of a character may itself be a tilde.
                let inside = if inside.len() % 2 == 1 && head.get(at + end + 1) == Some(&b'~') {
                    &head[at..=at + end]
                } else {
                    inside
                };
                let fits = |pair: &[u8]| matches!(pair, [0x21..=0x77, 0x21..=0x7e]);
                if inside.is_empty() || !inside.chunks(2).all(fits) {
                    return false;
                }
                characters += inside.len() / 2;
                at += inside.len() + 2;
            }
            Some(_) => return false,
        }
        at = at.min(head.len());
    }
    ENOUGH <= characters
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shifted_detects_stateful_encodings() {
        for (bytes, want) in [
            (&b"\x1b$B$3$l$O@_Dj\x1b(B\nkey = old\n"[..], Some("ISO-2022")),
            (b"\x1b$)C\x0eGQ1[\x0f\n", Some("ISO-2022")),
            (b"~{UbJGR;8vEdVCND<~~}\nkey = old\n", Some("HZ")),
            (b"a ~~ b ~{UbJGR;8v~}\n", Some("HZ")),
            (b"\x1b[31mred\x1b(B\x1b[m price: $B\n", None),
            (b"(format t \"~{~a~^, ~}~%\" list)\n", None),
            (b"(format t \"~{abcd~}\" list) ~a\n", None),
            (b"echo ~{ab~}\n", None),
            (b"cd ~ && ls ~/x\n", None),
            (b"plain\n", None),
            (b"", None),
            (b"~{", None),
            (b"~", None),
        ] {
            assert_eq!(shifted(bytes), want, "{}", String::from_utf8_lossy(bytes));
        }
    }
}
