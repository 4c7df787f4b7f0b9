//! Git repositories: mirrors, clones, patches and branches.

use std::path::{Path, PathBuf};

use super::{FleetGit, RunWorkspace, WorkspaceBase};

/// Clones a repository into `dir`, from a mirror shared by all runs on the machine. Returns the commit
/// that is checked out.
pub(super) async fn clone(
    mirrors: &Path,
    dir: &Path,
    url: &str,
    git_ref: Option<&str>,
    depth: Option<u32>,
) -> Result<String, String> {
    if url.starts_with('-') || git_ref.is_some_and(|it| it.starts_with('-')) {
        return Err(format!("{url} is no address of a repository"));
    }
    let mirror = mirror_of(mirrors, url, git_ref).await?;
    let parent = dir.parent().unwrap_or(Path::new("/"));
    let depth = depth.map(|it| it.to_string());
    let source = match &depth {
        // A shallow clone needs a URL; git ignores the depth for a plain path.
        Some(_) => format!("file://{}", mirror.display()),
        None => mirror.display().to_string(),
    };
    let mut arguments = vec!["clone", "--quiet", "--no-checkout"];
    if let Some(depth) = &depth {
        arguments.extend(["--depth", depth, "--no-single-branch"]);
    }
    let target = dir.display().to_string();
    arguments.extend(["--", &source, &target]);
    FleetGit::new(parent, &arguments).run().await?;
    FleetGit::new(dir, ["remote", "set-url", "origin", url]).run().await?;
    let wanted = git_ref.unwrap_or("HEAD");
    let commit = resolve(dir, wanted).await;
    let commit = match commit {
        Ok(commit) => commit,
        // A commit that no branch of the mirror contains any more.
        Err(_) => {
            let mirror = mirror.display().to_string();
            FleetGit::new(dir, ["fetch", "--quiet", "--", &mirror, wanted]).run().await?;
            resolve(dir, "FETCH_HEAD").await?
        }
    };
    let is_branch = git_ref.is_some_and(|it| !it.starts_with("refs/"))
        && FleetGit::new(dir, ["rev-parse", "--verify", "--quiet", &format!("refs/remotes/origin/{wanted}")])
            .run()
            .await
            .is_ok();
    match (is_branch, git_ref) {
        (true, Some(branch)) => {
            FleetGit::new(dir, ["checkout", "--quiet", "-B", branch, &commit, "--"]).run().await?;
        }
        _ => {
            FleetGit::new(dir, ["checkout", "--quiet", "--detach", &commit, "--"]).run().await?;
        }
    }
    Ok(commit)
}

async fn resolve(dir: &Path, wanted: &str) -> Result<String, String> {
    for name in [format!("refs/remotes/origin/{wanted}"), wanted.to_owned()] {
        let commit = format!("{name}^{{commit}}");
        if let Ok(found) = FleetGit::new(dir, ["rev-parse", "--verify", "--quiet", &commit]).text().await {
            return Ok(found);
        }
    }
    Err(format!("there is no {wanted} in the repository"))
}

/// Creates or updates the mirror of a repository.
async fn mirror_of(mirrors: &Path, url: &str, git_ref: Option<&str>) -> Result<PathBuf, String> {
    let name = format!("{}.git", &blake3::hash(url.as_bytes()).to_hex()[..24]);
    let mirror = mirrors.join(name);
    let lock = lock_of(&mirror).await?;
    if !mirror.join("HEAD").is_file() {
        std::fs::create_dir_all(&mirror).map_err(|err| format!("{}: {err}", mirror.display()))?;
        FleetGit::new(&mirror, ["init", "--quiet", "--bare"]).run().await?;
        FleetGit::new(&mirror, ["config", "uploadpack.allowAnySHA1InWant", "true"]).run().await?;
    }
    let fetched = FleetGit::new(
        &mirror,
        [
            "fetch",
            "--quiet",
            "--prune",
            "--force",
            "--",
            url,
            "+refs/heads/*:refs/heads/*",
            "+refs/tags/*:refs/tags/*",
        ],
    );
    if let Err(why) = fetched.run().await {
        // A commit that is already present needs no fetch.
        let known = match git_ref {
            Some(git_ref) => resolve(&mirror, git_ref).await.is_ok(),
            None => false,
        };
        if !known {
            return Err(why);
        }
    }
    if let Some(wanted) = git_ref
        && resolve(&mirror, wanted).await.is_err()
        && resolve(&mirror, &format!("refs/heads/{wanted}")).await.is_err()
    {
        FleetGit::new(&mirror, ["fetch", "--quiet", "--", url, wanted]).run().await?;
    }
    if let Ok(said) = FleetGit::new(&mirror, ["ls-remote", "--symref", "--", url, "HEAD"]).text().await
        && let Some(head) =
            said.lines().next().and_then(|it| it.strip_prefix("ref: ")).and_then(|it| it.split('\t').next())
    {
        FleetGit::new(&mirror, ["symbolic-ref", "HEAD", head]).run().await?;
    }
    drop(lock);
    Ok(mirror)
}

