//! Converts a body to a page: its type by the first bytes, its encoding, and its text.

use std::{borrow::Cow, path::PathBuf};

use haft_html_markdown::{charset, convert};
pub(crate) use haft_html_markdown::{part, visible};
use haft_media::{BodyKind, MediaWork, body_kind};
use url::Url;

/// Minimum number of omitted characters worth a note.
const MENTIONED: usize = 200;

/// Maximum characters of a title.
const MAX_OF_TITLE: usize = 1_000;

/// A converted page, which is cached and shown in parts.
#[derive(Clone, Debug, Default)]
pub(crate) struct StoredPage {
    pub(crate) url: String,
    pub(crate) code: u16,
    pub(crate) content_type: String,
    pub(crate) title: Option<String>,
    pub(crate) text: String,
    pub(crate) bytes: u64,
    pub(crate) images: Vec<(String, String)>,
    pub(crate) saved_to: Option<PathBuf>,
    pub(crate) notes: Vec<String>,
    /// Whether the page needs JavaScript to show its content.
    pub(crate) needs_script: bool,
}

impl StoredPage {
    /// Returns its approximate size in memory, in bytes.
    pub(crate) fn weight(&self) -> usize {
        self.text.len() + self.images.iter().map(|it| it.1.len()).sum::<usize>() + 1024
    }
}

/// The type of a body.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Shape {
    Html,
    Text,
    Pdf,
    Picture,
    /// Binary data that is not shown, with a description.
    Other(&'static str),
}

/// Determines the type of a body by its first bytes and, if they are not conclusive, by the content
/// type.
pub(crate) fn shape(head: &[u8], content_type: &str) -> Shape {
    let media = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match body_kind(head) {
        BodyKind::Pdf => return Shape::Pdf,
        BodyKind::Picture => return Shape::Picture,
        BodyKind::Other(_) => {}
    }
    let sixteen = head.starts_with(&[0xff, 0xfe]) || head.starts_with(&[0xfe, 0xff]);
    let said = charset::parameter(content_type, "charset").unwrap_or_default().to_ascii_lowercase();
    if head.contains(&0) && !sixteen && !said.starts_with("utf-16") {
        return match body_kind(head) {
            BodyKind::Other(name) => Shape::Other(name),
            _ => Shape::Other("binary data of unknown type"),
        };
    }
    let start = String::from_utf8_lossy(&head[..head.len().min(512)]).trim_start().to_ascii_lowercase();
    let looks_html = ["<!doctype html", "<html", "<head", "<body"].iter().any(|it| start.starts_with(it));
    let is_html = matches!(media.as_str(), "text/html" | "application/xhtml+xml");
    if is_html || looks_html && (media.is_empty() || media == "application/octet-stream") {
        return Shape::Html;
    }
    let texts =
        ["json", "xml", "javascript", "yaml", "toml", "csv", "x-sh", "graphql", "sql", "rtf", "markdown"];
    if media.starts_with("text/") || media.is_empty() || texts.iter().any(|it| media.contains(it)) {
        return Shape::Text;
    }
    // Text labelled as binary data is shown.
    match body_kind(head) {
        BodyKind::Other("binary data of unknown type") if is_plain(head) => Shape::Text,
        BodyKind::Other(name) => Shape::Other(name),
        _ => Shape::Other("binary data of unknown type"),
    }
}

fn is_plain(head: &[u8]) -> bool {
    let valid = match std::str::from_utf8(head) {
        Ok(_) => true,
        Err(err) => err.error_len().is_none(),
    };
    valid && !head.iter().any(|it| *it < 9 || (14..32).contains(it) && *it != 27)
}

/// A body and what is needed to convert it.
pub(crate) struct PageWork {
    pub(crate) url: Url,
    pub(crate) code: u16,
    pub(crate) content_type: String,
    pub(crate) bytes: Vec<u8>,
    pub(crate) shape: Shape,
    pub(crate) raw: bool,
    pub(crate) media: MediaWork,
    pub(crate) saved_to: Option<PathBuf>,
    pub(crate) notes: Vec<String>,
}

