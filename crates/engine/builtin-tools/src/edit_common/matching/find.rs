use std::ops::Range;

use memchr::memmem;

use super::{
    fold::{FoldRules, LADDER, fold, indent, trim_start},
    transform::Transform,
};

/// The result of a search.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Found {
    /// Byte ranges of the matches, ascending and not overlapping.
    pub(crate) spans: Vec<Range<usize>>,
    /// The differences that had to be ignored.
    pub(crate) folds: FoldRules,
    /// The transformation of the model's text that made it match.
    pub(crate) transform: Transform,
    /// The text that matched, after the transformation.
    pub(crate) old: String,
}

impl Found {
    /// Selects whole lines, whatever they contain. If `new` is empty, the line end is removed too.
    pub(crate) fn lines(view: &str, span: &Range<usize>, new: &str) -> Self {
        let mut span = span.clone();
        if new.is_empty() {
            match view.as_bytes().get(span.end) {
                Some(b'\n') => span.end += 1,
                _ => span.start -= usize::from(view[..span.start].ends_with('\n')),
            }
        }
        let old = view[span.clone()].to_owned();
        Self { spans: vec![span], folds: FoldRules::default(), transform: Transform::None, old }
    }
}

/// Why the text was not found.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum NotFound {
    /// Several candidates match, at these byte offsets.
    Ambiguous(Vec<usize>),
    /// Nothing matches.
    Missing,
}

/// How many matches are wanted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum MatchCount {
    /// Exactly one; more are ambiguous.
    One,
    /// All of them.
    All,
}

/// Maximum bytes of a text that is folded as a whole; in a larger one only parts are searched inexactly.
const FOLDABLE: usize = 4 * 1024 * 1024;

/// Maximum number of candidates that are counted.
const MOST: usize = 1000;

/// Searches for a text: first exactly, then ignoring ever more differences. An inexact match must be
/// unique; with [`MatchCount::All`] several are accepted if they are identical.
pub(crate) fn find(view: &str, old: &str, wanted: MatchCount) -> Result<Found, NotFound> {
    let exact = occurrences(view, old);
    match (exact.len(), wanted) {
        (0, _) => (),
        (1, _) | (_, MatchCount::All) => {
            return Ok(Found {
                spans: apart(exact, old.len()),
                folds: FoldRules::default(),
                transform: Transform::None,
                old: old.to_owned(),
            });
        }
        _ => return Err(NotFound::Ambiguous(exact)),
    }
    let windows = windows(view, old);
    for transform in Transform::ALL {
        let Some(old) = transform.of_old(old) else { continue };
        // Each step folds the text again.
        for folds in LADDER {
            let spans = inexact(view, &windows, &old, folds);
            match spans.len() {
                0 => continue,
                1 => return Ok(Found { spans, folds, transform, old }),
                _ if wanted == MatchCount::All && all_same(view, &spans) => {
                    return Ok(Found { spans, folds, transform, old });
                }
                _ => return Err(NotFound::Ambiguous(spans.iter().map(|it| it.start).collect())),
            }
        }
    }
    Err(NotFound::Missing)
}

/// Like [`find`], within a part of the text that consists of whole lines.
pub(crate) fn find_within(
    view: &str,
    old: &str,
    wanted: MatchCount,
    part: &Range<usize>,
) -> Result<Found, NotFound> {
    let moved = |at: usize| at + part.start;
    match find(&view[part.clone()], old, wanted) {
        Ok(mut found) => {
            found.spans.iter_mut().for_each(|span| *span = moved(span.start)..moved(span.end));
            Ok(found)
        }
        Err(NotFound::Ambiguous(places)) => Err(NotFound::Ambiguous(places.into_iter().map(moved).collect())),
        Err(NotFound::Missing) => Err(NotFound::Missing),
    }
}

/// Returns all matches, including overlapping ones: each is a possible meaning.
fn occurrences(view: &str, old: &str) -> Vec<usize> {
    if old.is_empty() {
        return Vec::new();
    }
    let finder = memmem::Finder::new(old);
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(at) = finder.find(&view.as_bytes()[from..]) {
        found.push(from + at);
        from += at + view[from + at..].chars().next().map_or(1, char::len_utf8);
    }
    found
}

