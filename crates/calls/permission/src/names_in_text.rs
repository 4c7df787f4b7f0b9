//! File names that one command prints and another one reads.

/// Whether `xargs` may split this name or take it for an option.
pub(crate) fn falls_apart(name: &[u8]) -> bool {
    let odd = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b'\'' | b'"' | b'\\' | 0x0b);
    name.starts_with(b"-") || name.iter().any(odd)
}
