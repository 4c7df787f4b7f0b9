//! Pictures and PDFs. Everything here reads untrusted bytes with large
//! libraries, so it runs apart, within limits of time and memory.

mod page_text;
mod pdf;
mod picture;
mod process;
mod thread;
mod work;

use std::{
    fs, io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    time::Duration,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use haft_tool::ToolError;
use haft_workspace::{ContentHash, OpenFile};
use pdf::Page;
use picture::{ImageBounds, Picture, SHOWN};
use process::MediaInput;
pub(crate) use process::serve;
use work::{Document, MediaAnswer, MediaTask, choose};

use super::{
    Failure, MediaWork, NotebookFile, ReadJob,
    fetched_media::FetchedPages,
    file_format::{self, Format, ImageFormat},
    line_page::{fit, tokens},
    media_work::parts_dir,
    output::{Dimensions, ImageFile, Output, Parts, PdfFile},
    parse_pages,
    text_lines::TextReadResult,
};
use crate::edit_common::thousands;

/// Larger files are refused.
const MAX_BYTES: u64 = 100 * 1024 * 1024;

/// How long a picture or a document may take.
const TIMEOUT: Duration = Duration::from_secs(60);

/// About what a picture of a page costs, in tokens.
const PICTURE_TOKENS: usize = 1600;

/// How long pictures of pages are kept.
const LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);

/// Removes what was kept long enough.
fn remove_old(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let age = entry.metadata().and_then(|it| it.modified()).ok().and_then(|it| it.elapsed().ok());
        if age.is_some_and(|age| LIFETIME < age) {
            fs::remove_dir_all(entry.path()).ok();
        }
    }
}

impl ReadJob {
    fn failed(&self, what: &str) -> Failure {
        Failure::Tool(ToolError::failed(format!("{} {what}", self.input.file_path.display())))
    }

