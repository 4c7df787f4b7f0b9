//! Compares an editor's text with the content on disk.

use std::path::Path;

use super::{BufferLookup, MAX_BUFFER_BYTES, Workspace};
use crate::{
    ContentHash, FileSnapshot, counts, patch,
    text::{Encoding, Text},
};

/// Relation of the editor's text to the content on disk.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum BufferState {
    /// The content on disk counts: both are equal, the editor has not noticed a change, or does not know
    /// the file.
    Clean,
    /// The editor has this unsaved text, which counts.
    Unsaved(String),
    /// Both were changed; diffs of both sides.
    Conflict(String),
    /// The editor has unsaved text that we could not write as the editor would.
    Unusable(&'static str),
    /// The editor does not answer.
    Silent,
}

/// Asks the editor, compares, and updates what is known about the file.
pub(crate) fn judge(workspace: &Workspace, disk: &FileSnapshot, bytes: &[u8]) -> BufferState {
    let buffers = &workspace.buffers;
    let Some(overlay) = buffers.overlay() else { return BufferState::Clean };
    let path = disk.file().path();
    let hash = disk.disk_hash();
    let shown = match overlay.content(path) {
        BufferLookup::Text(text) if text.len().max(bytes.len()) <= MAX_BUFFER_BYTES => text,
        BufferLookup::Text(text) if is_same(bytes, &text) => return BufferState::Clean,
        BufferLookup::Text(_) => return BufferState::Unusable("it is too large"),
        BufferLookup::Silent => return BufferState::Silent,
        BufferLookup::Unknown => {
            buffers.note(path, |known| {
                known.record_disk(hash);
                (known.is_clean, known.is_dirty) = (true, false);
            });
            return BufferState::Clean;
        }
    };
    let plain = std::str::from_utf8(bytes).ok();
    if is_same(bytes, &shown) {
        buffers.note(path, |known| {
            known.record_disk(hash);
            known.is_same(hash, plain);
        });
        return BufferState::Clean;
    }
    let shown_hash = ContentHash::hash(shown.as_bytes());
    let is_behind = buffers.note(path, |known| known.held.contains(&shown_hash) && shown_hash != hash)
        || was_on_disk(workspace, path, shown_hash);
    if is_behind {
        // Keep the base: text typed into the old version conflicts with the change.
        buffers.note(path, |known| {
            known.record_disk(hash);
            known.base.get_or_insert((shown_hash, Some(shown.as_str().into())));
            (known.is_clean, known.is_dirty) = (false, false);
        });
        return BufferState::Clean;
    }
    buffers.note(path, |known| {
        known.record_disk(hash);
        (known.is_clean, known.is_dirty) = (false, true);
        if let Some(why) = unusable(path, bytes, &shown) {
            return BufferState::Unusable(why);
        }
        let plain = plain.unwrap_or_default();
        match &known.base {
            Some((base, text)) if *base != hash && !is_nearer(&shown, plain, text.as_deref()) => {
                BufferState::Conflict(sides(text.as_deref(), plain, &shown))
            }
            _ => {
                known.base = Some((hash, Some(plain.into())));
                BufferState::Unsaved(shown)
            }
        }
    })
}

/// Equal except for byte order marks and line ends.
fn is_same(bytes: &[u8], shown: &str) -> bool {
    if bytes == shown.as_bytes() {
        return true;
    }
    let Ok(text) = Text::decode(bytes.to_vec()) else {
        // A binary file has no unsaved text.
        return true;
    };
    let shown = shown.strip_prefix('\u{feff}').unwrap_or(shown).replace("\r\n", "\n");
    text.view().replace("\r\n", "\n") == shown
}

/// Why the editor's text cannot be written in the file's format.
fn unusable(path: &Path, bytes: &[u8], shown: &str) -> Option<&'static str> {
    let Ok(text) = Text::decode(bytes.to_vec()) else { return Some("the file is no text") };
    let breaks = text.line_breaks();
    let lone = |text: &str| text.replace("\r\n", "").contains('\r');
    let mixed = |text: &str| {
        let returns = text.matches("\r\n").count();
        returns != 0 && returns != text.matches('\n').count()
    };
    if path.extension().is_some_and(|it| it.eq_ignore_ascii_case("ipynb")) {
        Some("it is a notebook")
    } else if text.encoding() != Encoding::UTF_8 || text.strays() != 0 {
        Some("the file is not plain UTF-8")
    } else if breaks.cr != 0 || (breaks.crlf != 0 && breaks.lf != 0) || mixed(shown) || lone(shown) {
        Some("its line ends are mixed")
    } else if (breaks.crlf != 0) != shown.contains("\r\n") && text.view().contains('\n') {
        Some("the editor shows other line ends than the file has")
    } else {
        None
    }
}

/// Whether the journal has this content as replaced by a change: an editor that shows it has not noticed
/// the change.
fn was_on_disk(workspace: &Workspace, path: &Path, shown: ContentHash) -> bool {
    let Ok(journal) = workspace.journal() else { return false };
    let entries = journal.entries().unwrap_or_default();
    let changes = entries.iter().rev().take(200).flat_map(|entry| &entry.changes);
    changes.filter(|it| it.path == path).any(|it| it.before.hash() == Some(shown))
}

/// Whether the editor's text is based on the current content on disk: then it differs less from it than
/// from the previous content.
fn is_nearer(shown: &str, disk: &str, base: Option<&str>) -> bool {
    let distance = |from: &str| {
        let (added, removed) = counts(&patch(from, shown));
        added + removed
    };
    base.is_some_and(|base| distance(disk) < distance(base))
}

/// Maximum bytes of one side's diff.
const MAX_SIDE_BYTES: usize = 4_000;

/// Diffs of both sides against the base.
fn sides(base: Option<&str>, disk: &str, shown: &str) -> String {
    let diff = |old: &str, new: &str| {
        let hunks = patch(old, new);
        let lines = hunks.iter().flat_map(|hunk| hunk.lines.iter().map(String::as_str));
        let all = lines.collect::<Vec<_>>().join("\n");
        let cut = haft_types::text::head(&all, MAX_SIDE_BYTES);
        if cut.len() < all.len() { format!("{cut}\n[…]") } else { all }
    };
    match base {
        Some(base) => {
            format!("Unsaved in the editor:\n{}\nChanged on disk:\n{}", diff(base, shown), diff(base, disk))
        }
        None => format!("From the disk to the editor:\n{}", diff(disk, shown)),
    }
}
