//! Ignore files, with ripgrep's precedence and scope.
//!
//! Matching against one file uses the `ignore` crate. The chain of directories is our own, because the
//! crate's walker does not report what it skips, which an honest "no matches" needs. A test compares the
//! decisions with `rg`.

use std::{
    collections::{HashMap, HashSet},
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use ignore::{
    Match,
    gitignore::{Gitignore, GitignoreBuilder},
};

use crate::fs::{self, as_path};

/// The ignore rules that apply in one directory: its own and its parents'.
#[derive(Debug)]
pub(crate) struct IgnoreRules {
    above: Option<Arc<IgnoreRules>>,
    /// `.rgignore`, `.ignore`, `.gitignore`, `.git/info/exclude`, in order of precedence.
    files: [Option<Gitignore>; 4],
    /// Whether a repository starts here, so that git rules of parents do not apply.
    is_repository: bool,
    /// Whether this directory is inside a repository, so that git rules apply.
    in_repository: bool,
    /// Whether any directory in the chain has rules.
    any: bool,
    /// `core.excludesFile`.
    global: Arc<Gitignore>,
}

const RGIGNORE: usize = 0;
const IGNORE: usize = 1;
const GITIGNORE: usize = 2;
const EXCLUDE: usize = 3;

/// Which ignore files a directory contains.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RuleFiles {
    rgignore: bool,
    ignore: bool,
    gitignore: bool,
    git: bool,
    jj: bool,
}

impl RuleFiles {
    /// Records a name from the directory listing.
    pub(crate) fn see(&mut self, name: &[u8]) {
        match name {
            b".rgignore" => self.rgignore = true,
            b".ignore" => self.ignore = true,
            b".gitignore" => self.gitignore = true,
            b".git" => self.git = true,
            b".jj" => self.jj = true,
            _ => (),
        }
    }

    /// Checks for each file on disk.
    fn look(dir: &Path) -> Self {
        let has = |name: &str| dir.join(name).symlink_metadata().is_ok();
        Self {
            rgignore: has(".rgignore"),
            ignore: has(".ignore"),
            gitignore: has(".gitignore"),
            git: has(".git"),
            jj: has(".jj"),
        }
    }

    fn is_empty(self) -> bool {
        !(self.rgignore || self.ignore || self.gitignore || self.git || self.jj)
    }
}

impl IgnoreRules {
    pub(crate) fn none() -> Arc<Self> {
        Arc::new(Self::empty(Arc::new(Gitignore::empty())))
    }

    /// Rules of the parents of `dir` and git's global rules, which are relative to `cwd`. Reads the
    /// disk.
    pub(crate) fn above(dir: &Path, cwd: &Path) -> Arc<Self> {
        let (global, _) = GitignoreBuilder::new(cwd).build_global();
        let mut rules = Arc::new(Self::empty(Arc::new(global)));
        let parents: Vec<&Path> = dir.ancestors().skip(1).collect();
        for parent in parents.into_iter().rev() {
            rules = Self::at(&rules, parent);
        }
        rules
    }

    /// Rules of a directory given by path. Reads the disk.
    pub(crate) fn at(above: &Arc<Self>, dir: &Path) -> Arc<Self> {
        Self::below(above, dir, RuleFiles::look(dir))
    }

    fn empty(global: Arc<Gitignore>) -> Self {
        Self {
            above: None,
            files: [None, None, None, None],
            is_repository: false,
            in_repository: false,
            any: false,
            global,
        }
    }

    /// Rules of a directory that contains the files in `found`.
    pub(crate) fn below(above: &Arc<Self>, dir: &Path, found: RuleFiles) -> Arc<Self> {
        if found.is_empty() {
            return Arc::clone(above);
        }
        let load = |wanted: bool, file: &str| wanted.then(|| load(dir, &dir.join(file))).flatten();
        let files = [
            load(found.rgignore, ".rgignore"),
            load(found.ignore, ".ignore"),
            load(found.gitignore, ".gitignore"),
            found.git.then(|| common_git_dir(dir)).flatten().and_then(|git| load_exclude(dir, &git)),
        ];
        let is_repository = found.git || found.jj;
        let in_repository = is_repository || above.in_repository;
        let any = above.any
            || files.iter().any(Option::is_some)
            || (in_repository && !above.in_repository && !above.global.is_empty());
        Arc::new(Self {
            above: Some(Arc::clone(above)),
            files,
            is_repository,
            in_repository,
            any,
            global: Arc::clone(&above.global),
        })
    }

    /// Whether there are any rules.
    pub(crate) fn any(&self) -> bool {
        self.any
    }

