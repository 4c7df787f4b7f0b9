//! Finds work that exists only in a worktree.

use std::{
    collections::{BTreeSet, HashSet},
    fs,
    path::{Path, PathBuf},
};

use haft_git::parse_status;

use crate::{
    WorktreeManager, WorktreeRecord, WorktreeState,
    include_files::{changed, paths_of},
    repository::RepositoryInfo,
    worktree_record::IncludedFile,
};

/// Maximum number of entries examined.
const MAX_ENTRIES: usize = 1_000_000;

/// Work that exists only in a worktree.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UnsavedWork {
    /// HEAD commit.
    pub head: String,
    /// Files with uncommitted changes.
    pub changed: Vec<ChangedFile>,
    /// Whether the index differs from HEAD.
    pub is_staged: bool,
    /// Ignored files that were created or changed in it.
    pub ignored: Vec<IncludedFile>,
    /// Number of commits on no other branch, tag or remote.
    pub commits: usize,
    /// Commits on no branch at all, reachable only through the worktree's own state (such as reflogs).
    pub loose: Vec<String>,
    /// Git operation in progress, such as a rebase.
    pub operation: Option<&'static str>,
    /// Reasons why it cannot be removed without losing something.
    pub obstacles: Vec<String>,
}

/// A changed file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ChangedFile {
    /// Path relative to the worktree.
    pub path: PathBuf,
    /// Its current state; `None` if it was deleted.
    pub(crate) now: Option<IncludedFile>,
}

impl UnsavedWork {
    /// Whether nothing would be lost with the worktree.
    pub fn is_untouched(&self) -> bool {
        self.changed.is_empty()
            && !self.is_staged
            && self.ignored.is_empty()
            && self.commits == 0
            && self.loose.is_empty()
            && self.operation.is_none()
            && self.obstacles.is_empty()
    }

    /// Whether at most ignored files would be lost.
    pub fn is_clean(&self) -> bool {
        let counted = Self { ignored: Vec::new(), obstacles: Vec::new(), ..self.clone() };
        counted.is_untouched()
    }

    /// Short description of the work.
    pub fn words(&self) -> String {
        let counts = [
            (self.changed.len(), "file(s) with changes that are not committed"),
            (self.commits, "commit(s) that are on no other branch"),
            (self.loose.len(), "commit(s) that no branch has"),
            (self.ignored.len(), "ignored file(s) made or changed in it"),
        ];
        let mut words: Vec<String> =
            counts.into_iter().filter(|it| 0 < it.0).map(|(count, what)| format!("{count} {what}")).collect();
        words.extend(self.operation.map(|it| format!("{it} under way")));
        words.extend(self.obstacles.iter().cloned());
        if words.is_empty() { String::from("nothing that is not elsewhere") } else { words.join(", ") }
    }
}

/// Files in the git directory that indicate an operation in progress.
const OPERATIONS: [(&str, &str); 6] = [
    ("rebase-merge", "a rebase"),
    ("rebase-apply", "a rebase"),
    ("MERGE_HEAD", "a merge"),
    ("CHERRY_PICK_HEAD", "a cherry-pick"),
    ("REVERT_HEAD", "a revert"),
    ("BISECT_LOG", "a bisection"),
];

/// Files in the git directory that contain commit ids.
const NAMING: [&str; 9] = [
    "HEAD",
    "ORIG_HEAD",
    "MERGE_HEAD",
    "CHERRY_PICK_HEAD",
    "REVERT_HEAD",
    "REBASE_HEAD",
    "rebase-merge/orig-head",
    "rebase-merge/stopped-sha",
    "rebase-apply/orig-head",
];

