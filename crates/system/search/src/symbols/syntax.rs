/// Lexical syntax of a language: strings, comments, word characters.
#[derive(Debug)]
pub(crate) struct LanguageSyntax {
    pub(crate) line_comments: &'static [&'static str],
    pub(crate) block_comments: &'static [(&'static str, &'static str)],
    pub(crate) nested_comments: bool,
    /// Longer delimiters first.
    pub(crate) quotes: &'static [QuoteSyntax],
    pub(crate) char_quote: CharQuote,
    pub(crate) raw: RawString,
    pub(crate) heredoc: Heredoc,
    /// Template strings: `` `text ${code}` ``.
    pub(crate) templates: bool,
    /// Regex literals, where a value may start.
    pub(crate) regexes: bool,
    /// Lines that start with `#` are preprocessor directives.
    pub(crate) preprocessor: bool,
    /// Word characters besides letters, digits and `_`.
    pub(crate) word_marks: &'static [u8],
}

/// A kind of string.
#[derive(Debug)]
pub(crate) struct QuoteSyntax {
    pub(crate) open: &'static str,
    pub(crate) close: &'static str,
    /// Whether a backslash escapes the delimiter.
    pub(crate) escapes: bool,
    /// Whether it may span lines; otherwise it ends with its line.
    pub(crate) multiline: bool,
}

/// Meaning of `'`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum CharQuote {
    /// None, or a string in `quotes`.
    None,
    /// A character literal.
    Char,
    /// A character literal or a Rust lifetime.
    Lifetime,
}

/// Strings without escapes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum RawString {
    None,
    /// `r#"…"#`.
    Rust,
    /// `R"x(…)x"`.
    Cpp,
    /// `@"…"`, with doubled quotes.
    Verbatim,
}

/// Heredoc syntax.
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
    /// No strings or comments.
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
