//! Finds commits a command made. Undo does not revert commits, so the journal lists them.

use std::{
    fs::File,
    io::{Read as _, Seek as _, SeekFrom},
    path::Path,
};

use haft_workspace::FileState;

use super::path_tree::PathTree;

/// Maximum number of commits listed per command.
const MOST: usize = 20;
/// Maximum bytes read from a reflog per command; newer lines beyond it are ignored.
const LONGEST: u64 = 64 << 10;

/// Returns the commits that `HEAD` reflogs gained between two snapshots, as "hash subject", at most
/// [`MOST`].
pub(super) fn made(before: &PathTree, after: &PathTree) -> Vec<String> {
    let lists = after.iter().filter(|(path, _)| path.ends_with(".git/logs/HEAD"));
    let grown = lists.filter_map(|(path, node)| {
        let old = before.get(path).map_or(0, |node| len(&node.state));
        (old < len(&node.state)).then(|| commits(&tail(path, old)))
    });
    grown.flatten().take(MOST).collect()
}

fn len(state: &FileState) -> u64 {
    match state {
        FileState::File { len, .. } => *len,
        _ => 0,
    }
}

fn tail(path: &Path, from: u64) -> String {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|mut file| {
        file.seek(SeekFrom::Start(from))?;
        file.take(LONGEST).read_to_end(&mut bytes)
    });
    read.map(|_| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

/// Parses reflog lines: old hash, new hash, author and time, a tab, then the action.
fn commits(text: &str) -> Vec<String> {
    let commit = |line: &str| {
        let (head, done) = line.split_once('\t')?;
        let name = head.split(' ').nth(1)?.get(..10)?;
        let (kind, said) = done.split_once(": ")?;
        let makes = ["commit", "cherry-pick", "merge", "revert", "am", "pull", "rebase"];
        let made = makes.iter().any(|it| kind.starts_with(it)) && !said.starts_with("moving to");
        made.then(|| format!("{name} {}", haft_types::text::one_line(said, 100)))
    };
    text.lines().filter_map(commit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reflog_lines_that_made_a_commit_are_found() {
        let (old, new) = ("0".repeat(40), "0123456789abcdef0123456789abcdef01234567");
        let line = |done: &str| format!("{old} {new} A <a@b> 1700000000 +0000\t{done}\n");
        let text = [
            line("commit: first: words"),
            line("commit (amend): second"),
            line("reset: moving to HEAD~1"),
            line("checkout: moving from a to b"),
            String::from("torn"),
        ];
        assert_eq!(commits(&text.concat()), ["0123456789 first: words", "0123456789 second"]);
    }
}
