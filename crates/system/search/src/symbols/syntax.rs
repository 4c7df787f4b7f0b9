/// What is text, what is a comment and what is code, in one language.
#[derive(Debug)]
pub(crate) struct LanguageSyntax {
    pub(crate) line_comments: &'static [&'static str],
    pub(crate) block_comments: &'static [(&'static str, &'static str)],
    pub(crate) nested_comments: bool,
    /// Longer ones first.
    pub(crate) quotes: &'static [QuoteSyntax],
    pub(crate) char_quote: CharQuote,
    pub(crate) raw: RawString,
    pub(crate) heredoc: Heredoc,
    /// `` `text ${code}` ``.
    pub(crate) templates: bool,
    /// `/regex/` where a value may stand.
    pub(crate) regexes: bool,
    /// Lines that begin with `#` are for the preprocessor.
    pub(crate) preprocessor: bool,
    /// Bytes that are part of words besides letters, digits and `_`.
    pub(crate) word_marks: &'static [u8],
}

/// A kind of string.
#[derive(Debug)]
pub(crate) struct QuoteSyntax {
    pub(crate) open: &'static str,
    pub(crate) close: &'static str,
    /// A backslash keeps the next byte from ending it.
    pub(crate) escapes: bool,
    /// Otherwise it ends with its line, closed or not.
    pub(crate) multiline: bool,
}

/// What `'` begins.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum CharQuote {
    /// Nothing, or a string among the quotes.
    None,
    /// One character.
    Char,
    /// One character, or a name without an end.
    Lifetime,
}

/// Strings in which a backslash is a backslash.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum RawString {
    None,
    /// `r#"…"#`.
    Rust,
    /// `R"x(…)x"`.
    Cpp,
    /// `@"…"`, a quote is doubled.
    Verbatim,
}

/// Text up to a line that says where it ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Heredoc {
    None,
    /// `<<END`, `<<-'END'`.
    Shell,
    /// `<<~END`.
    Ruby,
    /// `<<<END`.
    Php,
}

impl LanguageSyntax {
    /// Nothing but words.
    pub(crate) const PLAIN: Self = Self {
        line_comments: &[],
        block_comments: &[],
        nested_comments: false,
        quotes: &[],
        char_quote: CharQuote::None,
        raw: RawString::None,
        heredoc: Heredoc::None,
        templates: false,
        regexes: false,
        preprocessor: false,
        word_marks: b"",
    };
}