impl WorktreeManager {
    /// Inspects a worktree. Read-only. Blocks: runs git.
    pub fn inspect(&self, record: &WorktreeRecord) -> Result<UnsavedWork, String> {
        if record.state == WorktreeState::Making {
            return Err(self.cut_off_words(record));
        }
        let repository = self.runner.repository_of(record)?;
        let mut found = UnsavedWork::default();
        let line = repository
            .line("status")
            .flag("--porcelain=v2")
            .flag("-z")
            .flag("--branch")
            .flag("--untracked-files=all")
            .flag("--no-renames")
            .flag("--ignore-submodules=none")
            .text();
        let said = self.runner.run(&record.path, &line)?.checked("git cannot say what changed")?;
        let status = parse_status(&said.stdout);
        found.head = status.head.clone().unwrap_or_default();
        if found.head.is_empty() {
            found.obstacles.push(String::from("it is at no commit"));
        }
        found.is_staged = status.entries.iter().any(|it| it.is_staged() || it.is_conflict());
        let paths: BTreeSet<PathBuf> = status.entries.iter().map(|it| PathBuf::from(&it.path)).collect();
        let paths = paths.into_iter().chain(self.unwatched(&repository, record)?).collect::<BTreeSet<_>>();
        for path in paths {
            let now = look(&record.path, &path);
            // A symlink of ours that git does not count as ignored.
            if now.as_ref().is_some_and(|it| record.included.contains(it)) {
                continue;
            }
            found.changed.push(ChangedFile { path, now });
        }
        found.ignored = self.ignored(&repository, record)?;
        found.commits = self.own_commits(&repository, record)?;
        found.loose = self.loose(&repository, record)?;
        found.operation = OPERATIONS.iter().find(|it| record.admin_dir.join(it.0).exists()).map(|it| it.1);
        found.obstacles.extend(nested(&record.path));
        let listed = self.runner.worktrees(&repository)?;
        match listed.iter().find(|it| it.path == record.path) {
            None => found.obstacles.push(String::from("git does not know it")),
            Some(it) => found.obstacles.extend(it.locked.as_ref().map(|why| format!("it is locked: {why}"))),
        }
        Ok(found)
    }

    /// Existing files that git was told not to check (assume-unchanged, skip-worktree).
    fn unwatched(
        &self,
        repository: &RepositoryInfo,
        record: &WorktreeRecord,
    ) -> Result<Vec<PathBuf>, String> {
        let line = repository.line("ls-files").flag("-v").flag("-z").text();
        let said = self.runner.run(&record.path, &line)?.checked("git cannot list its files")?;
        let marked = said.stdout.split(|it| *it == 0).filter_map(|entry| {
            let (mark, path) = (entry.first()?, entry.get(2..)?);
            (mark.is_ascii_lowercase() || *mark == b'S').then(|| paths_of(path)).and_then(|mut it| it.pop())
        });
        Ok(marked.filter(|path| record.path.join(path).symlink_metadata().is_ok()).collect())
    }

    fn ignored(
        &self,
        repository: &RepositoryInfo,
        record: &WorktreeRecord,
    ) -> Result<Vec<IncludedFile>, String> {
        let line = repository.line("ls-files").flag("--others").flag("--ignored").flag("--exclude-standard");
        let said = self.runner.run(&record.path, &line.flag("-z").text())?;
        let said = said.checked("git cannot list ignored files")?;
        let found = paths_of(&said.stdout).into_iter().filter_map(|path| look(&record.path, &path));
        Ok(found.filter(|it| !record.included.contains(it)).collect())
    }

    fn own_commits(&self, repository: &RepositoryInfo, record: &WorktreeRecord) -> Result<usize, String> {
        let mut line = repository.line("rev-list").flag("--count").flag("--ignore-missing").plain("HEAD");
        if let Some(branch) = record.branch.as_ref().filter(|it| self.has_branch(repository, it)) {
            line = line.plain(&format!("refs/heads/{branch}"));
        }
        line = line.flag("--not").plain(&record.base);
        if let Some(branch) = &record.branch {
            line = line.value("--exclude=", branch);
        }
        let line = line.flag("--branches").flag("--tags").flag("--remotes").text();
        let said = self.runner.run(&record.path, &line)?.checked("git cannot count commits")?;
        said.text().parse().map_err(|_| String::from("git cannot count commits"))
    }

    pub(crate) fn has_branch(&self, repository: &RepositoryInfo, branch: &str) -> bool {
        let line = repository.line("rev-parse").flag("--verify").flag("--quiet");
        let line = line.plain(&format!("refs/heads/{branch}")).text();
        self.runner.run(&repository.top, &line).is_ok_and(|it| it.code == 0)
    }

