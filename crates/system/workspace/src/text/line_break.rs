use std::ops::Range;

use memchr::{memchr, memrchr};

use super::Text;

/// Style of a line break.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LineBreak {
    /// LF.
    Lf,
    /// CR LF.
    CrLf,
    /// CR.
    Cr,
}

impl LineBreak {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Lf => "\n",
            Self::CrLf => "\r\n",
            Self::Cr => "\r",
        }
    }
}

/// Number of line breaks considered on each side.
const NEIGHBOURS: usize = 3;

impl Text {
    /// Style of the line breaks in and around a range of the view: the most frequent, or the nearest if
    /// there is no majority.
    pub fn line_break_near(&self, view: &Range<usize>) -> LineBreak {
        let breaks = self.line_breaks();
        match (breaks.lf, breaks.crlf, breaks.cr) {
            (_, 0, 0) => return LineBreak::Lf,
            (0, _, 0) => return LineBreak::CrLf,
            (0, 0, _) => return LineBreak::Cr,
            _ => (),
        }
        let mut near = Vec::new();
        let text = self.view().as_bytes();
        let (mut before, mut after) = (view.start, view.start);
        for _ in 0..NEIGHBOURS {
            if let Some(found) = memrchr(b'\n', &text[..before]) {
                near.push(self.style_at(found));
                before = found;
            }
            if let Some(found) = memchr(b'\n', &text[after..]) {
                near.push(self.style_at(after + found));
                after += found + 1;
            }
        }
        let nearest = near.first().copied().unwrap_or(LineBreak::Lf);
        let count = |style| near.iter().filter(|it| **it == style).count();
        let prevails = |style: &LineBreak| near.len() < count(*style) * 2;
        [LineBreak::Lf, LineBreak::CrLf, LineBreak::Cr].into_iter().find(prevails).unwrap_or(nearest)
    }

    /// Style of the line break at a position in the view.
    fn style_at(&self, view: usize) -> LineBreak {
        match self.literal(&self.raw()[self.raw_range(&(view..view + 1))]).as_str() {
            "\r\n" => LineBreak::CrLf,
            "\r" => LineBreak::Cr,
            _ => LineBreak::Lf,
        }
    }
}
