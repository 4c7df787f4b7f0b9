use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{LineEdit, LinesView, SeenRecord, freshness::rebase};
use crate::ContentHash;

/// A line, as far as it matters for freshness: white space aside, because
/// formatters move that around without changing what a line says.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct LineHash(u64);

/// The fingerprint of one line.
pub fn line_print(line: &str) -> LineHash {
    // FNV-1a: these values meet only each other, line by line, and a file may
    // have a million of them.
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in line.bytes().filter(|it| !it.is_ascii_whitespace()) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    LineHash(hash ^ (hash >> 29))
}

/// Lines by their number. Without a print, a line is known only while the file
/// is the same.
pub(super) type LineHashes = BTreeMap<u64, Option<LineHash>>;

/// Which lines of a content were shown in full.
#[derive(Clone, Debug)]
pub(super) enum KnownLine {
    /// All of them; this is the text. The usual case, so it costs nothing but
    /// the text.
    All(Arc<str>),
    /// All of them; their text was too much to be kept.
    Every(Box<[LineHash]>),
    /// These.
    Some(LineHashes),
}

impl Default for KnownLine {
    fn default() -> Self {
        Self::Some(LineHashes::new())
    }
}

impl KnownLine {
    /// How many lines are known.
    pub(super) fn count(&self) -> u64 {
        match self {
            Self::All(text) => text.lines().count() as u64,
            Self::Every(lines) => lines.len() as u64,
            Self::Some(lines) => lines.len() as u64,
        }
    }

    /// Whether a line is known. All of them are if all are.
    pub(super) fn contains(&self, line: u64) -> bool {
        match self {
            Self::All(_) | Self::Every(_) => true,
            Self::Some(lines) => lines.contains_key(&line),
        }
    }

    /// The known lines one by one.
    pub(super) fn prints(&self) -> LineHashes {
        match self {
            Self::All(text) => (1..).zip(text.lines().map(|line| Some(line_print(line)))).collect(),
            Self::Every(lines) => (1..).zip(lines.iter().copied().map(Some)).collect(),
            Self::Some(lines) => lines.clone(),
        }
    }
}

/// What one agent has seen of one file.
#[derive(Clone, Debug, Default)]
pub(super) struct SeenFile {
    /// The content it was last seen with, where known.
    pub(super) version: Option<ContentHash>,
    /// How many lines the file had then.
    pub(super) total: u64,
    /// What of that content was shown.
    pub(super) known: KnownLine,
    /// Lines of that content that were something else when they were shown.
    pub(super) foreign: BTreeSet<u64>,
    /// The text that was last shown as a whole, of this content or an earlier
    /// one: lets an error say what has become of a place.
    pub(super) text: Option<Arc<str>>,
}

/// Texts up to this size are kept.
const KEPT: usize = 256 * 1024;

impl SeenFile {
    pub(super) fn add(&mut self, view: &LinesView<'_>) {
        if self.version == view.version && matches!(self.known, KnownLine::All(_) | KnownLine::Every(_)) {
            return;
        }
        let whole = view.first == 1 && view.lines.len() as u64 == view.total && !view.clipped;
        if whole && self.know_all(&view.lines) {
            self.version = view.version;
            self.total = view.total;
            return;
        }
        self.move_to(view.version, view.total, view.text);
        if view.clipped {
            return;
        }
        let mut lines = self.known.prints();
        for (number, line) in (view.first..).zip(&view.lines) {
            lines.insert(number, Some(line_print(line)));
            self.foreign.remove(&number);
        }
        self.known = KnownLine::Some(lines);
    }

    /// How much text is kept.
    pub(super) fn text_len(&self) -> usize {
        self.text.as_ref().map_or(0, |text| text.len())
    }

    /// Keeps fingerprints of lines instead of their text.
    pub(super) fn forget_text(&mut self) {
        if let KnownLine::All(text) = &self.known {
            self.known = KnownLine::Every(text.lines().map(line_print).collect());
        }
        self.text = None;
    }

