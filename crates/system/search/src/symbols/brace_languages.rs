//! Finds definitions in languages with brace-delimited blocks.

use super::{
    Grammar, SourceSymbol, SymbolKind, SymbolView, TokenKind, c_like, go, javascript,
    keywords::{self, Keyword},
    rust,
};

/// Kind of a block, which decides what is a definition in it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum SymbolScope {
    /// A module, namespace or package: top-level definitions.
    Module,
    /// A class or similar: methods and fields.
    Type,
    /// An enumeration: variants, then methods.
    Enum,
    /// A function body: only definitions with a keyword.
    Function,
    Block,
}

/// An open block.
struct OpenBrace {
    scope: SymbolScope,
    /// Token index of its name.
    name: Option<usize>,
    /// Number of open parentheses at its start.
    parens: usize,
}

pub(crate) struct BraceWalker<'a> {
    pub(crate) grammar: Grammar,
    pub(crate) view: SymbolView<'a>,
    pub(crate) found: Vec<SourceSymbol>,
    open: Vec<OpenBrace>,
    /// Scope and name of the block that the next brace opens.
    next: Option<(SymbolScope, Option<usize>)>,
    parens: usize,
}

pub(crate) fn walk(grammar: Grammar, view: SymbolView<'_>) -> Vec<SourceSymbol> {
    let mut walker =
        BraceWalker { grammar, view, found: Vec::new(), open: Vec::new(), next: None, parens: 0 };
    let mut at = 0;
    while at < view.tokens.len() {
        at = walker.token(at).max(at + 1);
    }
    walker.found
}

