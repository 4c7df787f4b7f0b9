//! Languages whose functions are recognised by the tokens around the name: `type name(…) {`.

use super::{
    Grammar, SymbolKind, SymbolView,
    brace_languages::{BraceWalker, SymbolScope},
    keywords,
};

pub(crate) fn applies(grammar: Grammar) -> bool {
    matches!(
        grammar,
        Grammar::C | Grammar::Cpp | Grammar::Java | Grammar::CSharp | Grammar::Dart | Grammar::Php
    )
}

/// Processes a word that is not a keyword; returns the next index.
pub(crate) fn word(walker: &mut BraceWalker<'_>, at: usize) -> usize {
    if walker.grammar == Grammar::Php || !walker.is_level() {
        return at + 1;
    }
    let view = walker.view;
    let is_c = matches!(walker.grammar, Grammar::C | Grammar::Cpp);
    let is_here = match walker.scope() {
        SymbolScope::Type | SymbolScope::Enum => true,
        SymbolScope::Module => true,
        // `extern "C" {`.
        SymbolScope::Block => is_c,
        SymbolScope::Function => false,
    };
    if !is_here {
        return at + 1;
    }
    match view.word(at) {
        b"typedef" | b"operator" if is_c => return at + 1,
        b"template" if is_c => return view.behind_generics(at + 1),
        b"__attribute__" | b"__declspec" | b"alignas" | b"__asm__" | b"asm" | b"_Alignas" if is_c => {
            return view.behind(at + 1, b'(', b')').unwrap_or(at + 1);
        }
        _ => (),
    }
    if keywords::is_reserved(walker.grammar, view.word(at)) {
        return at + 1;
    }
    let open = view.behind_generics(at + 1);
    if view.mark(open) == b'(' && (!is_c || open == at + 1) {
        return function(walker, at, open);
    }
    value(walker, at);
    at + 1
}

fn function(walker: &mut BraceWalker<'_>, at: usize, open: usize) -> usize {
    let view = walker.view;
    let Some(behind) = view.behind(open, b'(', b')') else { return at + 1 };
    let Some(ending) = ending(walker, behind) else { return at + 1 };
    let qualifier = qualifier(&view, at);
    let qualified = qualifier.is_some();
    let container = qualifier.or(walker.container());
    let in_type = matches!(walker.scope(), SymbolScope::Type | SymbolScope::Enum) || qualified;
    if !has_type(walker, at) {
        // A constructor has no return type; anything else without one is a call or a macro.
        let is_own = container.is_some_and(|it| view.word(it) == view.word(at));
        if !is_own || !in_type {
            return behind;
        }
    }
    let kind = match (ending, in_type) {
        (CallEnding::Semicolon, false) => SymbolKind::Declaration,
        // An interface or abstract method is defined here; in C++ the body is elsewhere.
        (CallEnding::Semicolon, true) if walker.grammar == Grammar::Cpp => SymbolKind::Declaration,
        (_, true) => SymbolKind::Method,
        (_, false) => SymbolKind::Function,
    };
    walker.add_to(at, kind, container);
    if ending == CallEnding::Body {
        walker.open_next(SymbolScope::Function, None);
    }
    behind
}

/// What follows a function's parameters.
#[derive(Clone, Copy, Eq, PartialEq)]
enum CallEnding {
    Body,
    Semicolon,
}

/// Looks past the parameters: `const noexcept {`, `throws E {`, `: a(b) {`, `-> T {`, `=> x;`, `= 0;`.
fn ending(walker: &BraceWalker<'_>, behind: usize) -> Option<CallEnding> {
    const REACH: usize = 120;
    let view = walker.view;
    let mut at = behind;
    let mut initialisers = false;
    while at < (behind + REACH).min(view.tokens.len()) {
        match view.mark(at) {
            // `: member{value}` before the body.
            b'{' if initialisers && view.is_word(at.saturating_sub(1)) => {
                at = view.behind(at, b'{', b'}')?;
                continue;
            }
            b'{' => return Some(CallEnding::Body),
            b';' => return Some(CallEnding::Semicolon),
            b'=' if view.mark(at + 1) == b'>' => return Some(CallEnding::Body),
            b'=' => {
                let rest = view.word(at + 1);
                let is_declared = matches!(rest, b"default" | b"delete") || view.mark(at + 2) == b';';
                return is_declared.then_some(CallEnding::Semicolon);
            }
            b':' if view.mark(at + 1) != b':' && view.mark(at.saturating_sub(1)) != b':' => {
                initialisers = true
            }
            b'(' => {
                at = view.behind(at, b'(', b')')?;
                continue;
            }
            b')' | b'}' | b'+' | b'?' | b'|' | b'!' => return None,
            b'.' if walker.grammar != Grammar::Java => return None,
            // The comma separates parameters of an outer construct.
            b',' if !initialisers && walker.grammar != Grammar::Java => return None,
            _ => (),
        }
        at += 1;
    }
    None
}

