//! Documents and pictures that did not come from a file: other tools show them
//! as Read does.

use super::{
    MediaWork,
    file_format::{self, Format},
};

/// What the first bytes of something say it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum BodyKind {
    /// A PDF.
    Pdf,
    /// A picture that models can see.
    Picture,
    /// Anything else, with a name for it where it is no text.
    Other(&'static str),
}

/// What the first bytes of something say it is.
pub(crate) fn body_kind(head: &[u8]) -> BodyKind {
    match file_format::format(head) {
        Format::Pdf => BodyKind::Pdf,
        Format::Image(_) => BodyKind::Picture,
        Format::Other => BodyKind::Other(file_format::describe(head)),
    }
}

/// The first pages of a document.
#[cfg_attr(not(feature = "media"), expect(dead_code, reason = "there is nothing to unpack"))]
pub(crate) struct FetchedPages {
    /// How many it has.
    pub(crate) count: usize,
    /// Those at the beginning that were unpacked: number and text.
    pub(crate) texts: Vec<(usize, String)>,
    /// Pages without text as pictures: MIME type and base64.
    pub(crate) pictures: Vec<(String, String)>,
}

/// The first pages of a document. Blocks.
pub(crate) fn first_pages(
    work: &MediaWork,
    bytes: Vec<u8>,
    cancelled: &dyn Fn() -> bool,
) -> Result<FetchedPages, String> {
    #[cfg(feature = "media")]
    return super::media::first_pages(work, bytes, cancelled);
    #[cfg(not(feature = "media"))]
    return {
        let _ = (work, bytes, cancelled);
        Err(String::from("this build cannot show PDFs"))
    };
}

/// A picture, made to fit: MIME type and base64. Blocks.
pub(crate) fn fit_picture(
    work: &MediaWork,
    bytes: Vec<u8>,
    cancelled: &dyn Fn() -> bool,
) -> Result<(String, String), String> {
    #[cfg(feature = "media")]
    return super::media::fitted(work, bytes, cancelled);
    #[cfg(not(feature = "media"))]
    return {
        let _ = (work, bytes, cancelled);
        Err(String::from("this build cannot show pictures"))
    };
}
