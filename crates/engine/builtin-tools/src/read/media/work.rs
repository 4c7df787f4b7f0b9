use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use super::{
    super::file_format::ImageFormat,
    pdf::{self, Page},
    picture::{self, ImageBounds, Picture},
};

/// What is to be done with the bytes of a file.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) enum MediaTask {
    /// Check a picture and make it fit.
    Picture(ImageFormat, ImageBounds),
    /// Read these pages of a document; `None` means all, if they are few.
    Pages(Option<Vec<RangeInclusive<usize>>>),
}

/// What came of it.
#[derive(Debug, Deserialize, Serialize)]
pub(super) enum MediaAnswer {
    Picture(Picture),
    Pages(Document),
}

/// A document.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Document {
    /// How many pages it has.
    pub(super) count: usize,
    /// Those that were asked for; none when [`choose`] refuses them.
    pub(super) pages: Vec<Page>,
}

/// Does the work. May panic, take long and need much memory.
pub(super) fn perform(task: MediaTask, bytes: Vec<u8>) -> Result<MediaAnswer, String> {
    match task {
        MediaTask::Picture(format, frame) => picture::prepare(bytes, format, frame).map(MediaAnswer::Picture),
        MediaTask::Pages(asked) => {
            let pdf = pdf::open(bytes)?;
            let count = pdf.pages().len();
            let pages = match choose(asked.as_deref(), count) {
                Ok(wanted) => pdf::read_pages(&pdf, &wanted),
                Err(_) => Vec::new(),
            };
            Ok(MediaAnswer::Pages(Document { count, pages }))
        }
    }
}

/// PDFs with more pages need to be told which.
const PAGES_WITHOUT_ASKING: usize = 10;

/// Pages of one call.
pub(super) const PAGES_PER_CALL: usize = 20;

/// The pages to show, or why that is not possible.
pub(super) fn choose(asked: Option<&[RangeInclusive<usize>]>, count: usize) -> Result<Vec<usize>, String> {
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
