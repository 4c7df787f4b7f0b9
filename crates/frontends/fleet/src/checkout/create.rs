//! Making a workspace from what its job says.

use std::path::{Path, PathBuf};

use haft_fleet_store::{BlobHash, FleetName, FleetStore};

use super::{FleetGit, RunDirs, RunWorkspace, WorkspaceBase, WorkspaceHome, git};
use crate::job_file::{CheckoutSpec, WorkspaceSource};

/// Makes the workspace of a run. `base` is the commit an earlier worker began
/// from. The error is for a person.
pub(crate) async fn make_workspace(
    store: &FleetStore,
    tenant: &FleetName,
    order: &CheckoutSpec,
    dirs: &RunDirs,
    base: Option<&str>,
) -> Result<RunWorkspace, String> {
    let dir = dirs.work();
    let failed = |err: std::io::Error| format!("{}: {err}", dir.display());
    std::fs::create_dir_all(dirs.run()).map_err(failed)?;
    let source = order.source()?;
    let base = match source {
        WorkspaceSource::Git { url, git_ref, depth } => {
            let wanted = base.or(git_ref);
            WorkspaceBase::Commit(git::clone(&dirs.mirrors(), &dir, url, wanted, depth).await?)
        }
        WorkspaceSource::Bundle(packed) => {
            let (bundle, head, patch) = fetch_bundle(store, tenant, packed, dirs).await?;
            let tree = git::unbundle(&dir, &bundle, &head, patch).await?;
            std::fs::remove_file(bundle).ok();
            WorkspaceBase::Tree { git_dir: dir.join(".git"), tree }
        }
        WorkspaceSource::Tar(packed) => {
            std::fs::create_dir_all(&dir).map_err(failed)?;
            let archive = fetch_blob(store, tenant, packed, &dirs.run().join("archive.tar")).await?;
            extract(&archive, &dir).await?;
            std::fs::remove_file(archive).ok();
            own_tree(&dir, dirs).await?
        }
        WorkspaceSource::Empty => {
            std::fs::create_dir_all(&dir).map_err(failed)?;
            WorkspaceBase::Nothing { git_dir: dirs.run().join("base.git") }
        }
        WorkspaceSource::Dir(path) => {
            let dir = PathBuf::from(path);
            if !dir.is_absolute() || !dir.is_dir() {
                return Err(format!(
                    "{path} is no directory of this worker; `dir` names one by its whole path"
                ));
            }
            let commit =
                FleetGit::new(&dir, ["rev-parse", "--verify", "--quiet", "HEAD^{commit}"]).text().await;
            let base = base.map(str::to_owned).or_else(|| commit.ok());
            let base = base.map_or(WorkspaceBase::Unknown, WorkspaceBase::Commit);
            return Ok(RunWorkspace { dir, base, home: WorkspaceHome::Worker });
        }
        WorkspaceSource::Image(image) => {
            std::fs::create_dir_all(&dir).map_err(failed)?;
            unpack_image(image, &dir).await?;
            own_tree(&dir, dirs).await?
        }
        WorkspaceSource::Host(name) => {
            // The session connects to it; here is only a place for what is the worker's own.
            std::fs::create_dir_all(&dir).map_err(failed)?;
            let name = name.split('=').next().unwrap_or(name).to_owned();
            return Ok(RunWorkspace { dir, base: WorkspaceBase::Unknown, home: WorkspaceHome::Host(name) });
        }
    };
    Ok(RunWorkspace { dir, base, home: WorkspaceHome::Run })
}

/// A blob as a file.
async fn fetch_blob(
    store: &FleetStore,
    tenant: &FleetName,
    name: &str,
    to: &Path,
) -> Result<PathBuf, String> {
    let hash = name.strip_prefix("blob:").unwrap_or(name);
    let hash = BlobHash::parse(hash).map_err(|_| {
        format!("{name} was not packed when the job was submitted; submit it from where the file is")
    })?;
    let bytes = store.blobs.get(tenant.clone(), hash).await.map_err(|err| err.to_string())?;
    tokio::fs::write(to, &bytes).await.map_err(|err| format!("{}: {err}", to.display()))?;
    Ok(to.to_owned())
}

