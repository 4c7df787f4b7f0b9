use haft_search::{ListedDir, ListedTree, TreeItem, display_text};

use crate::search_common::{counted, grouped};

/// Maximum number of lines of a tree.
pub(super) const MAX_LINES: usize = 200;

/// Formats a tree as lines.
///
/// Every directory gets a share of the lines, so that one with a thousand files does not hide the
/// others.
pub(super) struct Layout<'a> {
    tree: &'a ListedTree,
    depth: usize,
    pub(super) lines: Vec<String>,
    pub(super) truncated: bool,
}

impl<'a> Layout<'a> {
    pub(super) fn new(tree: &'a ListedTree, depth: usize) -> Self {
        let mut layout = Self { tree, depth, lines: Vec::new(), truncated: false };
        layout.dir(b"", MAX_LINES, 0);
        layout
    }

    /// Formats the entries of a directory. Returns the number of lines it did not use.
    fn dir(&mut self, place: &[u8], budget: usize, level: usize) -> usize {
        let Some(dir) = self.tree.dirs.get(place) else { return budget };
        let total = dir.entries.len() as u64 + dir.more;
        let fits = total <= budget as u64;
        let shown = if fits { dir.entries.len() } else { budget.saturating_sub(1).min(dir.entries.len()) };
        let mut left = budget.saturating_sub(if fits { shown } else { shown + 1 });
        let goes_deeper = level + 1 < self.depth;
        let is_open = |item: &TreeItem| goes_deeper && *item == TreeItem::Dir;
        let mut dirs_left = dir.entries.iter().take(shown).filter(|(_, item)| is_open(item)).count();
        for (name, item) in dir.entries.iter().take(shown) {
            let below = join(place, name);
            self.entry(name, item, &below, level);
            if is_open(item) {
                let share = left / dirs_left;
                left = left - share + self.dir(&below, share, level + 1);
                dirs_left -= 1;
            }
        }
        let hidden = total - shown as u64;
        if 0 < hidden {
            self.truncated = true;
            self.push(level, &format!("… {} more", grouped(hidden)));
        }
        left
    }

    fn entry(&mut self, name: &[u8], item: &TreeItem, place: &[u8], level: usize) {
        let text = display_text::path_text(name);
        let line = match item {
            TreeItem::File(bytes) => format!("{text}  {}", size(*bytes)),
            TreeItem::Link(target) => format!("{text} -> {}", display_text::path_text(target)),
            TreeItem::Dir => match self.tree.dirs.get(place) {
                None => format!("{text}/"),
                Some(dir) => format!("{text}/  {}", summed(dir)),
            },
        };
        self.push(level, &line);
    }

    fn push(&mut self, level: usize, line: &str) {
        self.lines.push(format!("{}{line}", "  ".repeat(level)));
    }
}

fn summed(dir: &ListedDir) -> String {
    if dir.files == 0 {
        return String::from("empty");
    }
    format!("{}, {}", counted(dir.files, "file", "files"), size(dir.bytes))
}

fn join(dir: &[u8], name: &[u8]) -> Vec<u8> {
    if dir.is_empty() { name.to_vec() } else { [dir, b"/", name].concat() }
}

/// Formats a size as `512 B`, `1.2 KB`, `34 MB`.
pub(super) fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KB", "MB", "GB", "TB", "PB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes;
    let mut unit = 0;
    while 1024 * 1024 <= value && unit + 1 < UNITS.len() {
        value /= 1024;
        unit += 1;
    }
    let (whole, tenth) = (value / 1024, value % 1024 * 10 / 1024);
    match whole {
        0..10 => format!("{whole}.{tenth} {}", UNITS[unit]),
        _ => format!("{whole} {}", UNITS[unit]),
    }
}

/// Describes what rules excluded, by name if the list is short.
pub(super) fn left_out(tree: &ListedTree) -> Vec<String> {
    const NAMED: usize = 8;
    let mut notes = Vec::new();
    let entries = tree.left_out();
    for (what, flag, ignored) in
        [("ignored", "include_ignored: true", true), ("hidden", "include_hidden: true", false)]
    {
        let names: Vec<String> = entries
            .iter()
            .filter(|entry| entry.needs.ignored == ignored)
            .map(|entry| {
                format!("{}{}", display_text::path_text(&entry.rel), if entry.is_dir { "/" } else { "" })
            })
            .collect();
        if names.is_empty() {
            continue;
        }
        let mut listed = names.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
        if NAMED < names.len() {
            listed.push_str(&format!(" and {} more", grouped((names.len() - NAMED) as u64)));
        }
        notes.push(format!("[left out, {what}: {listed} — {flag}]"));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_formatted_with_units() {
        for (bytes, want) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KB"),
            (1536, "1.5 KB"),
            (10 * 1024, "10 KB"),
            (1024 * 1024 - 1, "1023 KB"),
            (3 << 20, "3.0 MB"),
            (5 << 30, "5.0 GB"),
            (u64::MAX, "16383 PB"),
        ] {
            assert_eq!(size(bytes), want);
        }
    }
}
