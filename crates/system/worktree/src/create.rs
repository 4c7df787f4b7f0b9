//! Creates worktrees.

use std::{
    fs, io,
    path::{Component, Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use haft_git::parse_status;

use crate::{
    IncludedFile, OwnerProcess, WorktreeManager, WorktreeRecord, WorktreeState, WorktreeUser,
    interrupted::BranchCleanup, repository::RepositoryInfo,
};

/// Directory of worktrees, below the main checkout.
const PLACE: [&str; 2] = [".claude", "worktrees"];
/// Maximum number of changed files listed by name.
const NAMED_FILES: usize = 10;

/// Request to create a worktree.
#[derive(Clone, Debug)]
pub struct CreateWorktree<'a> {
    /// Working directory of the requester.
    pub from: &'a Path,
    /// Name of the worktree. The caller must have checked that it is valid in a directory and a branch
    /// name.
    pub name: &'a str,
    /// The session and agent that will work in it.
    pub holder: WorktreeUser,
    /// The start commit.
    pub base: WorktreeBase,
    /// Partial content.
    pub shape: WorktreeContents,
}

/// Partial content of a new worktree; by default all files of the commit.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct WorktreeContents {
    /// Ignored directories of the checkout to symlink.
    pub linked: Vec<String>,
    /// Directories to check out; empty for all.
    pub sparse: Vec<String>,
}

/// Start commit of a worktree.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum WorktreeBase {
    /// HEAD of the requester's checkout.
    #[default]
    Head,
    /// The main branch of `origin`, as last fetched.
    Fresh,
}

/// A worktree that is ready for use.
#[derive(Clone, Debug)]
pub struct CreatedWorktree {
    /// Its stored record.
    pub record: WorktreeRecord,
    /// Its branch.
    pub branch: Option<String>,
    /// Notes for the user or model.
    pub notes: Vec<String>,
}

impl WorktreeManager {
    /// Creates a worktree, or reuses an existing one of that name that is not in use. `may_copy` decides
    /// which ignored files may be read and copied. Blocks: runs git.
    pub fn make(
        &self,
        order: &CreateWorktree<'_>,
        may_copy: &dyn Fn(&Path) -> bool,
    ) -> Result<CreatedWorktree, String> {
        let repository = self.runner.repository(order.from)?;
        let flat = order.name.replace('/', "+");
        let place = place_for(&repository.main)?;
        let path = place.join(&flat);
        let branch = format!("worktree-{flat}");
        let _lock = self.registry.lock(&path)?;
        // Remove an interrupted worktree of that name if it contains no work.
        let left = self
            .registry
            .read(&path)
            .filter(|it| it.is_ours && it.is_cut_off() && it.common_dir == repository.common_dir);
        let left = left.map(|it| self.clear_untouched(&it)).transpose()?;
        if path.symlink_metadata().is_ok() {
            return self.take_up(&repository, &path, order);
        }
        let branch_flag = match left {
            // The branch is ours and contains no commits.
            Some(BranchCleanup::Empty) => "-B",
            _ => "-b",
        };
        self.check_free(&repository, &path, (branch_flag == "-b").then_some(&*branch))?;
        let (base, base_note) = self.base(&repository, order.base)?;
        let mut record = WorktreeRecord {
            name: order.name.to_owned(),
            path: path.clone(),
            branch: Some(branch.clone()),
            base: base.clone(),
            top: repository.main.clone(),
            common_dir: repository.common_dir.clone(),
            is_ours: true,
            session: order.holder.session.clone(),
            holder: Some(order.holder.clone()),
            owner: OwnerProcess::current(),
            made: now(),
            ..WorktreeRecord::default()
        };
        self.registry.write(&record)?;
        let is_sparse = !order.shape.sparse.is_empty();
        let line = repository.line("worktree").flag("add").flag("--no-track").flag("--no-guess-remote");
        let line = if is_sparse { line.flag("--no-checkout") } else { line };
        let line = line.with(branch_flag, &branch).plain(&path.to_string_lossy()).plain(&base).text();
        let added =
            self.runner.run(&repository.top, &line).and_then(|it| it.checked("git could not make it"));
        let finished = added.and_then(|_| self.finish(&mut record));
        if let Err(why) = finished {
            return Err(self.after_failure(record, why));
        }
        let mut notes = vec![base_note];
        if is_sparse {
            notes.push(self.check_out_sparsely(&path, &order.shape.sparse)?);
        }
        let included = self.runner.include(&repository, &path, may_copy);
        record.included = included.files;
        notes.extend(self.left_behind(&repository));
        notes.extend(included.notes);
        for name in &order.shape.linked {
            match self.link(&repository, &path, name) {
                Ok(None) => (),
                Ok(Some(link)) => {
                    notes.push(format!(
                        "{name} in it is a link to that of the main checkout: do not commit it."
                    ));
                    record.included.push(link);
                }
                Err(why) => notes.push(format!("{name} is not linked: {why}.")),
            }
        }
        self.registry.write(&record)?;
        Ok(CreatedWorktree { record, branch: Some(branch), notes })
    }

