//! The words that begin definitions.

use super::{Grammar, SymbolKind, braces::Scope};

/// A word that begins a definition.
pub(crate) struct Keyword {
    word: &'static [u8],
    pub(crate) kind: SymbolKind,
    /// What the brace behind it opens; [`Scope::Block`] for none.
    pub(crate) opens: Scope,
    /// Words that may stand before the name.
    pub(crate) between: &'static [&'static [u8]],
    /// Marks one of which must follow the name, if any are given.
    pub(crate) follows: &'static [u8],
    /// Whether it is a definition, or only the block counts.
    pub(crate) recorded: bool,
}

const fn it(word: &'static str, kind: SymbolKind, opens: Scope) -> Keyword {
    Keyword { word: word.as_bytes(), kind, opens, between: &[], follows: b"", recorded: true }
}

const fn followed(word: &'static str, kind: SymbolKind, opens: Scope, follows: &'static [u8]) -> Keyword {
    Keyword { follows, ..it(word, kind, opens) }
}

const fn over(
    word: &'static str,
    kind: SymbolKind,
    opens: Scope,
    between: &'static [&'static [u8]],
) -> Keyword {
    Keyword { between, ..it(word, kind, opens) }
}

const fn block(word: &'static str, opens: Scope) -> Keyword {
    Keyword { recorded: false, ..it(word, SymbolKind::Other, opens) }
}

use Scope::{Block, Enum as EnumScope, Function as FunctionScope, Module as ModuleScope, Type as TypeScope};
use SymbolKind as K;

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

/// What a word begins in a language.
pub(crate) fn keyword(grammar: Grammar, word: &[u8]) -> Option<&'static Keyword> {
    // The first letter tells most words apart without a look at the rest.
    table(grammar).iter().find(|keyword| keyword.word.first() == word.first() && keyword.word == word)
}

/// Words that are never the name of anything.
static RESERVED: &[&[u8]] = &[
    b"abstract",
    b"as",
    b"async",
    b"await",
    b"break",
    b"case",
    b"catch",
    b"class",
    b"const",
    b"continue",
    b"default",
    b"delete",
    b"do",
    b"else",
    b"enum",
    b"export",
    b"extends",
    b"extern",
    b"final",
    b"finally",
    b"fn",
    b"for",
    b"func",
    b"function",
    b"goto",
    b"if",
    b"implements",
    b"import",
    b"in",
    b"instanceof",
    b"let",
    b"match",
    b"namespace",
    b"new",
    b"override",
    b"package",
    b"private",
    b"protected",
    b"pub",
    b"public",
    b"return",
    b"sizeof",
    b"static",
    b"struct",
    b"super",
    b"switch",
    b"template",
    b"this",
    b"throw",
    b"throws",
    b"try",
    b"typedef",
    b"typeof",
    b"using",
    b"var",
    b"virtual",
    b"void",
    b"where",
    b"while",
    b"with",
    b"yield",
    b"fun",
    b"val",
    b"guard",
    b"_",
    b"elif",
    b"not",
    b"and",
    b"or",
    b"lock",
    b"fixed",
    b"checked",
    b"unchecked",
    b"nameof",
    b"when",
    b"defer",
    b"select",
    b"foreach",
    b"echo",
    b"print",
    b"assert",
    b"mut",
    b"ref",
    b"dyn",
    b"impl",
    b"loop",
    b"unless",
    b"until",
    b"alignas",
    b"decltype",
    b"noexcept",
];

/// Words some languages use as names all the same.
pub(crate) fn is_reserved(grammar: Grammar, word: &[u8]) -> bool {
    let usable: &[&[u8]] = match grammar {
        Grammar::Rust | Grammar::Go | Grammar::Zig => &[
            b"new",
            b"delete",
            b"default",
            b"print",
            b"class",
            b"with",
            b"not",
            b"and",
            b"or",
            b"lock",
            b"checked",
            b"select",
            b"import",
            b"export",
            b"catch",
            b"this",
            b"void",
            b"case",
            b"namespace",
            b"template",
            b"package",
            b"assert",
            b"when",
            b"val",
            b"fun",
            b"func",
            b"function",
            b"finally",
            b"throw",
            b"throws",
            b"public",
            b"private",
            b"protected",
            b"using",
            b"var",
            b"until",
            b"unless",
            b"extends",
            b"implements",
            b"echo",
            b"final",
            b"switch",
            b"foreach",
            b"defer",
            b"guard",
            b"fixed",
            b"goto",
            b"try",
        ],
        Grammar::JavaScript | Grammar::TypeScript => &[
            b"delete",
            b"print",
            b"select",
            b"match",
            b"lock",
            b"not",
            b"and",
            b"or",
            b"when",
            b"fixed",
            b"assert",
            b"echo",
            b"func",
            b"fn",
            b"fun",
            b"val",
            b"goto",
            b"template",
            b"loop",
            b"ref",
            b"where",
            b"until",
            b"guard",
            b"defer",
            b"catch",
            b"finally",
            b"throw",
            b"default",
            b"export",
            b"import",
            b"unless",
            b"checked",
            b"package",
            b"foreach",
            b"override",
            b"final",
        ],
        Grammar::C | Grammar::Cpp => &[
            b"print",
            b"select",
            b"match",
            b"lock",
            b"fixed",
            b"when",
            b"fn",
            b"func",
            b"fun",
            b"val",
            b"var",
            b"let",
            b"in",
            b"where",
            b"loop",
            b"ref",
            b"echo",
            b"yield",
            b"with",
            b"function",
            b"import",
            b"export",
            b"package",
            b"final",
            b"override",
            b"finally",
            b"until",
            b"unless",
            b"guard",
            b"defer",
            b"select",
            b"checked",
            b"foreach",
        ],
        _ => &[
            b"print",
            b"select",
            b"match",
            b"delete",
            b"not",
            b"and",
            b"or",
            b"template",
            b"echo",
            b"fixed",
            b"until",
            b"loop",
            b"ref",
            b"checked",
            b"func",
            b"fn",
            b"let",
        ],
    };
    let is = |it: &&[u8]| it.first() == word.first() && *it == word;
    RESERVED.iter().any(is) && !usable.contains(&word)
}
