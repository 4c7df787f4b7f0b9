//! Language definitions for syntax highlighting.

/// A property of some languages.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum LanguageTrait {
    /// Added and removed lines.
    Diff,
    /// Nested comments.
    Nested,
    /// Identifiers in upper case are types.
    Types,
    /// Raw strings, characters and lifetimes as in Rust.
    Rust,
    /// `$name`.
    Variables,
    /// `@name`, `#name`.
    Attributes,
    /// Tags.
    Tags,
    /// A comment marker counts only at the start of a word.
    SpacedComments,
    /// Identifiers may contain dashes.
    Dashes,
    /// Keywords are case-insensitive.
    AnyCase,
    /// A string before a colon is a key.
    QuotedKeys,
}

/// Delimiters of a string.
#[derive(Debug)]
pub(super) struct CodeQuote {
    pub(super) open: &'static str,
    pub(super) close: &'static str,
    /// Whether it may span lines.
    pub(super) lines: bool,
    /// Whether a backslash escapes the next character.
    pub(super) escapes: bool,
}

/// A language.
#[derive(Debug)]
pub(super) struct CodeLanguage {
    /// Names after a code fence, and file extensions.
    pub(super) names: &'static [&'static str],
    pub(super) comments: &'static [&'static str],
    pub(super) block: Option<(&'static str, &'static str)>,
    pub(super) quotes: &'static [CodeQuote],
    /// Keywords, separated by spaces.
    pub(super) words: &'static str,
    /// Text after a name in an assignment.
    pub(super) assigns: Option<&'static str>,
    pub(super) traits: &'static [LanguageTrait],
}

impl CodeLanguage {
    pub(super) fn has(&self, it: LanguageTrait) -> bool {
        self.traits.contains(&it)
    }
}

/// Finds a language by the first word after a fence, or by file name.
pub(super) fn find(name: &str) -> Option<&'static CodeLanguage> {
    let word = name.trim().trim_start_matches(['{', '.']);
    let word = word.split([',', ' ', '{', '}', ':']).next().unwrap_or_default();
    let word = word.rsplit(['.', '/']).next().unwrap_or_default().to_ascii_lowercase();
    LANGUAGES.iter().find(|it| it.names.contains(&word.as_str()))
}

const fn quote(open: &'static str, close: &'static str) -> CodeQuote {
    CodeQuote { open, close, lines: false, escapes: true }
}

const fn long(open: &'static str, close: &'static str, escapes: bool) -> CodeQuote {
    CodeQuote { open, close, lines: true, escapes }
}

const DOUBLE: CodeQuote = quote("\"", "\"");
const SINGLE: CodeQuote = quote("'", "'");
const BOTH: &[CodeQuote] = &[DOUBLE, SINGLE];
const SLASHES: &[&str] = &["//"];
const HASH: &[&str] = &["#"];
const STARS: Option<(&str, &str)> = Some(("/*", "*/"));

use LanguageTrait::{
    AnyCase, Attributes, Dashes, Diff, Nested, QuotedKeys, Rust, SpacedComments, Tags, Types, Variables,
};

/// A language with C-like comments and strings.
const fn braces(names: &'static [&'static str], words: &'static str) -> CodeLanguage {
    CodeLanguage {
        names,
        comments: SLASHES,
        block: STARS,
        quotes: BOTH,
        words,
        assigns: None,
        traits: &[Types],
    }
}

