//! Determines where a command may change something.

use std::path::{Path, PathBuf};

use haft_bash_analysis::{
    AnalyzedCommand, CommandClass, EffectAccess, EffectOrigin, EffectTarget, LineAnalysis,
};

/// The paths to compare before and after a command.
#[derive(Debug, Default)]
pub(crate) struct Scope {
    /// Paths the command line names.
    pub(crate) named: Vec<PathBuf>,
    /// Whether the command may change anything in the workspace.
    pub(crate) anywhere: bool,
    /// Directories named as arguments of a command in [`CHANGERS`]. Outside the workspace they are too
    /// large to store, so a note says that they are not covered.
    pub(crate) trees: Vec<PathBuf>,
}

/// Commands that change or remove their arguments but whose effects are not analysed in detail.
const CHANGERS: &[&str] = &[
    "chattr", "chgrp", "chmod", "chown", "cp", "dd", "git", "install", "ln", "mv", "patch", "rm", "rmdir",
    "rsync", "shred", "srm", "tee", "truncate", "unlink",
];

/// Commands that may create a symbolic link at a path that another part of the line writes to.
const LINK_MOVERS: &[&str] = &["cp", "install", "mv", "rsync"];

/// Maximum number of entries of a directory tree that are checked for symbolic links; a larger tree
/// counts as containing one.
const MAX_ENTRIES: usize = 2_000;

/// Determines what a command line may change, from its analysis. Reads the file system to resolve links.
pub(crate) fn scope(analysis: &LineAnalysis) -> Scope {
    let mut scope = Scope { anywhere: !analysis.doubts.is_empty(), ..Scope::default() };
    for part in &analysis.parts {
        if part.class == CommandClass::Other || !part.doubts.is_empty() {
            scope.anywhere = true;
        }
        let changes =
            part.effects.iter().filter(|it| matches!(it.access, EffectAccess::Write | EffectAccess::Delete));
        for effect in changes {
            match &effect.target {
                EffectTarget::Path(path) => scope.named.extend(places(path)),
                EffectTarget::Pattern(pattern) => scope.named.extend(places(&fixed(pattern))),
                EffectTarget::Unknown(_) => scope.anywhere = true,
            }
        }
        if part.class == CommandClass::Other && changes_what_it_names(part) {
            scope.add_mentioned(part);
        }
    }
    scope.anywhere |= writes_through_new_links(&analysis.parts);
    scope.trees.sort();
    scope.trees.dedup();
    scope.named.sort();
    scope.named.dedup();
    scope
}

fn changes_what_it_names(part: &AnalyzedCommand) -> bool {
    runs_one_of(part, CHANGERS)
}

fn runs_one_of(part: &AnalyzedCommand, programs: &[&str]) -> bool {
    let name = |words: &Vec<String>| {
        words.first().and_then(|word| word.rsplit('/').next()).is_some_and(|name| programs.contains(&name))
    };
    part.faces.refuse.iter().any(name)
}

/// Whether one part may create a symbolic link through which another part writes: that changes a file
/// the line does not name.
fn writes_through_new_links(parts: &[AnalyzedCommand]) -> bool {
    let writes = |part: &AnalyzedCommand| {
        part.effects.iter().any(|effect| matches!(effect.access, EffectAccess::Write))
    };
    let places_links = |part: &AnalyzedCommand| {
        runs_one_of(part, &["ln"])
            || runs_one_of(part, LINK_MOVERS)
                && part.effects.iter().any(|effect| match &effect.target {
                    EffectTarget::Path(path) => holds_link(path),
                    EffectTarget::Pattern(pattern) => holds_link(&fixed(pattern)),
                    EffectTarget::Unknown(_) => true,
                })
    };
    parts.iter().enumerate().any(|(placer, part)| {
        parts.iter().enumerate().any(|(writer, other)| writer != placer && writes(other))
            && places_links(part)
    })
}

/// Whether the path is a symbolic link, or a directory that contains one or is too large to check.
fn holds_link(path: &Path) -> bool {
    let Ok(meta) = path.symlink_metadata() else { return false };
    let mut directories = if meta.is_dir() { vec![path.to_owned()] } else { Vec::new() };
    let mut entries = 0;
    while let Some(directory) = directories.pop() {
        let Ok(found) = directory.read_dir() else { return true };
        for entry in found {
            let Ok((entry, kind)) = entry.and_then(|it| it.file_type().map(|kind| (it, kind))) else {
                return true;
            };
            entries += 1;
            if kind.is_symlink() || MAX_ENTRIES < entries {
                return true;
            }
            if kind.is_dir() {
                directories.push(entry.path());
            }
        }
    }
    meta.is_symlink()
}

impl Scope {
    /// Adds files named as arguments as if the command were known to write them.
    fn add_mentioned(&mut self, part: &AnalyzedCommand) {
        let mentions = part.effects.iter().filter(|it| it.origin == EffectOrigin::Mention);
        for effect in mentions {
            let EffectTarget::Path(path) = &effect.target else { continue };
            match path.symlink_metadata() {
                Ok(meta) if meta.is_dir() => self.trees.push(haft_paths::lexical(path)),
                Ok(_) => self.named.extend(places(path)),
                Err(_) => {}
            }
        }
    }
}

/// Returns the part of a glob before the first component with a wildcard.
fn fixed(pattern: &Path) -> PathBuf {
    let is_plain = |part: &std::path::Component<'_>| {
        !part.as_os_str().as_encoded_bytes().iter().any(|it| b"*?[]{}()\\".contains(it))
    };
    pattern.components().take_while(is_plain).collect()
}

/// Returns the path with its parent resolved, plus the target if it is a symbolic link. For a path that
/// does not exist, uses the topmost directory that would be created. Leaves out `/dev`, `/proc` and
/// `/sys`. A write to a link with a missing target creates the target.
fn places(path: &Path) -> Vec<PathBuf> {
    let path = outermost_missing(path);
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return vec![path.to_owned()];
    };
    let own = parent.canonicalize().unwrap_or_else(|_| parent.to_owned()).join(name);
    let behind = haft_paths::real(path).ok().map(|it| outermost_missing(&it).to_owned());
    let behind = behind.filter(|it| *it != own);
    std::iter::once(own).chain(behind).filter(|it| !is_special(it)).collect()
}

/// The path itself if something is there.
fn outermost_missing(path: &Path) -> &Path {
    path.ancestors().take_while(|it| it.symlink_metadata().is_err()).last().unwrap_or(path)
}

fn is_special(path: &Path) -> bool {
    // Shared memory holds ordinary files.
    ["/dev", "/proc", "/sys"].iter().any(|it| path.starts_with(it)) && !path.starts_with("/dev/shm")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_in_shared_memory_are_covered_and_devices_are_not() {
        for (path, covered) in
            [("/dev/shm/haft-work/a", true), ("/dev/null", false), ("/proc/self/oom_score_adj", false)]
        {
            assert_eq!(!places(Path::new(path)).is_empty(), covered, "{path}");
        }
    }

    #[test]
    fn target_of_a_link_to_nothing_is_covered() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        std::os::unix::fs::symlink("a", top.join("y")).unwrap();
        std::os::unix::fs::symlink("y", top.join("z")).unwrap();
        for name in ["y", "z"] {
            assert_eq!(places(&top.join(name)), [top.join(name), top.join("a")], "{name}");
        }
    }
}
