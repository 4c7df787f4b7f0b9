use std::fmt;

use grep_regex::{ErrorKind, RegexMatcher, RegexMatcherBuilder};
use regex_syntax::hir::{Class, Hir, HirKind};

use super::non_utf8::{self, CharsetGuess};

/// What to look for, compiled.
#[derive(Clone, Debug)]
pub struct GrepQuery {
    pub(crate) matcher: RegexMatcher,
    pub(crate) options: GrepOptions,
    pub(crate) alphabet: PatternAlphabet,
    pub(crate) guess: CharsetGuess,
}

/// How to look for it.
#[derive(Clone, Copy, Debug, Default)]
pub struct GrepOptions {
    /// What to hand back.
    pub mode: Mode,
    /// Take upper and lower case as the same.
    pub ignore_case: bool,
    /// Let matches span lines, and `.` match line breaks.
    pub multiline: bool,
    /// Lines before each match.
    pub before: usize,
    /// Lines after each match.
    pub after: usize,
    /// Hand back what matched instead of the line it is in.
    pub only_matching: bool,
}

/// What to hand back.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Mode {
    /// Files with a match.
    #[default]
    Files,
    /// Matching lines per file.
    Count,
    /// Lines that match, with their surroundings.
    Content,
}

/// Which characters a pattern can match: whether other encodings than UTF-8
/// make a difference.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum PatternAlphabet {
    /// Only ASCII: the bytes are the same nearly everywhere.
    Ascii,
    /// Any character, such as `.` or `\w`.
    Any,
    /// At least one that is not ASCII: such a match is only found decoded.
    Wide,
    /// Bytes, not characters: `(?-u)`.
    Bytes,
}

/// Why a pattern cannot be used.
#[derive(Clone, Debug)]
pub struct PatternProblem {
    /// What the regex engine says.
    pub message: String,
    /// The pattern wants to match a line break, which needs `multiline`.
    pub spans_lines: bool,
}

impl fmt::Display for PatternProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for PatternProblem {}

/// A compiled pattern may take as much memory; beyond it is an error.
const SIZE_LIMIT: usize = 64 << 20;

/// Memory for states made while searching, per thread.
const DFA_LIMIT: usize = 64 << 20;

impl GrepQuery {
    /// Compiles a pattern as `rg` does.
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

    /// Lets the caller tell the encodings of files.
    pub fn with_guess(self, guess: CharsetGuess) -> Self {
        Self { guess, ..self }
    }

    /// How it is looked for.
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

    /// The less usual of two.
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
    fn alphabets() {
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
    fn a_line_break_needs_multiline() {
        let problem = GrepQuery::new(r"a\nb", GrepOptions::default()).unwrap_err();
        assert!(problem.spans_lines);
        assert!(GrepQuery::new(r"a\nb", GrepOptions { multiline: true, ..GrepOptions::default() }).is_ok());
        assert!(!GrepQuery::new("a(", GrepOptions::default()).unwrap_err().spans_lines);
    }
}
