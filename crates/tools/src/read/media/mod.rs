//! Pictures and PDFs. Everything here reads untrusted bytes with large
//! libraries, so it runs apart, for a limited time.

mod apart;
mod pdf;
mod picture;

use base64::{Engine, engine::general_purpose::STANDARD};
use haft_tool::ToolError;
use haft_workspace::{FileError, OpenFile};
use pdf::Pages;
use picture::Picture;

use super::{
    Failure, Job,
    output::{Dimensions, ImageFile, Output, Parts, PdfFile},
    page::tokens,
    parse_pages,
    sniff::ImageFormat,
    text::Reading,
};
use crate::files::thousands;

/// Larger files are refused.
const MAX_BYTES: u64 = 100 * 1024 * 1024;

/// PDFs with more pages need to be told which.
const PAGES_WITHOUT_ASKING: usize = 10;

/// Pages of one call.
const PAGES_PER_CALL: usize = 20;

impl Job {
    fn load(&self, file: &OpenFile) -> Result<Vec<u8>, Failure> {
        file.read_all(MAX_BYTES).map_err(|err| match err {
            FileError::TooLarge { len, .. } => self.failed(&format!(
                "has {} bytes, more than can be shown ({} MB). Make it smaller with Bash first.",
                thousands(len),
                MAX_BYTES / 1024 / 1024
            )),
            err => Failure::File(err),
        })
    }

    fn failed(&self, what: &str) -> Failure {
        Failure::Tool(ToolError::failed(format!("{} {what}", self.input.file_path.display())))
    }

    /// Shows a picture, made as small as a provider takes it.
    pub(super) fn image(&self, file: &OpenFile, format: ImageFormat, _: &[u8]) -> Result<Reading, Failure> {
        let bytes = self.load(file)?;
        let original_size = bytes.len() as u64;
        let prepared = apart::run(move || picture::prepare(bytes, format))
            .map_err(|why| self.failed(&format!("is {}, but {why}.", format.media_type())))?;
        let output = Output::Image(ImageFile {
            base64: STANDARD.encode(&prepared.data),
            media_type: prepared.media_type.to_owned(),
            original_size,
            dimensions: Dimensions {
                original_width: prepared.original.0,
                original_height: prepared.original.1,
                display_width: prepared.shown.0,
                display_height: prepared.shown.1,
            },
        });
        Ok(Reading { output, record: None })
    }

    /// Shows pages of a PDF: as text where they have some, else as pictures.
    pub(super) fn pdf(&self, file: &OpenFile, _: &[u8]) -> Result<Reading, Failure> {
        let bytes = self.load(file)?;
        let original_size = bytes.len() as u64;
        let (bytes, page_count) = apart::run(move || pdf::count_pages(bytes))
            .map_err(|why| self.failed(&format!("is a PDF, but {why}.")))?;
        let wanted = self.wanted_pages(page_count)?;
        let pages = apart::run(move || Ok(pdf::read_pages(bytes, &wanted)))
            .map_err(|why| self.failed(&format!("is a PDF, but {why}.")))?;
        let (pages, rest) = self.fit(pages);
        let mut notices = Vec::new();
        if let Some(rest) = rest {
            notices.push(format!("{}continue with pages=\"{rest}\"]", crate::files::PARTIAL_MARK));
        }
        let all_pictures = pages.iter().all(|page| page.picture.is_some());
        if all_pictures && !pages.is_empty() {
            let first_page = pages.first().map_or(1, |page| page.number);
            let images: Vec<(String, String)> =
                pages.into_iter().filter_map(|page| page.picture).map(|it| encoded(&it)).collect();
            let output = Output::Parts(Parts {
                file_path: self.input.file_path.clone(),
                original_size,
                count: images.len(),
                output_dir: std::path::PathBuf::new(),
                first_page,
                page_count,
                images,
                notices,
            });
            return Ok(Reading { output, record: None });
        }
        let mut shown = Vec::new();
        let mut images = Vec::new();
        for page in pages {
            if let Some(picture) = &page.picture {
                let (media_type, data) = encoded(picture);
                images.push((page.number, media_type, data));
            }
            shown.push((page.number, page.text));
        }
        let output = Output::Pdf(PdfFile {
            file_path: self.input.file_path.clone(),
            base64: String::new(),
            original_size,
            page_count,
            pages: shown,
            images,
            notices,
        });
        Ok(Reading { output, record: None })
    }

    fn wanted_pages(&self, page_count: usize) -> Result<Vec<usize>, Failure> {
        let hint = format!(
            "it has {page_count} pages; give pages, such as \"1-{}\" (at most {PAGES_PER_CALL} per call).",
            page_count.min(PAGES_PER_CALL)
        );
        let ranges = match &self.input.pages {
            None if page_count <= PAGES_WITHOUT_ASKING => return Ok((1..=page_count).collect()),
            None => return Err(self.failed(&format!("is a PDF too long to show at once: {hint}"))),
            Some(text) => parse_pages(text).map_err(|why| Failure::Tool(ToolError::invalid(why)))?,
        };
        let count: usize = ranges.iter().map(|it| it.end() + 1 - it.start()).fold(0, usize::saturating_add);
        if PAGES_PER_CALL < count {
            return Err(self.failed(&format!("was asked for {count} pages: {hint}")));
        }
        let wanted: Vec<usize> = ranges.into_iter().flatten().collect();
        match wanted.iter().find(|page| page_count < **page) {
            Some(page) => Err(self.failed(&format!("has no page {page}: {hint}"))),
            None => Ok(wanted),
        }
    }

    /// As many pages as fit into the budget, and the ones that follow.
    fn fit(&self, pages: Pages) -> (Pages, Option<String>) {
        let mut left = self.limits.max_tokens;
        let mut shown = Vec::new();
        let mut rest: Vec<usize> = Vec::new();
        for mut page in pages {
            // A picture of a page costs about this.
            let cost = if page.picture.is_some() { 1600 } else { tokens(&page.text) };
            if rest.is_empty() && (cost <= left || shown.is_empty()) {
                if left < cost {
                    page.text = haft_types::text::head(&page.text, left.saturating_mul(2)).to_owned();
                    page.text.push_str("\n[The rest of this page is not shown.]");
                }
                left = left.saturating_sub(cost);
                shown.push(page);
            } else {
                rest.push(page.number);
            }
        }
        let range = rest.first().zip(rest.last()).map(|(first, last)| format!("{first}-{last}"));
        (shown, range)
    }
}

fn encoded(picture: &Picture) -> (String, String) {
    (picture.media_type.to_owned(), STANDARD.encode(&picture.data))
}
