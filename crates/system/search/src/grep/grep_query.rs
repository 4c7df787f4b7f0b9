use std::fmt;

use grep_regex::{ErrorKind, RegexMatcher, RegexMatcherBuilder};
use regex_syntax::hir::{Class, Hir, HirKind};

use super::non_utf8::{self, CharsetGuess};

/// A compiled search pattern.
#[derive(Clone, Debug)]
pub struct GrepQuery {
    pub(crate) matcher: RegexMatcher,
    pub(crate) options: GrepOptions,
    pub(crate) alphabet: PatternAlphabet,
    pub(crate) guess: CharsetGuess,
}

/// Search options.
#[derive(Clone, Copy, Debug, Default)]
pub struct GrepOptions {
    /// What to return.
    pub mode: Mode,
    /// Ignore case.
    pub ignore_case: bool,
    /// Let matches span lines, and `.` match line breaks.
    pub multiline: bool,
    /// Context lines before each match.
    pub before: usize,
    /// Context lines after each match.
    pub after: usize,
    /// Return the matched text instead of its line.
    pub only_matching: bool,
}

/// What to return.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Mode {
    /// Files with matches.
    #[default]
    Files,
    /// Number of matching lines per file.
    Count,
    /// Matching lines with context.
    Content,
}

/// Which characters a pattern can match, to decide whether encodings other than UTF-8 matter.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum PatternAlphabet {
    /// Only ASCII, which is the same bytes in nearly all encodings.
    Ascii,
    /// Any character, such as `.` or `\w`.
    Any,
    /// At least one non-ASCII character, which must be decoded to be found.
    Wide,
    /// Bytes: `(?-u)`.
    Bytes,
}

/// Why a pattern is invalid.
#[derive(Clone, Debug)]
pub struct PatternProblem {
    /// Message of the regex engine.
    pub message: String,
    /// The pattern matches a line break, which needs `multiline`.
    pub spans_lines: bool,
}

impl fmt::Display for PatternProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for PatternProblem {}

/// Maximum bytes of a compiled pattern; a larger one is an error.
const SIZE_LIMIT: usize = 64 << 20;

/// Maximum bytes of the lazy DFA cache per thread.
const DFA_LIMIT: usize = 64 << 20;

impl GrepQuery {
    /// Compiles a pattern like `rg`.
    pub fn new(pattern: &str, options: GrepOptions) -> Result<Self, PatternProblem> {
        let mut builder = RegexMatcherBuilder::new();
        builder
            .multi_line(true)
            .unicode(true)
            .octal(false)
            .case_insensitive(options.ignore_case)
            .size_limit(SIZE_LIMIT)
            .dfa_size_limit(DFA_LIMIT);
        if options.multiline {
            builder.dot_matches_new_line(true);
        } else {
            builder.line_terminator(Some(b'\n')).dot_matches_new_line(false);
        }
        let matcher = builder.build(pattern).map_err(|error| PatternProblem {
            message: error.to_string(),
            spans_lines: matches!(error.kind(), ErrorKind::NotAllowed(_)),
        })?;
        Ok(Self {
            matcher,
            options,
            alphabet: PatternAlphabet::from_pattern(pattern),
            guess: non_utf8::guess,
        })
    }

    /// Sets the encoding detection.
    pub fn with_guess(self, guess: CharsetGuess) -> Self {
        Self { guess, ..self }
    }

    /// The search options.
    pub fn options(&self) -> GrepOptions {
        self.options
    }
}

impl PatternAlphabet {
    fn from_pattern(pattern: &str) -> Self {
        let parsed = regex_syntax::ParserBuilder::new().utf8(false).build().parse(pattern);
        match parsed {
            Ok(hir) if !hir.properties().is_utf8() => Self::Bytes,
            Ok(hir) => Self::of_hir(&hir),
            Err(_) => Self::Any,
        }
    }

    fn of_hir(hir: &Hir) -> Self {
        match hir.kind() {
            HirKind::Empty | HirKind::Look(_) => Self::Ascii,
            HirKind::Literal(literal) if literal.0.is_ascii() => Self::Ascii,
            HirKind::Literal(_) => Self::Wide,
            HirKind::Class(Class::Bytes(class)) if class.is_ascii() => Self::Ascii,
            HirKind::Class(Class::Bytes(_)) => Self::Bytes,
            HirKind::Class(Class::Unicode(class)) => {
                let ascii = |range: &regex_syntax::hir::ClassUnicodeRange| range.start().is_ascii();
                match (class.is_ascii(), class.ranges().iter().any(ascii)) {
                    (true, _) => Self::Ascii,
                    (false, true) => Self::Any,
                    (false, false) => Self::Wide,
                }
            }
            HirKind::Repetition(it) => Self::of_hir(&it.sub),
            HirKind::Capture(it) => Self::of_hir(&it.sub),
            HirKind::Concat(parts) | HirKind::Alternation(parts) => {
                parts.iter().map(Self::of_hir).fold(Self::Ascii, Self::or)
            }
        }
    }

    /// The alphabet with the greater effect.
    fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Bytes, _) | (_, Self::Bytes) => Self::Bytes,
            (Self::Wide, _) | (_, Self::Wide) => Self::Wide,
            (Self::Any, _) | (_, Self::Any) => Self::Any,
            (Self::Ascii, Self::Ascii) => Self::Ascii,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pattern_alphabet_is_classified() {
        for (pattern, want) in [
            ("fn main", PatternAlphabet::Ascii),
            ("[a-z]+_t", PatternAlphabet::Ascii),
            (r"fn \w+", PatternAlphabet::Any),
            ("a.b", PatternAlphabet::Any),
            ("caf\u{e9}", PatternAlphabet::Wide),
            ("[а-я]", PatternAlphabet::Wide),
            (r"(?-u)\xff", PatternAlphabet::Bytes),
        ] {
            assert_eq!(PatternAlphabet::from_pattern(pattern), want, "{pattern}");
        }
    }

    #[test]
    fn pattern_with_line_break_requires_multiline() {
        let problem = GrepQuery::new(r"a\nb", GrepOptions::default()).unwrap_err();
        assert!(problem.spans_lines);
        assert!(GrepQuery::new(r"a\nb", GrepOptions { multiline: true, ..GrepOptions::default() }).is_ok());
        assert!(!GrepQuery::new("a(", GrepOptions::default()).unwrap_err().spans_lines);
    }
}