impl BraceWalker<'_> {
    /// Processes one token; returns the next index.
    fn token(&mut self, at: usize) -> usize {
        match self.view.tokens[at].kind {
            TokenKind::Mark(mark) => self.mark(at, mark),
            TokenKind::Word => self.word(at),
            TokenKind::Number | TokenKind::Text | TokenKind::Comment => at + 1,
        }
    }

    fn mark(&mut self, at: usize, mark: u8) -> usize {
        match mark {
            b'{' => {
                let (scope, name) = self.next.take().unwrap_or((self.nameless(), None));
                self.open.push(OpenBrace { scope, name, parens: self.parens });
            }
            b'}' => {
                self.next = None;
                if let Some(open) = self.open.pop() {
                    self.parens = open.parens;
                }
            }
            b'(' | b'[' => self.parens += 1,
            b')' | b']' => self.parens = self.parens.saturating_sub(1),
            b';' if self.is_level() => self.next = None,
            b'#' if self.view.word(at + 1) == b"define" && self.view.is_word(at + 2) => {
                self.add(at + 2, SymbolKind::Macro);
                return at + 3;
            }
            _ => (),
        }
        at + 1
    }

    /// Scope of a block without a keyword: in a function, part of it; `extern "C" {` and similar keep
    /// the scope.
    fn nameless(&self) -> SymbolScope {
        match self.scope() {
            SymbolScope::Module if matches!(self.grammar, Grammar::C | Grammar::Cpp) && self.parens == 0 => {
                SymbolScope::Block
            }
            SymbolScope::Function => SymbolScope::Function,
            _ => SymbolScope::Block,
        }
    }

    fn word(&mut self, at: usize) -> usize {
        // A member access such as `x.class` or `A::type`.
        let before = self.view.mark_before(at);
        let is_member = before == b'.'
            || (before == b'>' && at.checked_sub(2).is_some_and(|it| self.view.mark(it) == b'-'));
        // `module.exports` is a definition.
        if is_member && self.view.word(at) != b"exports" {
            return at + 1;
        }
        if let Some(next) = self.special(at) {
            return next;
        }
        if let Some(keyword) = keywords::keyword(self.grammar, self.view.word(at))
            && let Some(next) = self.keyword(at, keyword)
        {
            return next;
        }
        if self.scope() == SymbolScope::Enum && self.is_level() && self.variant(at) {
            return at + 1;
        }
        if c_like::applies(self.grammar) {
            return c_like::word(self, at);
        }
        at + 1
    }

    fn special(&mut self, at: usize) -> Option<usize> {
        match self.grammar {
            Grammar::Rust => rust::word(self, at),
            Grammar::Go => go::word(self, at),
            Grammar::JavaScript | Grammar::TypeScript => javascript::word(self, at),
            _ => None,
        }
    }

    /// `class Name`, `fun <T> name(`.
    fn keyword(&mut self, at: usize, keyword: &Keyword) -> Option<usize> {
        let name = self.name_behind(at, keyword);
        let text = self.view.word(name);
        if text.is_empty() || keywords::is_reserved(self.grammar, text) {
            // `companion object {`, `class extends Base {`: a block without a name.
            if keyword.opens != SymbolScope::Block {
                self.next = Some((keyword.opens, None));
            }
            return None;
        }
        if !keyword.follows.is_empty() && !keyword.follows.contains(&self.mark_behind(name)) {
            return None;
        }
        let is_method = keyword.kind == SymbolKind::Function
            && matches!(self.scope(), SymbolScope::Type | SymbolScope::Enum);
        let kind = if is_method { SymbolKind::Method } else { keyword.kind };
        if keyword.recorded && !self.is_local(keyword) {
            self.add(name, kind);
        }
        if keyword.opens != SymbolScope::Block {
            self.next = Some((keyword.opens, Some(name)));
        }
        Some(name + 1)
    }

    /// Index of the name after a keyword.
    fn name_behind(&self, at: usize, keyword: &Keyword) -> usize {
        let view = self.view;
        let mut name = at + 1;
        while keyword.between.contains(&view.word(name)) {
            name += 1;
        }
        match self.grammar {
            // `fun <T> Receiver<T>.name(`.
            Grammar::Kotlin => {
                name = view.behind_generics(name);
                while view.is_word(name) && view.mark(view.behind_generics(name + 1)) == b'.' {
                    name = view.behind_generics(name + 1) + 1;
                }
            }
            // `r#type`.
            Grammar::Rust if view.word(name) == b"r" && view.mark(name + 1) == b'#' => name += 2,
            // `class EXPORTED Name {`, `namespace a::b {`.
            Grammar::C | Grammar::Cpp => {
                while view.is_word(name + 1) && view.word(name + 1) != b"final" {
                    name += 1;
                }
                while view.marks(name + 1, b"::") && view.is_word(name + 3) {
                    name += 3;
                }
            }
            _ => (),
        }
        let is_marked =
            view.mark(name) == b'&' || (view.mark(name) == b'*' && keyword.kind == SymbolKind::Function);
        if is_marked { name + 1 } else { name }
    }

    /// The mark after a name, its parameters and `final`.
    fn mark_behind(&self, name: usize) -> u8 {
        let view = self.view;
        let mut behind = name + 1;
        if matches!(self.grammar, Grammar::C | Grammar::Cpp) {
            behind = view.behind_generics(behind);
            behind += usize::from(view.word(behind) == b"final");
        }
        view.mark(behind)
    }

    /// A variable inside a function is local and not recorded.
    fn is_local(&self, keyword: &Keyword) -> bool {
        let is_value =
            matches!(keyword.kind, SymbolKind::Constant | SymbolKind::Variable | SymbolKind::Field);
        is_value && (matches!(self.scope(), SymbolScope::Function | SymbolScope::Block) || !self.is_level())
    }

    /// An enum variant: a name after `{`, `,` or an attribute.
    fn variant(&mut self, at: usize) -> bool {
        let before = self.view.mark_before(at);
        let begins = matches!(before, b'{' | b',' | b']')
            || (before == b')' && self.grammar == Grammar::Java)
            || (self.grammar == Grammar::Swift && self.view.word_before(at) == b"case")
            || (self.grammar == Grammar::Dart && before == b'{');
        let after = self.view.mark(at + 1);
        let ends = matches!(after, b',' | b'}' | b'(' | b'{' | b'=' | b';' | b'[')
            || (self.grammar == Grammar::Swift && self.view.is_first(at + 1));
        if !begins || !ends || keywords::is_reserved(self.grammar, self.view.word(at)) {
            return false;
        }
        self.add(at, SymbolKind::Variant);
        true
    }

    pub(crate) fn scope(&self) -> SymbolScope {
        self.open.last().map_or(SymbolScope::Module, |open| open.scope)
    }

    /// Whether no parenthesis is open since the block started.
    pub(crate) fn is_level(&self) -> bool {
        self.parens == self.open.last().map_or(0, |open| open.parens)
    }

    pub(crate) fn open_next(&mut self, scope: SymbolScope, name: Option<usize>) {
        self.next = Some((scope, name));
    }

    /// Name of the innermost type or module.
    pub(crate) fn container(&self) -> Option<usize> {
        self.open
            .iter()
            .rev()
            .filter(|open| !matches!(open.scope, SymbolScope::Block))
            .find_map(|open| open.name)
    }

    pub(crate) fn add(&mut self, name: usize, kind: SymbolKind) {
        self.add_to(name, kind, self.container());
    }

    pub(crate) fn add_to(&mut self, name: usize, kind: SymbolKind, container: Option<usize>) {
        let range = |at: usize| {
            let token = self.view.tokens[at];
            token.start as usize..token.end as usize
        };
        let line = self.view.tokens[name].line;
        self.found.push(SourceSymbol { name: range(name), kind, line, container: container.map(range) });
    }
}
