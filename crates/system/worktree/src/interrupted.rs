//! Interrupted worktrees: git or its caller was killed while creating them. Most contain no work, only
//! part of their commit; those are removed silently. Others are removed only on request, after saving
//! their content.

use std::{
    collections::HashMap,
    fs,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    time::{Duration, UNIX_EPOCH},
};

use haft_workspace::{ChangeOrigin, Workspace};

use crate::{
    OwnerProcess, RemovedWorktree, WorktreeManager, WorktreeRecord, WorktreeState, include_files::paths_of,
    inspect::nested, journal_backup::JournalBackup, repository::RepositoryInfo, rescue_commits::c_quoted,
};

/// Content of the lock file that git writes while creating a worktree.
const GITS_OWN_LOCK: &str = "initializing";
/// Maximum number of files compared with what they should contain.
const MAX_BEGUN: usize = 200;

/// State of an interrupted worktree.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct InterruptedWorktree {
    /// Files, relative to the worktree, that are neither in the commit nor the beginning of one that is.
    pub foreign: Vec<PathBuf>,
    /// Commits created in it.
    pub commits: Vec<String>,
    /// Its administrative git directories.
    admin_dirs: Vec<PathBuf>,
    /// Reasons why it cannot be removed without losing something.
    obstacles: Vec<String>,
}

/// State of the branch of a removed worktree.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum BranchCleanup {
    /// It does not exist.
    Gone,
    /// It exists and contains no own commits.
    Empty,
    /// It contains commits.
    Used,
}

impl InterruptedWorktree {
    /// Whether nothing would be lost with the worktree.
    pub fn is_untouched(&self) -> bool {
        self.foreign.is_empty() && self.commits.is_empty() && self.obstacles.is_empty()
    }

    /// Short description of its content.
    pub fn words(&self) -> String {
        let counts = [
            (self.foreign.len(), "file(s) that are not of its commit"),
            (self.commits.len(), "commit(s) made in it"),
        ];
        let counts = counts.into_iter().filter(|it| 0 < it.0).map(|(count, what)| format!("{count} {what}"));
        let words: Vec<String> = counts.chain(self.obstacles.iter().cloned()).collect();
        if words.is_empty() { String::from("nothing that is not in its commit") } else { words.join(", ") }
    }
}

impl WorktreeManager {
    /// Inspects an interrupted worktree. Read-only. Blocks: runs git.
    pub fn inspect_cut_off(&self, record: &WorktreeRecord) -> Result<InterruptedWorktree, String> {
        let repository = self.runner.repository(&record.top)?;
        if repository.common_dir != record.common_dir {
            return Err(format!("{} belongs to another repository now", record.top.display()));
        }
        let above = record.path.parent().unwrap_or(&record.path);
        if haft_paths::real(above).is_ok_and(|it| it != above) {
            return Err(format!("{} leads elsewhere now: it is left alone", above.display()));
        }
        let mut found =
            InterruptedWorktree { admin_dirs: admin_dirs(record), ..InterruptedWorktree::default() };
        match record.path.symlink_metadata() {
            Err(_) => (),
            Ok(meta) if meta.is_dir() => {
                found.foreign = self.foreign(&repository, record)?;
                found.obstacles.extend(nested(&record.path));
            }
            Ok(_) => return Err(format!("{} is no directory: it is left alone", record.path.display())),
        }
        for admin in &found.admin_dirs {
            let lock = fs::read_to_string(admin.join("locked")).unwrap_or_default();
            if !lock.is_empty() && lock.trim() != GITS_OWN_LOCK {
                found.obstacles.push(format!("it is locked: {}", lock.trim()));
            }
            let seen = WorktreeRecord { admin_dir: admin.clone(), ..record.clone() };
            found.commits.extend(self.loose(&repository, &seen)?);
        }
        found.commits.extend(self.tip_of_its_own(&repository, record)?);
        found.commits.sort();
        found.commits.dedup();
        Ok(found)
    }

    /// Description for a list of worktrees.
    pub(crate) fn cut_off_words(&self, record: &WorktreeRecord) -> String {
        if record.owner.is_alive() {
            return String::from("it is being made");
        }
        match self.inspect_cut_off(record) {
            Ok(found) => format!(
                "making it was cut off; in it is {}: `haft worktrees remove {}` keeps that and clears it away",
                found.words(),
                record.name
            ),
            Err(why) => format!("making it was cut off: {why}"),
        }
    }

    /// Removes the worktree if it contains no work; otherwise the error describes the work.
    pub(crate) fn clear_untouched(&self, record: &WorktreeRecord) -> Result<BranchCleanup, String> {
        let found = self.inspect_cut_off(record)?;
        if found.is_untouched() {
            self.clear(record, &found)
        } else {
            Err(format!(
                "making {} was cut off once, and in it is {}: `haft worktrees remove {}` keeps that and clears it \
                 away; or choose another name",
                record.path.display(),
                found.words(),
                record.name
            ))
        }
    }

