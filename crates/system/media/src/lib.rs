//! Decodes images and PDFs for models. They are untrusted and the decoding libraries are large, so the
//! work runs isolated: on a thread that contains panics, or in a process with memory and time limits.
//!
//! **Does not know** tools, or where files come from.
//!
//! **Invariant:** whatever the bytes are, a job ends with an answer or with a reason as text.
//!
//! Without the feature `decode` every job is rejected, see [`CAN_DECODE`].

#[cfg(feature = "decode")]
mod decode;
#[cfg(not(feature = "decode"))]
#[path = "no_decode.rs"]
mod decode;
mod job;
mod sniff;
mod worker_process;
mod worker_thread;

use std::{fs::File, path::PathBuf, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};

pub use job::{
    Document, DocumentPage, ImageBounds, MediaAnswer, MediaTask, PAGES_PER_CALL, Picture, SHOWN, choose,
};
pub use sniff::{BodyKind, Format, ImageFormat, body_kind, claimed, describe, format, hex};
pub use worker_process::serve;

/// Whether this build includes the image and PDF decoders.
pub const CAN_DECODE: bool = cfg!(feature = "decode");

/// Maximum bytes of a file. The caller must check the size: bytes beyond it are not read.
pub const MAX_BYTES: u64 = 100 * 1024 * 1024;

/// Maximum time for decoding an image or a PDF.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Where images and PDFs are decoded.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum MediaWork {
    /// On a thread of this process. Panics and timeouts are contained, but a file that exhausts memory
    /// kills the process. For programs without a worker.
    #[default]
    Thread,
    /// In a separate process with memory and time limits.
    Process(MediaWorker),
}

/// A program that runs one job and exits: it calls [`serve`] with its last argument.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct MediaWorker {
    pub program: PathBuf,
    /// Arguments before the task.
    pub args: Vec<String>,
}

/// The file a job works on.
pub enum MediaInput {
    /// An open file of at most [`MAX_BYTES`], read from its beginning.
    File(File),
    /// Data in memory.
    Bytes(Vec<u8>),
}

/// The first pages of a PDF.
pub struct FetchedPages {
    /// Number of pages of the whole document.
    pub count: usize,
    /// The pages that were read, from the first on: number and text.
    pub texts: Vec<(usize, String)>,
    /// Rendered pages without text: MIME type and base64.
    pub pictures: Vec<(String, String)>,
}

impl MediaWork {
    /// Runs one job. Blocks until it ends, 60 s have passed (65 s for a stuck worker process), or
    /// `cancelled` returns true (checked every 20 ms). The error is a reason that reads well after "it
    /// is a PDF, but".
    pub fn run(
        &self,
        task: MediaTask,
        input: MediaInput,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<MediaAnswer, String> {
        match (self, input) {
            (Self::Process(worker), input) => worker_process::ask(worker, &task, input, cancelled),
            (Self::Thread, input) => worker_thread::run(task, input.into_bytes()?, TIMEOUT, cancelled),
        }
    }

    /// Shrinks an image to at most `side` pixels on its longer side and `bytes` bytes. Returns its MIME
    /// type and data, or `None` if that is impossible. Blocks.
    pub fn shrink(&self, image: &[u8], side: usize, bytes: usize) -> Option<(String, Vec<u8>)> {
        let frame = ImageBounds { side: u32::try_from(side).unwrap_or(u32::MAX), bytes, small: bytes };
        let picture = self.fit(image.to_vec(), frame, &|| false).ok()?;
        Some((picture.media_type, STANDARD.decode(picture.base64).ok()?))
    }

    /// Makes an image fit [`SHOWN`]. Returns MIME type and base64. Blocks.
    pub fn fit_picture(
        &self,
        bytes: Vec<u8>,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<(String, String), String> {
        self.fit(bytes, SHOWN, cancelled).map(|it| (it.media_type, it.base64))
    }

    /// Makes an image fit `frame`. Fails if the bytes are not PNG, JPEG, GIF or WebP. Blocks.
    pub fn fit(
        &self,
        bytes: Vec<u8>,
        frame: ImageBounds,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Picture, String> {
        let Format::Image(format) = format(&bytes) else {
            return Err("it is no picture".to_owned());
        };
        match self.run(MediaTask::Picture(format, frame), MediaInput::Bytes(bytes), cancelled)? {
            MediaAnswer::Picture(picture) => Ok(picture),
            MediaAnswer::Pages(_) => Err("it was answered for something else".to_owned()),
        }
    }

    /// Reads the first pages of a PDF: all if there are at most 10, else the first [`PAGES_PER_CALL`].
    /// Blocks.
    pub fn first_pages(&self, bytes: Vec<u8>, cancelled: &dyn Fn() -> bool) -> Result<FetchedPages, String> {
        let ask =
            |pages, bytes| match self.run(MediaTask::Pages(pages), MediaInput::Bytes(bytes), cancelled)? {
                MediaAnswer::Pages(document) => Ok(document),
                MediaAnswer::Picture(_) => Err(String::from("it was answered for something else")),
            };
        let mut document = ask(None, bytes.clone())?;
        if document.pages.is_empty() {
            let first = vec![1..=document.count.min(PAGES_PER_CALL)];
            document = ask(Some(first), bytes)?;
        }
        let mut found = FetchedPages { count: document.count, texts: Vec::new(), pictures: Vec::new() };
        for page in document.pages {
            found.pictures.extend(page.picture.map(|it| (it.media_type, it.base64)));
            found.texts.push((page.number, page.text));
        }
        Ok(found)
    }
}