/// Locks a mirror against concurrent changes; the kernel releases the lock when the file is closed.
async fn lock_of(mirror: &Path) -> Result<std::fs::File, String> {
    let path = mirror.with_extension("lock");
    let failed = |err: std::io::Error| format!("{}: {err}", path.display());
    std::fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).map_err(failed)?;
    let file = std::fs::File::create(&path).map_err(failed)?;
    let locked = tokio::task::spawn_blocking(move || file.lock().map(|()| file)).await;
    locked.map_err(|err| err.to_string())?.map_err(failed)
}

/// Creates a repository from a bundle and a patch of uncommitted changes.
pub(super) async fn unbundle(
    dir: &Path,
    bundle: &Path,
    head: &str,
    patch: Option<Vec<u8>>,
) -> Result<String, String> {
    std::fs::create_dir_all(dir).map_err(|err| format!("{}: {err}", dir.display()))?;
    FleetGit::new(dir, ["init", "--quiet"]).run().await?;
    let bundle = bundle.display().to_string();
    FleetGit::new(dir, ["fetch", "--quiet", "--", &bundle, "HEAD"]).run().await?;
    FleetGit::new(dir, ["checkout", "--quiet", "--detach", head, "--"]).run().await?;
    if let Some(patch) = patch.filter(|it| !it.is_empty()) {
        FleetGit::new(dir, ["apply", "--binary", "--whitespace=nowarn", "-"]).input(patch).run().await?;
    }
    // The base for later patches includes the submitter's uncommitted changes.
    super::create::tree_of(dir).await
}

/// Returns the changes since the base as a patch, including untracked files that are not ignored; `None`
/// if there are none.
pub(crate) async fn changes_since(
    workspace: &RunWorkspace,
    scratch: &Path,
) -> Result<Option<Vec<u8>>, String> {
    let Some(compared) = workspace.base.comparable(&workspace.dir).await? else { return Ok(None) };
    let index = scratch.join("patch-index");
    std::fs::remove_file(&index).ok();
    let dir = &workspace.dir;
    let line = |arguments: &[&str]| {
        let line = FleetGit::new(dir, arguments).with("GIT_INDEX_FILE", &index);
        match &compared {
            WorkspaceBase::Tree { git_dir, .. } => line.with("GIT_DIR", git_dir).with("GIT_WORK_TREE", dir),
            _ => line,
        }
    };
    let base = match &compared {
        WorkspaceBase::Commit(base) => base,
        WorkspaceBase::Tree { tree, .. } => tree,
        WorkspaceBase::Nothing { .. } | WorkspaceBase::Unknown => return Ok(None),
    };
    line(&["read-tree", base]).run().await?;
    line(&["add", "--all", "--", "."]).run().await?;
    let patch = line(&["diff", "--cached", "--binary", "--full-index", "--no-color", "--no-ext-diff", base])
        .run()
        .await;
    std::fs::remove_file(&index).ok();
    patch.map(Some)
}

/// Result of a push.
#[derive(Clone, Debug)]
pub(crate) struct BranchPush {
    pub(crate) branch: String,
    pub(crate) commit: String,
}

/// Commits all changes and pushes them to a branch. Fails if the branch is not at `expected`, the commit
/// this run pushed last. `before` is called with the commit before the push.
pub(crate) async fn push_branch(
    workspace: &RunWorkspace,
    branch: &str,
    message: &str,
    expected: Option<&str>,
    before: impl AsyncFnOnce(&str) -> Result<(), String>,
) -> Result<Option<BranchPush>, String> {
    let dir = &workspace.dir;
    let WorkspaceBase::Commit(base) = &workspace.base else {
        return Err(String::from("a branch needs a workspace from git"));
    };
    if branch.starts_with('-')
        || FleetGit::new(dir, ["check-ref-format", "--branch", branch]).run().await.is_err()
    {
        return Err(format!("{branch} is no name of a branch"));
    }
    let identity = |line: FleetGit| {
        let line = line.with("GIT_AUTHOR_NAME", "haft").with("GIT_AUTHOR_EMAIL", "haft@localhost");
        line.with("GIT_COMMITTER_NAME", "haft").with("GIT_COMMITTER_EMAIL", "haft@localhost")
    };
    FleetGit::new(dir, ["add", "--all", "--", "."]).run().await?;
    if FleetGit::new(dir, ["diff", "--cached", "--quiet"]).run().await.is_err() {
        identity(FleetGit::new(dir, ["commit", "--quiet", "--no-verify", "-m", message])).run().await?;
    }
    let commit = FleetGit::new(dir, ["rev-parse", "HEAD"]).text().await?;
    if commit == *base {
        return Ok(None);
    }
    before(&commit).await?;
    let remote = format!("refs/heads/{branch}");
    // Without an earlier push of this run, the branch must not exist.
    let lease = format!("--force-with-lease={remote}:{}", expected.unwrap_or_default());
    let refspec = format!("{commit}:{remote}");
    let pushed = FleetGit::new(dir, ["push", "--quiet", &lease, "origin", &refspec]).run().await;
    match pushed {
        Ok(_) => Ok(Some(BranchPush { branch: branch.to_owned(), commit })),
        Err(why) => Err(format!("{branch} was not pushed: {why}")),
    }
}