    /// Applies the rules to an absolute path.
    pub(crate) fn matched(&self, path: &Path, is_dir: bool) -> Match<()> {
        if !self.any {
            return Match::None;
        }
        let mut found = [const { Match::None }; 4];
        let mut git_counts = self.in_repository;
        let mut level = Some(self);
        while let Some(rules) = level {
            for kind in [RGIGNORE, IGNORE, GITIGNORE, EXCLUDE] {
                let counts = kind < GITIGNORE || git_counts;
                if counts
                    && found[kind].is_none()
                    && let Some(globs) = &rules.files[kind]
                {
                    found[kind] = globs.matched(path, is_dir).map(drop);
                }
            }
            git_counts &= !rules.is_repository;
            level = rules.above.as_deref();
        }
        let [rgignore, ignore, gitignore, exclude] = found;
        let strongest = rgignore.or(ignore).or(gitignore).or(exclude);
        if strongest.is_none() && self.in_repository {
            return self.global.matched(path, is_dir).map(drop);
        }
        strongest
    }

    /// Whether the parents' rules exclude `dir` or one of its ancestors.
    pub(crate) fn leave_out(&self, dir: &Path) -> bool {
        let parents: Vec<&Path> = dir.ancestors().collect();
        let is_ignored = |path: &&Path| self.matched(path, /*is_dir*/ true).is_ignore();
        parents.iter().rev().any(is_ignored)
    }

    /// Whether the directory's own files exclude everything in it, as in virtual environments and caches
    /// with a lone `*`.
    pub(crate) fn excludes_all(&self, dir: &Path) -> bool {
        // Two improbable names: a glob that matches both matches any name.
        ["\u{1}a", "\u{1}b.c"].iter().all(|name| {
            let path = dir.join(name);
            let own = self.files.iter().flatten().any(|globs| globs.matched(&path, false).is_ignore());
            own && self.matched(&path, false).is_ignore()
        })
    }
}

/// Returns those of `files` below `top` that ignore files exclude. Files elsewhere are not checked;
/// empty if `top` itself is excluded. Reads the disk.
pub fn left_out(top: &Path, files: &[PathBuf]) -> HashSet<PathBuf> {
    let above = IgnoreRules::above(top, top);
    if above.leave_out(top) {
        return HashSet::new();
    }
    let mut known: HashMap<PathBuf, (Arc<IgnoreRules>, bool)> = HashMap::new();
    known.insert(top.to_owned(), (IgnoreRules::at(&above, top), false));
    let mut found = HashSet::new();
    for file in files {
        let Ok(below) = file.strip_prefix(top) else { continue };
        let (mut dir, mut judged) = (top.to_owned(), known[top].clone());
        for name in below.parent().into_iter().flat_map(Path::components) {
            dir.push(name);
            judged = match known.get(&dir) {
                Some(known) => known.clone(),
                None => {
                    let (rules, ignored) = judged;
                    let ignored = ignored || rules.matched(&dir, /*is_dir*/ true).is_ignore();
                    let rules = if ignored { rules } else { IgnoreRules::at(&rules, &dir) };
                    known.insert(dir.clone(), (Arc::clone(&rules), ignored));
                    (rules, ignored)
                }
            };
        }
        let (rules, ignored) = judged;
        if ignored || rules.matched(file, /*is_dir*/ false).is_ignore() {
            found.insert(file.clone());
        }
    }
    found
}

fn load(dir: &Path, file: &Path) -> Option<Gitignore> {
    let bytes = fs::read_small(file)?;
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    let mut builder = GitignoreBuilder::new(dir);
    for line in bytes.split(|byte| *byte == b'\n') {
        // A line that is not UTF-8 or not a glob is skipped, as in git.
        if let Ok(line) = std::str::from_utf8(line) {
            let line = line.strip_suffix('\r').unwrap_or(line);
            builder.add_line(None, line).ok();
        }
    }
    builder.build().ok().filter(|globs| !globs.is_empty())
}

fn load_exclude(dir: &Path, git: &Path) -> Option<Gitignore> {
    load(dir, &git.join("info/exclude"))
}

/// Directory of `info/exclude`: `.git` itself, or the main repository's for a worktree.
fn common_git_dir(dir: &Path) -> Option<PathBuf> {
    let git = dir.join(".git");
    if git.is_dir() {
        return Some(git);
    }
    let linked = fs::read_small(&git)?;
    let target = trim(linked.strip_prefix(b"gitdir: ")?);
    let git = dir.join(as_path(target));
    match fs::read_small(&git.join("commondir")) {
        Some(common) => Some(git.join(OsStr::from_bytes(trim(&common)))),
        None => Some(git),
    }
}

fn trim(bytes: &[u8]) -> &[u8] {
    bytes.trim_ascii_end()
}