static LANGUAGES: &[CodeLanguage] = &[
    CodeLanguage {
        quotes: &[long("\"", "\"", true), long("b\"", "\"", true)],
        traits: &[Types, Nested, Rust, Attributes],
        ..braces(
            &["rust", "rs"],
            "as async await break const continue crate dyn else enum extern false fn for if impl in \
            let loop match mod move mut pub ref return self Self static struct super trait true type \
            unsafe use where while bool char f32 f64 i8 i16 i32 i64 isize str u8 u16 u32 u64 usize",
        )
    },
    CodeLanguage {
        names: &["python", "py", "python3", "pyi", "pycon"],
        comments: HASH,
        block: None,
        quotes: &[long("\"\"\"", "\"\"\"", true), long("'''", "'''", true), DOUBLE, SINGLE],
        words: "False None True and as assert async await break class continue def del elif else except \
            finally for from global if import in is lambda match nonlocal not or pass raise return \
            self try while with yield",
        assigns: None,
        traits: &[Types, Attributes],
    },
    CodeLanguage {
        quotes: &[DOUBLE, SINGLE, long("`", "`", true)],
        traits: &[Types, Attributes],
        ..braces(
            &["javascript", "js", "jsx", "mjs", "cjs", "typescript", "ts", "tsx", "mts", "node"],
            "abstract any as async await boolean break case catch class const continue debugger \
            declare default delete do else enum export extends false finally for from function get \
            if implements import in instanceof interface let new null number of private protected \
            public readonly return satisfies set static string super switch this throw true try type \
            typeof undefined unknown var void while yield",
        )
    },
    CodeLanguage {
        quotes: &[DOUBLE, SINGLE, long("`", "`", false)],
        ..braces(
            &["go", "golang"],
            "any bool break byte case chan const continue default defer else error fallthrough false \
            float32 float64 for func go goto if import int int64 interface map nil package range \
            return rune select string struct switch true type uint uint8 var",
        )
    },
    CodeLanguage {
        traits: &[Types, Attributes],
        ..braces(
            &["c", "h", "cpp", "c++", "cc", "cxx", "hpp", "objc", "cuda", "glsl"],
            "alignas auto bool break case catch char class const constexpr continue default delete do \
            double else enum explicit extern false final float for friend goto if inline int long \
            mutable namespace new noexcept nullptr NULL operator override private protected public \
            return short signed size_t sizeof static struct switch template this throw true try \
            typedef typename union unsigned using virtual void volatile while",
        )
    },
    CodeLanguage {
        quotes: &[long("\"\"\"", "\"\"\"", true), DOUBLE, SINGLE],
        traits: &[Types, Attributes],
        ..braces(
            &[
                "java", "kotlin", "kt", "kts", "scala", "csharp", "cs", "c#", "swift", "dart", "groovy",
                "gradle",
            ],
            "abstract as async await base bool boolean break byte case catch char class companion \
            const continue data def default defer do double else enum extends extension false final \
            finally float for foreach fun func get guard if implements import in init int interface \
            internal is let long mutating namespace new nil null object open out override package \
            private protected protocol public record return sealed self set short static string \
            struct super suspend switch this throw throws trait true try using val var virtual void \
            when where while with yield",
        )
    },
    CodeLanguage {
        comments: &["//", "#"],
        traits: &[Types, Variables],
        ..braces(
            &["php"],
            "abstract and array as break case catch class clone const continue declare default do \
            echo else elseif extends false final finally fn for foreach function global if \
            implements include instanceof interface match namespace new null or private protected \
            public readonly require return self static switch this throw trait true try use var \
            while yield",
        )
    },
    CodeLanguage {
        names: &["ruby", "rb", "crystal", "elixir", "ex", "exs"],
        comments: HASH,
        block: None,
        quotes: BOTH,
        words: "alias and begin break case class cond def defmodule defp do else elsif end ensure false \
            fn for if in module next nil not or raise require rescue return self super then true \
            unless until when while with yield",
        assigns: None,
        traits: &[Types, Attributes, SpacedComments],
    },
    CodeLanguage {
        names: &["bash", "sh", "shell", "zsh", "fish", "console", "shellsession", "ksh", "bashrc", "profile"],
        comments: HASH,
        block: None,
        quotes: &[long("\"", "\"", true), long("'", "'", false)],
        words: "case do done elif else esac exit export fi for function if in local return select set \
            shift source then trap unset until while",
        assigns: None,
        traits: &[Variables, SpacedComments, Dashes],
    },
    CodeLanguage {
        names: &["dockerfile", "docker", "containerfile"],
        comments: HASH,
        block: None,
        quotes: BOTH,
        words: "ADD ARG AS CMD COPY ENTRYPOINT ENV EXPOSE FROM HEALTHCHECK LABEL ONBUILD RUN SHELL \
            STOPSIGNAL USER VOLUME WORKDIR",
        assigns: None,
        traits: &[Variables, SpacedComments],
    },
    CodeLanguage {
        names: &["makefile", "make", "mk", "cmake", "justfile", "just"],
        comments: HASH,
        block: None,
        quotes: BOTH,
        words: "define else endef endif export ifdef ifeq ifndef ifneq include",
        assigns: Some(":"),
        traits: &[Variables, SpacedComments, Dashes],
    },
    CodeLanguage {
        names: &["json", "jsonc", "json5", "jsonl", "ndjson", "geojson"],
        comments: SLASHES,
        block: STARS,
        quotes: &[DOUBLE],
        words: "true false null",
        assigns: None,
        traits: &[QuotedKeys],
    },
    CodeLanguage {
        names: &["yaml", "yml"],
        comments: HASH,
        block: None,
        quotes: BOTH,
        words: "true false null yes no on off",
        assigns: Some(":"),
        traits: &[SpacedComments, Dashes, QuotedKeys],
    },
    CodeLanguage {
        names: &["toml", "ini", "cfg", "conf", "properties", "env", "editorconfig", "gitconfig"],
        comments: &["#", ";"],
        block: None,
        quotes: &[long("\"\"\"", "\"\"\"", true), DOUBLE, quote("'", "'")],
        words: "true false",
        assigns: Some("="),
        traits: &[SpacedComments, Dashes],
    },
    CodeLanguage {
        names: &["sql", "psql", "mysql", "sqlite", "plsql"],
        comments: &["--"],
        block: STARS,
        quotes: &[long("'", "'", false), DOUBLE],
        words: "add all alter and as asc begin between by case check column commit constraint create \
            cross default delete desc distinct drop else end exists foreign from full group having \
            if in index inner insert into is join key left like limit not null offset on or order \
            outer primary references returning right rollback select set table then union unique \
            update using values view when where with",
        assigns: None,
        traits: &[AnyCase],
    },
    CodeLanguage {
        names: &["html", "xml", "svg", "vue", "svelte", "xhtml", "htm", "plist"],
        comments: &[],
        block: Some(("<!--", "-->")),
        quotes: &[],
        words: "",
        assigns: None,
        traits: &[Tags],
    },
    CodeLanguage {
        names: &["css", "scss", "less", "sass"],
        comments: SLASHES,
        block: STARS,
        quotes: BOTH,
        words: "auto inherit initial none unset",
        assigns: Some(":"),
        traits: &[Dashes, Attributes, Variables],
    },
    CodeLanguage {
        names: &["lua"],
        comments: &["--"],
        block: None,
        quotes: &[DOUBLE, SINGLE, long("[[", "]]", false)],
        words: "and break do else elseif end false for function goto if in local nil not or repeat \
            return then true until while",
        assigns: None,
        traits: &[],
    },
    CodeLanguage {
        names: &["haskell", "hs", "elm", "purescript", "ocaml", "ml", "fsharp", "fs"],
        comments: &["--"],
        block: Some(("{-", "-}")),
        quotes: &[DOUBLE],
        words: "and as begin case class data deriving do else end fun function if import in instance let \
            match module newtype of open rec then type val when where with",
        assigns: None,
        traits: &[Types, Nested],
    },
    CodeLanguage {
        names: &["zig"],
        block: None,
        quotes: &[DOUBLE, SINGLE],
        traits: &[Types, Attributes],
        ..braces(
            &["zig"],
            "and anytype break catch comptime const continue defer else enum errdefer error export \
            extern false fn for if inline null or orelse pub return struct switch test true try \
            undefined union unreachable usize var void while",
        )
    },
    CodeLanguage {
        names: &["proto", "protobuf", "graphql", "gql", "hcl", "terraform", "tf", "nix", "thrift"],
        comments: &["//", "#"],
        block: STARS,
        quotes: BOTH,
        words: "bool data else enum false if import in inherit input int32 int64 interface let message \
            module mutation null oneof option optional output package provider query rec repeated \
            required resource returns rpc service string syntax then true type union variable with",
        assigns: Some("="),
        traits: &[Types, SpacedComments],
    },
    CodeLanguage {
        names: &["r", "julia", "jl", "perl", "pl", "tcl", "nim", "awk", "gdscript", "gd"],
        comments: HASH,
        block: None,
        quotes: &[long("\"\"\"", "\"\"\"", true), DOUBLE, SINGLE],
        words: "and begin break do else elseif elsif end extends false FALSE for foreach func function \
            if in let library local module my next nothing not NULL or proc print return sub struct \
            then true TRUE unless use using var while",
        assigns: None,
        traits: &[Variables, SpacedComments],
    },
    CodeLanguage {
        names: &["powershell", "ps1", "pwsh", "psm1"],
        comments: HASH,
        block: Some(("<#", "#>")),
        quotes: BOTH,
        words: "begin break catch class continue else elseif end exit filter finally for foreach from \
            function if in param process return switch throw trap try until using while",
        assigns: None,
        traits: &[Variables, Dashes, AnyCase],
    },
    CodeLanguage {
        names: &["diff", "patch"],
        comments: &[],
        block: None,
        quotes: &[],
        words: "",
        assigns: None,
        traits: &[Diff],
    },
    CodeLanguage {
        names: &["lisp", "clojure", "clj", "cljs", "scheme", "scm", "racket", "rkt", "elisp", "el", "edn"],
        comments: &[";"],
        block: None,
        quotes: &[long("\"", "\"", true)],
        words: "begin cond def define defn defun defmacro do else false fn if lambda let let* loop nil \
            ns quote recur require set! true when",
        assigns: None,
        traits: &[Dashes],
    },
];
