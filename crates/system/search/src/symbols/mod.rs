//! Finds definitions in source files of many languages.
//!
//! Uses rules on tokens instead of parsers: tree-sitter's grammars take minutes to compile and parse
//! about ten megabytes per second, too slow for an index of fifty thousand files that must be ready in
//! seconds. The shape of a definition (`fn name`, `class Name`, `type name(…) {`) needs no syntax tree,
//! and rules tolerate broken files. Not found: definitions made by macros, and local variables.

mod brace_languages;
mod c_like;
mod go;
mod javascript;
mod keywords;
mod language;
mod lexer;
mod line_languages;
mod rust;
mod syntax;
mod token_view;

use language::Grammar;
pub use language::SourceLanguage;
pub(crate) use lexer::{CommentPolicy, SourceToken, TokenKind, is_word, tokens};
use token_view::SymbolView;

/// A definition.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SourceSymbol {
    /// Byte range of its name in the file.
    pub name: std::ops::Range<usize>,
    pub kind: SymbolKind,
    /// Line of its name, from 1.
    pub line: u32,
    /// Byte range of the name of the enclosing type, module or class.
    pub container: Option<std::ops::Range<usize>>,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[repr(u8)]
pub enum SymbolKind {
    Function,
    /// A function in a type.
    Method,
    Class,
    /// A struct, union or record.
    Struct,
    Enum,
    /// An interface or protocol.
    Interface,
    Trait,
    /// A type alias.
    Type,
    Constant,
    /// A variable that is not local.
    Variable,
    Module,
    Macro,
    /// An enum variant.
    Variant,
    /// A field or property.
    Field,
    /// A declaration without a body; defined elsewhere.
    Declaration,
    /// A table, make target, message or similar.
    Other,
}

impl SymbolKind {
    /// Display name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Function => "function",
            Self::Method => "method",
            Self::Class => "class",
            Self::Struct => "struct",
            Self::Enum => "enum",
            Self::Interface => "interface",
            Self::Trait => "trait",
            Self::Type => "type",
            Self::Constant => "constant",
            Self::Variable => "variable",
            Self::Module => "module",
            Self::Macro => "macro",
            Self::Variant => "variant",
            Self::Field => "field",
            Self::Declaration => "declaration",
            Self::Other => "definition",
        }
    }
}

/// Maximum definitions per file; more mean generated tables.
const MAX_SYMBOLS: usize = 20_000;

/// Finds the definitions in a file. `scratch` is reusable memory.
pub fn symbols(lang: &SourceLanguage, source: &[u8], scratch: &mut SymbolScratch) -> Vec<SourceSymbol> {
    tokens(lang.syntax, source, CommentPolicy::Skip, &mut scratch.tokens);
    let view = SymbolView { source, tokens: &scratch.tokens };
    let mut found = match lang.grammar {
        Grammar::Python | Grammar::Ruby | Grammar::Elixir => line_languages::indented(lang.grammar, view),
        Grammar::Lua | Grammar::Perl | Grammar::Shell | Grammar::Sql | Grammar::Make => {
            line_languages::flat(lang.grammar, view)
        }
        _ => brace_languages::walk(lang.grammar, view),
    };
    found.truncate(MAX_SYMBOLS);
    found
}

/// Memory reused between files.
#[derive(Debug, Default)]
pub struct SymbolScratch {
    tokens: Vec<SourceToken>,
}
