use super::{
    SymbolKind,
    brace_languages::{BraceWalker, SymbolScope},
};

/// Rust-specific: `impl` blocks and `macro_rules!`.
pub(crate) fn word(walker: &mut BraceWalker<'_>, at: usize) -> Option<usize> {
    match walker.view.word(at) {
        b"impl" => {
            let name = implemented(walker, at + 1);
            walker.open_next(SymbolScope::Type, name);
            Some(at + 1)
        }
        b"macro_rules" if walker.view.mark(at + 1) == b'!' && walker.view.is_word(at + 2) => {
            walker.add(at + 2, SymbolKind::Macro);
            walker.open_next(SymbolScope::Block, None);
            Some(at + 3)
        }
        // `fn(u8) -> u8` is a type.
        b"fn" if walker.view.mark(at + 1) == b'(' => Some(at + 1),
        // `<const N: usize>` is a generic parameter.
        b"const" if matches!(walker.view.mark_before(at), b'<' | b',') => Some(at + 1),
        // A raw identifier: `r#type`.
        b"r" if walker.view.mark(at + 1) == b'#' => Some(at + 2),
        _ => None,
    }
}

/// The type of an `impl`: the last name before its generics, after `for` if present.
fn implemented(walker: &BraceWalker<'_>, start: usize) -> Option<usize> {
    const REACH: usize = 200;
    let view = walker.view;
    let mut at = view.behind_generics(start);
    let mut name = None;
    let end = (at + REACH).min(view.tokens.len());
    while at < end {
        match (view.word(at), view.mark(at)) {
            (b"for", _) => name = None,
            (b"where", _) | (_, b'{' | b';') => break,
            (b"", b'<') => {
                at = view.behind_generics(at).max(at + 1);
                continue;
            }
            (b"", _) | (b"dyn" | b"mut" | b"const", _) => (),
            _ => name = Some(at),
        }
        at += 1;
    }
    name
}
