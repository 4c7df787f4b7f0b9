use std::panic::{AssertUnwindSafe, catch_unwind};

use hayro::{
    PixmapSettings, RenderCache, RenderSettings,
    hayro_interpret::{InterpreterCache, InterpreterSettings},
    hayro_syntax::{LoadPdfError, Pdf},
    render,
    vello_cpu::color::palette::css::WHITE,
};
use image::{DynamicImage, RgbaImage};

use super::{image::shrink, pdf_text::page_text};
use crate::{DocumentPage, Picture, SHOWN};

/// Maximum pixels of the longer side of a rendered page.
const SIDE: f32 = 1600.0;

/// Minimum number of letters and digits for a page to count as having text.
const ENOUGH_TEXT: usize = 12;

/// Opens a PDF. Fails if it is encrypted, damaged or has no pages.
pub(super) fn open(bytes: Vec<u8>) -> Result<Pdf, String> {
    let pdf = Pdf::new(bytes).map_err(|err| match err {
        LoadPdfError::Decryption(_) => "it is protected by a password".to_owned(),
        LoadPdfError::Invalid => "it is damaged and cannot be read".to_owned(),
    })?;
    if pdf.pages().is_empty() { Err("it has no pages".to_owned()) } else { Ok(pdf) }
}

/// Reads pages: their text, and a rendering of those without text.
pub(super) fn read_pages(pdf: &Pdf, wanted: &[usize]) -> Vec<DocumentPage> {
    let fonts = InterpreterCache::new();
    let read = |number: &usize| {
        let text = text_of(pdf, &fonts, *number).unwrap_or_default();
        let mut page = DocumentPage { number: *number, text, picture: None };
        if !has_text(&page.text) {
            page.picture = picture_of(pdf, page.number);
            if page.picture.is_none() && page.text.trim().is_empty() {
                page.text = "[This page has no text and cannot be drawn.]".to_owned();
            }
        }
        page
    };
    wanted.iter().map(read).collect()
}

fn has_text(text: &str) -> bool {
    ENOUGH_TEXT <= text.chars().filter(|it| it.is_alphanumeric()).take(ENOUGH_TEXT).count()
}

/// Returns the text of a page; `None` if the page does not exist or the library panics on it.
fn text_of<'a>(pdf: &'a Pdf, fonts: &InterpreterCache<'a>, number: usize) -> Option<String> {
    let page = pdf.pages().get(number.checked_sub(1)?)?;
    let text = catch_unwind(AssertUnwindSafe(|| page_text(page, fonts)));
    text.ok().flatten().map(|text| tidy(&text))
}

/// Collapses blank lines and removes control characters.
fn tidy(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        let line: String = line.trim_end().chars().filter(|it| !it.is_control() || *it == '\t').collect();
        if !(line.is_empty() && lines.last().is_none_or(String::is_empty)) {
            lines.push(line);
        }
    }
    lines.join("\n")
}

fn picture_of(pdf: &Pdf, number: usize) -> Option<Picture> {
    catch_unwind(AssertUnwindSafe(|| {
        let page = pdf.pages().get(number - 1)?;
        let (width, height) = page.render_dimensions();
        let longest = width.max(height);
        if !longest.is_finite() || longest < 1.0 {
            return None;
        }
        let scale = (SIDE / longest).min(3.0);
        let settings = PixmapSettings { x_scale: scale, y_scale: scale, bg_color: WHITE };
        let pixmap = render(
            page,
            &RenderCache::new(),
            &InterpreterSettings::default(),
            &RenderSettings::default(),
            &settings,
        );
        let size = (u32::from(pixmap.width()), u32::from(pixmap.height()));
        let pixels = pixmap.data_as_u8_slice().to_vec();
        let image = RgbaImage::from_raw(size.0, size.1, pixels)?;
        shrink(DynamicImage::ImageRgba8(image), size, SHOWN).ok()
    }))
    .ok()
    .flatten()
}
