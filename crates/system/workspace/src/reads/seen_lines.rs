use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{LineEdit, LinesView, SeenRecord, freshness::rebase};
use crate::ContentHash;

/// Hash of a line, ignoring white space, because formatters change it without changing the meaning.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct LineHash(u64);

/// Hashes one line.
pub fn line_print(line: &str) -> LineHash {
    // FNV-1a: these hashes are only compared with each other, and a file may have a million lines.
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in line.bytes().filter(|it| !it.is_ascii_whitespace()) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    LineHash(hash ^ (hash >> 29))
}

/// Lines by number. A line without hash is known only while the file is unchanged.
pub(super) type LineHashes = BTreeMap<u64, Option<LineHash>>;

/// Which lines of a content were shown completely.
#[derive(Clone, Debug)]
pub(super) enum KnownLine {
    /// All; the text. The common case, which stores nothing else.
    All(Arc<str>),
    /// All; the text was too large to keep.
    Every(Box<[LineHash]>),
    /// Some.
    Some(LineHashes),
}

impl Default for KnownLine {
    fn default() -> Self {
        Self::Some(LineHashes::new())
    }
}

impl KnownLine {
    /// Number of known lines.
    pub(super) fn count(&self) -> u64 {
        match self {
            Self::All(text) => text.lines().count() as u64,
            Self::Every(lines) => lines.len() as u64,
            Self::Some(lines) => lines.len() as u64,
        }
    }

    /// Whether a line is known.
    pub(super) fn contains(&self, line: u64) -> bool {
        match self {
            Self::All(_) | Self::Every(_) => true,
            Self::Some(lines) => lines.contains_key(&line),
        }
    }

    /// Known lines with hashes.
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
    /// Hash of the content last seen, if known.
    pub(super) version: Option<ContentHash>,
    /// Number of lines in it.
    pub(super) total: u64,
    /// Known lines of it.
    pub(super) known: KnownLine,
    /// Lines that had different content when they were shown.
    pub(super) foreign: BTreeSet<u64>,
    /// The text when it was last shown completely, of this or an earlier content; for specific error
    /// messages.
    pub(super) text: Option<Arc<str>>,
}

/// Maximum bytes of a text that is kept.
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

    /// Bytes of the kept text.
    pub(super) fn text_len(&self) -> usize {
        self.text.as_ref().map_or(0, |text| text.len())
    }

    /// Replaces the text by line hashes.
    pub(super) fn forget_text(&mut self) {
        if let KnownLine::All(text) = &self.known {
            self.known = KnownLine::Every(text.lines().map(line_print).collect());
        }
        self.text = None;
    }

    /// Marks all lines as known, if they are few enough.
    fn know_all(&mut self, lines: &[&str]) -> bool {
        let size: usize = lines.iter().map(|line| line.len() + 1).sum();
        if KEPT < size {
            return false;
        }
        let text: Arc<str> = Arc::from(lines.join("\n"));
        // An empty last line would be lost without its line end.
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

    /// Switches to another version of the file: lines that still exist stay known under their new
    /// numbers. Without the text all become unknown.
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

    /// Applies edits, which must be ascending and in line numbers of the old content.
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

/// Known lines after edits: later lines are renumbered, new lines are known. Also returns the growth in
/// lines.
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
