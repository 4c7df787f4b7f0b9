//! Places whose removal must never go unasked.

use std::path::{Component, Path};

use haft_paths::{is_inside, lexical};

use super::facts::Place;

/// Whether removing `path` (absolute, dots allowed) would take the root of the
/// file system, something directly in it, the home, a workspace, or anything
/// above these.
pub fn is_critical(path: &Path, place: Place<'_>) -> bool {
    let path = lexical(path);
    let shallow = path.components().filter(|part| matches!(part, Component::Normal(_))).count() < 2;
    let precious = place.roots.iter().map(|root| &**root).chain(place.home).chain([place.cwd]);
    shallow || precious.into_iter().any(|dir| is_inside(&lexical(dir), &path))
}

/// Whether removing whatever `pattern` finds would empty such a place.
pub(crate) fn is_critical_pattern(pattern: &Path, place: Place<'_>) -> bool {
    let last = pattern.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let everything = !last.is_empty() && last.chars().all(|c| matches!(c, '*' | '?' | '.'));
    everything && pattern.parent().is_some_and(|dir| is_critical(dir, place))
}