/// Drops matches that overlap an earlier one.
fn apart(starts: Vec<usize>, len: usize) -> Vec<Range<usize>> {
    let mut spans: Vec<Range<usize>> = Vec::new();
    for start in starts {
        if spans.last().is_none_or(|last| last.end <= start) {
            spans.push(start..start + len);
        }
    }
    spans
}

fn all_same(view: &str, spans: &[Range<usize>]) -> bool {
    spans
        .windows(2)
        .all(|pair| view[pair[0].clone()] == view[pair[1].clone()] && pair[0].end <= pair[1].start)
}

/// Returns the parts of the text to search inexactly: all of it, or for a large one the surroundings of
/// the lines that contain the longest line of `old` verbatim.
fn windows(view: &str, old: &str) -> Vec<Range<usize>> {
    if view.len() <= FOLDABLE {
        let whole = 0..view.len();
        return Vec::from([whole]);
    }
    let anchor = old.lines().map(str::trim).filter(|line| 6 <= line.len()).max_by_key(|line| line.len());
    let Some(anchor) = anchor else { return Vec::new() };
    let reach = old.len() * 2 + 4096;
    let mut windows: Vec<Range<usize>> = Vec::new();
    for at in memmem::find_iter(view.as_bytes(), anchor).take(MOST) {
        let start =
            memchr::memrchr(b'\n', &view.as_bytes()[..at.saturating_sub(reach)]).map_or(0, |it| it + 1);
        let from = (at + reach).min(view.len());
        let end = memchr::memchr(b'\n', &view.as_bytes()[from..]).map_or(view.len(), |it| from + it + 1);
        match windows.last_mut() {
            Some(last) if start <= last.end => last.end = end,
            _ => windows.push(start..end),
        }
    }
    windows
}

fn inexact(view: &str, windows: &[Range<usize>], old: &str, folds: FoldRules) -> Vec<Range<usize>> {
    let pattern = fold(old, 0, folds);
    if pattern.text.trim().is_empty() {
        return Vec::new();
    }
    let mut spans = Vec::new();
    for window in windows {
        let folded = fold(&view[window.clone()], window.start, folds);
        for at in occurrences(&folded.text, &pattern.text) {
            let Some(units) = folded.units(&(at..at + pattern.text.len())) else { continue };
            let (Some(first), Some(last)) = (units.first(), units.last()) else { continue };
            let span = first.source().start..last.source().end;
            if let Some(span) = fit(view, span, old, folds)
                && spans.len() < MOST
            {
                spans.push(span);
            }
        }
    }
    spans.dedup();
    spans
}

/// Checks the structure that folding by lines cannot see, and extends the match to the indentation of
/// the first line where `old` states one.
fn fit(view: &str, mut span: Range<usize>, old: &str, folds: FoldRules) -> Option<Range<usize>> {
    if !folds.indentation {
        return Some(span);
    }
    let line_start = view[..span.start].rfind('\n').map_or(0, |it| it + 1);
    let before = &view[line_start..span.start];
    let at_line_start = trim_start(before).is_empty();
    if !indent(old).is_empty() {
        if !at_line_start {
            return None;
        }
        span.start = line_start;
    } else if at_line_start && old.contains('\n') {
        // Only the first line of `old` lost its indentation, so the match includes it.
        span.start = line_start;
    }
    is_consistent(&view[span.clone()], old).then_some(span)
}

/// Whether lines with equal indentation in `old` also have equal indentation in the file. If not, the
/// structure differs.
fn is_consistent(found: &str, old: &str) -> bool {
    let mut pairs: Vec<(&str, &str)> = Vec::new();
    for (old, found) in old.split('\n').zip(found.split('\n')).skip(1) {
        if old.trim().is_empty() {
            continue;
        }
        let pair = (indent(old), indent(found));
        let clash = pairs.iter().any(|it| (it.0 == pair.0) != (it.1 == pair.1));
        if clash {
            return false;
        }
        pairs.push(pair);
    }
    true
}
