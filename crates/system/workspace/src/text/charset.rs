use std::{borrow::Cow, fmt};

/// How characters are spelt in bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Charset {
    /// UTF-8, possibly with stray bytes in between.
    Utf8,
    /// UTF-16, low byte first.
    Utf16Le,
    /// UTF-16, high byte first.
    Utf16Be,
    /// One of the older ones. Every one of them spells ASCII as ASCII.
    Legacy(&'static encoding_rs::Encoding),
    /// One byte for each character, but nobody can tell which: only ASCII is
    /// known, and only ASCII can be written.
    Unknown,
}

/// The spelling of one file: the character set, and whether it opens with a
/// byte order mark.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Encoding {
    /// How characters are spelt.
    pub charset: Charset,
    /// Whether the file begins with a byte order mark.
    pub bom: bool,
}

impl Encoding {
    /// What a new file gets.
    pub const UTF_8: Self = Self { charset: Charset::Utf8, bom: false };

    /// The byte order mark of this file; empty where it has none.
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

/// A character that the file's encoding cannot spell.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Unencodable {
    /// The character that cannot be written.
    pub character: char,
    /// The encoding that does not have it.
    pub charset: Charset,
}

impl fmt::Display for Unencodable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { character, charset } = self;
        write!(f, "{} cannot be written in this file's encoding ({charset})", describe_char(*character))
    }
}

impl std::error::Error for Unencodable {}

/// A character with its code point, in a form that shows invisible ones too.
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
    /// Spells a text. What cannot be spelt is an error, never a question mark.
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
    // Some encoders fold characters together (a yen sign becomes a backslash in
    // Shift_JIS), so only what reads back as itself counts as spelt.
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