    /// All lines are known, if they are few enough to be kept.
    fn know_all(&mut self, lines: &[&str]) -> bool {
        let size: usize = lines.iter().map(|line| line.len() + 1).sum();
        if KEPT < size {
            return false;
        }
        let text: Arc<str> = Arc::from(lines.join("\n"));
        // A last line that is empty would be lost without its end.
        let text = if lines.last() == Some(&"") { Arc::from(format!("{text}\n")) } else { text };
        self.text = Some(Arc::clone(&text));
        self.known = KnownLine::All(text);
        self.foreign.clear();
        true
    }

    pub(super) fn restore(&mut self, record: &SeenRecord) {
        self.move_to(record.version, record.total, None);
        if record.clipped {
            return;
        }
        if let KnownLine::Some(lines) = &mut self.known {
            for number in record.first..record.first + record.count {
                lines.entry(number).or_insert(None);
            }
        }
    }

    /// Another version of the file: lines that are still there stay known, under
    /// their new numbers. Without the text nothing can be said about them.
    fn move_to(&mut self, version: Option<ContentHash>, total: u64, text: Option<&str>) {
        if self.version != version {
            let rebased = text.map(|text| rebase(self, text)).unwrap_or_default();
            self.known = KnownLine::Some(rebased.lines);
            self.foreign = rebased.foreign;
        }
        self.version = version;
        self.total = total;
    }

    pub(super) fn replace(&mut self, version: ContentHash, view: &str) {
        let lines: Vec<&str> = view.lines().collect();
        self.version = Some(version);
        self.total = lines.len() as u64;
        self.foreign.clear();
        if !self.know_all(&lines) {
            self.known = KnownLine::Every(lines.iter().map(|line| line_print(line)).collect());
        }
    }

    /// Edits are in ascending order and state lines of the old content.
    pub(super) fn edit(&mut self, version: ContentHash, edits: &[LineEdit<'_>]) {
        self.version = Some(version);
        self.foreign.clear();
        match std::mem::take(&mut self.known) {
            KnownLine::All(text) => {
                let mut lines: Vec<&str> = text.lines().collect();
                for edit in edits.iter().rev() {
                    let at = |line: u64| usize::try_from(line - 1).unwrap_or(usize::MAX).min(lines.len());
                    let range = at(edit.old.start)..at(edit.old.end);
                    lines.splice(range, edit.new.iter().copied());
                }
                self.total = lines.len() as u64;
                if !self.know_all(&lines) {
                    self.known = KnownLine::Every(lines.iter().map(|line| line_print(line)).collect());
                }
            }
            known @ (KnownLine::Every(_) | KnownLine::Some(_)) => {
                let lines = known.prints();
                let (lines, shift) = edited(lines, edits);
                self.known = KnownLine::Some(lines);
                self.total = self.total.saturating_add_signed(shift);
            }
        }
    }
}

/// Known lines after some edits: those behind an edit get new numbers, those
/// that came are known. Returns by how much the file has grown.
fn edited(old: LineHashes, edits: &[LineEdit<'_>]) -> (LineHashes, i64) {
    let mut lines = LineHashes::new();
    let mut shift = 0_i64;
    let mut next = 0;
    let add = |lines: &mut LineHashes, edit: &LineEdit<'_>, shift: &mut i64| {
        for (number, line) in (edit.old.start.saturating_add_signed(*shift)..).zip(&edit.new) {
            lines.insert(number, Some(line_print(line)));
        }
        let length = |it: u64| i64::try_from(it).unwrap_or(i64::MAX);
        *shift += length(edit.new.len() as u64) - length(edit.old.end - edit.old.start);
    };
    for (number, print) in old {
        while let Some(edit) = edits.get(next).filter(|edit| edit.old.end <= number) {
            add(&mut lines, edit, &mut shift);
            next += 1;
        }
        let replaced = edits.get(next).is_some_and(|edit| edit.old.contains(&number));
        if !replaced {
            lines.insert(number.saturating_add_signed(shift), print);
        }
    }
    for edit in &edits[next..] {
        add(&mut lines, edit, &mut shift);
    }
    (lines, shift)
}
