use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    time::{Duration, Instant},
};

use similar::{Algorithm, DiffTag, capture_diff_slices_deadline};

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
const PATIENCE: Duration = Duration::from_millis(400);

/// The fingerprints of all lines of a text.
pub(super) fn prints(text: &str) -> Vec<LinePrint> {
    text.lines().map(line_print).collect()
}

pub(super) fn freshness(seen: Option<&Seen>, current: &Current<'_>, lines: &Range<u64>) -> Freshness {
    let Some(seen) = seen else { return Freshness::NeverRead };
    let known =
        |known: &BTreeMap<u64, Option<LinePrint>>| lines.clone().all(|line| known.contains_key(&line));
    if seen.version == Some(current.version) {
        return match () {
            () if lines.clone().any(|line| seen.foreign.contains(&line)) => Freshness::Stale,
            () if known(&seen.lines) => Freshness::Fresh,
            () => Freshness::Unseen,
        };
    }
    let rebased = rebase(seen, &prints(current.view));
    let touches = |it: &&Range<u64>| match it.is_empty() {
        // Lines that vanished between two of the asked ones.
        true => lines.start < it.start && it.start < lines.end,
        false => it.start < lines.end && lines.start < it.end,
    };
    match () {
        () if rebased.changed.iter().any(|it| touches(&it)) => Freshness::Stale,
        () if known(&rebased.lines) => Freshness::ChangedElsewhere(rebased.changed),
        () => Freshness::Unseen,
    }
}

/// What is known of another version of a file.
#[derive(Debug, Default)]
pub(super) struct Rebased {
    /// Lines that are still there.
    pub(super) lines: BTreeMap<u64, Option<LinePrint>>,
    /// Lines in the place of others that were known.
    pub(super) foreign: BTreeSet<u64>,
    /// Where something that was known has changed.
    changed: Vec<Range<u64>>,
}

/// A line for the comparison: what was never shown is like nothing else.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
enum Line {
    Known(LinePrint),
    Unknown(u64),
}

/// Up to how many lines two versions are compared as a whole.
const COMPARABLE: usize = 20_000;

/// Finds the known lines of a file in its new content.
pub(super) fn rebase(seen: &Seen, now: &[LinePrint]) -> Rebased {
    let small = usize::try_from(seen.total).is_ok_and(|it| it.max(now.len()) <= COMPARABLE);
    if small { by_comparison(seen, now) } else { by_number(seen, now) }
}

/// For large files: a known line is where it was, or moved by as much as the
/// file has grown.
fn by_number(seen: &Seen, now: &[LinePrint]) -> Rebased {
    let grown = (now.len() as i64).wrapping_sub_unsigned(seen.total);
    let mut rebased = Rebased::default();
    for (line, print) in seen.lines.iter().filter_map(|(line, print)| print.map(|print| (*line, print))) {
        let at = |shift: i64| line.checked_add_signed(shift).filter(|it| 0 < *it);
        let same = |line: &u64| usize::try_from(line - 1).is_ok_and(|it| now.get(it) == Some(&print));
        match [0, grown].into_iter().filter_map(at).find(same) {
            Some(line) => drop(rebased.lines.insert(line, Some(print))),
            None => {
                rebased.foreign.insert(line);
                rebased.changed.push(line..line + 1);
            }
        }
    }
    rebased
}

fn by_comparison(seen: &Seen, now: &[LinePrint]) -> Rebased {
    let then: Vec<Line> = (1..=seen.total)
        .map(|line| match seen.lines.get(&line) {
            Some(Some(print)) => Line::Known(*print),
            _ => Line::Unknown(line),
        })
        .collect();
    let now: Vec<Line> = now.iter().map(|print| Line::Known(*print)).collect();
    let is_known = |at: usize| then.get(at).is_none_or(|it| matches!(it, Line::Known(_)));
    let mut rebased = Rebased::default();
    let deadline = Instant::now() + PATIENCE;
    for op in capture_diff_slices_deadline(Algorithm::Myers, &then, &now, Some(deadline)) {
        let (old, new) = (op.old_range(), op.new_range());
        let lines = new.start as u64 + 1..new.end as u64 + 1;
        if op.tag() == DiffTag::Equal {
            for (line, at) in lines.zip(new) {
                if let Line::Known(print) = now[at] {
                    rebased.lines.insert(line, Some(print));
                }
            }
            continue;
        }
        let about_known = match old.is_empty() {
            true => old.start.checked_sub(1).is_none_or(is_known) && is_known(old.start),
            false => old.clone().any(is_known),
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
