//! Folding: text with differences removed that a reader would not notice.

use std::ops::Range;

use icu_normalizer::ComposingNormalizerBorrowed;

/// The differences to ignore.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct FoldRules {
    /// Trailing whitespace.
    pub(crate) line_ends: bool,
    /// Variants of the same character: quotes, dashes, kinds of spaces, composed and decomposed accents.
    pub(crate) characters: bool,
    /// Leading whitespace.
    pub(crate) indentation: bool,
    /// The amount of whitespace between words.
    pub(crate) spacing: bool,
}

/// Combinations of rules to try, from the strictest to the loosest.
pub(crate) const LADDER: [FoldRules; 7] = {
    const NONE: FoldRules =
        FoldRules { line_ends: false, characters: false, indentation: false, spacing: false };
    [
        NONE,
        FoldRules { line_ends: true, ..NONE },
        FoldRules { characters: true, ..NONE },
        FoldRules { line_ends: true, characters: true, ..NONE },
        FoldRules { line_ends: true, indentation: true, ..NONE },
        FoldRules { line_ends: true, characters: true, indentation: true, ..NONE },
        FoldRules { line_ends: true, characters: true, indentation: true, spacing: true },
    ]
};

/// A folded text that maps back to its source.
#[derive(Debug, Default)]
pub(crate) struct FoldedText {
    pub(crate) text: String,
    units: Vec<FoldUnit>,
}

/// A unit that cannot be divided: one or more characters of the folded text, and the characters of the
/// source they came from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FoldUnit {
    folded: u32,
    source: u32,
    source_end: u32,
}

impl FoldUnit {
    pub(crate) fn source(&self) -> Range<usize> {
        self.source as usize..self.source_end as usize
    }
}

impl FoldedText {
    /// Returns the units of a range of the folded text; `None` if the range cuts a unit.
    pub(crate) fn units(&self, part: &Range<usize>) -> Option<&[FoldUnit]> {
        let first = self.unit_at(part.start)?;
        let last = if part.end == self.text.len() { self.units.len() } else { self.unit_at(part.end)? };
        self.units.get(first..last)
    }

    /// Returns the start of each unit: in the folded text and in the source.
    pub(crate) fn starts(&self) -> impl Iterator<Item = (usize, usize)> {
        self.units.iter().map(|unit| (unit.folded as usize, unit.source as usize))
    }

    /// Returns the end of each unit: in the folded text and in the source.
    pub(crate) fn ends(&self) -> impl Iterator<Item = (usize, usize)> {
        let folded_ends = self.units.iter().skip(1).map(|unit| unit.folded as usize).chain([self.text.len()]);
        folded_ends.zip(self.units.iter().map(|unit| unit.source_end as usize))
    }

    fn unit_at(&self, folded: usize) -> Option<usize> {
        self.units.binary_search_by_key(&folded, |unit| unit.folded as usize).ok()
    }

    fn push(&mut self, text: &str, source: Range<usize>) {
        let small = |it: usize| u32::try_from(it).unwrap_or(u32::MAX);
        self.units.push(FoldUnit {
            folded: small(self.text.len()),
            source: small(source.start),
            source_end: small(source.end),
        });
        self.text.push_str(text);
    }
}

/// Folds a text. `offset` is its position in the source.
pub(crate) fn fold(text: &str, offset: usize, folds: FoldRules) -> FoldedText {
    let mut folded =
        FoldedText { text: String::with_capacity(text.len()), units: Vec::with_capacity(text.len()) };
    let mut at = offset;
    for line in text.split_inclusive('\n') {
        let body = line.strip_suffix('\n').unwrap_or(line);
        fold_line(&mut folded, body, at, folds);
        if body.len() < line.len() {
            folded.push("\n", at + body.len()..at + line.len());
        }
        at += line.len();
    }
    folded
}

fn fold_line(folded: &mut FoldedText, body: &str, offset: usize, folds: FoldRules) {
    let start = if folds.indentation { body.len() - trim_start(body).len() } else { 0 };
    let end = if folds.line_ends { trim_end(body).len().max(start) } else { body.len() };
    let mut at = start;
    while at < end {
        let rest = &body[at..end];
        let len = cluster_len(rest, folds);
        let cluster = &rest[..len];
        let source = offset + at..offset + at + len;
        at += len;
        if folds.spacing && is_space(cluster) {
            folded.push(" ", source);
        } else if !folds.characters || cluster.is_ascii() {
            folded.push(cluster, source);
        } else if !is_invisible(cluster) {
            match same_as(cluster) {
                Some(spelling) => folded.push(spelling, source),
                None => folded.push(&ComposingNormalizerBorrowed::new_nfc().normalize(cluster), source),
            }
        }
    }
}

/// Returns the length in bytes of the next cluster: a character with its accents, or a run of
/// whitespace.
fn cluster_len(text: &str, folds: FoldRules) -> usize {
    let mut characters = text.char_indices();
    let Some((_, first)) = characters.next() else { return 0 };
    let belongs: fn(char) -> bool = match first {
        it if folds.spacing && it.is_whitespace() => char::is_whitespace,
        _ if folds.characters => is_mark,
        _ => |_| false,
    };
    characters.find(|(_, it)| !belongs(*it)).map_or(text.len(), |(at, _)| at)
}

/// Whether the character combines with the one before, for scripts with composed and decomposed forms:
/// accents, kana voicing marks, Hangul vowels.
fn is_mark(character: char) -> bool {
    matches!(character,
        '\u{300}'..='\u{36f}' | '\u{1ab0}'..='\u{1aff}' | '\u{1dc0}'..='\u{1dff}' | '\u{20d0}'..='\u{20ff}'
        | '\u{fe20}'..='\u{fe2f}' | '\u{3099}' | '\u{309a}' | '\u{1160}'..='\u{11ff}')
}

fn is_space(text: &str) -> bool {
    text.chars().all(char::is_whitespace)
}

/// Whether the text consists of invisible characters.
fn is_invisible(text: &str) -> bool {
    text.chars().all(|it| matches!(it, '\u{200b}' | '\u{2060}' | '\u{feff}' | '\u{ad}'))
}

/// Returns the ASCII equivalent of a typographic character.
fn same_as(text: &str) -> Option<&'static str> {
    let mut characters = text.chars();
    let (Some(character), None) = (characters.next(), characters.next()) else { return None };
    Some(match character {
        '‘' | '’' | '‚' | '‛' | '′' | '＇' | 'ʼ' => "'",
        '“' | '”' | '„' | '‟' | '″' | '＂' => "\"",
        '‐' | '‑' | '‒' | '–' | '—' | '―' | '−' => "-",
        '…' => "...",
        '\u{a0}' | '\u{202f}' | '\u{2000}'..='\u{200a}' | '\u{205f}' | '\u{3000}' => " ",
        _ => return None,
    })
}

/// Removes leading whitespace, including wide spaces.
pub(crate) fn trim_start(text: &str) -> &str {
    text.trim_start_matches(char::is_whitespace)
}

/// Removes trailing whitespace, including wide spaces.
pub(crate) fn trim_end(text: &str) -> &str {
    text.trim_end_matches(char::is_whitespace)
}

/// Returns the leading whitespace of a line.
pub(crate) fn indent(line: &str) -> &str {
    &line[..line.len() - trim_start(line).len()]
}
