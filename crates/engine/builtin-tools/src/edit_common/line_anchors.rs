//! Line marks: a line number with letters derived from the line's content.
//!
//! With marks a model can name lines without copying them. If a line has changed since, its letters no
//! longer match, so a mark cannot refer to the wrong line.

use std::ops::Range;

/// Number of letters in a mark, five bits each.
const LETTERS: usize = 5;

/// Maximum number of lines a marked line may have moved.
const REACH: usize = 1000;

/// Returns the letters for a line.
pub(crate) fn letters(line: &str) -> String {
    // FNV-1a. A hash that can be forged is sufficient: nobody gains by forging a mark.
    let fold = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    let hash = line.bytes().fold(0xcbf2_9ce4_8422_2325, fold);
    let mut rest = hash ^ (hash >> 25) ^ (hash >> 50);
    let mut letters = String::with_capacity(LETTERS);
    for _ in 0..LETTERS {
        letters
            .push(char::from(b"0123456789abcdefghijklmnopqrstuv"[usize::try_from(rest % 32).unwrap_or(0)]));
        rest /= 32;
    }
    letters
}

/// Whether the text has the form of a mark's letters.
pub(crate) fn is_letters(text: &str) -> bool {
    text.len() == LETTERS && text.bytes().all(|it| matches!(it, b'0'..=b'9' | b'a'..=b'v'))
}

/// Returns the mark of a line, such as `12:4fk0a`.
pub(crate) fn mark(number: u64, line: &str) -> String {
    format!("{number}:{}", letters(line))
}

/// A range of lines, given by the marks of its first and last line.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct LineAnchors {
    first: (usize, String),
    last: (usize, String),
}

/// The current position of marked lines.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct AnchoredRange {
    /// Byte range of their text, without the last line end.
    pub(crate) span: Range<usize>,
    /// Line numbers, counted from 1.
    pub(crate) lines: Range<u64>,
    /// Whether the lines have moved since they were marked.
    pub(crate) moved: bool,
}

impl LineAnchors {
    /// Parses `12:4fk0a` or `12:4fk0a-15:9m2qr`. The error is meant for the model.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let problem = || {
            format!(
                "lines: \"{text}\" are no marks; give one or two as Read shows them with marks: true, such as \
                 \"12:4fk0a\" or \"12:4fk0a-15:9m2qr\"."
            )
        };
        let one = |text: &str| {
            let (number, letters) = text.trim().split_once(':')?;
            let number: usize = number.parse().ok().filter(|it| 0 < *it)?;
            is_letters(letters).then(|| (number, letters.to_owned()))
        };
        let (first, last) = match text.split_once('-') {
            Some((first, last)) => (one(first), one(last)),
            None => (one(text), one(text)),
        };
        match (first, last) {
            (Some(first), Some(last)) if last.0 < first.0 => {
                Err(format!("lines: the first line ({}) comes after the last ({}).", first.0, last.0))
            }
            (Some(first), Some(last)) => Ok(Self { first, last }),
            _ => Err(problem()),
        }
    }

    /// Returns the line numbers the marks state, counted from 1.
    pub(crate) fn stated(&self) -> Range<u64> {
        self.first.0 as u64..self.last.0 as u64 + 1
    }

    /// Finds the lines: at the stated numbers, else at the only matching place within [`REACH`] lines.
    /// `None` if there is no such place, or more than one.
    pub(crate) fn find(&self, view: &str) -> Option<AnchoredRange> {
        let all: Vec<&str> = view.lines().collect();
        let count = self.last.0 - self.first.0;
        let fits = |at: usize| {
            let line = |at: usize| all.get(at).map(|line| letters(line));
            line(at).as_ref() == Some(&self.first.1) && line(at + count).as_ref() == Some(&self.last.1)
        };
        let stated = self.first.0 - 1;
        let at = if fits(stated) {
            stated
        } else {
            let mut places = (stated.saturating_sub(REACH)..stated.saturating_add(REACH).min(all.len()))
                .filter(|at| fits(*at));
            let only = places.next()?;
            if places.next().is_some() {
                return None;
            }
            only
        };
        let start: usize = all[..at].iter().map(|line| line.len() + 1).sum();
        let text: usize = all[at..=at + count].iter().map(|line| line.len() + 1).sum();
        let lines = at as u64 + 1..(at + count) as u64 + 2;
        Some(AnchoredRange { span: start..start + text - 1, lines, moved: at != stated })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str, first: usize, last: usize) -> LineAnchors {
        let mark = |number: usize| mark(number as u64, text.lines().nth(number - 1).unwrap());
        LineAnchors::parse(&format!("{}-{}", mark(first), mark(last))).unwrap()
    }

    #[test]
    fn marked_lines_are_found_after_moving() {
        let text = "one\ntwo\n\nthree\ntwo\n";
        for (first, last, want) in [(1, 1, "one"), (2, 4, "two\n\nthree"), (4, 5, "three\ntwo"), (3, 3, "")] {
            let marks = of(text, first, last);
            let found = marks.find(text).unwrap();
            assert_eq!((&text[found.span.clone()], found.moved), (want, false));
            // Lines were inserted before.
            let later = format!("zero\n{text}");
            let found = marks.find(&later).unwrap();
            assert_eq!((&later[found.span.clone()], found.moved), (want, true));
            assert_eq!(found.lines, first as u64 + 1..last as u64 + 2);
        }
        // The lines are gone, or match in two places.
        assert_eq!(of(text, 1, 1).find("ONE\ntwo\n"), None);
        assert_eq!(of(text, 1, 1).find("x\none\none\n"), None);
        assert_eq!(of(text, 1, 2).find(""), None);
        // Whitespace counts.
        assert_eq!(of(text, 1, 1).find(" one\n"), None);
    }

    #[test]
    fn invalid_marks_are_rejected() {
        for bad in [
            "",
            "12",
            "12:",
            "x:4fk0a",
            "0:4fk0a",
            "12:4fk0",
            "12:4fk0az",
            "12:4fkWa",
            "1:4fk0a-",
            "1:4fk0a 2:4fk0a",
        ] {
            assert!(LineAnchors::parse(bad).unwrap_err().contains("marks: true"), "{bad}");
        }
        assert!(LineAnchors::parse("3:00000-2:00000").unwrap_err().contains("after"));
        assert_eq!(LineAnchors::parse(" 3:00000 - 4:0000v ").unwrap().stated(), 3..5);
    }
}
