//! Pictures and documents that every provider takes.

use std::hash::{DefaultHasher, Hash, Hasher};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use haft_types::MediaSource;

/// Makes pictures smaller. The crate that can is above this one.
pub trait ImageShrinker: Send + Sync {
    /// Re-encodes a picture so that it fits, or `None` if it cannot.
    fn shrink(&self, image: &[u8], limit: ImageLimit) -> Option<ShrunkImage>;

    /// How many pages a PDF has. The default looks for page objects and counts
    /// in the bytes, which is enough for files whose objects are not packed.
    fn pdf_pages(&self, pdf: &[u8]) -> Option<usize> {
        count_pages(pdf)
    }
}

/// What a picture may be.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct ImageLimit {
    /// Pixels of the longer side.
    pub side: usize,
    /// Bytes of the file, before base64.
    pub bytes: usize,
}

/// A picture that fits.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ShrunkImage {
    /// The MIME type the bytes have.
    pub media_type: String,
    /// The content of the file.
    pub bytes: Vec<u8>,
}

/// What a provider takes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct MediaRules {
    /// Bytes of one picture as base64 text.
    pub image_base64: usize,
    /// Pixels of the longer side.
    pub image_side: usize,
    /// With more pictures than this, `many_side` holds.
    pub many: usize,
    /// Pixels of the longer side when there are many.
    pub many_side: usize,
    /// Pictures in all.
    pub images: usize,
    /// Whether GIF is among the types of pictures.
    pub gif: bool,
    /// PDF pages in all.
    pub pdf_pages: usize,
    /// Base64 bytes of all media together, so that the body stays below its
    /// limit.
    pub total_base64: usize,
}

impl Default for MediaRules {
    fn default() -> Self {
        Self {
            image_base64: 5 * 1024 * 1024,
            image_side: 8000,
            many: 20,
            many_side: 2000,
            images: 100,
            gif: true,
            pdf_pages: 100,
            total_base64: 24 * 1024 * 1024,
        }
    }
}

/// How much of a file's head is read to learn its size. A JPEG's may stand
/// behind a large EXIF block; then the whole file is read.
const HEAD: usize = 64 * 1024;

/// What is wrong with a picture.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ImageProblem {
    /// Nothing, but the declared type is not the real one.
    MediaType(&'static str),
    /// Its data is no picture; in words.
    NoImage(String),
    /// Too many pixels or bytes.
    TooLarge { what: String },
}

/// A number of the content of a medium.
pub(crate) fn fingerprint(source: &MediaSource) -> u64 {
    let mut hasher = DefaultHasher::new();
    match source {
        MediaSource::Base64 { data, .. } => data.hash(&mut hasher),
        MediaSource::Url { url } => url.hash(&mut hasher),
    }
    hasher.finish()
}

/// Checks one picture.
pub(crate) fn check_image(
    media_type: &str,
    data: &str,
    side: usize,
    base64: usize,
) -> Result<(), ImageProblem> {
    let Some(head) = decode_head(data) else {
        return Err(ImageProblem::NoImage("its data is not base64".to_owned()));
    };
    let Some(actual) = image_type(&head) else {
        return Err(ImageProblem::NoImage(format!("its data is {}, not a picture", sniff(&head))));
    };
    let Some(size) = image_size(data, &head) else {
        return Err(ImageProblem::NoImage("its size cannot be read".to_owned()));
    };
    if size.width.max(size.height) > side {
        let what = format!("it is {}×{} px, the limit is {side} px", size.width, size.height);
        return Err(ImageProblem::TooLarge { what });
    }
    if data.len() > base64 {
        let what = format!("it is {}, the limit is {}", megabytes(data.len()), megabytes(base64));
        return Err(ImageProblem::TooLarge { what });
    }
    if actual != media_type {
        return Err(ImageProblem::MediaType(actual));
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "for people")]
fn megabytes(bytes: usize) -> String {
    format!("{:.1} MB", bytes as f64 / (1024.0 * 1024.0))
}

/// Whether base64 data begins as a GIF does.
pub(crate) fn is_gif(data: &str) -> bool {
    data.starts_with("R0lGOD")
}

/// The longer side of a picture in pixels.
pub(crate) fn image_side(data: &str) -> Option<usize> {
    let head = decode_head(data)?;
    image_size(data, &head).map(|size| size.width.max(size.height))
}

fn image_size(data: &str, head: &[u8]) -> Option<imagesize::ImageSize> {
    let from_head = imagesize::blob_size(head).ok();
    from_head.or_else(|| imagesize::blob_size(&STANDARD.decode(data).ok()?).ok())
}

