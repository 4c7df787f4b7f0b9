//! Wraps lines to screen rows.

use unicode_segmentation::UnicodeSegmentation as _;

use crate::styled_text::{SafeText, StyledLine, StyledSpan, TextStyle, WrapMode, grapheme_width, width_of};

/// A row of the screen.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ScreenRow {
    pub spans: Vec<StyledSpan>,
    /// Whether the line of the previous row continues here at the right margin (soft wrap).
    pub soft: bool,
}

impl ScreenRow {
    /// Returns its width in columns.
    pub fn width(&self) -> usize {
        self.spans.iter().map(|span| width_of(span.text.as_str())).sum()
    }

    /// Whether it is visually empty.
    fn is_blank(&self) -> bool {
        self.spans.iter().all(|it| it.hides_blanks() && it.text.as_str().chars().all(|it| it == ' '))
    }

    /// Returns its text.
    pub fn to_text(&self) -> String {
        self.spans.iter().map(|span| span.text.as_str()).collect()
    }
}

/// Wraps a line to rows of this width.
pub fn layout(line: &StyledLine, width: usize) -> Vec<ScreenRow> {
    let width = width.max(1);
    if line.width() <= width {
        return vec![ScreenRow { spans: line.spans.clone(), soft: false }];
    }
    match line.fit {
        WrapMode::Flow => flowed(line, width),
        WrapMode::Hang(indent) => hung(line, width, usize::from(indent)),
        WrapMode::Cut => vec![cut(line, width)],
    }
}

/// Wraps all lines.
pub(crate) fn layout_all(lines: &[StyledLine], width: usize) -> Vec<ScreenRow> {
    lines.iter().flat_map(|line| layout(line, width)).collect()
}

/// Distributes spans over rows.
struct RowBuilder {
    rows: Vec<ScreenRow>,
    row: ScreenRow,
    column: usize,
}

impl RowBuilder {
    fn new() -> Self {
        Self { rows: Vec::new(), row: ScreenRow::default(), column: 0 }
    }

    fn put(&mut self, span: &StyledSpan, range: std::ops::Range<usize>, width: usize) {
        if range.is_empty() {
            return;
        }
        let text = span.text.slice(range);
        self.column += width;
        match self.row.spans.last_mut() {
            Some(last) if last.ink == span.ink && last.link == span.link => last.text.push(&text),
            _ => self.row.spans.push(StyledSpan { text, ink: span.ink, link: span.link.clone() }),
        }
    }

    fn next_row(&mut self, soft: bool, indent: usize) {
        let row = std::mem::replace(&mut self.row, ScreenRow { spans: Vec::new(), soft });
        self.rows.push(row);
        self.column = indent;
        if 0 < indent {
            self.row.spans.push(StyledSpan::new(&" ".repeat(indent), TextStyle::PLAIN));
        }
    }
}

fn flowed(line: &StyledLine, width: usize) -> Vec<ScreenRow> {
    let mut maker = RowBuilder::new();
    for span in &line.spans {
        let (mut from, mut columns) = (0, 0);
        for (at, grapheme) in span.text.as_str().grapheme_indices(true) {
            let wide = grapheme_width(grapheme);
            if width < maker.column + columns + wide {
                maker.put(span, from..at, columns);
                maker.next_row(true, 0);
                (from, columns) = (at, 0);
            }
            columns += wide;
        }
        maker.put(span, from..span.text.as_str().len(), columns);
    }
    maker.rows.push(maker.row);
    let mut rows = maker.rows;
    // Trailing spaces are not painted, and a continued row must contain something visible.
    while 1 < rows.len() && rows.last().is_some_and(ScreenRow::is_blank) {
        rows.pop();
    }
    rows
}

/// Wraps between words; a word longer than a row is split.
fn hung(line: &StyledLine, width: usize, indent: usize) -> Vec<ScreenRow> {
    let indent = if indent + 8 < width { indent } else { 0 };
    let mut maker = RowBuilder::new();
    // A space at the end of a row is dropped.
    let mut blank: Option<(usize, std::ops::Range<usize>, usize)> = None;
    for (number, span) in line.spans.iter().enumerate() {
        let text = span.text.as_str();
        for (at, word) in text.split_word_bound_indices() {
            let wide = width_of(word);
            let range = at..at + word.len();
            if word.trim().is_empty() && maker.column + wide <= width {
                if let Some((number, range, wide)) = blank.take() {
                    maker.put(&line.spans[number], range, wide);
                }
                blank = Some((number, range, wide));
                continue;
            }
            let between = blank.as_ref().map_or(0, |it| it.2);
            if width < maker.column + between + wide && indent < maker.column {
                blank = None;
                maker.next_row(false, indent);
            }
            if let Some((number, range, wide)) = blank.take() {
                maker.put(&line.spans[number], range, wide);
            }
            if maker.column + wide <= width {
                maker.put(span, range, wide);
            } else {
                put_long_word(&mut maker, span, range, width, indent);
            }
        }
    }
    maker.rows.push(maker.row);
    maker.rows
}

fn put_long_word(
    maker: &mut RowBuilder,
    span: &StyledSpan,
    range: std::ops::Range<usize>,
    width: usize,
    indent: usize,
) {
    let word = span.text.as_str().get(range.clone()).unwrap_or_default();
    for (at, grapheme) in word.grapheme_indices(true) {
        let wide = grapheme_width(grapheme);
        if width < maker.column + wide {
            maker.next_row(false, indent);
        }
        let at = range.start + at;
        maker.put(span, at..at + grapheme.len(), wide);
    }
}

fn cut(line: &StyledLine, width: usize) -> ScreenRow {
    let mut maker = RowBuilder::new();
    'spans: for span in &line.spans {
        for (at, grapheme) in span.text.as_str().grapheme_indices(true) {
            let wide = grapheme_width(grapheme);
            if width < maker.column + wide + 1 {
                break 'spans;
            }
            maker.put(span, at..at + grapheme.len(), wide);
        }
    }
    let ink = maker.row.spans.last().map_or(TextStyle::DIM, |it| it.ink);
    maker.row.spans.push(StyledSpan { text: SafeText::new("…"), ink, link: None });
    maker.row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_wrap_to_rows() {
        let rows = |text: &str, fit: WrapMode, width: usize| -> Vec<String> {
            let line = StyledLine::new(text, TextStyle::PLAIN).fit(fit);
            layout(&line, width).iter().map(ScreenRow::to_text).collect()
        };
        for (text, fit, want) in [
            ("", WrapMode::Flow, vec![""]),
            ("0123456789", WrapMode::Flow, vec!["0123456789"]),
            ("0123456789ab", WrapMode::Flow, vec!["0123456789", "ab"]),
            ("012345678漢b", WrapMode::Flow, vec!["012345678", "漢b"]),
            // Spaces never form a row of their own.
            ("0123456789   ", WrapMode::Flow, vec!["0123456789"]),
            ("0123456789   x", WrapMode::Flow, vec!["0123456789", "   x"]),
            ("01                              ", WrapMode::Flow, vec!["01        "]),
            ("aaaa bbbb cccc", WrapMode::Hang(0), vec!["aaaa bbbb", "cccc"]),
            ("a b c d e f g h", WrapMode::Hang(1), vec!["a b c d e", " f g h"]),
            ("aaaaaaaaaaaaaaa b", WrapMode::Hang(0), vec!["aaaaaaaaaa", "aaaaa b"]),
            ("aaaa bbbb cccc", WrapMode::Cut, vec!["aaaa bbbb…"]),
        ] {
            assert_eq!(rows(text, fit, 10), want, "{text}");
        }
    }
}
