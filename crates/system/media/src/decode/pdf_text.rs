//! Extracts the text of a page from the positions of its glyphs.
//!
//! Glyphs come in drawing order, which is nearly always reading order. Whitespace is inferred from
//! distances: a gap is a space, a step down a new line, a large step a new paragraph.

use std::collections::VecDeque;

use hayro::{
    hayro_interpret::{
        BlendMode, ClipPath, Context, Device, DrawMode, DrawProps, Image, ImageDrawProps, InterpreterCache,
        InterpreterSettings, SoftMask,
        font::{Glyph, GlyphRun},
        hayro_cmap::BfString,
        interpret_page,
        util::TransformExt as _,
    },
    hayro_syntax::page::Page,
    kurbo::{Affine, BezPath, Point, Rect, Vec2},
};

/// Glyph metrics are in thousandths of an em.
const UNITS_PER_EM: f64 = 1000.0;
/// Minimum gap between two words, in units of the glyph height.
const SPACE: f64 = 0.18;
/// Minimum gap between two columns, in units of the glyph height.
const COLUMN: f64 = 2.5;
/// Maximum vertical offset of a glyph on the same line (subscripts), in units of the glyph height.
const OFF_LINE: f64 = 0.55;
/// Minimum step between lines that starts a paragraph, in units of the glyph height.
const PARAGRAPH: f64 = 1.8;
/// Maximum overlap of a glyph with the one before it, in units of the glyph height.
const OVERLAP: f64 = 0.6;
/// Maximum distance of a glyph drawn twice (fake bold or outline), in units of the glyph height.
const SAME_PLACE: f64 = 0.12;
/// Maximum spaces of indentation kept per line.
const MAX_INDENT: usize = 120;
/// Number of recent glyphs checked for repetition.
const REPEATED: usize = 256;

/// Returns the text of a page; `None` if most of its glyphs have no Unicode mapping, so that the page is
/// better rendered.
pub(super) fn page_text<'a>(page: &'a Page<'a>, cache: &InterpreterCache<'a>) -> Option<String> {
    let (width, height) = page.render_dimensions();
    let seen = Rect::new(0.0, 0.0, f64::from(width), f64::from(height));
    let transform = page.initial_transform(true).to_kurbo();
    let settings = InterpreterSettings::default();
    let mut context = Context::new(transform, seen, cache, page.xref(), settings);
    let mut writer = PageWriter::new(seen);
    interpret_page(page, &mut context, &mut writer);
    (writer.unknown <= writer.known).then_some(writer.text)
}

/// A glyph with its position on the page.
#[derive(Clone, Copy, Debug)]
struct PositionedGlyph {
    start: Point,
    end: Point,
    /// Direction of the text line, as a unit vector.
    along: Vec2,
    height: f64,
}

impl PositionedGlyph {
    fn new(transform: Affine, advance: f64) -> Option<Self> {
        let (start, end) = (transform * Point::ORIGIN, transform * Point::new(advance, 0.0));
        let along = transform * Point::new(UNITS_PER_EM, 0.0) - start;
        let height = (transform * Point::new(0.0, UNITS_PER_EM) - start).hypot();
        let is_sound = along.is_finite() && 1e-3 < along.hypot() && height.is_finite() && 1e-3 < height;
        is_sound.then(|| Self { start, end, along: along.normalize(), height })
    }
}

/// Collects the text of a page while it is interpreted.
struct PageWriter {
    seen: Rect,
    text: String,
    last: Option<PositionedGlyph>,
    /// Whether a space glyph was drawn since the last letter. Most spaces also show as a gap.
    has_space: bool,
    /// Number of spaces drawn at the beginning of the line, as in program listings.
    indent: usize,
    /// Recent glyphs, to skip one that is drawn twice at the same place.
    recent: VecDeque<(char, Point)>,
    known: usize,
    unknown: usize,
}

impl PageWriter {
    fn new(seen: Rect) -> Self {
        Self {
            seen,
            text: String::new(),
            last: None,
            has_space: false,
            indent: 0,
            recent: VecDeque::new(),
            known: 0,
            unknown: 0,
        }
    }

