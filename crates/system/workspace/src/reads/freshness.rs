use std::{
    collections::{BTreeSet, HashMap},
    ops::Range,
    time::{Duration, Instant},
};

use similar::{Algorithm, DiffTag, capture_diff_slices_deadline};

use super::{
    CurrentFile, LineHash, line_print,
    seen_lines::{LineHashes, SeenFile},
};

/// Whether some lines are as they were seen.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Freshness {
    /// The file is as it was seen.
    Fresh,
    /// The file was changed elsewhere; these lines of it (of the current
    /// content) are new or different, the ones asked about are not among them.
    ChangedElsewhere(Vec<Range<u64>>),
    /// These lines were never shown.
    Unseen,
    /// These lines are not what was shown.
    Stale,
    /// Nothing of the file was ever shown.
    NeverRead,
}

/// Whether all of a file has been seen.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum WholeFileSeen {
    /// All of it, as it is now.
    Yes,
    /// All of it was seen, but it has changed since.
    Changed,
    /// Only some lines.
    Partly {
        /// How many of its lines were seen.
        seen: u64,
        /// Of how many.
        total: u64,
    },
    /// Nothing of the file was seen.
    Never,
}

/// How long the comparison of two versions may take.
const TIMEOUT: Duration = Duration::from_millis(400);

pub(super) fn freshness(seen: Option<&SeenFile>, current: &CurrentFile<'_>, lines: &Range<u64>) -> Freshness {
    let Some(seen) = seen else { return Freshness::NeverRead };
    if seen.version == Some(current.version) {
        return match () {
            () if lines.clone().any(|line| seen.foreign.contains(&line)) => Freshness::Stale,
            () if lines.clone().all(|line| seen.known.contains(line)) => Freshness::Fresh,
            () => Freshness::Unseen,
        };
    }
    let rebased = rebase(seen, current.view);
    let touches = |it: &&Range<u64>| {
        if it.is_empty() {
            // Lines that vanished between two of the asked ones.
            lines.start < it.start && it.start < lines.end
        } else {
            it.start < lines.end && lines.start < it.end
        }
    };
    match () {
        () if rebased.changed.iter().any(|it| touches(&it)) => Freshness::Stale,
        () if lines.clone().all(|line| rebased.lines.contains_key(&line)) => {
            Freshness::ChangedElsewhere(rebased.changed)
        }
        () => Freshness::Unseen,
    }
}

/// What is known of another version of a file.
#[derive(Debug, Default)]
pub(super) struct CarriedReads {
    /// Lines that are still there.
    pub(super) lines: LineHashes,
    /// Lines in the place of others that were known.
    pub(super) foreign: BTreeSet<u64>,
    /// Where something that was known has changed.
    changed: Vec<Range<u64>>,
}

/// A line for the comparison: what was never shown is like nothing else.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
enum ComparedLine {
    Known(LineHash),
    Unknown(u64),
}

/// Up to how many lines two versions are compared as a whole.
const COMPARABLE: usize = 20_000;

/// Finds the known lines of a file in its new content.
pub(super) fn rebase(seen: &SeenFile, now: &str) -> CarriedReads {
    let total = count_lines(now);
    let small = usize::try_from(seen.total.max(total)).is_ok_and(|it| it <= COMPARABLE);
    if small { by_comparison(seen, now) } else { by_number(seen, now, total) }
}

/// How many lines a text has.
pub fn count_lines(text: &str) -> u64 {
    let breaks = memchr::memchr_iter(b'\n', text.as_bytes()).count() as u64;
    breaks + u64::from(!text.is_empty() && !text.ends_with('\n'))
}

/// For large files: a known line is where it was, or moved by as much as the
/// file has grown.
fn by_number(seen: &SeenFile, now: &str, total: u64) -> CarriedReads {
    let grown = i64::try_from(total).unwrap_or(i64::MAX).wrapping_sub_unsigned(seen.total);
    let known = seen.known.prints();
    let shifted = |line: u64, shift: i64| line.checked_add_signed(shift).filter(|it| 0 < *it);
    let wanted: BTreeSet<u64> =
        known.keys().flat_map(|line| [0, grown].map(|shift| shifted(*line, shift))).flatten().collect();
    let found = prints_of(now, &wanted);
    let mut rebased = CarriedReads::default();
    for (line, print) in known.into_iter().filter_map(|(line, print)| print.map(|print| (line, print))) {
        let same = |line: &u64| found.get(line) == Some(&print);
        match [0, grown].into_iter().filter_map(|shift| shifted(line, shift)).find(same) {
            Some(line) => drop(rebased.lines.insert(line, Some(print))),
            None => {
                rebased.foreign.insert(line);
                rebased.changed.push(line..line + 1);
            }
        }
    }
    rebased
}

/// The fingerprints of some lines of a large text.
fn prints_of(text: &str, wanted: &BTreeSet<u64>) -> HashMap<u64, LineHash> {
    let mut wanted = wanted.iter().copied().peekable();
    let mut found = HashMap::new();
    let mut start = 0;
    let breaks = memchr::memchr_iter(b'\n', text.as_bytes()).chain([text.len()]);
    for (end, line) in breaks.zip(1..) {
        if wanted.next_if_eq(&line).is_some() {
            found.insert(line, line_print(&text[start..end]));
        }
        if wanted.peek().is_none() {
            break;
        }
        start = end + 1;
    }
    found
}

fn by_comparison(seen: &SeenFile, now: &str) -> CarriedReads {
    let known = seen.known.prints();
    let then: Vec<ComparedLine> = (1..=seen.total)
        .map(|line| match known.get(&line) {
            Some(Some(print)) => ComparedLine::Known(*print),
            _ => ComparedLine::Unknown(line),
        })
        .collect();
    let now: Vec<ComparedLine> = now.lines().map(|line| ComparedLine::Known(line_print(line))).collect();
    let is_known = |at: usize| then.get(at).is_none_or(|it| matches!(it, ComparedLine::Known(_)));
    let mut rebased = CarriedReads::default();
    let deadline = Instant::now() + TIMEOUT;
    for op in capture_diff_slices_deadline(Algorithm::Myers, &then, &now, Some(deadline)) {
        let (old, new) = (op.old_range(), op.new_range());
        let lines = new.start as u64 + 1..new.end as u64 + 1;
        if op.tag() == DiffTag::Equal {
            for (line, at) in lines.zip(new) {
                if let ComparedLine::Known(print) = now[at] {
                    rebased.lines.insert(line, Some(print));
                }
            }
            continue;
        }
        let about_known = if old.is_empty() {
            old.start.checked_sub(1).is_none_or(is_known) && is_known(old.start)
        } else {
            old.clone().any(is_known)
        };
        if about_known {
            if !old.is_empty() {
                rebased.foreign.extend(lines.clone());
            }
            rebased.changed.push(lines);
        }
    }
    rebased
}

pub(super) fn whole_seen(seen: Option<&SeenFile>, current: &CurrentFile<'_>) -> WholeFileSeen {
    let Some(seen) = seen else { return WholeFileSeen::Never };
    let count = seen.known.count();
    let complete = count == seen.total;
    let total = count_lines(current.view);
    match (complete, seen.version == Some(current.version)) {
        (true, true) => WholeFileSeen::Yes,
        (true, false) => WholeFileSeen::Changed,
        (false, _) => WholeFileSeen::Partly { seen: count.min(total), total },
    }
}
