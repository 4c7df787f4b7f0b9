//! Shows images and PDFs, or describes them in builds without decoders.

use std::{
    fs, io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    time::Duration,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use haft_media::{
    CAN_DECODE, Document, DocumentPage, ImageFormat, MAX_BYTES, MediaAnswer, MediaInput, MediaTask,
    MediaWork, Picture, SHOWN, choose,
};
use haft_tool::ToolError;
use haft_types::SessionId;
use haft_workspace::{ContentHash, OpenFile};

use super::{
    Failure, NotebookFile, ReadJob,
    line_page::{fit, tokens},
    output::{Dimensions, ImageFile, Output, Parts, PdfFile},
    parse_pages,
    text_lines::TextReadResult,
};
use crate::edit_common::thousands;

/// Estimated tokens of an image of a page.
const PICTURE_TOKENS: usize = 1600;

/// How long images of pages are kept on disk.
const LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);

/// Returns the directory for images of pages of a session. It contains only files of this session, so
/// all of it may be read.
pub fn parts_dir(state: &Path, session: Option<&SessionId>) -> PathBuf {
    let session = session.map_or("none", SessionId::as_str);
    state.join("parts").join(ContentHash::hash(session.as_bytes()).short())
}

/// Removes images older than [`LIFETIME`].
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

    /// Runs a job on a file.
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
        let source = match &self.media {
            MediaWork::Thread => MediaInput::Bytes(file.read_all(MAX_BYTES)?),
            MediaWork::Process(_) => {
                let failed = |err| self.failed(&format!("cannot be handed on ({err})."));
                MediaInput::File(file.file().try_clone().map_err(failed)?)
            }
        };
        let answer = self.media.run(task, source, cancelled);
        answer.map_err(|why| self.failed(&format!("is {kind}, but {why}.")))
    }

    /// Shows an image, shrunk to what providers accept.
    pub(super) fn image(
        &self,
        file: &OpenFile,
        format: ImageFormat,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<TextReadResult, Failure> {
        if !CAN_DECODE {
            return self.undecoded(file, "pictures");
        }
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

    /// Shows pages of a PDF: as text where they have any, else as images.
    pub(super) fn pdf(
        &self,
        file: &OpenFile,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<TextReadResult, Failure> {
        if !CAN_DECODE {
            return self.undecoded(file, "PDFs");
        }
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

    /// Describes an image or PDF in a build without decoders.
    fn undecoded(&self, file: &OpenFile, what: &str) -> Result<TextReadResult, Failure> {
        let notices = vec![format!("[This build cannot show {what}.]")];
        self.binary(file.stamp().len, &file.head(64)?, notices)
    }

    fn parts(
        &self,
        original_size: u64,
        page_count: usize,
        pages: Vec<DocumentPage>,
        notices: Vec<String>,
    ) -> Parts {
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

    /// Writes images of pages to files, so that programs can read them. If that fails, they are only in
    /// the result.
    fn keep(&self, file: &OpenFile, pages: &[DocumentPage]) -> PathBuf {
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
        pages: Vec<DocumentPage>,
        notices: Vec<String>,
    ) -> PdfFile {
        let mut shown = Vec::new();
        let mut images = Vec::new();
        for DocumentPage { number, text, picture } in pages {
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

    /// Shrinks the images of a notebook; data that is not an image is described.
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
        if !CAN_DECODE {
            return Err("this build cannot show pictures".to_owned());
        }
        let bytes = STANDARD.decode(base64).map_err(|_| "it is no base64".to_owned())?;
        self.media.fit(bytes, SHOWN, cancelled)
    }
}

/// Returns the pages that fit the token budget, and which ones follow.
fn within(pages: Vec<DocumentPage>, max_tokens: usize) -> (Vec<DocumentPage>, Option<String>) {
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

/// Formats page numbers as in the `pages` parameter.
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
    fn pages_over_the_budget_are_named() {
        let page = |number, text: &str| DocumentPage { number, text: text.to_owned(), picture: None };
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