    fn write(&mut self, letters: &str, placed: PositionedGlyph) {
        let Some(first) = letters.chars().next() else { return };
        let gap = self.last.map_or("", |last| gap(last, placed));
        if first.is_whitespace() {
            if gap.starts_with('\n') {
                self.indent = (self.indent + 1).min(MAX_INDENT)
            } else {
                self.has_space = true
            }
            return;
        }
        let near = SAME_PLACE * placed.height;
        if self.recent.iter().any(|(other, at)| *other == first && at.distance(placed.start) < near) {
            return;
        }
        let (has_space, indent) = (std::mem::take(&mut self.has_space), std::mem::take(&mut self.indent));
        self.text.push_str(if gap.is_empty() && has_space { " " } else { gap });
        if gap.starts_with('\n') {
            self.text.extend(std::iter::repeat_n(' ', indent));
        }
        letters.chars().for_each(|letter| push_plain(&mut self.text, letter));
        self.last = Some(placed);
        if REPEATED <= self.recent.len() {
            self.recent.pop_front();
        }
        self.recent.push_back((first, placed.start));
    }
}

/// Returns the whitespace between two glyphs.
fn gap(last: PositionedGlyph, next: PositionedGlyph) -> &'static str {
    let height = last.height.max(next.height);
    let step = next.start - last.end;
    let (ahead, aside) = (step.dot(last.along), step.cross(last.along).abs());
    let turns = last.along.dot(next.along) < 0.9;
    if turns || OFF_LINE * height < aside || ahead < -OVERLAP * height {
        let is_paragraph = turns || PARAGRAPH * height < aside;
        return if is_paragraph { "\n\n" } else { "\n" };
    }
    // Gaps are measured by the smaller glyph.
    let height = last.height.min(next.height);
    match ahead / height {
        gap if COLUMN < gap => "\t",
        gap if SPACE < gap => " ",
        _ => "",
    }
}

/// Appends a character, expanding typographic ligatures.
fn push_plain(text: &mut String, letter: char) {
    match letter {
        '\u{fb00}' => text.push_str("ff"),
        '\u{fb01}' => text.push_str("fi"),
        '\u{fb02}' => text.push_str("fl"),
        '\u{fb03}' => text.push_str("ffi"),
        '\u{fb04}' => text.push_str("ffl"),
        '\u{fb05}' | '\u{fb06}' => text.push_str("st"),
        // A soft hyphen is drawn only at the end of a line, so it is a visible hyphen.
        '\u{ad}' => text.push('-'),
        other => text.push(other),
    }
}

impl<'a> Device<'a> for PageWriter {
    fn draw_glyph_run(&mut self, run: &GlyphRun<'_, 'a>, props: DrawProps<'a>, _: &DrawMode) {
        for glyph in run.glyphs() {
            let advance = match &**glyph {
                Glyph::Outline(outline) => outline.advance_width(),
                Glyph::Type3(drawn) => drawn.advance_width(),
            };
            let advance = f64::from(advance.filter(|it| it.is_finite()).unwrap_or(500.0));
            let Some(placed) = PositionedGlyph::new(props.transform * glyph.transform(), advance) else {
                continue;
            };
            // Glyphs outside the page are not visible.
            if !self.seen.contains(placed.start) && !self.seen.contains(placed.end) {
                continue;
            }
            match glyph.as_unicode() {
                Some(meaning) => {
                    self.known += 1;
                    let mut buffer = [0; 4];
                    let letters = match &meaning {
                        BfString::Char(letter) => &*letter.encode_utf8(&mut buffer),
                        BfString::String(letters) => letters,
                    };
                    self.write(letters, placed);
                }
                None => self.unknown += 1,
            }
        }
    }

    fn draw_path(&mut self, _: &BezPath, _: DrawProps<'a>, _: &DrawMode) {}
    fn push_clip_path(&mut self, _: &ClipPath) {}
    fn push_transparency_group(&mut self, _: f32, _: Option<SoftMask<'a>>, _: BlendMode) {}
    fn draw_image(&mut self, _: Image<'a, '_>, _: ImageDrawProps<'a>) {}
    fn pop_clip(&mut self) {}
    fn pop_transparency_group(&mut self) {}
}
