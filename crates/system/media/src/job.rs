use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use crate::ImageFormat;

/// What is to be done with the bytes of a file.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub enum MediaTask {
    /// Check a picture and make it fit.
    Picture(ImageFormat, ImageBounds),
    /// Read these pages of a document; `None` means all, if they are few.
    Pages(Option<Vec<RangeInclusive<usize>>>),
}

/// What came of it.
#[derive(Debug, Deserialize, Serialize)]
pub enum MediaAnswer {
    /// A picture that fits.
    Picture(Picture),
    /// Pages of a document.
    Pages(Document),
}

/// A document.
#[derive(Debug, Deserialize, Serialize)]
pub struct Document {
    /// How many pages it has.
    pub count: usize,
    /// Those that were asked for; none when [`choose`] refuses them.
    pub pages: Vec<DocumentPage>,
}

/// One page.
#[derive(Debug, Deserialize, Serialize)]
pub struct DocumentPage {
    /// From 1.
    pub number: usize,
    /// Its text; empty where it has none.
    pub text: String,
    /// What it looks like, where it has no text.
    pub picture: Option<Picture>,
}

/// A picture as it is sent.
#[derive(Debug, Deserialize, Serialize)]
pub struct Picture {
    /// Its MIME type.
    pub media_type: String,
    /// Its bytes in base64.
    pub base64: String,
    /// Width and height of the source, in pixels.
    pub original: (u32, u32),
    /// Width and height of this picture, in pixels.
    pub shown: (u32, u32),
}

/// What a picture has to fit into.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct ImageBounds {
    /// Pixels of the longer side.
    pub side: u32,
    /// Bytes, when it is made anew.
    pub bytes: usize,
    /// Up to this size it stays as it is.
    pub small: usize,
}

/// What Read shows: the longest side that providers take when a request has
/// many pictures, and not more than 5 MB as base64.
pub const SHOWN: ImageBounds = ImageBounds { side: 2000, bytes: 3_600_000, small: 500 * 1024 };

/// PDFs with more pages need to be told which.
const PAGES_WITHOUT_ASKING: usize = 10;

/// Pages of one call.
pub const PAGES_PER_CALL: usize = 20;

/// The pages to show, or why that is not possible.
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