    /// Cleans up after git failed or was killed. What cannot be removed loses its owner, so that it can
    /// be removed later.
    fn after_failure(&self, mut record: WorktreeRecord, why: String) -> String {
        record.owner = OwnerProcess::none();
        record.holder = None;
        match self.clear_untouched(&record) {
            Ok(BranchCleanup::Empty) => {
                // The next worktree of that name takes over the branch.
                self.registry.write(&record).ok();
                why
            }
            Ok(_) => {
                self.registry.forget(&record);
                why
            }
            Err(left) => {
                self.registry.write(&record).ok();
                format!("{why} ({left})")
            }
        }
    }

    /// Checks out only some directories into an empty worktree. If git cannot, the worktree gets all
    /// files and a note says so.
    fn check_out_sparsely(&self, path: &Path, wanted: &[String]) -> Result<String, String> {
        let repository = self.runner.repository(path)?;
        let wrong = wanted.iter().find(|it| !is_inside(it));
        let set = match wrong {
            Some(wrong) => Err(format!("{wrong:?} is no directory of the repository")),
            None => {
                let line =
                    repository.line("sparse-checkout").flag("set").flag("--cone").flag("--end-of-options");
                let line = wanted.iter().fold(line, |line, it| line.plain(it)).text();
                self.runner
                    .run(path, &line)
                    .and_then(|it| it.checked("git cannot leave files out"))
                    .map(|_| ())
            }
        };
        let line = repository.line("read-tree").flag("-m").flag("-u").flag("HEAD").text();
        self.runner.run(path, &line)?.checked("git could not put files into it")?;
        Ok(match set {
            Ok(()) => {
                format!("Only these directories, and files above them, are in it: {}.", wanted.join(", "))
            }
            Err(why) => format!("All files are in it: {why}."),
        })
    }

    /// Symlinks an ignored directory of the checkout, if it exists.
    fn link(
        &self,
        repository: &RepositoryInfo,
        path: &Path,
        name: &str,
    ) -> Result<Option<IncludedFile>, String> {
        if !is_inside(name) {
            return Err(String::from("it is no directory of the repository"));
        }
        let (from, to) = (repository.main.join(name), path.join(name));
        if !from.symlink_metadata().is_ok_and(|it| it.is_dir()) || to.symlink_metadata().is_ok() {
            return Ok(None);
        }
        let line = repository.line("ls-files").flag("--others").flag("--ignored").flag("--exclude-standard");
        let line = line.flag("--directory").flag("-z").paths([name]).text();
        let ignored = self.runner.run(&repository.main, &line)?.checked("git cannot say what it ignores")?;
        let whole = format!("{}/", name.trim_end_matches('/'));
        if !ignored.stdout.split(|it| *it == 0).any(|it| it == whole.as_bytes()) {
            return Err(String::from("git does not ignore it"));
        }
        let above = to.parent().unwrap_or(path);
        let real =
            haft_paths::real(above).map_err(|_| String::from("the directory above it is not there"))?;
        if !real.starts_with(path) {
            return Err(String::from("the directory above it leads out"));
        }
        std::os::unix::fs::symlink(&from, &to).map_err(|err| err.to_string())?;
        Ok(crate::inspect::look(path, Path::new(name)))
    }

    /// Records git's administrative directory of the worktree.
    fn finish(&self, record: &mut WorktreeRecord) -> Result<(), String> {
        let link = fs::read_to_string(record.path.join(".git"))
            .map_err(|err| format!("the worktree is not complete: {err}"))?;
        let admin = link.trim_end().strip_prefix("gitdir: ").map(PathBuf::from);
        let admin = admin.filter(|it| it.parent() == Some(record.common_dir.join("worktrees").as_path()));
        let Some(admin) = admin else {
            return Err(String::from("git put the worktree somewhere unexpected: it is left alone"));
        };
        record.admin_dir = admin;
        record.link = link;
        record.state = WorktreeState::Ready;
        self.registry.write(record)
    }