/// Whether a type precedes a name: a word, or a token that can end a type.
fn has_type(walker: &BraceWalker<'_>, at: usize) -> bool {
    let view = walker.view;
    let before = start_of_path(&view, at);
    if 0 < before && view.mark(before - 1) == b'~' {
        return true;
    }
    let Some(before) = before.checked_sub(1) else { return false };
    let word = view.word(before);
    if !word.is_empty() {
        let is_type = matches!(
            word,
            b"void"
                | b"const"
                | b"static"
                | b"final"
                | b"virtual"
                | b"override"
                | b"async"
                | b"extern"
                | b"var"
                | b"public"
                | b"private"
                | b"protected"
                | b"struct"
                | b"enum"
                | b"abstract"
                | b"noexcept"
                | b"default"
        );
        // `public Name(` is a constructor if it is named like the class.
        let is_access = matches!(word, b"public" | b"private" | b"protected");
        let is_own = walker.container().is_some_and(|it| view.word(it) == view.word(at));
        return if is_access { is_own } else { is_type || !keywords::is_reserved(walker.grammar, word) };
    }
    let earlier = view.mark_before(before);
    match view.mark(before) {
        // `=>` and `->` do not end a type, nor does `&&` in C.
        b'>' => !matches!(earlier, b'=' | b'-'),
        b'&' => earlier != b'&',
        b'*' | b']' | b'?' => true,
        // `__attribute__((x)) name`.
        b')' => opening(&view, before, b'(', b')').is_some_and(|it| view.word_before(it).starts_with(b"__")),
        _ => false,
    }
}

/// Start of `a::B<T>::name`.
fn start_of_path(view: &SymbolView<'_>, at: usize) -> usize {
    let mut start = at;
    while let Some(name) = qualifier(view, start) {
        start = name;
    }
    start
}

/// The name before `::name`: `B` in `B<T>::name`.
fn qualifier(view: &SymbolView<'_>, at: usize) -> Option<usize> {
    let last = at.checked_sub(3)?;
    if !view.marks(at - 2, b"::") {
        return None;
    }
    if view.is_word(last) {
        return Some(last);
    }
    let open = opening(view, last, b'<', b'>')?;
    open.checked_sub(1).filter(|index| view.is_word(*index))
}

/// Index of the bracket that closes at `at`.
fn opening(view: &SymbolView<'_>, at: usize, open: u8, close: u8) -> Option<usize> {
    const REACH: usize = 100;
    let mut depth = 0_usize;
    for index in (0..=at).rev().take(REACH) {
        match view.mark(index) {
            mark if mark == close => depth += 1,
            mark if mark == open => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(index);
                }
            }
            _ => (),
        }
        if depth == 0 {
            return None;
        }
    }
    None
}

/// Fields, properties, global variables, and the name of a `typedef`.
fn value(walker: &mut BraceWalker<'_>, at: usize) {
    let view = walker.view;
    let after = view.mark(at + 1);
    if after == b';' && starts_with(&view, at, b"typedef") {
        walker.add(at, SymbolKind::Type);
        return;
    }
    let is_property = after == b'{'
        && walker.grammar == Grammar::CSharp
        && matches!(view.word(at + 2), b"get" | b"set" | b"init" | b"private" | b"internal");
    let is_arrow = view.marks(at + 1, b"=>") && walker.grammar == Grammar::CSharp;
    let is_assigned = after == b'=' && view.mark(at + 2) != b'=';
    let is_array = after == b'[' && matches!(walker.grammar, Grammar::C | Grammar::Cpp);
    if !(is_property || is_arrow || is_assigned || is_array) || !has_type(walker, at) {
        return;
    }
    let is_constant = view.word(at).iter().all(|byte| !byte.is_ascii_lowercase());
    let kind = match walker.scope() {
        _ if is_constant && !is_property => SymbolKind::Constant,
        SymbolScope::Type | SymbolScope::Enum => SymbolKind::Field,
        _ => SymbolKind::Variable,
    };
    walker.add(at, kind);
}

/// Whether the statement that contains a token starts with `word`.
fn starts_with(view: &SymbolView<'_>, at: usize, word: &[u8]) -> bool {
    const REACH: usize = 2000;
    let mut depth = 0_usize;
    for index in (0..at).rev().take(REACH) {
        match view.mark(index) {
            b'}' => depth += 1,
            b'{' if depth == 0 => return false,
            b'{' => depth -= 1,
            b';' if depth == 0 => return false,
            _ if depth == 0 && view.word(index) == word => return true,
            _ => (),
        }
    }
    false
}
