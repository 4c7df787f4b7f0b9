use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{
    LineEdit, SeenRecord, View,
    freshness::{prints, rebase},
};
use crate::ContentHash;

/// A line, as far as it matters for freshness: white space aside, because
/// formatters move that around without changing what a line says.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct LinePrint(u64);

/// The fingerprint of one line.
pub fn line_print(line: &str) -> LinePrint {
    // FNV-1a: these values meet only each other, line by line, and a file may
    // have a million of them.
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in line.bytes().filter(|it| !it.is_ascii_whitespace()) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    LinePrint(hash ^ (hash >> 29))
}

/// What one agent has seen of one file.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// The content it was last seen with, where known.
    pub(super) version: Option<ContentHash>,
    /// How many lines the file had then.
    pub(super) total: u64,
    /// Every line of that content that was shown in full. Without a print, the
    /// line is known only while the version is the same.
    pub(super) lines: BTreeMap<u64, Option<LinePrint>>,
    /// Lines of that content that were something else when they were shown.
    pub(super) foreign: BTreeSet<u64>,
    /// The text that was last shown as a whole, if it is small, and the content
    /// it belongs to: lets an error say what has become of a place.
    pub(super) text: Option<Arc<str>>,
    text_version: Option<ContentHash>,
}

/// Texts up to this size are kept.
const KEPT: usize = 256 * 1024;

impl Seen {
    pub(super) fn add(&mut self, view: &View<'_>) {
        self.move_to(view.version, view.total, view.text);
        if view.clipped {
            return;
        }
        for (number, line) in (view.first..).zip(&view.lines) {
            self.lines.insert(number, Some(line_print(line)));
            self.foreign.remove(&number);
        }
        if view.first == 1 && view.lines.len() as u64 == view.total {
            self.keep(&view.lines);
        }
    }

    fn keep(&mut self, lines: &[&str]) {
        let size: usize = lines.iter().map(|line| line.len() + 1).sum();
        self.text = (size <= KEPT).then(|| Arc::from(lines.join("\n")));
        self.text_version = self.version;
    }

    pub(super) fn restore(&mut self, record: &SeenRecord) {
        self.move_to(record.version, record.total, None);
        if !record.clipped {
            for number in record.first..record.first + record.count {
                self.lines.entry(number).or_insert(None);
            }
        }
    }

    /// Another version of the file: lines that are still there stay known, under
    /// their new numbers. Without the text nothing can be said about them.
    fn move_to(&mut self, version: Option<ContentHash>, total: u64, text: Option<&str>) {
        if self.version != version {
            let rebased = text.map(|text| rebase(self, &prints(text))).unwrap_or_default();
            self.lines = rebased.lines;
            self.foreign = rebased.foreign;
        }
        self.version = version;
        self.total = total;
    }

    pub(super) fn replace(&mut self, version: ContentHash, view: &str) {
        self.version = Some(version);
        self.foreign.clear();
        self.lines = (1..).zip(view.lines()).map(|(at, line)| (at, Some(line_print(line)))).collect();
        self.total = self.lines.len() as u64;
        self.keep(&view.lines().collect::<Vec<_>>());
    }

    /// Edits are in ascending order and state lines of the old content.
    pub(super) fn edit(&mut self, version: ContentHash, edits: &[LineEdit<'_>]) {
        let old = std::mem::take(&mut self.lines);
        self.foreign.clear();
        let mut shift = 0_i64;
        let mut next = 0;
        let moved = |number: u64, shift: i64| number.checked_add_signed(shift).unwrap_or(number);
        let add = |lines: &mut BTreeMap<u64, Option<LinePrint>>, edit: &LineEdit<'_>, shift: &mut i64| {
            for (number, line) in (moved(edit.old.start, *shift)..).zip(&edit.new) {
                lines.insert(number, Some(line_print(line)));
            }
            let length = |it: u64| i64::try_from(it).unwrap_or(i64::MAX);
            *shift += length(edit.new.len() as u64) - length(edit.old.end - edit.old.start);
        };
        for (number, print) in old {
            while let Some(edit) = edits.get(next).filter(|edit| edit.old.end <= number) {
                add(&mut self.lines, edit, &mut shift);
                next += 1;
            }
            let replaced = edits.get(next).is_some_and(|edit| edit.old.contains(&number));
            if !replaced {
                self.lines.insert(moved(number, shift), print);
            }
        }
        for edit in &edits[next..] {
            add(&mut self.lines, edit, &mut shift);
        }
        let text = self.text.clone().filter(|_| self.text_version == self.version);
        self.version = Some(version);
        self.total = moved(self.total, shift);
        if let Some(text) = text {
            let mut lines: Vec<&str> = text.lines().collect();
            for edit in edits.iter().rev() {
                let at = |line: u64| usize::try_from(line - 1).unwrap_or(usize::MAX).min(lines.len());
                let range = at(edit.old.start)..at(edit.old.end);
                lines.splice(range, edit.new.iter().copied());
            }
            self.keep(&lines);
        }
    }
}
