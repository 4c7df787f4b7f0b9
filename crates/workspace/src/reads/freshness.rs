use std::{collections::HashSet, ops::Range};

use similar::{Algorithm, DiffOp, capture_diff_slices_deadline};

use super::{Current, LinePrint, line_print, seen::Seen};

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
pub enum WholeSeen {
    /// All of it, as it is now.
    Yes,
    /// All of it was seen, but it has changed since.
    Changed,
    /// Only some lines.
    Partly {
        /// How many.
        seen: u64,
        /// Of how many.
        total: u64,
    },
    /// Nothing.
    Never,
}

/// How long the comparison of two versions may take.
const PATIENCE: std::time::Duration = std::time::Duration::from_millis(500);

pub(super) fn freshness(seen: Option<&Seen>, current: &Current<'_>, lines: &Range<u64>) -> Freshness {
    let Some(seen) = seen else { return Freshness::NeverRead };
    let now = || -> Vec<LinePrint> { current.view.lines().map(line_print).collect() };
    if seen.version == Some(current.version) {
        let known = lines.clone().all(|line| seen.lines.contains_key(&line));
        return match known {
            true => Freshness::Fresh,
            false if seen.earlier.is_empty() => Freshness::Unseen,
            false => compare_parts(seen, &now(), lines),
        };
    }
    let now = now();
    if seen.lines.len() as u64 == seen.total && 0 < seen.total {
        let then: Vec<LinePrint> = seen.lines.values().copied().flatten().collect();
        if then.len() as u64 == seen.total {
            return compare(&then, &now, lines);
        }
    }
    compare_parts(seen, &now, lines)
}

/// All lines were seen: a comparison of the two versions tells which stayed.
fn compare(then: &[LinePrint], now: &[LinePrint], lines: &Range<u64>) -> Freshness {
    let deadline = std::time::Instant::now() + PATIENCE;
    let ops = capture_diff_slices_deadline(Algorithm::Myers, then, now, Some(deadline));
    let mut changed = Vec::new();
    let mut stale = false;
    for op in ops {
        let (DiffOp::Delete { new_index: at, .. }
        | DiffOp::Insert { new_index: at, .. }
        | DiffOp::Replace { new_index: at, .. }) = op
        else {
            continue;
        };
        let start = at as u64 + 1;
        let end = start + op.new_range().len() as u64;
        stale |= start < lines.end && lines.start < end;
        // Lines that vanished between two of the asked ones.
        stale |= start == end && lines.start < start && start < lines.end;
        changed.push(start..end);
    }
    if stale { Freshness::Stale } else { Freshness::ChangedElsewhere(changed) }
}

/// Only parts were seen: the lines in question must be among them by their
/// text. A line of the same number that reads otherwise is stale.
fn compare_parts(seen: &Seen, now: &[LinePrint], lines: &Range<u64>) -> Freshness {
    let mut known: HashSet<LinePrint> = seen.lines.values().copied().flatten().collect();
    known.extend(&seen.earlier);
    let print = |line: u64| usize::try_from(line - 1).ok().and_then(|at| now.get(at));
    let asked: Vec<u64> = lines.clone().collect();
    if asked.iter().all(|line| print(*line).is_some_and(|it| known.contains(it))) {
        let elsewhere = seen.lines.iter().filter(|(line, then)| {
            then.is_some_and(|then| print(**line).is_some_and(|now| *now != then && !known.contains(now)))
        });
        return Freshness::ChangedElsewhere(elsewhere.map(|(line, _)| *line..*line + 1).collect());
    }
    let was_shown = |line: &u64| seen.lines.get(line).is_some_and(Option::is_some);
    if asked.iter().any(was_shown) { Freshness::Stale } else { Freshness::Unseen }
}

pub(super) fn whole_seen(seen: Option<&Seen>, current: &Current<'_>) -> WholeSeen {
    let Some(seen) = seen else { return WholeSeen::Never };
    let count = seen.lines.len() as u64;
    let complete = count == seen.total;
    let total = current.view.lines().count() as u64;
    match (complete, seen.version == Some(current.version)) {
        (true, true) => WholeSeen::Yes,
        (true, false) => WholeSeen::Changed,
        (false, _) => WholeSeen::Partly { seen: count.min(total), total },
    }
}