    /// Removes an interrupted worktree. First saves what is not in its commit, in the journal and as
    /// named commits.
    pub(crate) fn remove_cut_off(
        &self,
        record: &mut WorktreeRecord,
        workspace: &Workspace,
        origin: &ChangeOrigin,
    ) -> Result<RemovedWorktree, String> {
        let found = self.inspect_cut_off(record)?;
        let stays = |why: &str| format!("{} stays: {why}", record.path.display());
        if !found.obstacles.is_empty() {
            return Err(stays(&found.obstacles.join(", ")));
        }
        let repository = self.runner.repository(&record.top)?;
        let loose = self.nowhere_else(&repository, record, &found.commits)?;
        let rescued = self.name_commits(&repository, record, loose)?;
        let foreign = found.foreign.iter().map(|it| record.path.join(it));
        let Some(foreign) = JournalBackup::only(foreign) else {
            return Err(stays("the files in it are too many or too large to keep"));
        };
        let undo = if found.foreign.is_empty() {
            None
        } else {
            Some(foreign.with_directories_from(&record.path).keep(workspace, origin)?)
        };
        record.rescued.extend(rescued.iter().cloned());
        record.undo.clone_from(&undo);
        self.registry.write(record)?;
        let again = self.inspect_cut_off(record)?;
        if again.foreign != found.foreign {
            return Err(format!("{} stays: something in it changed just now", record.path.display()));
        }
        let branch = self.clear(record, &found)?;
        record.holder = None;
        record.owner = OwnerProcess::none();
        if branch != BranchCleanup::Empty {
            record.state = WorktreeState::Removed;
        }
        self.registry.write(record)?;
        let notes = match (branch, &record.branch) {
            (BranchCleanup::Gone, _) | (_, None) => Vec::new(),
            (BranchCleanup::Used, Some(name)) => vec![format!("Its branch {name} stays.")],
            (BranchCleanup::Empty, Some(name)) => vec![format!(
                "Its branch {name}, on which nothing is, could not be removed now; git may hold a lock ({}).",
                record.common_dir.join("packed-refs.lock").display()
            )],
        };
        let branch_removed = branch == BranchCleanup::Gone;
        Ok(RemovedWorktree { rescued, undo, branch_removed, notes, ..RemovedWorktree::default() })
    }

    /// Deletes its files, its administrative directories and an empty branch.
    fn clear(&self, record: &WorktreeRecord, found: &InterruptedWorktree) -> Result<BranchCleanup, String> {
        let places = [&record.path].into_iter().chain(&found.admin_dirs);
        for place in places.filter(|it| it.symlink_metadata().is_ok()) {
            fs::remove_dir_all(place)
                .map_err(|err| format!("{} cannot be removed: {err}", place.display()))?;
        }
        // Git removes this directory with the last worktree; fails if there are others.
        fs::remove_dir(record.common_dir.join("worktrees")).ok();
        let Some(branch) = &record.branch else { return Ok(BranchCleanup::Gone) };
        let lock = record.common_dir.join("refs/heads").join(format!("{branch}.lock"));
        // Only the process that died could hold this lock.
        if was_made_since(&lock, record.made) {
            fs::remove_file(&lock).ok();
        }
        let repository = self.runner.repository(&record.top)?;
        if !self.has_branch(&repository, branch) {
            return Ok(BranchCleanup::Gone);
        }
        let listed = self.runner.worktrees(&repository)?;
        let is_used = listed.iter().any(|it| it.branch.as_ref() == Some(branch));
        if is_used || self.tip_of_its_own(&repository, record)?.is_some() {
            return Ok(BranchCleanup::Used);
        }
        let removed = self.remove_branch(&repository, record, &mut Vec::new());
        Ok(if removed { BranchCleanup::Gone } else { BranchCleanup::Empty })
    }

    /// Tip of its branch, if it moved from the start commit.
    fn tip_of_its_own(
        &self,
        repository: &RepositoryInfo,
        record: &WorktreeRecord,
    ) -> Result<Option<String>, String> {
        let Some(branch) = record.branch.as_ref().filter(|it| self.has_branch(repository, it)) else {
            return Ok(None);
        };
        let line =
            repository.line("rev-parse").flag("--verify").plain(&format!("refs/heads/{branch}")).text();
        let tip = self.runner.run(&repository.top, &line)?.checked("git cannot find its branch")?.text();
        Ok(Some(tip).filter(|it| *it != record.base))
    }

    /// Those of `commits` that no branch contains.
    fn nowhere_else(
        &self,
        repository: &RepositoryInfo,
        record: &WorktreeRecord,
        commits: &[String],
    ) -> Result<Vec<String>, String> {
        let on_branch = self.tip_of_its_own(repository, record)?;
        Ok(commits.iter().filter(|it| Some(*it) != on_branch.as_ref()).cloned().collect())
    }