    /// The newest of the commits on no branch, tag or remote: results of a reset, an amend or a detached
    /// HEAD.
    pub(crate) fn loose(
        &self,
        repository: &RepositoryInfo,
        record: &WorktreeRecord,
    ) -> Result<Vec<String>, String> {
        let mut known: BTreeSet<String> = BTreeSet::new();
        for name in NAMING {
            known.extend(hashes(&record.admin_dir.join(name)));
        }
        known.extend(hashes(&record.admin_dir.join("logs/HEAD")));
        if let Some(branch) = &record.branch {
            known.extend(hashes(&record.common_dir.join("logs/refs/heads").join(branch)));
        }
        for file in files_below(&record.admin_dir.join("refs")) {
            known.extend(hashes(&file));
        }
        if known.is_empty() {
            return Ok(Vec::new());
        }
        let mut names: String = known.iter().fold(String::new(), |all, it| all + it + "\n");
        names.push('\n');
        let line = repository
            .line("rev-list")
            .flag("--parents")
            .flag("--ignore-missing")
            .flag("--stdin")
            .flag("--not")
            .plain(&record.base)
            .flag("--branches")
            .flag("--tags")
            .flag("--remotes")
            .flag("--glob=refs/haft/rescue")
            .text();
        let said = self.runner.feed(&repository.top, &line, names.into_bytes())?;
        let said = said.checked("git cannot find out which commits are nowhere else")?;
        let (mut all, mut parents) = (Vec::new(), HashSet::new());
        for line in said.text().lines() {
            let mut words = line.split_whitespace().map(str::to_owned);
            all.extend(words.next());
            parents.extend(words);
        }
        Ok(all.into_iter().filter(|it| !parents.contains(it)).collect())
    }
}

/// Current state of a file; `None` if it does not exist.
pub(crate) fn look(top: &Path, path: &Path) -> Option<IncludedFile> {
    let meta = top.join(path).symlink_metadata().ok()?;
    Some(IncludedFile { path: path.to_owned(), len: meta.len(), changed: changed(&meta) })
}

/// Commit ids in a file of the git directory, at most the newest hundred thousand.
fn hashes(file: &Path) -> Vec<String> {
    let text = fs::read(file).map(|it| String::from_utf8_lossy(&it).into_owned()).unwrap_or_default();
    let is_hash = |it: &&str| {
        matches!(it.len(), 40 | 64)
            && it.bytes().all(|it| it.is_ascii_hexdigit())
            && it.bytes().any(|it| it != b'0')
    };
    let lines = text.lines().rev().take(100_000);
    let words = lines.flat_map(|line| line.split_whitespace().take(2).collect::<Vec<_>>());
    words.filter(is_hash).map(str::to_owned).collect()
}

fn files_below(dir: &Path) -> Vec<PathBuf> {
    let (mut found, mut open) = (Vec::new(), vec![dir.to_owned()]);
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten().take(10_000) {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => open.push(entry.path()),
                Ok(kind) if kind.is_file() => found.push(entry.path()),
                _ => (),
            }
        }
    }
    found
}

/// Nested repositories, whose content git does not report here.
pub(crate) fn nested(top: &Path) -> Vec<String> {
    let (mut found, mut seen) = (Vec::new(), 0_usize);
    let mut open = vec![top.to_owned()];
    while let Some(dir) = open.pop() {
        let Ok(entries) = fs::read_dir(&dir) else {
            found.push(format!("{} cannot be read", dir.display()));
            continue;
        };
        for entry in entries.flatten() {
            seen += 1;
            if MAX_ENTRIES < seen {
                found.push(format!("more than {MAX_ENTRIES} files are in it"));
                return found;
            }
            if entry.file_name() == ".git" && dir != top {
                found.push(format!("{} is another repository in it", dir.display()));
            } else if entry.file_type().is_ok_and(|it| it.is_dir()) {
                open.push(entry.path());
            }
        }
    }
    found.truncate(5);
    found
}
