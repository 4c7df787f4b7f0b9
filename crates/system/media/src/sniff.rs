//! Detects the type of a file by its first bytes.

use std::path::Path;

use serde::{Deserialize, Serialize};

/// File formats with special treatment.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Format {
    /// An image that models accept.
    Image(ImageFormat),
    Pdf,
    /// Any other format, including text.
    Other,
}

/// Image formats that models accept.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum ImageFormat {
    Png,
    Jpeg,
    /// GIF. Only its first frame is shown.
    Gif,
    WebP,
}

impl ImageFormat {
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Gif => "image/gif",
            Self::WebP => "image/webp",
        }
    }
}

/// Detects the format from the first bytes of a file. The file name does not matter.
pub fn format(head: &[u8]) -> Format {
    match head {
        [0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, ..] => Format::Image(ImageFormat::Png),
        [0xff, 0xd8, 0xff, ..] => Format::Image(ImageFormat::Jpeg),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Format::Image(ImageFormat::Gif),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Format::Image(ImageFormat::WebP),
        // Up to 1,024 bytes of other data may precede the PDF header.
        _ if memchr::memmem::find(&head[..head.len().min(1024)], b"%PDF-").is_some() => Format::Pdf,
        _ => Format::Other,
    }
}

/// What the first bytes of a response body say it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum BodyKind {
    Pdf,
    /// An image that models accept.
    Picture,
    /// Anything else, with a description from [`describe`].
    Other(&'static str),
}

/// Classifies data by its first bytes.
pub fn body_kind(head: &[u8]) -> BodyKind {
    match format(head) {
        Format::Pdf => BodyKind::Pdf,
        Format::Image(_) => BodyKind::Picture,
        Format::Other => BodyKind::Other(describe(head)),
    }
}

/// Returns the image or PDF type that the file extension claims, in lower case; `None` for other
/// extensions.
pub fn claimed(path: &Path) -> Option<&'static str> {
    const CLAIMS: [&str; 6] = ["png", "jpg", "jpeg", "gif", "webp", "pdf"];
    let extension = path.extension()?;
    CLAIMS.into_iter().find(|claim| extension.eq_ignore_ascii_case(claim))
}

/// Describes binary data by its first bytes, for messages.
pub fn describe(head: &[u8]) -> &'static str {
    const MAGIC: [(&[u8], &str); 26] = [
        (b"PK\x03\x04", "a ZIP archive (or a format built on it: docx, xlsx, jar, apk, epub)"),
        (b"\x1f\x8b", "gzip data"),
        (b"BZh", "bzip2 data"),
        (b"\xfd7zXZ\0", "xz data"),
        (b"(\xb5/\xfd", "zstd data"),
        (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
        (b"Rar!", "a RAR archive"),
        (b"\x7fELF", "an ELF executable or library"),
        (b"MZ", "a Windows executable"),
        (b"\xcf\xfa\xed\xfe", "a Mach-O executable"),
        (b"\xca\xfe\xba\xbe", "a Java class or universal binary"),
        (b"\0asm", "a WebAssembly module"),
        (b"SQLite format 3\0", "an SQLite database"),
        (b"OggS", "Ogg media"),
        (b"ID3", "MP3 audio"),
        (b"\xff\xfb", "MP3 audio"),
        (b"fLaC", "FLAC audio"),
        (b"BM", "a BMP picture"),
        (b"II*\0", "a TIFF picture"),
        (b"MM\0*", "a TIFF picture"),
        (b"\0\0\x01\0", "a Windows icon"),
        (b"\xd0\xcf\x11\xe0", "an old Office document"),
        (b"wOF2", "a web font"),
        (b"\xff\xfe\0\0", "UTF-32 text"),
        (b"!<arch>\n", "a static library"),
        (b"\x80\x04\x95", "a Python pickle"),
    ];
    match haft_workspace::text::shifted(head) {
        Some("HZ") => return "text in HZ, which cannot be edited in place (convert it with iconv)",
        Some(_) => {
            return "text in an ISO-2022 encoding, which cannot be edited in place (convert it with iconv)";
        }
        None => (),
    }
    if head.get(4..8) == Some(b"ftyp") {
        return "MP4, QuickTime, HEIC or AVIF media";
    }
    if head.get(257..262) == Some(b"ustar") {
        return "a tar archive";
    }
    if head.get(8..12) == Some(b"WAVE") {
        return "WAV audio";
    }
    MAGIC.iter().find(|(magic, _)| head.starts_with(magic)).map_or("binary data of unknown type", |it| it.1)
}

/// Formats the first 64 bytes like `hexdump -C`.
pub fn hex(head: &[u8]) -> String {
    let rows = head[..head.len().min(64)].chunks(16).enumerate();
    rows.map(|(row, bytes)| {
        let digits: Vec<String> = bytes.iter().map(|it| format!("{it:02x}")).collect();
        let text: String = bytes
            .iter()
            .map(|it| if it.is_ascii_graphic() || *it == b' ' { char::from(*it) } else { '.' })
            .collect();
        format!("{:08x}  {:<47}  |{text}|", row * 16, digits.join(" "))
    })
    .collect::<Vec<_>>()
    .join("\n")
}
