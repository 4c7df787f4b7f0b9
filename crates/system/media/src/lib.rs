//! Pictures and PDFs as models see them. They are untrusted and the libraries that
//! unpack them are large, so the work is done apart: on a thread that contains panics,
//! or in a process with limits on memory and time.
//!
//! **Does not know** tools, and where files come from.
//!
//! **Invariant:** whatever the bytes hold, a job ends: with an answer, or with a reason
//! in words.
//!
//! Without the feature `decode` every job is refused, see [`CAN_DECODE`].

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

/// Whether this build has the libraries that unpack pictures and PDFs.
pub const CAN_DECODE: bool = cfg!(feature = "decode");

/// Larger files are refused.
pub const MAX_BYTES: u64 = 100 * 1024 * 1024;

/// How long a picture or a document may take.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Where pictures and documents are unpacked.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum MediaWork {
    /// On a thread of this process: panics and slowness are contained, but a
    /// document that needs all memory takes the process with it. For programs
    /// that have no worker.
    #[default]
    Thread,
    /// In a process of its own with limits on memory and time.
    Process(MediaWorker),
}

/// A program that does one piece of work and ends: it calls [`serve`] with its last
/// argument.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct MediaWorker {
    /// The program.
    pub program: PathBuf,
    /// What comes before the task.
    pub args: Vec<String>,
}

/// What a job works on.
pub enum MediaInput {
    /// An open file of at most [`MAX_BYTES`].
    File(File),
    /// Something that is only in memory.
    Bytes(Vec<u8>),
}

/// The first pages of a document.
pub struct FetchedPages {
    /// How many it has.
    pub count: usize,
    /// Those at the beginning that were unpacked: number and text.
    pub texts: Vec<(usize, String)>,
    /// Pages without text as pictures: MIME type and base64.
    pub pictures: Vec<(String, String)>,
}

impl MediaWork {
    /// Does one job. Blocks until it is done, has taken a minute, or `cancelled` says so.
    /// The error is a reason that reads well after "it is a PDF, but".
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

    /// Makes a picture small enough: at most `side` pixels on its longer side
    /// and so many bytes. Its type and data, or `None` if that is not possible.
    /// Blocks.
    pub fn shrink(&self, image: &[u8], side: usize, bytes: usize) -> Option<(String, Vec<u8>)> {
        let frame = ImageBounds { side: u32::try_from(side).unwrap_or(u32::MAX), bytes, small: bytes };
        let picture = self.fit(image.to_vec(), frame, &|| false).ok()?;
        Some((picture.media_type, STANDARD.decode(picture.base64).ok()?))
    }

    /// A picture in memory, made to fit [`SHOWN`]: MIME type and base64. Blocks.
    pub fn fit_picture(
        &self,
        bytes: Vec<u8>,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<(String, String), String> {
        self.fit(bytes, SHOWN, cancelled).map(|it| (it.media_type, it.base64))
    }

    /// Makes a picture in memory fit `frame`. Blocks.
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

    /// The first pages of a document in memory: all of a short one, else
    /// [`PAGES_PER_CALL`]. Blocks.
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
