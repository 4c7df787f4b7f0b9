//! The text of a page, from where its letters stand.
//!
//! Letters come in the order in which the page draws them, which is nearly always the
//! order in which it is read. What a page leaves out is made up for by distances: a gap
//! is a space, a step down a new line, a large one a new paragraph.

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

/// Widths and heights of letters, as outlines have them.
const UNITS_PER_EM: f64 = 1000.0;
/// From this gap on, in parts of a letter's height, there is a space between two letters.
const SPACE: f64 = 0.18;
/// From this gap on it is one between columns.
const COLUMN: f64 = 2.5;
/// How far a letter may stand above or below its line, as indices do.
const OFF_LINE: f64 = 0.55;
/// From this step on, in heights of a letter, a line begins a paragraph.
const PARAGRAPH: f64 = 1.8;
/// How far a letter may go back into the one before it.
const OVERLAP: f64 = 0.6;
/// Letters that are drawn twice, to look bold or with an edge, stand this near.
const SAME_PLACE: f64 = 0.12;
/// A line is indented by no more.
const MAX_INDENT: usize = 120;
/// How many of the last letters a new one may repeat.
const REPEATED: usize = 256;

/// The text of a page. `None` where too many of its letters have no meaning: such a page
/// is better looked at.
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

/// A letter on the page.
#[derive(Clone, Copy, Debug)]
struct PositionedGlyph {
    start: Point,
    end: Point,
    /// Which way its line goes, of length one.
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

/// Writes down what a page shows.
struct PageWriter {
    seen: Rect,
    text: String,
    last: Option<PositionedGlyph>,
    /// Whether a space was drawn since. Most are also seen by the gap they leave.
    has_space: bool,
    /// How many were drawn at the beginning of a line, as programs have them.
    indent: usize,
    /// The last letters: a letter that comes again at its place is not read twice.
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

/// What stands between two letters.
fn gap(last: PositionedGlyph, next: PositionedGlyph) -> &'static str {
    let height = last.height.max(next.height);
    let step = next.start - last.end;
    let (ahead, aside) = (step.dot(last.along), step.cross(last.along).abs());
    let turns = last.along.dot(next.along) < 0.9;
    if turns || OFF_LINE * height < aside || ahead < -OVERLAP * height {
        let is_paragraph = turns || PARAGRAPH * height < aside;
        return if is_paragraph { "\n\n" } else { "\n" };
    }
    // Small letters beside large ones have small gaps.
    let height = last.height.min(next.height);
    match ahead / height {
        gap if COLUMN < gap => "\t",
        gap if SPACE < gap => " ",
        _ => "",
    }
}

/// Joined letters are taken apart, as everybody writes them.
fn push_plain(text: &mut String, letter: char) {
    match letter {
        '\u{fb00}' => text.push_str("ff"),
        '\u{fb01}' => text.push_str("fi"),
        '\u{fb02}' => text.push_str("fl"),
        '\u{fb03}' => text.push_str("ffi"),
        '\u{fb04}' => text.push_str("ffl"),
        '\u{fb05}' | '\u{fb06}' => text.push_str("st"),
        // Drawn, it is the end of a line.
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
            // What stands beside the page is seen by nobody.
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
