//! Describes what an operation may change as a command line that removes it, the form that the undo of
//! commands analyses.

use std::path::Path;

use haft_git::{RepositoryConfig, quoted};

use crate::bash::OPAQUE;

/// Entries of the git directory that an operation may create or remove.
const NAMES: &[&str] = &[
    "HEAD",
    "ORIG_HEAD",
    "FETCH_HEAD",
    "MERGE_HEAD",
    "MERGE_MODE",
    "MERGE_MSG",
    "MERGE_RR",
    "MERGE_AUTOSTASH",
    "TAG_EDITMSG",
    "AUTO_MERGE",
    "SQUASH_MSG",
    "CHERRY_PICK_HEAD",
    "REVERT_HEAD",
    "REBASE_HEAD",
    "COMMIT_EDITMSG",
    "config",
    "index",
    "packed-refs",
    "reftable",
    "refs",
    "logs",
    "rebase-merge",
    "rebase-apply",
    "sequencer",
    "rr-cache",
    "shallow",
];

/// Returns the command line. If the operation touches files, it covers the whole working tree.
pub(super) fn line(
    facts: &RepositoryConfig,
    touches_files: bool,
    roots_hold: impl Fn(&Path) -> bool,
) -> String {
    let mut dirs = vec![&facts.git_dir];
    if facts.common_dir != facts.git_dir {
        dirs.push(&facts.common_dir);
    }
    let places = dirs.into_iter().flat_map(|dir| NAMES.iter().map(move |name| dir.join(name)));
    let mut words: Vec<String> = places.map(|it| quoted(&it.to_string_lossy())).collect();
    let mut rest = String::new();
    if touches_files {
        match &facts.top {
            Some(top) if !roots_hold(top) => words.push(quoted(&top.to_string_lossy())),
            _ => rest = format!("; {OPAQUE}"),
        }
    }
    format!("rm -rf -- {}{rest}", words.join(" "))
}
