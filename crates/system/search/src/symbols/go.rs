use super::{
    SymbolKind, SymbolView,
    brace_languages::{BraceWalker, SymbolScope},
};

/// Go: methods with receivers, and declaration groups.
pub(crate) fn word(walker: &mut BraceWalker<'_>, at: usize) -> Option<usize> {
    let view = walker.view;
    if !view.is_first(at) {
        return None;
    }
    let is_top = walker.scope() == SymbolScope::Module && walker.is_level();
    match view.word(at) {
        b"func" => function(walker, at),
        b"type" if is_top => declarations(walker, at, type_kind),
        b"const" if is_top => declarations(walker, at, |_, _| SymbolKind::Constant),
        b"var" if is_top => declarations(walker, at, |_, _| SymbolKind::Variable),
        _ => None,
    }
}

fn function(walker: &mut BraceWalker<'_>, at: usize) -> Option<usize> {
    let view = walker.view;
    let mut name = at + 1;
    let mut receiver = None;
    if view.mark(name) == b'(' {
        let behind = view.behind(name, b'(', b')')?;
        // `(s *Set[K])`: the receiver type is the last name before the type parameters.
        let end = (name..behind).find(|index| view.mark(*index) == b'[').unwrap_or(behind);
        receiver = (name..end).rev().find(|index| view.is_word(*index));
        name = behind;
    }
    if !view.is_word(name) {
        return None;
    }
    let kind = if receiver.is_some() { SymbolKind::Method } else { SymbolKind::Function };
    walker.add_to(name, kind, receiver);
    walker.open_next(SymbolScope::Function, None);
    Some(name + 1)
}

fn type_kind(view: &SymbolView<'_>, name: usize) -> SymbolKind {
    let mut at = name + 1;
    if view.mark(at) == b'[' {
        at = view.behind(at, b'[', b']').unwrap_or(at);
    }
    match view.word(at) {
        b"struct" => SymbolKind::Struct,
        b"interface" => SymbolKind::Interface,
        _ => SymbolKind::Type,
    }
}

/// `type A …`, or `type (` with one declaration per line.
fn declarations(
    walker: &mut BraceWalker<'_>,
    at: usize,
    kind: impl Fn(&SymbolView<'_>, usize) -> SymbolKind,
) -> Option<usize> {
    let view = walker.view;
    if view.is_word(at + 1) {
        names(walker, at + 1, &kind);
        return Some(at + 2);
    }
    if view.mark(at + 1) != b'(' {
        return None;
    }
    let behind = view.behind(at + 1, b'(', b')')?;
    let mut index = at + 2;
    while index < behind {
        match view.mark(index) {
            b'{' => index = view.behind(index, b'{', b'}')?,
            b'(' => index = view.behind(index, b'(', b')')?,
            _ => {
                if view.is_word(index) && view.is_first(index) {
                    names(walker, index, &kind);
                }
                index += 1;
            }
        }
    }
    Some(behind)
}

/// `a, b = 1, 2`.
fn names(walker: &mut BraceWalker<'_>, mut at: usize, kind: &impl Fn(&SymbolView<'_>, usize) -> SymbolKind) {
    let view = walker.view;
    loop {
        if view.word(at) != b"_" {
            walker.add(at, kind(&view, at));
        }
        if view.mark(at + 1) != b',' || !view.is_word(at + 2) {
            return;
        }
        at += 2;
    }
}