    /// Reuses a worktree of ours that is not in use.
    fn take_up(
        &self,
        repository: &RepositoryInfo,
        path: &Path,
        order: &CreateWorktree<'_>,
    ) -> Result<CreatedWorktree, String> {
        let taken = |why: &str| Err(format!("{} {why}: choose another name", path.display()));
        let Some(mut record) = self.registry.read(path).filter(|it| it.is_ours) else {
            return taken("is there already and was not made by Haft");
        };
        if record.common_dir != repository.common_dir {
            return taken("belongs to another repository");
        }
        let holder = record.holder.as_ref();
        let is_own =
            holder.is_none_or(|it| it.session == order.holder.session && it.agent == order.holder.agent);
        if record.owner.is_alive() && !is_own {
            return taken("is in use");
        }
        if record.state == WorktreeState::Making {
            return taken("is being made");
        }
        self.runner.repository_of(&record)?;
        let branch = self.branch_at(path)?;
        record.state = WorktreeState::Ready;
        self.claim(&mut record, Some(order.holder.clone()))?;
        let notes = vec![String::from("It was there already, with what was done in it before.")];
        Ok(CreatedWorktree { record, branch, notes })
    }

    /// Enters an existing worktree. One that Haft did not create is never removed. Fails if another
    /// session or agent uses it.
    pub fn enter(&self, from: &Path, path: &Path, holder: WorktreeUser) -> Result<CreatedWorktree, String> {
        let repository = self.runner.repository(from)?;
        let real =
            haft_paths::real(path).map_err(|_| format!("there is no worktree at {}", path.display()))?;
        let listed = self.runner.worktrees(&repository)?;
        let Some(found) = listed.iter().find(|it| it.path == real) else {
            let known: Vec<String> = listed.iter().skip(1).map(|it| it.path.display().to_string()).collect();
            let known = if known.is_empty() { String::from("none") } else { known.join(", ") };
            return Err(format!("{} is no worktree of this repository; there are: {known}", real.display()));
        };
        if !real.is_dir() || real == repository.main {
            return Err(format!("{} is no worktree to go into", real.display()));
        }
        let known = self.registry.read(&real).filter(|it| it.common_dir == repository.common_dir);
        if let Some(known) = known.as_ref().filter(|it| it.state == WorktreeState::Making) {
            return Err(format!("{}: {}", real.display(), self.cut_off_words(known)));
        }
        let is_other = |it: &WorktreeUser| it.session != holder.session || it.agent != holder.agent;
        if let Some(known) = &known
            && known.owner.is_alive()
            && known.holder.as_ref().is_some_and(is_other)
        {
            return Err(format!("{} is in use by another session or agent", real.display()));
        }
        let mut record = known.unwrap_or_else(|| WorktreeRecord {
            name: real.file_name().map(|it| it.to_string_lossy().into_owned()).unwrap_or_default(),
            path: real.clone(),
            top: repository.main.clone(),
            common_dir: repository.common_dir.clone(),
            session: holder.session.clone(),
            made: now(),
            state: WorktreeState::Ready,
            ..WorktreeRecord::default()
        });
        self.claim(&mut record, Some(holder))?;
        Ok(CreatedWorktree { record, branch: found.branch.clone(), notes: Vec::new() })
    }

    /// Records a worktree that a hook created.
    pub fn record_hook_worktree(
        &self,
        name: &str,
        path: &Path,
        holder: WorktreeUser,
    ) -> Result<CreatedWorktree, String> {
        let real = haft_paths::real(path)
            .ok()
            .filter(|it| it.is_dir())
            .ok_or_else(|| format!("the hook made no directory {}", path.display()))?;
        let record = WorktreeRecord {
            name: name.to_owned(),
            path: real.clone(),
            top: holder.came_from.clone(),
            is_of_hook: true,
            session: holder.session.clone(),
            holder: Some(holder),
            owner: OwnerProcess::current(),
            made: now(),
            state: WorktreeState::Ready,
            ..WorktreeRecord::default()
        };
        self.registry.write(&record)?;
        let branch = self.branch_at(&real).ok().flatten();
        let notes = vec![String::from("A hook made it.")];
        Ok(CreatedWorktree { record, branch, notes })
    }

    /// The branch of a checkout.
    fn branch_at(&self, dir: &Path) -> Result<Option<String>, String> {
        let repository = self.runner.repository(dir)?;
        let line = repository.line("symbolic-ref").flag("--quiet").flag("--short").flag("HEAD").text();
        let said = self.runner.run(dir, &line)?;
        Ok(Some(said.text()).filter(|it| said.code == 0 && !it.is_empty()))
    }

