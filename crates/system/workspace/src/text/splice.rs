use std::{borrow::Cow, fmt, ops::Range};

use super::{Charset, LineBreak, Text, Unencodable};
use crate::ContentHash;

/// One replacement, stated in the view.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Splice {
    /// What goes; empty for an insertion.
    pub range: Range<usize>,
    /// What comes. A lone line feed takes the style of its neighbourhood; a
    /// carriage return is written as it is.
    pub text: String,
}

/// Why a replacement cannot be written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SpliceError {
    /// A character the file's encoding does not have.
    Unencodable(Unencodable),
    /// The new text contains U+FFFD, with which the view marks bytes that spell
    /// nothing; writing it would replace them for good.
    ReplacementCharacter,
}

impl fmt::Display for SpliceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unencodable(err) => err.fmt(f),
            Self::ReplacementCharacter => f.write_str(
                "the new text contains U+FFFD, which stands for bytes of this file that are no valid text; \
                 choose a span without it",
            ),
        }
    }
}

impl std::error::Error for SpliceError {}

/// A part of new content.
pub type TextPiece<'a> = Cow<'a, [u8]>;

/// New content of a file, in pieces: what stays is borrowed from the old one.
#[derive(Clone, Debug, Default)]
pub struct Bytes<'a>(Vec<TextPiece<'a>>);

impl<'a> Bytes<'a> {
    /// Content in one piece.
    pub fn whole(bytes: impl Into<Cow<'a, [u8]>>) -> Self {
        Self(vec![bytes.into()])
    }

    /// The pieces in order.
    pub fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().map(|piece| &**piece)
    }

    /// The size in bytes.
    pub fn len(&self) -> usize {
        self.pieces().map(<[u8]>::len).sum()
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The fingerprint of the whole content.
    pub fn hash(&self) -> ContentHash {
        ContentHash::of_pieces(self.pieces())
    }

    /// All of it in one piece.
    pub fn to_vec(&self) -> Vec<u8> {
        self.0.concat()
    }

    fn push(&mut self, piece: impl Into<Cow<'a, [u8]>>) {
        let piece = piece.into();
        if !piece.is_empty() {
            self.0.push(piece);
        }
    }
}

impl Text {
    /// The content of the file after some replacements, which must be in
    /// ascending order and must not overlap. Every byte outside of them stays.
    pub fn splice(&self, splices: &[Splice]) -> Result<Bytes<'_>, SpliceError> {
        let raw = self.raw();
        let mut bytes = Bytes::default();
        let mut done = 0;
        let mut locator = self.locator();
        for splice in splices {
            let start = locator.seek(splice.range.start);
            let end = locator.seek(splice.range.end);
            bytes.push(&raw[done..start]);
            bytes.push(self.spell(splice)?);
            done = end;
        }
        bytes.push(&raw[done..]);
        Ok(bytes)
    }

    /// The bytes a replacement puts into the file.
    pub(crate) fn spell(&self, splice: &Splice) -> Result<Vec<u8>, SpliceError> {
        if self.strays() != 0 && splice.text.contains(char::REPLACEMENT_CHARACTER) {
            return Err(SpliceError::ReplacementCharacter);
        }
        let text = if splice.text.contains('\n') {
            with_breaks(&splice.text, self.line_break_near(&splice.range))
        } else {
            Cow::Borrowed(splice.text.as_str())
        };
        let bytes = self.encoding().charset.encode(&text).map_err(SpliceError::Unencodable)?;
        Ok(bytes.into_owned())
    }
}

/// Gives lone line feeds the style asked for.
fn with_breaks(text: &str, style: LineBreak) -> Cow<'_, str> {
    if style == LineBreak::Lf {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + text.len() / 16);
    let mut last = '\0';
    for character in text.chars() {
        match character {
            '\n' if last != '\r' => out.push_str(style.as_str()),
            other => out.push(other),
        }
        last = character;
    }
    Cow::Owned(out)
}

/// Spells a whole text in an encoding, with the byte order mark the encoding
/// asks for, once.
pub fn encode_whole(text: &str, encoding: super::Encoding) -> Result<Vec<u8>, Unencodable> {
    let text = text.strip_prefix('\u{feff}').filter(|_| encoding.bom).unwrap_or(text);
    let mut bytes = encoding.bom_bytes().to_vec();
    match encoding.charset {
        Charset::Utf8 => bytes.extend_from_slice(text.as_bytes()),
        charset => bytes.extend_from_slice(&charset.encode(text)?),
    }
    Ok(bytes)
}
