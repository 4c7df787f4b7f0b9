//! Checks that images and documents are accepted by providers.

use std::hash::{DefaultHasher, Hash, Hasher};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use haft_types::MediaSource;

/// Scales images down. Implemented in a higher layer.
pub trait ImageShrinker: Send + Sync {
    /// Re-encodes an image so that it fits the limit; `None` if that is impossible. May block: runs on a
    /// blocking thread.
    fn shrink(&self, image: &[u8], limit: ImageLimit) -> Option<ShrunkImage>;

    /// Returns the number of pages of a PDF. The default implementation searches the bytes for page
    /// objects and counts, which works for files without compressed object streams.
    fn pdf_pages(&self, pdf: &[u8]) -> Option<usize> {
        count_pages(pdf)
    }
}

/// Limits of an image.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct ImageLimit {
    /// Maximum pixels of the longer side.
    pub side: usize,
    /// Maximum bytes of the file, before base64.
    pub bytes: usize,
}

/// An image that was scaled down.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ShrunkImage {
    /// MIME type of `bytes`.
    pub media_type: String,
    /// The content of the file.
    pub bytes: Vec<u8>,
}

/// Limits of a provider on images and documents.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct MediaRules {
    /// Maximum base64 bytes of one image.
    pub image_base64: usize,
    /// Maximum pixels of the longer side.
    pub image_side: usize,
    /// Number of images above which `many_side` applies.
    pub many: usize,
    /// Maximum pixels of the longer side when there are more than `many` images.
    pub many_side: usize,
    /// Maximum number of images in a request.
    pub images: usize,
    /// Whether GIF is supported.
    pub gif: bool,
    /// Maximum number of PDF pages in a request.
    pub pdf_pages: usize,
    /// Maximum base64 bytes of all media together, so that the body stays below the provider's limit.
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

/// Bytes of a file that are decoded to find its dimensions. If a JPEG has a larger EXIF block, the whole
/// file is decoded.
const HEAD: usize = 64 * 1024;

/// Why a provider would reject an image.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ImageProblem {
    /// The declared MIME type is wrong; the value is the right one. Otherwise the image is valid.
    MediaType(&'static str),
    /// The data is not an image; the text says what it is.
    NoImage(String),
    /// Too many pixels or bytes; the text says which.
    TooLarge { what: String },
}

/// Hashes the content of an image or document.
pub(crate) fn fingerprint(source: &MediaSource) -> u64 {
    let mut hasher = DefaultHasher::new();
    match source {
        MediaSource::Base64 { data, .. } => data.hash(&mut hasher),
        MediaSource::Url { url } => url.hash(&mut hasher),
    }
    hasher.finish()
}

/// Checks one image. `side` is the maximum of the longer side in pixels, `base64` the maximum encoded
/// size in bytes.
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

/// Whether base64 data starts with a GIF header.
pub(crate) fn is_gif(data: &str) -> bool {
    data.starts_with("R0lGOD")
}

/// Returns the longer side of an image in pixels; `None` if the format is unknown.
pub(crate) fn image_side(data: &str) -> Option<usize> {
    let head = decode_head(data)?;
    image_size(data, &head).map(|size| size.width.max(size.height))
}

fn image_size(data: &str, head: &[u8]) -> Option<imagesize::ImageSize> {
    let from_head = imagesize::blob_size(head).ok();
    from_head.or_else(|| imagesize::blob_size(&STANDARD.decode(data).ok()?).ok())
}

/// Decodes the beginning of base64 data; `None` if any of it is not valid base64.
fn decode_head(data: &str) -> Option<Vec<u8>> {
    let bytes = data.as_bytes();
    let padding = bytes.iter().rev().take_while(|byte| **byte == b'=').count();
    let body = &bytes[..bytes.len() - padding];
    let is_base64 = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'+' || *byte == b'/';
    if bytes.is_empty() || !bytes.len().is_multiple_of(4) || padding > 2 || !body.iter().all(is_base64) {
        return None;
    }
    // Checks the last group too: its unused bits must be zero.
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

/// Describes what kind of data some bytes are.
pub(crate) fn sniff(head: &[u8]) -> String {
    match infer::get(head) {
        Some(kind) => kind.mime_type().to_owned(),
        None if head.is_empty() => "empty".to_owned(),
        None if std::str::from_utf8(&head[..head.len().min(512)]).is_ok() => "text/plain".to_owned(),
        None => "of an unknown type".to_owned(),
    }
}

/// Decodes base64 data; empty if it is invalid.
pub(crate) fn decoded(data: &str) -> Vec<u8> {
    STANDARD.decode(data).unwrap_or_default()
}

/// Encodes bytes as base64.
pub(crate) fn encoded(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Counts the pages of a PDF by its page objects, or by the largest count of a page tree. `None` if it
/// is not a PDF.
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

    /// Returns the header of a PNG with these dimensions: enough for code that reads dimensions.
    pub(crate) fn png(width: u32, height: u32) -> Vec<u8> {
        let mut out = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
        out.extend_from_slice(&width.to_be_bytes());
        out.extend_from_slice(&height.to_be_bytes());
        out.extend_from_slice(&[8, 6, 0, 0, 0, 0, 0, 0, 0]);
        out
    }

    #[test]
    fn image_check_reports_type_and_size_problems() {
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
    fn pdf_pages_are_counted() {
        assert_eq!(count_pages(b"no"), None);
        assert_eq!(
            count_pages(b"%PDF-1.4 <</Type/Page>> <</Type /Page /X>> <</Type/Pages/Count 2>>"),
            Some(2)
        );
        assert_eq!(count_pages(b"%PDF-1.4 <</Type /Pages /Count 101>>"), Some(101));
    }
}
