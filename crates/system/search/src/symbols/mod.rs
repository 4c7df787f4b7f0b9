//! What is defined where, in many languages.
//!
//! Rules on words and marks, not parsers: tree-sitter's grammars for these
//! languages take minutes to compile and parse some ten megabytes a second,
//! which is too slow for an index of fifty thousand files that is to be there
//! in seconds. What a definition looks like from the outside (`fn name`,
//! `class Name`, `type name(…) {` where types are declared) needs no tree, and
//! rules get over broken files. What they miss is what macros make, and local
//! variables, which nobody looks for from afar.

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

/// Something with a name.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SourceSymbol {
    /// Where its name is in the file.
    pub name: std::ops::Range<usize>,
    /// What it is.
    pub kind: SymbolKind,
    /// The line of its name, counted from 1.
    pub line: u32,
    /// The name of the type, module or class it is in.
    pub container: Option<std::ops::Range<usize>>,
}

/// What a symbol is.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[repr(u8)]
pub enum SymbolKind {
    /// A function.
    Function,
    /// A function of a type.
    Method,
    /// A class.
    Class,
    /// A struct, union or record.
    Struct,
    /// An enumeration.
    Enum,
    /// An interface or protocol.
    Interface,
    /// A trait.
    Trait,
    /// Another name for a type.
    Type,
    /// A constant.
    Constant,
    /// A variable others can see.
    Variable,
    /// A module, namespace or package.
    Module,
    /// A macro.
    Macro,
    /// A case of an enumeration.
    Variant,
    /// A field or property of a type.
    Field,
    /// Said to exist, defined elsewhere.
    Declaration,
    /// A table, target, message or the like.
    Other,
}

impl SymbolKind {
    /// A word for it.
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

/// More definitions in one file are generated tables.
const MAX_SYMBOLS: usize = 20_000;

/// The definitions in a file. `scratch` is memory to use again.
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

/// Memory that is used again from file to file.
#[derive(Debug, Default)]
pub struct SymbolScratch {
    tokens: Vec<SourceToken>,
}