/// The first bytes of base64 data, if all of it is base64.
fn decode_head(data: &str) -> Option<Vec<u8>> {
    let bytes = data.as_bytes();
    let padding = bytes.iter().rev().take_while(|byte| **byte == b'=').count();
    let body = &bytes[..bytes.len() - padding];
    let is_base64 = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'+' || *byte == b'/';
    if bytes.is_empty() || !bytes.len().is_multiple_of(4) || padding > 2 || !body.iter().all(is_base64) {
        return None;
    }
    // The last group must decode as well: its spare bits must be zero.
    STANDARD.decode(&bytes[bytes.len() - 4..]).ok()?;
    let head = bytes.len().min(HEAD * 4 / 3 / 4 * 4);
    STANDARD.decode(&bytes[..head]).ok()
}

fn image_type(head: &[u8]) -> Option<&'static str> {
    match imagesize::image_type(head).ok()? {
        imagesize::ImageType::Png => Some("image/png"),
        imagesize::ImageType::Jpeg => Some("image/jpeg"),
        imagesize::ImageType::Gif => Some("image/gif"),
        imagesize::ImageType::Webp => Some("image/webp"),
        _ => None,
    }
}

/// What some bytes are, in words.
pub(crate) fn sniff(head: &[u8]) -> String {
    match infer::get(head) {
        Some(kind) => kind.mime_type().to_owned(),
        None if head.is_empty() => "empty".to_owned(),
        None if std::str::from_utf8(&head[..head.len().min(512)]).is_ok() => "text/plain".to_owned(),
        None => "of an unknown type".to_owned(),
    }
}

/// Decodes media data; empty when it is none.
pub(crate) fn decoded(data: &str) -> Vec<u8> {
    STANDARD.decode(data).unwrap_or_default()
}

/// Encodes a file as media data.
pub(crate) fn encoded(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Pages of a PDF from its bytes: page objects, or the largest count of a page
/// tree. `None` if it is no PDF.
pub(crate) fn count_pages(pdf: &[u8]) -> Option<usize> {
    if !pdf.starts_with(b"%PDF-") {
        return None;
    }
    let mut pages = 0;
    let mut counted = 0;
    let mut rest = pdf;
    while let Some(at) = rest.iter().position(|byte| *byte == b'/') {
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix(b"Type") {
            let value = after.trim_ascii_start();
            let is_page = value.strip_prefix(b"/Page").is_some_and(|next| {
                !next.first().is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
            });
            pages += usize::from(is_page);
        } else if let Some(after) = rest.strip_prefix(b"Count") {
            let digits = after.trim_ascii_start();
            let end = digits.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(digits.len());
            let number = std::str::from_utf8(&digits[..end.min(9)]).ok().and_then(|text| text.parse().ok());
            counted = counted.max(number.unwrap_or(0));
        }
    }
    Some(pages.max(counted).max(1))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The head of a PNG of that size: enough for code that reads sizes.
    pub(crate) fn png(width: u32, height: u32) -> Vec<u8> {
        let mut out = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
        out.extend_from_slice(&width.to_be_bytes());
        out.extend_from_slice(&height.to_be_bytes());
        out.extend_from_slice(&[8, 6, 0, 0, 0, 0, 0, 0, 0]);
        out
    }

    #[test]
    fn pictures_are_looked_at() {
        let check = |media_type: &str, bytes: &[u8]| check_image(media_type, &encoded(bytes), 8000, 1000);
        assert_eq!(check("image/png", &png(100, 50)), Ok(()));
        assert_eq!(check("image/jpeg", &png(100, 50)), Err(ImageProblem::MediaType("image/png")));
        assert!(
            matches!(check("image/png", &png(9000, 200)), Err(ImageProblem::TooLarge { what }) if what.contains("9000×200"))
        );
        let mut heavy = png(10, 10);
        heavy.resize(2000, 0);
        assert!(matches!(check("image/png", &heavy), Err(ImageProblem::TooLarge { .. })));
        let html = check("image/png", b"<!DOCTYPE html><html><body>x</body></html>");
        assert!(matches!(html, Err(ImageProblem::NoImage(what)) if what.contains("text/html")));
        assert!(matches!(check_image("image/png", "@@@@", 8000, 1000), Err(ImageProblem::NoImage(_))));
        assert!(matches!(check_image("image/png", "", 8000, 1000), Err(ImageProblem::NoImage(_))));
    }

    #[test]
    fn pages_are_counted() {
        assert_eq!(count_pages(b"no"), None);
        assert_eq!(
            count_pages(b"%PDF-1.4 <</Type/Page>> <</Type /Page /X>> <</Type/Pages/Count 2>>"),
            Some(2)
        );
        assert_eq!(count_pages(b"%PDF-1.4 <</Type /Pages /Count 101>>"), Some(101));
    }
}
