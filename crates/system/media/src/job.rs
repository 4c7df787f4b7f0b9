use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use crate::ImageFormat;

/// What to do with the bytes of a file.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub enum MediaTask {
    /// Decode an image and make it fit the bounds.
    Picture(ImageFormat, ImageBounds),
    /// Read these pages of a PDF, counted from 1. `None` means all if there are at most 10, else none.
    Pages(Option<Vec<RangeInclusive<usize>>>),
}

/// The result of a [`MediaTask`].
#[derive(Debug, Deserialize, Serialize)]
pub enum MediaAnswer {
    /// An image that fits the bounds.
    Picture(Picture),
    /// Pages of a PDF.
    Pages(Document),
}

/// A PDF.
#[derive(Debug, Deserialize, Serialize)]
pub struct Document {
    /// Number of pages of the whole document.
    pub count: usize,
    /// The requested pages; empty if [`choose`] rejects the request.
    pub pages: Vec<DocumentPage>,
}

#[derive(Debug, Deserialize, Serialize)]
pub struct DocumentPage {
    /// Page number, counted from 1.
    pub number: usize,
    /// Text of the page; a placeholder if it has no text and cannot be rendered.
    pub text: String,
    /// The rendered page, for pages with fewer than 12 letters or digits.
    pub picture: Option<Picture>,
}

/// An image in the form in which it is sent to a model.
#[derive(Debug, Deserialize, Serialize)]
pub struct Picture {
    pub media_type: String,
    /// Image data in base64.
    pub base64: String,
    /// Width and height of the original, in pixels.
    pub original: (u32, u32),
    /// Width and height of this picture, in pixels.
    pub shown: (u32, u32),
}

/// Limits an image has to meet.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct ImageBounds {
    /// Maximum pixels of the longer side.
    pub side: u32,
    /// Maximum bytes of a re-encoded image (before base64).
    pub bytes: usize,
    /// Bytes up to which an image is sent unchanged, if it also fits `side`.
    pub small: usize,
}

/// Limits for images the Read tool shows: the longest side that providers accept in requests with many
/// images, and at most 5 MB as base64.
pub const SHOWN: ImageBounds = ImageBounds { side: 2000, bytes: 3_600_000, small: 500 * 1024 };

/// A PDF with more pages is only read if the request names pages.
const PAGES_WITHOUT_ASKING: usize = 10;

/// Maximum number of PDF pages per call.
pub const PAGES_PER_CALL: usize = 20;

/// Returns the page numbers to read. Without a request, all pages if there are at most 10. The error
/// says why the request is rejected (too many pages, or a page that does not exist) and reads well after
/// the file name.
pub fn choose(asked: Option<&[RangeInclusive<usize>]>, count: usize) -> Result<Vec<usize>, String> {
    let hint = format!(
        "it has {count} pages; give pages, such as \"1-{}\" (at most {PAGES_PER_CALL} per call).",
        count.min(PAGES_PER_CALL)
    );
    let ranges = match asked {
        None if count <= PAGES_WITHOUT_ASKING => return Ok((1..=count).collect()),
        None => return Err(format!("is a PDF too long to show at once: {hint}")),
        Some(ranges) => ranges,
    };
    let wanted = ranges.iter().map(|it| (it.end() - it.start()).saturating_add(1));
    let wanted = wanted.fold(0, usize::saturating_add);
    if PAGES_PER_CALL < wanted {
        return Err(format!("was asked for {wanted} pages: {hint}"));
    }
    let wanted: Vec<usize> = ranges.iter().cloned().flatten().collect();
    match wanted.iter().find(|page| count < **page) {
        Some(page) => Err(format!("has no page {page}: {hint}")),
        None => Ok(wanted),
    }
}
