//! Keywords that start definitions.

use std::{collections::HashMap, sync::LazyLock};

use super::{Grammar, SymbolKind, brace_languages::SymbolScope};

/// A keyword that starts a definition.
pub(crate) struct Keyword {
    word: &'static [u8],
    pub(crate) kind: SymbolKind,
    /// Scope of the block it opens; [`SymbolScope::Block`] for none.
    pub(crate) opens: SymbolScope,
    /// Words allowed before the name.
    pub(crate) between: &'static [&'static [u8]],
    /// Marks of which one must follow the name; empty for any.
    pub(crate) follows: &'static [u8],
    /// Whether to record it, or only track its block.
    pub(crate) recorded: bool,
}

const fn it(word: &'static str, kind: SymbolKind, opens: SymbolScope) -> Keyword {
    Keyword { word: word.as_bytes(), kind, opens, between: &[], follows: b"", recorded: true }
}

const fn followed(
    word: &'static str,
    kind: SymbolKind,
    opens: SymbolScope,
    follows: &'static [u8],
) -> Keyword {
    Keyword { follows, ..it(word, kind, opens) }
}

const fn over(
    word: &'static str,
    kind: SymbolKind,
    opens: SymbolScope,
    between: &'static [&'static [u8]],
) -> Keyword {
    Keyword { between, ..it(word, kind, opens) }
}

const fn block(word: &'static str, opens: SymbolScope) -> Keyword {
    Keyword { recorded: false, ..it(word, SymbolKind::Other, opens) }
}

use SymbolKind as K;
use SymbolScope::{
    Block, Enum as EnumScope, Function as FunctionScope, Module as ModuleScope, Type as TypeScope,
};

static RUST: &[Keyword] = &[
    it("fn", K::Function, FunctionScope),
    it("struct", K::Struct, TypeScope),
    followed("union", K::Struct, TypeScope, b"{<"),
    it("enum", K::Enum, EnumScope),
    it("trait", K::Trait, TypeScope),
    it("mod", K::Module, ModuleScope),
    followed("type", K::Type, Block, b"=<;:"),
    followed("const", K::Constant, Block, b":"),
    Keyword { between: &[b"mut", b"ref"], ..followed("static", K::Variable, Block, b":") },
];
static JAVASCRIPT: &[Keyword] =
    &[it("function", K::Function, FunctionScope), it("class", K::Class, TypeScope)];
static TYPESCRIPT: &[Keyword] = &[
    it("function", K::Function, FunctionScope),
    it("class", K::Class, TypeScope),
    followed("interface", K::Interface, Block, b"{<"),
    followed("enum", K::Enum, EnumScope, b"{"),
    followed("type", K::Type, Block, b"=<"),
    followed("namespace", K::Module, ModuleScope, b"{."),
    followed("module", K::Module, ModuleScope, b"{."),
];
static JAVA: &[Keyword] = &[
    it("class", K::Class, TypeScope),
    it("interface", K::Interface, TypeScope),
    it("enum", K::Enum, EnumScope),
    followed("record", K::Struct, TypeScope, b"(<"),
    it("trait", K::Trait, TypeScope),
];
static CSHARP: &[Keyword] = &[
    it("class", K::Class, TypeScope),
    it("interface", K::Interface, TypeScope),
    it("struct", K::Struct, TypeScope),
    it("enum", K::Enum, EnumScope),
    over("record", K::Struct, TypeScope, &[b"struct", b"class"]),
    block("namespace", ModuleScope),
];
static C: &[Keyword] = &[
    followed("struct", K::Struct, TypeScope, b"{"),
    followed("union", K::Struct, TypeScope, b"{"),
    followed("enum", K::Enum, EnumScope, b"{"),
];
static CPP: &[Keyword] = &[
    followed("class", K::Class, TypeScope, b"{:"),
    followed("struct", K::Struct, TypeScope, b"{:"),
    followed("union", K::Struct, TypeScope, b"{"),
    Keyword { between: &[b"class", b"struct"], ..followed("enum", K::Enum, EnumScope, b"{:") },
    followed("namespace", K::Module, ModuleScope, b"{:"),
    followed("using", K::Type, Block, b"="),
    followed("concept", K::Type, Block, b"="),
];
static PHP: &[Keyword] = &[
    it("function", K::Function, FunctionScope),
    it("class", K::Class, TypeScope),
    it("interface", K::Interface, TypeScope),
    it("trait", K::Trait, TypeScope),
    it("enum", K::Enum, TypeScope),
    over("const", K::Constant, Block, &[b"int", b"string", b"array", b"bool", b"float"]),
    followed("case", K::Variant, Block, b";="),
];
static KOTLIN: &[Keyword] = &[
    it("fun", K::Function, FunctionScope),
    it("class", K::Class, TypeScope),
    it("interface", K::Interface, TypeScope),
    it("object", K::Class, TypeScope),
    it("typealias", K::Type, Block),
    it("val", K::Constant, Block),
    it("var", K::Variable, Block),
];
static SWIFT: &[Keyword] = &[
    it("func", K::Function, FunctionScope),
    it("class", K::Class, TypeScope),
    it("struct", K::Struct, TypeScope),
    it("enum", K::Enum, EnumScope),
    it("protocol", K::Interface, TypeScope),
    it("actor", K::Class, TypeScope),
    it("typealias", K::Type, Block),
    it("associatedtype", K::Type, Block),
    it("let", K::Constant, Block),
    it("var", K::Variable, Block),
    block("extension", TypeScope),
    block("init", FunctionScope),
];
static SCALA: &[Keyword] = &[
    it("def", K::Function, Block),
    it("class", K::Class, TypeScope),
    it("trait", K::Trait, TypeScope),
    it("object", K::Class, TypeScope),
    it("enum", K::Enum, TypeScope),
    it("type", K::Type, Block),
    it("val", K::Constant, Block),
    it("var", K::Variable, Block),
];
static DART: &[Keyword] = &[
    it("class", K::Class, TypeScope),
    it("mixin", K::Class, TypeScope),
    it("enum", K::Enum, EnumScope),
    it("extension", K::Class, TypeScope),
    it("typedef", K::Type, Block),
];
static ZIG: &[Keyword] = &[
    it("fn", K::Function, FunctionScope),
    followed("const", K::Constant, Block, b"=:"),
    followed("var", K::Variable, Block, b"=:"),
];
static PROTO: &[Keyword] = &[
    it("message", K::Struct, ModuleScope),
    it("service", K::Interface, TypeScope),
    it("enum", K::Enum, EnumScope),
    it("rpc", K::Method, Block),
];
static GRAPHQL: &[Keyword] = &[
    it("type", K::Type, TypeScope),
    it("input", K::Type, TypeScope),
    it("interface", K::Interface, TypeScope),
    it("enum", K::Enum, TypeScope),
    it("union", K::Type, Block),
    it("scalar", K::Type, Block),
    it("directive", K::Other, Block),
    it("query", K::Other, Block),
    it("mutation", K::Other, Block),
    it("fragment", K::Other, Block),
];