    /// Fails if the path exists or a branch has that name.
    fn check_free(
        &self,
        repository: &RepositoryInfo,
        path: &Path,
        branch: Option<&str>,
    ) -> Result<(), String> {
        if let Some(branch) = branch.filter(|it| self.has_branch(repository, it)) {
            return Err(format!("there is a branch {branch} already: choose another name"));
        }
        if self.runner.worktrees(repository)?.iter().any(|it| it.path == path) {
            Err(format!(
                "git still knows a worktree at {}, although it is gone: choose another name",
                path.display()
            ))
        } else {
            Ok(())
        }
    }

    /// The start commit, and a note on how it relates to others.
    fn base(&self, repository: &RepositoryInfo, wanted: WorktreeBase) -> Result<(String, String), String> {
        let commit = |name: &str| {
            let line = repository.line("rev-parse").flag("--verify").flag("--quiet");
            let line = line.plain(&format!("{name}^{{commit}}")).text();
            let said = self.runner.run(&repository.top, &line).ok()?;
            (said.code == 0).then(|| said.text())
        };
        let Some(head) = commit("HEAD") else {
            return Err(String::from(
                "the repository has no commit yet, so a worktree has nothing to begin at",
            ));
        };
        let short = |commit: &str| commit.chars().take(10).collect::<String>();
        let fresh = (wanted == WorktreeBase::Fresh).then(|| commit("refs/remotes/origin/HEAD")).flatten();
        let base = fresh.clone().unwrap_or_else(|| head.clone());
        let mut note = match &fresh {
            Some(base) => format!("It begins at {}, where origin's main branch is.", short(base)),
            None => format!("It begins at {}, the commit you are on.", short(&head)),
        };
        let other = if fresh.is_some() { "HEAD" } else { "HEAD@{upstream}" };
        let line = repository.line("rev-list").flag("--left-right").flag("--count");
        let line = line.plain(&format!("{base}...{other}")).text();
        if let Ok(said) = self.runner.run(&repository.top, &line)
            && let Some((ahead, behind)) = said.text().split_once('\t')
            && said.code == 0
            && (ahead, behind) != ("0", "0")
        {
            let what = if fresh.is_some() { "the commit you are on" } else { "the branch it follows" };
            note.push_str(&format!(" That is {ahead} commit(s) ahead of {what} and {behind} behind it."));
        }
        Ok((base, note))
    }

    /// Note about uncommitted changes that the worktree does not contain.
    fn left_behind(&self, repository: &RepositoryInfo) -> Option<String> {
        let line = repository.line("status").flag("--porcelain=v2").flag("-z").flag("--branch").text();
        let said = self.runner.run(&repository.top, &line).ok().filter(|it| it.code == 0)?;
        let entries = parse_status(&said.stdout).entries;
        if entries.is_empty() {
            return None;
        }
        let mut named: Vec<&str> = entries.iter().take(NAMED_FILES).map(|it| it.path.as_str()).collect();
        if NAMED_FILES < entries.len() {
            named.push("…");
        }
        Some(format!(
            "{} file(s) with changes that are not committed are not in it: {}.",
            entries.len(),
            named.join(", ")
        ))
    }
}

/// Whether the path is relative, stays inside, and does not look like an option.
fn is_inside(path: &str) -> bool {
    let is_plain = |it: Component<'_>| matches!(it, Component::Normal(_));
    !path.is_empty() && !path.starts_with(['-', ':', '!']) && Path::new(path).components().all(is_plain)
}

/// The directory of worktrees, created if necessary. Fails if it is a symlink.
fn place_for(main: &Path) -> Result<PathBuf, String> {
    let mut place = main.to_owned();
    for step in PLACE {
        place.push(step);
        match fs::create_dir(&place) {
            Err(err) if err.kind() != io::ErrorKind::AlreadyExists => {
                return Err(format!("{} cannot be made: {err}", place.display()));
            }
            _ => (),
        }
        if !place.symlink_metadata().is_ok_and(|it| it.is_dir()) {
            return Err(format!("{} is no plain directory: worktrees cannot be made there", place.display()));
        }
    }
    // Hides its content from git in the main checkout.
    let ignored = fs::OpenOptions::new().write(true).create_new(true).open(place.join(".gitignore"));
    if let Ok(mut file) = ignored {
        io::Write::write_all(&mut file, b"*\n").ok();
    }
    Ok(place)
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
