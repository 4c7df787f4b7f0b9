//! Bracket expressions that all programs parse alike.

/// Length of the bracket expression at the start, if its end is unambiguous: no backslash except before
/// a letter, dot or dash, no bracket except in a class such as `[:alpha:]`, no delimiter.
pub(super) fn plain(bytes: &[u8], delimiter: u8) -> Option<usize> {
    let mut at = 1 + usize::from(bytes.get(1) == Some(&b'^'));
    let first = at;
    loop {
        match *bytes.get(at)? {
            b']' if at == first => return None,
            b']' => return Some(at + 1),
            b'[' => at += class(&bytes[at..])?,
            b'\\' => {
                let next = *bytes.get(at + 1)?;
                (next.is_ascii_alphanumeric() || matches!(next, b'.' | b'-')).then_some(())?;
                (next != delimiter).then_some(())?;
                at += 2;
            }
            b'\n' => return None,
            byte if byte == delimiter => return None,
            _ => at += 1,
        }
    }
}

/// `[:alpha:]`
fn class(bytes: &[u8]) -> Option<usize> {
    let rest = bytes.strip_prefix(b"[:")?;
    let len = rest.iter().take_while(|byte| byte.is_ascii_lowercase()).count();
    (0 < len && rest[len..].starts_with(b":]")).then_some(len + 4)
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn plain_bracket_expression_length_is_unambiguous() {
        for (text, want) in [
            ("[abc]x", Some(5)),
            ("[^abc]", Some(6)),
            ("[[:alpha:]]", Some(11)),
            ("[[:alpha:][:digit:]_.-]", Some(23)),
            ("[a\\.b]", Some(6)),
            ("[]a]", None),
            ("[^]a]", None),
            ("[a/b]", None),
            ("[[.a.]]", None),
            ("[[=a=]]", None),
            ("[[:alpha:]", None),
            ("[a[]", None),
            ("[\\]]", None),
            ("[a\\/]", None),
            ("[abc", None),
            ("[", None),
        ] {
            assert_eq!(plain(text.as_bytes(), b'/'), want, "{text}");
        }
    }
}
