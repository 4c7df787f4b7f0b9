use std::{borrow::Cow, fmt};

/// Character encoding.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Charset {
    /// UTF-8, possibly with invalid bytes.
    Utf8,
    /// UTF-16, little endian.
    Utf16Le,
    /// UTF-16, big endian.
    Utf16Be,
    /// A legacy encoding that is a superset of ASCII.
    Legacy(&'static encoding_rs::Encoding),
    /// An unknown single-byte encoding: only ASCII is known and can be written.
    Unknown,
}

/// Encoding of a file, including its byte order mark.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Encoding {
    pub charset: Charset,
    /// Whether the file starts with a byte order mark.
    pub bom: bool,
}

impl Encoding {
    /// Encoding of new files.
    pub const UTF_8: Self = Self { charset: Charset::Utf8, bom: false };

    /// Bytes of the byte order mark; empty if the file has none.
    pub fn bom_bytes(&self) -> &'static [u8] {
        match (self.bom, self.charset) {
            (true, Charset::Utf8) => b"\xef\xbb\xbf",
            (true, Charset::Utf16Le) => b"\xff\xfe",
            (true, Charset::Utf16Be) => b"\xfe\xff",
            _ => b"",
        }
    }
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.charset.fmt(f)?;
        f.write_str(if self.bom { " with BOM" } else { "" })
    }
}

impl fmt::Display for Charset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Utf8 => "UTF-8",
            Self::Utf16Le => "UTF-16LE",
            Self::Utf16Be => "UTF-16BE",
            Self::Legacy(encoding) => encoding.name(),
            Self::Unknown => "unknown 8-bit encoding",
        })
    }
}

/// A character that the file's encoding cannot represent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Unencodable {
    pub character: char,
    /// The encoding.
    pub charset: Charset,
}

impl fmt::Display for Unencodable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { character, charset } = self;
        write!(f, "{} cannot be written in this file's encoding ({charset})", describe_char(*character))
    }
}

impl std::error::Error for Unencodable {}

/// Formats a character with its code point, so that invisible ones are recognisable.
pub fn describe_char(character: char) -> String {
    let code = u32::from(character);
    let name = match character {
        '\t' => "tab",
        '\n' => "line feed",
        '\r' => "carriage return",
        ' ' => "space",
        '\u{a0}' => "no-break space",
        '\u{200b}' => "zero-width space",
        '\u{feff}' => "byte order mark",
        it if it.is_control() || it.is_whitespace() => "",
        it => return format!("U+{code:04X} '{it}'"),
    };
    if name.is_empty() { format!("U+{code:04X}") } else { format!("U+{code:04X} ({name})") }
}

impl Charset {
    /// Encodes a text. Fails if a character cannot be represented, never replaces it.
    pub fn encode<'a>(&self, text: &'a str) -> Result<Cow<'a, [u8]>, Unencodable> {
        match self {
            Self::Utf8 => Ok(Cow::Borrowed(text.as_bytes())),
            Self::Utf16Le => Ok(text.encode_utf16().flat_map(u16::to_le_bytes).collect()),
            Self::Utf16Be => Ok(text.encode_utf16().flat_map(u16::to_be_bytes).collect()),
            Self::Legacy(encoding) => encode_legacy(encoding, text),
            Self::Unknown => match text.chars().find(|it| !it.is_ascii()) {
                None => Ok(Cow::Borrowed(text.as_bytes())),
                Some(character) => Err(Unencodable { character, charset: *self }),
            },
        }
    }
}

fn encode_legacy<'a>(
    encoding: &'static encoding_rs::Encoding,
    text: &'a str,
) -> Result<Cow<'a, [u8]>, Unencodable> {
    let (bytes, _, unmappable) = encoding.encode(text);
    // Some encoders map several characters to one (a yen sign becomes a backslash in Shift_JIS), so only
    // a round trip counts.
    if !unmappable
        && encoding.decode_without_bom_handling_and_without_replacement(&bytes).as_deref() == Some(text)
    {
        return Ok(bytes);
    }
    let charset = Charset::Legacy(encoding);
    let bad = text.chars().find(|it| !survives(encoding, *it));
    Err(Unencodable { character: bad.unwrap_or(char::REPLACEMENT_CHARACTER), charset })
}

fn survives(encoding: &'static encoding_rs::Encoding, character: char) -> bool {
    let mut buffer = [0; 4];
    let text = character.encode_utf8(&mut buffer);
    let (bytes, _, unmappable) = encoding.encode(text);
    !unmappable
        && encoding.decode_without_bom_handling_and_without_replacement(&bytes).as_deref() == Some(&*text)
}
