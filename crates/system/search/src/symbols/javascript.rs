use super::{
    SymbolKind, SymbolView,
    brace_languages::{BraceWalker, SymbolScope},
    keywords,
};

/// JavaScript and TypeScript: top-level bindings, class methods, and assignments to `exports` and
/// prototypes.
pub(crate) fn word(walker: &mut BraceWalker<'_>, at: usize) -> Option<usize> {
    let view = walker.view;
    match view.word(at) {
        b"const" | b"let" | b"var" if walker.scope() == SymbolScope::Module && walker.is_level() => {
            binding(walker, at + 1)
        }
        b"exports" if view.mark(at + 1) == b'.' && view.mark(at + 3) == b'=' && view.is_word(at + 2) => {
            let kind = value_kind(&view, at + 4);
            walker.add(at + 2, kind);
            Some(at + 3)
        }
        _ if walker.scope() == SymbolScope::Type && walker.is_level() => member(walker, at),
        b"prototype" => None,
        _ => assigned_method(walker, at),
    }
}

fn binding(walker: &mut BraceWalker<'_>, name: usize) -> Option<usize> {
    let view = walker.view;
    if view.word(name) == b"enum" || keywords::is_reserved(walker.grammar, view.word(name)) {
        return None;
    }
    if !view.is_word(name) {
        return None;
    }
    let equals = (name + 1..(name + 60).min(view.tokens.len()))
        .take_while(|at| !matches!(view.mark(*at), b';' | b'{') && (*at == name + 1 || !view.is_first(*at)))
        .find(|at| view.mark(*at) == b'=' && view.mark(*at + 1) != b'>');
    let kind = equals.map_or(SymbolKind::Variable, |at| value_kind(&view, at + 1));
    walker.add(name, kind);
    match kind {
        SymbolKind::Function => walker.open_next(SymbolScope::Function, None),
        SymbolKind::Class => walker.open_next(SymbolScope::Type, Some(name)),
        _ => (),
    }
    // Skip the name, so that `= class {` and `= function () {` are not recorded twice.
    match (kind, equals) {
        (SymbolKind::Class | SymbolKind::Function, Some(at)) => Some(at + 2),
        _ => Some(name + 1),
    }
}

/// Kind of the value after `=`.
fn value_kind(view: &SymbolView<'_>, at: usize) -> SymbolKind {
    match view.word(at) {
        b"function" => return SymbolKind::Function,
        b"class" => return SymbolKind::Class,
        b"async" => return SymbolKind::Function,
        b"" => (),
        _ if view.marks(at + 1, b"=>") => return SymbolKind::Function,
        _ => return SymbolKind::Constant,
    }
    let at = view.behind_generics(at);
    if view.mark(at) == b'('
        && let Some(behind) = view.behind(at, b'(', b')')
    {
        let arrow = (behind..(behind + 40).min(view.tokens.len()))
            .take_while(|at| !matches!(view.mark(*at), b';' | b'{' | b','))
            .any(|at| view.marks(at, b"=>"));
        if arrow {
            return SymbolKind::Function;
        }
    }
    SymbolKind::Constant
}

/// A class member: `name(…) {`, `get name(…) {`, `name = (…) => {`.
fn member(walker: &mut BraceWalker<'_>, at: usize) -> Option<usize> {
    let view = walker.view;
    let word = view.word(at);
    let open = view.behind_generics(at + 1);
    if view.mark(open) == b'('
        && !matches!(word, b"if" | b"for" | b"while" | b"switch" | b"catch" | b"return" | b"super")
    {
        let behind = view.behind(open, b'(', b')')?;
        walker.add(at, SymbolKind::Method);
        walker.open_next(SymbolScope::Function, None);
        return Some(behind);
    }
    if view.mark(at + 1) == b'=' && value_kind(&view, at + 2) == SymbolKind::Function {
        walker.add(at, SymbolKind::Method);
        walker.open_next(SymbolScope::Function, None);
        return Some(at + 2);
    }
    None
}

/// `Thing.prototype.name = function`, `thing.name = function`.
fn assigned_method(walker: &mut BraceWalker<'_>, at: usize) -> Option<usize> {
    let view = walker.view;
    if !matches!(walker.scope(), SymbolScope::Module) || !walker.is_level() || view.mark(at + 1) != b'.' {
        return None;
    }
    let name = if view.word(at + 2) == b"prototype" && view.mark(at + 3) == b'.' { at + 4 } else { at + 2 };
    let is_function = matches!(view.word(name + 2), b"function" | b"async");
    if view.mark(name + 1) == b'=' && is_function && view.is_word(name) {
        walker.add_to(name, SymbolKind::Method, Some(at));
        walker.open_next(SymbolScope::Function, None);
        return Some(name + 3);
    }
    None
}
