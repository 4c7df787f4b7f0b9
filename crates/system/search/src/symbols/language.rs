//! Known languages and their lexical syntax.

use super::syntax::{CharQuote, Heredoc, LanguageSyntax, QuoteSyntax, RawString};

/// A language whose definitions are recognised.
#[derive(Debug)]
pub struct SourceLanguage {
    /// Display name.
    pub name: &'static str,
    extensions: &'static [&'static str],
    /// File names, and interpreters in `#!` lines.
    names: &'static [&'static str],
    pub(crate) syntax: &'static LanguageSyntax,
    pub(crate) grammar: Grammar,
}

/// Rules for definitions.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Grammar {
    Rust,
    Go,
    JavaScript,
    TypeScript,
    Java,
    CSharp,
    C,
    Cpp,
    Php,
    Kotlin,
    Swift,
    Scala,
    Dart,
    Zig,
    Python,
    Ruby,
    Elixir,
    Lua,
    Perl,
    Shell,
    Sql,
    Proto,
    GraphQl,
    Make,
}

const DOUBLE: QuoteSyntax = QuoteSyntax { open: "\"", close: "\"", escapes: true, multiline: false };
const DOUBLE_LONG: QuoteSyntax = QuoteSyntax { open: "\"", close: "\"", escapes: true, multiline: true };
const SINGLE: QuoteSyntax = QuoteSyntax { open: "'", close: "'", escapes: true, multiline: false };
const SINGLE_LONG: QuoteSyntax = QuoteSyntax { open: "'", close: "'", escapes: false, multiline: true };
const TRIPLE: QuoteSyntax = QuoteSyntax { open: "\"\"\"", close: "\"\"\"", escapes: true, multiline: true };
const TRIPLE_SINGLE: QuoteSyntax = QuoteSyntax { open: "'''", close: "'''", escapes: true, multiline: true };
const BACKTICK: QuoteSyntax = QuoteSyntax { open: "`", close: "`", escapes: false, multiline: true };

const C_COMMENT: (&str, &str) = ("/*", "*/");

static RUST: LanguageSyntax = LanguageSyntax {
    line_comments: &["//"],
    block_comments: &[C_COMMENT],
    nested_comments: true,
    quotes: &[DOUBLE_LONG],
    char_quote: CharQuote::Lifetime,
    raw: RawString::Rust,
    ..LanguageSyntax::PLAIN
};
static C_LIKE: LanguageSyntax = LanguageSyntax {
    line_comments: &["//"],
    block_comments: &[C_COMMENT],
    quotes: &[TRIPLE, DOUBLE],
    char_quote: CharQuote::Char,
    ..LanguageSyntax::PLAIN
};
static CPP: LanguageSyntax = LanguageSyntax {
    line_comments: &["//"],
    block_comments: &[C_COMMENT],
    quotes: &[DOUBLE],
    char_quote: CharQuote::Char,
    raw: RawString::Cpp,
    preprocessor: true,
    ..LanguageSyntax::PLAIN
};
static CSHARP: LanguageSyntax = LanguageSyntax {
    line_comments: &["//"],
    block_comments: &[C_COMMENT],
    quotes: &[TRIPLE, DOUBLE],
    char_quote: CharQuote::Char,
    raw: RawString::Verbatim,
    preprocessor: true,
    ..LanguageSyntax::PLAIN
};
static GO: LanguageSyntax = LanguageSyntax {
    line_comments: &["//"],
    block_comments: &[C_COMMENT],
    quotes: &[DOUBLE, BACKTICK],
    char_quote: CharQuote::Char,
    ..LanguageSyntax::PLAIN
};
static KOTLIN: LanguageSyntax = LanguageSyntax {
    line_comments: &["//"],
    block_comments: &[C_COMMENT],
    nested_comments: true,
    quotes: &[TRIPLE, DOUBLE],
    char_quote: CharQuote::Char,
    ..LanguageSyntax::PLAIN
};
static DART: LanguageSyntax = LanguageSyntax {
    line_comments: &["//"],
    block_comments: &[C_COMMENT],
    quotes: &[TRIPLE, TRIPLE_SINGLE, DOUBLE, SINGLE],
    word_marks: b"$",
    ..LanguageSyntax::PLAIN
};
static JAVASCRIPT: LanguageSyntax = LanguageSyntax {
    line_comments: &["//"],
    block_comments: &[C_COMMENT],
    quotes: &[DOUBLE, SINGLE],
    templates: true,
    regexes: true,
    word_marks: b"$",
    ..LanguageSyntax::PLAIN
};
static PHP: LanguageSyntax = LanguageSyntax {
    line_comments: &["//", "#"],
    block_comments: &[C_COMMENT],
    quotes: &[DOUBLE_LONG, SINGLE_LONG],
    heredoc: Heredoc::Php,
    word_marks: b"$",
    ..LanguageSyntax::PLAIN
};
static PYTHON: LanguageSyntax = LanguageSyntax {
    line_comments: &["#"],
    quotes: &[TRIPLE, TRIPLE_SINGLE, DOUBLE, SINGLE],
    ..LanguageSyntax::PLAIN
};
static RUBY: LanguageSyntax = LanguageSyntax {
    line_comments: &["#"],
    block_comments: &[("=begin", "=end")],
    quotes: &[DOUBLE, SINGLE],
    heredoc: Heredoc::Ruby,
    regexes: true,
    ..LanguageSyntax::PLAIN
};
static SHELL: LanguageSyntax = LanguageSyntax {
    line_comments: &["#"],
    quotes: &[DOUBLE_LONG, SINGLE_LONG],
    heredoc: Heredoc::Shell,
    word_marks: b"-",
    ..LanguageSyntax::PLAIN
};
static LUA: LanguageSyntax = LanguageSyntax {
    line_comments: &["--"],
    block_comments: &[("--[[", "]]")],
    quotes: &[DOUBLE, SINGLE],
    ..LanguageSyntax::PLAIN
};
static HASH: LanguageSyntax =
    LanguageSyntax { line_comments: &["#"], quotes: &[TRIPLE, DOUBLE, SINGLE], ..LanguageSyntax::PLAIN };