fn table(grammar: Grammar) -> &'static [Keyword] {
    match grammar {
        Grammar::Rust => RUST,
        Grammar::JavaScript => JAVASCRIPT,
        Grammar::TypeScript => TYPESCRIPT,
        Grammar::Java => JAVA,
        Grammar::CSharp => CSHARP,
        Grammar::C => C,
        Grammar::Cpp => CPP,
        Grammar::Php => PHP,
        Grammar::Kotlin => KOTLIN,
        Grammar::Swift => SWIFT,
        Grammar::Scala => SCALA,
        Grammar::Dart => DART,
        Grammar::Zig => ZIG,
        Grammar::Proto => PROTO,
        Grammar::GraphQl => GRAPHQL,
        _ => &[],
    }
}

/// Looks up a keyword of a language.
pub(crate) fn keyword(grammar: Grammar, word: &[u8]) -> Option<&'static Keyword> {
    // Comparing the first letter rejects most words cheaply.
    table(grammar).iter().find(|keyword| keyword.word.first() == word.first() && keyword.word == word)
}

/// Words that are not names in most languages.
const RESERVED: &str = "abstract alignas and as assert async await break case catch checked class const \
    continue decltype default defer delete do dyn echo elif else enum export extends extern final finally fixed fn \
    for foreach fun func function goto guard if impl implements import in instanceof let lock loop match mut \
    namespace new noexcept nameof not or override package print private protected pub public ref return select \
    sizeof static struct super switch template this throw throws try typedef typeof unchecked unless until using \
    val var virtual void when where while with yield _";

/// Words that are names after all, by language family.
const USABLE: [(KeywordFamily, &str); 4] = [
    (
        KeywordFamily::Rust,
        "and assert case catch checked class default defer delete echo export extends final finally fixed foreach fun \
         func function goto guard implements import lock namespace new not or package print private protected public \
         select switch template this throw throws try unless until using val var void when with",
    ),
    (
        KeywordFamily::JavaScript,
        "and assert catch checked default defer delete echo export final finally fixed fn foreach fun func goto guard \
         import lock loop match not or override package print ref select template throw unless until val when where",
    ),
    (
        KeywordFamily::C,
        "checked defer echo export final finally fixed fn foreach fun func function guard import in let lock loop match \
         override package print ref select unless until val var when where with yield",
    ),
    (
        KeywordFamily::Other,
        "and checked delete echo fixed fn func let loop match not or print ref select template until",
    ),
];

/// Languages with about the same reserved words.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum KeywordFamily {
    Rust,
    JavaScript,
    C,
    Other,
}

impl KeywordFamily {
    fn for_grammar(grammar: Grammar) -> Self {
        match grammar {
            Grammar::Rust | Grammar::Go | Grammar::Zig => Self::Rust,
            Grammar::JavaScript | Grammar::TypeScript => Self::JavaScript,
            Grammar::C | Grammar::Cpp => Self::C,
            _ => Self::Other,
        }
    }

    fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// Reserved words, each with a bit set of language families.
static RESERVED_IN: LazyLock<HashMap<&'static [u8], u8>> = LazyLock::new(|| {
    let mut words: HashMap<&[u8], u8> =
        RESERVED.split_whitespace().map(|word| (word.as_bytes(), 0b1111)).collect();
    for (family, usable) in USABLE {
        for word in usable.split_whitespace() {
            if let Some(families) = words.get_mut(word.as_bytes()) {
                *families &= !family.bit();
            }
        }
    }
    words
});

/// Whether a word is reserved in a language.
pub(crate) fn is_reserved(grammar: Grammar, word: &[u8]) -> bool {
    /// Length of `instanceof` and `implements`.
    const LONGEST: usize = 10;
    let may_be =
        word.len() <= LONGEST && word.first().is_some_and(|byte| byte.is_ascii_lowercase() || *byte == b'_');
    may_be
        && RESERVED_IN
            .get(word)
            .is_some_and(|families| families & KeywordFamily::for_grammar(grammar).bit() != 0)
}