impl PageWork {
    /// Converts the body. Blocks.
    pub(crate) fn run(self, cancelled: &dyn Fn() -> bool) -> StoredPage {
        let mut page = StoredPage {
            url: self.url.to_string(),
            code: self.code,
            content_type: self.content_type.clone(),
            bytes: self.bytes.len() as u64,
            saved_to: self.saved_to.clone(),
            notes: self.notes.clone(),
            ..StoredPage::default()
        };
        match self.shape {
            Shape::Html if !self.raw => self.html(&mut page),
            Shape::Html | Shape::Text => {
                let (text, encoding) = charset::decode_all(self.bytes, &self.content_type);
                say_encoding(&mut page, encoding);
                page.text = visible(text);
            }
            Shape::Pdf => self.pdf(&mut page, cancelled),
            Shape::Picture => match self.media.fit_picture(self.bytes, cancelled) {
                Ok(picture) => page.images = vec![picture],
                Err(why) => page.notes.push(format!("The picture cannot be shown: {why}.")),
            },
            Shape::Other(name) => {
                page.notes.push(format!("This is {name}, which is not shown."));
            }
        }
        page
    }

    fn html(self, page: &mut StoredPage) {
        let (text, encoding) = charset::decode_all(self.bytes, &self.content_type);
        say_encoding(page, encoding);
        let made = convert(text, &self.url);
        page.title = made.title.map(|it| visible(haft_types::text::head(&it, MAX_OF_TITLE)));
        page.text = visible(made.markdown);
        page.needs_script = made.needs_script;
        if made.needs_script {
            page.notes.push(String::from(
                "This page needs JavaScript: without it there is next to nothing here. Fetching it again \
                 will not help; look for an API, a feed, a raw file or another page.",
            ));
        }
        if made.asks_password {
            page.notes.push(String::from(
                "This is a login page. Nobody is logged in here; use a tool that has access.",
            ));
        }
        if MENTIONED < made.left_out {
            page.notes.push(format!(
                "Left out: {} characters of menus and the like around the main part (raw: true shows all).",
                haft_types::text::thousands(made.left_out as u64)
            ));
        }
        if made.cut {
            page.notes.push(String::from("A part of the page was too large to convert and is missing."));
        }
    }

    fn pdf(self, page: &mut StoredPage, cancelled: &dyn Fn() -> bool) {
        match self.media.first_pages(self.bytes, cancelled) {
            Ok(found) => {
                let texts = found.texts.iter().map(|(number, text)| format!("[page {number}]\n{text}\n"));
                page.text = visible(texts.collect::<Vec<_>>().join("\n"));
                page.images = found.pictures;
                let shown = found.texts.len();
                if shown < found.count {
                    let next = format!("{}-{}", shown + 1, found.count.min(shown * 2));
                    page.notes.push(match &page.saved_to {
                        Some(path) => format!(
                            "The document has {} pages; these are the first {shown}. Next: Read {} with pages \"{next}\".",
                            found.count,
                            path.display()
                        ),
                        None => format!("The document has {} pages; these are the first {shown}.", found.count),
                    });
                }
            }
            Err(why) => page.notes.push(format!("The document cannot be shown: {why}.")),
        }
    }
}

fn say_encoding(page: &mut StoredPage, encoding: &str) {
    if encoding != "UTF-8" {
        page.notes.push(format!("The text was in {encoding}."));
    }
}

/// Returns the beginning of an error's body as text, at most `most` characters.
pub(crate) fn explanation(bytes: &[u8], content_type: &str, url: &Url, most: usize) -> String {
    let text = match shape(bytes, content_type) {
        Shape::Html => {
            let (text, _) = charset::decode(bytes, content_type);
            Cow::Owned(convert(&text, url).markdown)
        }
        Shape::Text => charset::decode(bytes, content_type).0,
        _ => return String::new(),
    };
    let text = visible(text.trim());
    haft_types::text::head(&text, most).to_owned()
}