static SQL: LanguageSyntax = LanguageSyntax {
    line_comments: &["--", "#"],
    block_comments: &[C_COMMENT],
    quotes: &[SINGLE_LONG],
    ..LanguageSyntax::PLAIN
};
static ZIG: LanguageSyntax = LanguageSyntax {
    line_comments: &["//"],
    quotes: &[DOUBLE],
    char_quote: CharQuote::Char,
    ..LanguageSyntax::PLAIN
};
/// All languages. The order does not matter: each extension is in one row only.
static LANGS: &[SourceLanguage] = &[
    lang("Rust", &["rs"], &[], &RUST, Grammar::Rust),
    lang("Go", &["go"], &[], &GO, Grammar::Go),
    lang("JavaScript", &["js", "jsx", "mjs", "cjs"], &["node"], &JAVASCRIPT, Grammar::JavaScript),
    lang(
        "TypeScript",
        &["ts", "tsx", "mts", "cts", "vue", "svelte"],
        &["deno"],
        &JAVASCRIPT,
        Grammar::TypeScript,
    ),
    lang("Java", &["java", "groovy", "gradle"], &[], &C_LIKE, Grammar::Java),
    lang("C#", &["cs"], &[], &CSHARP, Grammar::CSharp),
    lang("C", &["c"], &[], &CPP, Grammar::C),
    lang(
        "C++",
        &["h", "cc", "cpp", "cxx", "c++", "hh", "hpp", "hxx", "inl", "ipp", "cu", "cuh", "m", "mm", "ino"],
        &[],
        &CPP,
        Grammar::Cpp,
    ),
    lang("PHP", &["php", "phtml"], &["php"], &PHP, Grammar::Php),
    lang("Kotlin", &["kt", "kts"], &[], &KOTLIN, Grammar::Kotlin),
    lang("Swift", &["swift"], &[], &KOTLIN, Grammar::Swift),
    lang("Scala", &["scala", "sc"], &[], &KOTLIN, Grammar::Scala),
    lang("Dart", &["dart"], &[], &DART, Grammar::Dart),
    lang("Zig", &["zig"], &[], &ZIG, Grammar::Zig),
    lang("Python", &["py", "pyi", "pyx"], &["python", "python3"], &PYTHON, Grammar::Python),
    lang("Ruby", &["rb", "rake", "gemspec"], &["ruby", "Rakefile", "Gemfile"], &RUBY, Grammar::Ruby),
    lang("Elixir", &["ex", "exs"], &["elixir"], &HASH, Grammar::Elixir),
    lang("Lua", &["lua"], &["lua"], &LUA, Grammar::Lua),
    lang("Perl", &["pl", "pm"], &["perl"], &HASH, Grammar::Perl),
    lang(
        "Shell",
        &["sh", "bash", "zsh", "ksh", "bats"],
        &["sh", "bash", "zsh", ".bashrc", ".zshrc", ".profile"],
        &SHELL,
        Grammar::Shell,
    ),
    lang("SQL", &["sql"], &[], &SQL, Grammar::Sql),
    lang("Protocol Buffers", &["proto"], &[], &C_LIKE, Grammar::Proto),
    lang("GraphQL", &["graphql", "gql"], &[], &HASH, Grammar::GraphQl),
    lang("Make", &["mk"], &["Makefile", "GNUmakefile", "makefile"], &HASH, Grammar::Make),
];

const fn lang(
    name: &'static str,
    extensions: &'static [&'static str],
    names: &'static [&'static str],
    syntax: &'static LanguageSyntax,
    grammar: Grammar,
) -> SourceLanguage {
    SourceLanguage { name, extensions, names, syntax, grammar }
}

impl SourceLanguage {
    /// The language of a file, by its name or its `#!` line.
    pub fn detect(name: &[u8], text: &[u8]) -> Option<&'static Self> {
        let name = std::str::from_utf8(name).ok()?;
        if let Some((_, extension)) = name.rsplit_once('.')
            && let Some(lang) = LANGS.iter().find(|lang| lang.extensions.contains(&extension))
        {
            return Some(lang);
        }
        if let Some(lang) = LANGS.iter().find(|lang| lang.names.contains(&name)) {
            return Some(lang);
        }
        let first = text.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
        let first = std::str::from_utf8(&first[..first.len().min(200)]).ok()?;
        let mut words = first.split(|char: char| char == '/' || char.is_whitespace());
        words.find_map(|word| LANGS.iter().find(|lang| !word.is_empty() && lang.names.contains(&word)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn language_is_detected_by_name_or_shebang() {
        for (name, text, want) in [
            ("a.rs", "", Some("Rust")),
            ("x.test.tsx", "", Some("TypeScript")),
            ("Makefile", "", Some("Make")),
            ("run", "#!/usr/bin/env python3\n", Some("Python")),
            ("run", "#!/bin/bash -e\n", Some("Shell")),
            ("run", "echo\n", None),
            ("notes.md", "", None),
        ] {
            assert_eq!(
                SourceLanguage::detect(name.as_bytes(), text.as_bytes()).map(|lang| lang.name),
                want,
                "{name}"
            );
        }
    }

    #[test]
    fn an_extension_has_one_language() {
        let mut seen = std::collections::HashSet::new();
        for extension in LANGS.iter().flat_map(|lang| lang.extensions) {
            assert!(seen.insert(extension), "{extension}");
        }
    }
}
