//! Iterates over characters with their byte lengths in the file.
//!
//! Own code, because no decoder reports the source position of each character, which is needed to splice
//! the file's original bytes.

use super::Charset;

/// One decoded unit.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct TextUnit {
    /// The character; U+FFFD for an invalid byte.
    pub(crate) character: char,
    /// Number of bytes in the file.
    pub(crate) len: usize,
    /// Whether the bytes are invalid.
    pub(crate) stray: bool,
}

impl TextUnit {
    fn new(character: char, len: usize) -> Self {
        Self { character, len, stray: false }
    }

    fn stray(len: usize) -> Self {
        Self { character: char::REPLACEMENT_CHARACTER, len, stray: true }
    }
}

/// Which carriage returns count as line breaks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum CarriageReturns {
    /// CR LF is one break, a lone CR is data.
    Paired,
    /// The file has no line feeds: each CR is a break.
    Alone,
    /// None: every character is kept.
    Literal,
}

/// Decodes the unit at the start of `bytes`, which must not be empty.
pub(crate) fn next(charset: Charset, returns: CarriageReturns, bytes: &[u8]) -> TextUnit {
    let unit = character(charset, bytes);
    if unit.character != '\r' {
        return unit;
    }
    match returns {
        CarriageReturns::Literal => unit,
        CarriageReturns::Alone => TextUnit::new('\n', unit.len),
        CarriageReturns::Paired => {
            let rest = &bytes[unit.len..];
            if rest.is_empty() {
                return unit;
            }
            match character(charset, rest) {
                TextUnit { character: '\n', len, .. } => TextUnit::new('\n', unit.len + len),
                _ => unit,
            }
        }
    }
}

fn character(charset: Charset, bytes: &[u8]) -> TextUnit {
    match charset {
        Charset::Utf8 => utf8(bytes),
        Charset::Utf16Le => utf16(bytes, u16::from_le_bytes),
        Charset::Utf16Be => utf16(bytes, u16::from_be_bytes),
        Charset::Legacy(encoding) => legacy(encoding, bytes),
        Charset::Unknown if bytes[0].is_ascii() => TextUnit::new(char::from(bytes[0]), 1),
        Charset::Unknown => TextUnit::stray(1),
    }
}

fn utf8(bytes: &[u8]) -> TextUnit {
    if bytes[0].is_ascii() {
        return TextUnit::new(char::from(bytes[0]), 1);
    }
    let Some(chunk) = bytes[..bytes.len().min(4)].utf8_chunks().next() else { return TextUnit::stray(1) };
    match chunk.valid().chars().next() {
        Some(character) => TextUnit::new(character, character.len_utf8()),
        None => TextUnit::stray(chunk.invalid().len().max(1)),
    }
}

fn utf16(bytes: &[u8], read: fn([u8; 2]) -> u16) -> TextUnit {
    let at = |start: usize| bytes.get(start..start + 2).map(|pair| read([pair[0], pair[1]]));
    let Some(first) = at(0) else { return TextUnit::stray(1) };
    let units = [Some(first), at(2)].into_iter().flatten();
    match char::decode_utf16(units).next() {
        Some(Ok(character)) => TextUnit::new(character, character.len_utf16() * 2),
        _ => TextUnit::stray(2),
    }
}

fn legacy(encoding: &'static encoding_rs::Encoding, bytes: &[u8]) -> TextUnit {
    if bytes[0].is_ascii() {
        return TextUnit::new(char::from(bytes[0]), 1);
    }
    let longest = if encoding.is_single_byte() { 1 } else { 4 };
    for len in 1..=longest.min(bytes.len()) {
        let Some(text) = encoding.decode_without_bom_handling_and_without_replacement(&bytes[..len]) else {
            continue;
        };
        let mut characters = text.chars();
        // A second character would be one of the few pairs of Big5, or an ASCII byte after an invalid
        // one.
        if let (Some(character), None) = (characters.next(), characters.next()) {
            return TextUnit::new(character, len);
        }
        break;
    }
    TextUnit::stray(1)
}