    /// Files that are neither in the commit nor the beginning of one that is.
    fn foreign(&self, repository: &RepositoryInfo, record: &WorktreeRecord) -> Result<Vec<PathBuf>, String> {
        let line = repository.line("ls-tree").flag("-r").flag("-z").plain(&record.base).text();
        let listed = self.runner.run(&repository.top, &line)?.checked("git cannot list its commit")?;
        let mut wanted: HashMap<PathBuf, String> = HashMap::new();
        for entry in listed.stdout.split(|it| *it == 0) {
            let Some(tab) = entry.iter().position(|it| *it == b'\t') else { continue };
            let hash =
                String::from_utf8_lossy(&entry[..tab]).split(' ').nth(2).unwrap_or_default().to_owned();
            if let Some(path) = paths_of(&entry[tab + 1..]).pop() {
                wanted.insert(path, hash);
            }
        }
        let (mut foreign, mut begun, mut files) = (Vec::new(), Vec::new(), Vec::new());
        for path in files_of(&record.path)? {
            match wanted.get(&path) {
                None => foreign.push(path),
                Some(hash) if record.path.join(&path).symlink_metadata().is_ok_and(|it| it.is_file()) => {
                    files.push((path, hash));
                }
                Some(hash) => begun.push((path, hash)),
            }
        }
        let names: Vec<u8> = files.iter().flat_map(|(path, _)| c_quoted(&record.path.join(path))).collect();
        let line = repository.line("hash-object").flag("--no-filters").flag("--stdin-paths").text();
        let said = self.runner.feed(&repository.top, &line, names)?.checked("git cannot compare files")?;
        let text = said.text();
        let hashes: Vec<&str> = text.lines().collect();
        if hashes.len() != files.len() {
            return Err(String::from("git compared fewer files than it was given"));
        }
        let different = files.into_iter().zip(hashes).filter(|((_, hash), found)| hash != found);
        begun.extend(different.map(|(file, _)| file));
        for (at, (path, hash)) in begun.into_iter().enumerate() {
            if MAX_BEGUN <= at || !self.is_begun(repository, &record.path.join(&path), hash)? {
                foreign.push(path);
            }
        }
        foreign.sort();
        Ok(foreign)
    }

    /// Whether a file is a prefix of its committed content, or a symlink equal to it.
    fn is_begun(&self, repository: &RepositoryInfo, path: &Path, hash: &str) -> Result<bool, String> {
        let line = repository.line("cat-file").flag("blob").plain(hash).text();
        let whole = self.runner.run(&repository.top, &line)?.checked("git cannot read its commit")?.stdout;
        let meta = path.symlink_metadata().map_err(|err| format!("{}: {err}", path.display()))?;
        if meta.is_symlink() {
            return Ok(fs::read_link(path).is_ok_and(|it| it.as_os_str().as_bytes() == whole));
        }
        Ok(meta.is_file() && fs::read(path).is_ok_and(|it| whole.starts_with(&it)))
    }
}

/// All entries that are not directories, except the `.git` file.
fn files_of(top: &Path) -> Result<Vec<PathBuf>, String> {
    let (mut found, mut open) = (Vec::new(), vec![top.to_owned()]);
    while let Some(dir) = open.pop() {
        let unreadable = |err| format!("{} cannot be read: {err}", dir.display());
        for entry in fs::read_dir(&dir).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let path = entry.path();
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => open.push(path),
                _ if path == top.join(".git") => (),
                _ => found.extend(path.strip_prefix(top).map(Path::to_owned)),
            }
        }
    }
    Ok(found)
}

/// Administrative directories of a worktree: those that refer to it, and an incomplete one with its
/// name.
fn admin_dirs(record: &WorktreeRecord) -> Vec<PathBuf> {
    let name = record.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let link = record.path.join(".git");
    let is_it = |admin: &PathBuf| {
        let leads = fs::read_to_string(admin.join("gitdir")).unwrap_or_default();
        if !leads.trim().is_empty() {
            return Path::new(leads.trim_end()) == link;
        }
        let own = admin.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let rest = own.strip_prefix(&name);
        let is_named = rest.is_some_and(|it| it.bytes().all(|byte| byte.is_ascii_digit()));
        let mut entries = fs::read_dir(admin).into_iter().flatten().flatten();
        let is_bare = entries.all(|it| it.file_name() == "locked" || it.file_name() == "gitdir");
        is_named && is_bare && was_made_since(admin, record.made)
    };
    let all = fs::read_dir(record.common_dir.join("worktrees")).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = all
        .filter(|it| it.file_type().is_ok_and(|it| it.is_dir()))
        .map(|it| it.path())
        .filter(is_it)
        .collect();
    found.sort();
    found
}

/// Whether a path was modified after `moment` (milliseconds since 1970).
fn was_made_since(path: &Path, moment: u64) -> bool {
    // File system clocks may lag slightly.
    let moment = UNIX_EPOCH + Duration::from_millis(moment.saturating_sub(2_000));
    path.symlink_metadata().and_then(|it| it.modified()).is_ok_and(|it| moment <= it)
}