/// `blob:BUNDLE:HEAD[:PATCH]`, taken apart and fetched.
async fn fetch_bundle(
    store: &FleetStore,
    tenant: &FleetName,
    packed: &str,
    dirs: &RunDirs,
) -> Result<(PathBuf, String, Option<Vec<u8>>), String> {
    let mut parts = packed.strip_prefix("blob:").unwrap_or(packed).split(':');
    let (Some(bundle), Some(head)) = (parts.next(), parts.next()) else {
        return Err(format!("{packed} was not packed when the job was submitted"));
    };
    let file = fetch_blob(store, tenant, bundle, &dirs.run().join("bundle")).await?;
    let patch = match parts.next() {
        None => None,
        Some(patch) => {
            let hash = BlobHash::parse(patch).map_err(|err| err.to_string())?;
            let bytes = store.blobs.get(tenant.clone(), hash).await.map_err(|err| err.to_string())?;
            Some(bytes.to_vec())
        }
    };
    Ok((file, head.to_owned(), patch))
}

async fn extract(archive: &Path, dir: &Path) -> Result<(), String> {
    let mut line = tokio::process::Command::new("tar");
    line.arg("--extract").arg("--no-same-owner").arg("--file").arg(archive).arg("--directory").arg(dir);
    let output = line.kill_on_drop(true).output().await.map_err(|err| format!("tar: {err}"))?;
    if output.status.success() {
        Ok(())
    } else {
        let said = String::from_utf8_lossy(&output.stderr);
        Err(format!("the archive cannot be unpacked: {}", haft_types::text::one_line(said.trim(), 300)))
    }
}

/// A repository of ours beside the workspace, with what is in it now.
async fn own_tree(dir: &Path, dirs: &RunDirs) -> Result<WorkspaceBase, String> {
    let git_dir = dirs.run().join("base.git");
    std::fs::create_dir_all(&git_dir).map_err(|err| format!("{}: {err}", git_dir.display()))?;
    FleetGit::new(&git_dir, ["init", "--quiet", "--bare"]).run().await?;
    let line = |arguments: &[&str]| {
        FleetGit::new(dir, arguments).with("GIT_DIR", &git_dir).with("GIT_WORK_TREE", dir)
    };
    line(&["add", "--all", "--", "."]).run().await?;
    let tree = line(&["write-tree"]).text().await?;
    Ok(WorkspaceBase::Tree { git_dir, tree })
}

/// A repository of ours with an empty tree.
pub(super) async fn empty_tree(git_dir: &Path) -> Result<WorkspaceBase, String> {
    std::fs::create_dir_all(git_dir).map_err(|err| format!("{}: {err}", git_dir.display()))?;
    FleetGit::new(git_dir, ["init", "--quiet", "--bare"]).run().await?;
    let tree = FleetGit::new(git_dir, ["mktree"]).input(Vec::new()).text().await?;
    Ok(WorkspaceBase::Tree { git_dir: git_dir.to_owned(), tree })
}

/// The tree of everything in a repository that is not ignored.
pub(super) async fn tree_of(dir: &Path) -> Result<String, String> {
    let index = dir.join(".git/haft-base-index");
    let line = |arguments: &[&str]| FleetGit::new(dir, arguments).with("GIT_INDEX_FILE", &index);
    line(&["read-tree", "HEAD"]).run().await?;
    line(&["add", "--all", "--", "."]).run().await?;
    let tree = line(&["write-tree"]).text().await;
    std::fs::remove_file(&index).ok();
    tree
}

/// The files of a container image, with whatever runtime is there.
async fn unpack_image(image: &str, dir: &Path) -> Result<(), String> {
    let runtime = ["podman", "docker"].into_iter().find(|name| is_installed(name));
    let Some(runtime) = runtime else {
        return Err(format!(
            "the image {image} needs podman or docker, and neither is on this worker; use another pool"
        ));
    };
    let run = async |arguments: &[&str]| -> Result<String, String> {
        let output = tokio::process::Command::new(runtime).args(arguments).kill_on_drop(true).output().await;
        let output = output.map_err(|err| format!("{runtime}: {err}"))?;
        if output.status.success() {
            Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
        } else {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(format!("{runtime}: {}", haft_types::text::one_line(said.trim(), 300)))
        }
    };
    let container = run(&["create", "--", image]).await?;
    let archive = dir.with_extension("tar");
    let exported = run(&["export", "-o", &archive.display().to_string(), &container]).await;
    run(&["rm", "-f", &container]).await.ok();
    exported?;
    let extracted = extract(&archive, dir).await;
    std::fs::remove_file(&archive).ok();
    extracted
}

fn is_installed(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(name).is_file())
}
