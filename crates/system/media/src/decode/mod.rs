//! Decodes untrusted bytes with large libraries. Everything here may panic, take long or need much
//! memory, so it runs on a thread or in a process of its own.

mod image;
mod pdf;
mod pdf_text;

use crate::{Document, MediaAnswer, MediaTask, choose};

/// Runs a job on the current thread.
pub(crate) fn perform(task: MediaTask, bytes: Vec<u8>) -> Result<MediaAnswer, String> {
    match task {
        MediaTask::Picture(format, frame) => image::prepare(bytes, format, frame).map(MediaAnswer::Picture),
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