    /// Does the work on a file.
    fn work(
        &self,
        file: &OpenFile,
        task: MediaTask,
        kind: &str,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<MediaAnswer, Failure> {
        let len = file.stamp().len;
        if MAX_BYTES < len {
            return Err(self.failed(&format!(
                "has {} bytes, more than can be shown ({} MB). Make it smaller with Bash first.",
                thousands(len),
                MAX_BYTES / 1024 / 1024
            )));
        }
        let answer = match &self.media {
            MediaWork::Thread => thread::run(task, file.read_all(MAX_BYTES)?, TIMEOUT, cancelled),
            MediaWork::Process(worker) => {
                let failed = |err| self.failed(&format!("cannot be handed on ({err})."));
                let source = MediaInput::File(file.file().try_clone().map_err(failed)?);
                process::ask(worker, &task, source, cancelled)
            }
        };
        answer.map_err(|why| self.failed(&format!("is {kind}, but {why}.")))
    }

    /// Shows a picture, made as small as a provider takes it.
    pub(super) fn image(
        &self,
        file: &OpenFile,
        format: ImageFormat,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<TextReadResult, Failure> {
        let kind = format.media_type();
        let MediaAnswer::Picture(picture) =
            self.work(file, MediaTask::Picture(format, SHOWN), kind, cancelled)?
        else {
            return Err(self.failed("was answered for something else."));
        };
        let output = Output::Image(ImageFile {
            base64: picture.base64,
            media_type: picture.media_type,
            original_size: file.stamp().len,
            dimensions: Dimensions {
                original_width: picture.original.0,
                original_height: picture.original.1,
                display_width: picture.shown.0,
                display_height: picture.shown.1,
            },
        });
        Ok(TextReadResult { output, record: None })
    }

    /// Shows pages of a PDF: as text where they have some, else as pictures.
    pub(super) fn pdf(
        &self,
        file: &OpenFile,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<TextReadResult, Failure> {
        let invalid = |why| Failure::Tool(ToolError::invalid(why));
        let asked = self.input.pages.as_deref().map(parse_pages).transpose().map_err(invalid)?;
        let task = MediaTask::Pages(asked.clone());
        let MediaAnswer::Pages(Document { count, pages }) = self.work(file, task, "a PDF", cancelled)? else {
            return Err(self.failed("was answered for something else."));
        };
        choose(asked.as_deref(), count).map_err(|why| self.failed(&why))?;
        let (pages, rest) = within(pages, self.limits.max_tokens);
        let notices = rest
            .map(|rest| format!("{}continue with pages=\"{rest}\"]", crate::edit_common::PARTIAL_MARK))
            .into_iter()
            .collect();
        let original_size = file.stamp().len;
        let output = if pages.iter().all(|page| page.picture.is_some()) {
            let output_dir = self.keep(file, &pages);
            Output::Parts(Parts { output_dir, ..self.parts(original_size, count, pages, notices) })
        } else {
            Output::Pdf(self.document(original_size, count, pages, notices))
        };
        Ok(TextReadResult { output, record: None })
    }

    fn parts(&self, original_size: u64, page_count: usize, pages: Vec<Page>, notices: Vec<String>) -> Parts {
        let first_page = pages.first().map_or(1, |page| page.number);
        let images: Vec<(String, String)> = pages
            .into_iter()
            .filter_map(|page| page.picture)
            .map(|picture| (picture.media_type, picture.base64))
            .collect();
        Parts {
            file_path: self.input.file_path.clone(),
            original_size,
            count: images.len(),
            output_dir: PathBuf::new(),
            first_page,
            page_count,
            images,
            notices,
        }
    }

    /// Puts pictures of pages where programs find them too. Where that cannot be
    /// done, they are in the result alone.
    fn keep(&self, file: &OpenFile, pages: &[Page]) -> PathBuf {
        let parent = parts_dir(self.files.workspace().state_dir(), self.files.session());
        let done = (|| {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(&parent)?;
            parent.parent().into_iter().for_each(remove_old);
            let stamp = file.stamp();
            let name = format!("{:?}{:?}{:?}", file.path(), stamp.id, stamp.changed);
            let dir = parent.join(ContentHash::hash(name.as_bytes()).short());
            fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir)?;
            for (number, picture) in
                pages.iter().filter_map(|it| it.picture.as_ref().map(|picture| (it.number, picture)))
            {
                let ending = picture.media_type.rsplit('/').next().unwrap_or("jpeg");
                let bytes = STANDARD.decode(&picture.base64).map_err(io::Error::other)?;
                fs::write(dir.join(format!("page-{number:04}.{ending}")), bytes)?;
            }
            Ok::<_, io::Error>(dir)
        })();
        done.unwrap_or_default()
    }

    fn document(
        &self,
        original_size: u64,
        page_count: usize,
        pages: Vec<Page>,
        notices: Vec<String>,
    ) -> PdfFile {
        let mut shown = Vec::new();
        let mut images = Vec::new();
        for Page { number, text, picture } in pages {
            images.extend(picture.map(|picture| (number, picture.media_type, picture.base64)));
            shown.push((number, text));
        }
        PdfFile {
            file_path: self.input.file_path.clone(),
            base64: String::new(),
            original_size,
            page_count,
            pages: shown,
            images,
            notices,
        }
    }

    /// Makes the pictures of a notebook fit; what is none is described.
    pub(super) fn fit_pictures(&self, file: &mut NotebookFile, cancelled: &dyn Fn() -> bool) {
        for output in file.cells.iter_mut().flat_map(|cell| &mut cell.outputs) {
            let Some((kind, base64)) = output.image.take() else { continue };
            match self.embedded(&base64, cancelled) {
                Ok(picture) => output.image = Some((picture.media_type, picture.base64)),
                Err(why) => output.say(&format!("[{kind} is not shown: {why}]")),
            }
        }
    }

    fn embedded(&self, base64: &str, cancelled: &dyn Fn() -> bool) -> Result<Picture, String> {
        let bytes = STANDARD.decode(base64).map_err(|_| "it is no base64".to_owned())?;
        framed(&self.media, bytes, SHOWN, cancelled)
    }
}

/// Makes a picture that is only in memory fit.
fn framed(
    work: &MediaWork,
    bytes: Vec<u8>,
    frame: ImageBounds,
    cancelled: &dyn Fn() -> bool,
) -> Result<Picture, String> {
    let Format::Image(format) = file_format::format(&bytes) else {
        return Err("it is no picture".to_owned());
    };
    let task = MediaTask::Picture(format, frame);
    let answer = match work {
        MediaWork::Thread => thread::run(task, bytes, TIMEOUT, cancelled),
        MediaWork::Process(worker) => process::ask(worker, &task, MediaInput::Bytes(bytes), cancelled),
    };
    match answer? {
        MediaAnswer::Picture(picture) => Ok(picture),
        MediaAnswer::Pages(_) => Err("it was answered for something else".to_owned()),
    }
}

/// A picture with at most these many pixels on its longer side and bytes: its
/// type and its data.
pub(super) fn shrunk(
    work: &MediaWork,
    image: Vec<u8>,
    side: usize,
    bytes: usize,
) -> Option<(String, Vec<u8>)> {
    let frame = ImageBounds { side: u32::try_from(side).unwrap_or(u32::MAX), bytes, small: bytes };
    let picture = framed(work, image, frame, &|| false).ok()?;
    Some((picture.media_type, STANDARD.decode(picture.base64).ok()?))
}

/// The first pages of a document that is only in memory.
pub(super) fn first_pages(
    work: &MediaWork,
    bytes: Vec<u8>,
    cancelled: &dyn Fn() -> bool,
) -> Result<FetchedPages, String> {
    let ask = |task: MediaTask, bytes: Vec<u8>| match work {
        MediaWork::Thread => thread::run(task, bytes, TIMEOUT, cancelled),
        MediaWork::Process(worker) => process::ask(worker, &task, MediaInput::Bytes(bytes), cancelled),
    };
    let other = || String::from("it was answered for something else");
    let MediaAnswer::Pages(mut document) = ask(MediaTask::Pages(None), bytes.clone())? else {
        return Err(other());
    };
    if document.pages.is_empty() {
        let first = vec![1..=document.count.min(work::PAGES_PER_CALL)];
        let MediaAnswer::Pages(again) = ask(MediaTask::Pages(Some(first)), bytes)? else {
            return Err(other());
        };
        document = again;
    }
    let mut found = FetchedPages { count: document.count, texts: Vec::new(), pictures: Vec::new() };
    for page in document.pages {
        found.pictures.extend(page.picture.map(|it| (it.media_type, it.base64)));
        found.texts.push((page.number, page.text));
    }
    Ok(found)
}

/// A picture that is only in memory, made to fit: MIME type and base64.
pub(super) fn fitted(
    work: &MediaWork,
    bytes: Vec<u8>,
    cancelled: &dyn Fn() -> bool,
) -> Result<(String, String), String> {
    framed(work, bytes, SHOWN, cancelled).map(|it| (it.media_type, it.base64))
}

/// As many pages as fit into the budget, and the ones that follow.
fn within(pages: Vec<Page>, max_tokens: usize) -> (Vec<Page>, Option<String>) {
    let mut left = max_tokens;
    let mut shown = Vec::new();
    let mut rest: Vec<usize> = Vec::new();
    for mut page in pages {
        let cost = if page.picture.is_some() { PICTURE_TOKENS } else { tokens(&page.text) };
        if rest.is_empty() && (cost <= left || shown.is_empty()) {
            if left < cost && page.picture.is_none() {
                page.text = format!("{}\n[The rest of this page is not shown.]", fit(&page.text, left));
            }
            left = left.saturating_sub(cost);
            shown.push(page);
        } else {
            rest.push(page.number);
        }
    }
    (shown, (!rest.is_empty()).then(|| ranges(&rest)))
}

/// Page numbers as they are asked for.
fn ranges(pages: &[usize]) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for page in pages {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *page => *last = *page,
            _ => ranges.push((*page, *page)),
        }
    }
    let words = ranges
        .iter()
        .map(|(first, last)| if first == last { first.to_string() } else { format!("{first}-{last}") });
    words.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_named_exactly() {
        let page = |number, text: &str| Page { number, text: text.to_owned(), picture: None };
        let pages = || vec![page(2, "aaa aaa"), page(5, &"b".repeat(60)), page(6, "c"), page(9, "d")];
        let (shown, rest) = within(pages(), 10);
        assert_eq!((shown.len(), rest.as_deref()), (1, Some("5-6,9")));
        let (shown, rest) = within(pages(), 100);
        assert_eq!((shown.len(), rest), (4, None));
        let (shown, rest) = within(pages().split_off(1), 4);
        assert!(shown[0].text.starts_with("bbb") && shown[0].text.contains("not shown"));
        assert_eq!(rest.as_deref(), Some("6,9"));
    }
}
