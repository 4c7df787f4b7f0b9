//! Checkpoints of a run for a takeover: changed files of its workspace, and the undo journal.

use std::{
    collections::{BTreeMap, HashMap},
    os::unix::fs::{DirBuilderExt as _, PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    time::SystemTime,
};

use bytes::Bytes;
use haft_fleet_store::{BlobHash, FleetName, FleetStore, LeaseKey, StoreError};
use serde::{Deserialize, Serialize};

use crate::{
    checkout::{FleetGit, RunWorkspace, WorkspaceBase},
    secret_rules::ValueMask,
};

/// State of a workspace.
#[derive(Debug, Default, Deserialize, Serialize)]
struct TreeManifest {
    /// Path of the workspace.
    cwd: PathBuf,
    /// Files that differ from the workspace's base, by path.
    files: BTreeMap<String, CheckpointedFile>,
    /// Commits made since the base.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    commits: Option<CheckpointedCommits>,
    /// Files of the undo journal, by path.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    journal: BTreeMap<String, BlobHash>,
}

/// State of a file.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
enum CheckpointedFile {
    /// A regular file.
    File {
        hash: BlobHash,
        mode: u32,
        /// Whether values of secrets in it were replaced by placeholders.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        masked: bool,
    },
    /// A symlink to this target.
    Link(String),
    /// Deleted.
    Gone,
}

#[derive(Debug, Deserialize, Serialize)]
struct CheckpointedCommits {
    head: String,
    branch: Option<String>,
    bundle: BlobHash,
}

/// Maximum bytes of a file; larger ones are not stored, because they would fill the store.
const MAX_FILE_BYTES: u64 = 256 << 20;

/// Creates and restores checkpoints of one run.
pub(crate) struct Checkpoints {
    store: FleetStore,
    tenant: FleetName,
    key: LeaseKey,
    mask: ValueMask,
    workspace: RunWorkspace,
    state_dir: PathBuf,
    /// Hashed files with their size and modification time.
    known: HashMap<PathBuf, (u64, Option<SystemTime>, CheckpointedFile)>,
    stored: std::collections::HashSet<BlobHash>,
}

impl Checkpoints {
    pub(crate) fn new(
        store: &FleetStore,
        tenant: FleetName,
        key: LeaseKey,
        mask: ValueMask,
        workspace: &RunWorkspace,
        state_dir: &Path,
    ) -> Self {
        Self {
            store: store.clone(),
            tenant,
            key,
            mask,
            workspace: workspace.clone(),
            state_dir: state_dir.to_owned(),
            known: HashMap::new(),
            stored: std::collections::HashSet::new(),
        }
    }

    /// Stores the current state. `None` if the workspace is persistent and needs no checkpoint.
    pub(crate) async fn keep(&mut self) -> Result<Option<BlobHash>, String> {
        if self.workspace.is_lasting() {
            return Ok(None);
        }
        let mut manifest = TreeManifest { cwd: self.workspace.dir.clone(), ..TreeManifest::default() };
        for path in self.changed().await? {
            if let Some(kept) = self.keep_file(&path).await? {
                manifest.files.insert(path, kept);
            }
        }
        manifest.commits = self.commits().await?;
        let journal = self.journal_dir();
        for file in files_below(&journal) {
            let Ok(name) = file.strip_prefix(&journal) else { continue };
            let (Some(name), Ok(bytes)) = (name.to_str(), std::fs::read(&file)) else { continue };
            // Journal files that contain a secret are not stored, so such changes cannot be undone after
            // a takeover.
            if self.mask.mask_bytes(&bytes).is_none() {
                let hash = self.put(bytes).await?;
                manifest.journal.insert(name.to_owned(), hash);
            }
        }
        let bytes = serde_json::to_vec(&manifest).map_err(|err| err.to_string())?;
        self.put(bytes).await.map(Some)
    }

    fn journal_dir(&self) -> PathBuf {
        self.state_dir.join("journal").join(haft_workspace::workspace_key(&self.workspace.dir))
    }

    /// Returns paths that may differ from the workspace's base.
    async fn changed(&self) -> Result<Vec<String>, String> {
        let Some(compared) = self.workspace.base.comparable(&self.workspace.dir).await? else {
            return Ok(Vec::new());
        };
        let base = match &compared {
            WorkspaceBase::Commit(base) => base,
            WorkspaceBase::Tree { tree, .. } => tree,
            WorkspaceBase::Nothing { .. } | WorkspaceBase::Unknown => return Ok(Vec::new()),
        };
        let tracked = self
            .git(&compared, &["diff", "--name-only", "-z", "--no-renames", "--no-ext-diff", base])
            .run()
            .await?;
        let new = self.git(&compared, &["ls-files", "-z", "--others", "--exclude-standard"]).run().await?;
        let names = [tracked, new].concat();
        let mut paths: Vec<String> = names
            .split(|it| *it == 0)
            .filter(|it| !it.is_empty())
            .map(|it| String::from_utf8_lossy(it).into_owned())
            .collect();
        paths.sort();
        paths.dedup();
        Ok(paths)
    }

    fn git(&self, base: &WorkspaceBase, arguments: &[&str]) -> FleetGit {
        let line = FleetGit::new(&self.workspace.dir, arguments);
        match base {
            WorkspaceBase::Tree { git_dir, .. } => {
                line.with("GIT_DIR", git_dir).with("GIT_WORK_TREE", &self.workspace.dir)
            }
            WorkspaceBase::Commit(_) | WorkspaceBase::Nothing { .. } | WorkspaceBase::Unknown => line,
        }
    }

    async fn keep_file(&mut self, name: &str) -> Result<Option<CheckpointedFile>, String> {
        let path = self.workspace.dir.join(name);
        let Ok(about) = path.symlink_metadata() else { return Ok(Some(CheckpointedFile::Gone)) };
        if about.is_symlink() {
            let target = std::fs::read_link(&path).map_err(|err| format!("{name}: {err}"))?;
            return Ok(target.to_str().map(|it| CheckpointedFile::Link(it.to_owned())));
        }
        if !about.is_file() {
            return Ok(None);
        }
        let now = (about.len(), about.modified().ok());
        if let Some((length, modified, kept)) = self.known.get(&path)
            && (*length, *modified) == now
        {
            return Ok(Some(kept.clone()));
        }
        if MAX_FILE_BYTES < about.len() {
            return Err(format!("{name} is too large to be kept ({} MB)", about.len() >> 20));
        }
        let bytes = tokio::fs::read(&path).await.map_err(|err| format!("{name}: {err}"))?;
        let masked = self.mask.mask_bytes(&bytes);
        let is_masked = masked.is_some();
        let hash = self.put(masked.unwrap_or(bytes)).await?;
        let kept =
            CheckpointedFile::File { hash, mode: about.permissions().mode() & 0o7777, masked: is_masked };
        // A file modified just now may change again within the resolution of its timestamp, so it is not
        // cached.
        let is_old = now.1.and_then(|it| it.elapsed().ok()).is_some_and(|it| 2 <= it.as_secs());
        if is_old {
            self.known.insert(path, (now.0, now.1, kept.clone()));
        }
        Ok(Some(kept))
    }

    async fn commits(&mut self) -> Result<Option<CheckpointedCommits>, String> {
        let WorkspaceBase::Commit(base) = self.workspace.base.clone() else { return Ok(None) };
        let dir = self.workspace.dir.clone();
        let Ok(head) = FleetGit::new(&dir, ["rev-parse", "HEAD"]).text().await else { return Ok(None) };
        if head == base {
            return Ok(None);
        }
        let file = self.state_dir.join("commits.bundle");
        std::fs::create_dir_all(&self.state_dir).map_err(|err| err.to_string())?;
        let name = file.display().to_string();
        FleetGit::new(&dir, ["bundle", "create", "--quiet", &name, "HEAD", &format!("^{base}")])
            .run()
            .await?;
        let bytes = std::fs::read(&file).map_err(|err| format!("{name}: {err}"))?;
        std::fs::remove_file(&file).ok();
        let branch = FleetGit::new(&dir, ["symbolic-ref", "--quiet", "--short", "HEAD"]).text().await.ok();
        Ok(Some(CheckpointedCommits { head, branch, bundle: self.put(bytes).await? }))
    }

    async fn put(&mut self, bytes: Vec<u8>) -> Result<BlobHash, String> {
        let hash = BlobHash::hash(&bytes);
        if self.stored.contains(&hash) {
            return Ok(hash);
        }
        let has = self.store.blobs.has(self.tenant.clone(), vec![hash]).await;
        if !has.map_err(in_words)?.first().copied().unwrap_or_default() {
            let put = self.store.blobs.put(self.tenant.clone(), Bytes::from(bytes), Some(self.key.clone()));
            put.await.map_err(in_words)?;
        }
        self.stored.insert(hash);
        Ok(hash)
    }

    /// Restores a checkpoint into a workspace with the same base.
    pub(crate) async fn restore(&mut self, hash: BlobHash) -> Result<(), String> {
        let manifest = self.get(hash).await?;
        let manifest: TreeManifest = serde_json::from_slice(&manifest)
            .map_err(|err| format!("the checkpoint cannot be read: {err}"))?;
        for (name, kept) in &manifest.files {
            self.put_back(name, kept).await?;
        }
        if let Some(commits) = &manifest.commits {
            self.put_commits_back(commits).await?;
        }
        let journal = self.journal_dir();
        let (was, is) = (manifest.cwd.display().to_string(), self.workspace.dir.display().to_string());
        for (name, hash) in &manifest.journal {
            let path = below(&journal, name)?;
            let mut bytes = self.get(*hash).await?.to_vec();
            if name == "log.jsonl" {
                // The journal contains absolute paths.
                bytes = String::from_utf8_lossy(&bytes).replace(&was, &is).into_bytes();
            }
            write_new(&path, &bytes, 0o600)?;
        }
        Ok(())
    }

    async fn put_back(&self, name: &str, kept: &CheckpointedFile) -> Result<(), String> {
        let path = below(&self.workspace.dir, name)?;
        let failed = |err: std::io::Error| format!("{name}: {err}");
        match path.symlink_metadata() {
            Ok(about) if about.is_dir() => std::fs::remove_dir_all(&path).map_err(failed)?,
            Ok(_) => std::fs::remove_file(&path).map_err(failed)?,
            Err(_) => (),
        }
        match kept {
            CheckpointedFile::Gone => Ok(()),
            CheckpointedFile::Link(target) => {
                std::fs::create_dir_all(path.parent().unwrap_or(&path)).map_err(failed)?;
                symlink(target, &path).map_err(failed)
            }
            CheckpointedFile::File { hash, mode, masked } => {
                let bytes = self.get(*hash).await?;
                let bytes = if *masked { self.mask.unmask_bytes(&bytes) } else { bytes.to_vec() };
                write_new(&path, &bytes, *mode)
            }
        }
    }

    async fn put_commits_back(&self, commits: &CheckpointedCommits) -> Result<(), String> {
        let dir = &self.workspace.dir;
        let file = self.state_dir.join("commits.bundle");
        write_new(&file, &self.get(commits.bundle).await?, 0o600)?;
        let name = file.display().to_string();
        let fetched = FleetGit::new(dir, ["fetch", "--quiet", "--", &name, "HEAD"]).run().await;
        std::fs::remove_file(&file).ok();
        fetched?;
        let reference = commits.branch.as_ref().map(|it| format!("refs/heads/{it}"));
        match &reference {
            Some(reference) => {
                FleetGit::new(dir, ["update-ref", reference, &commits.head]).run().await?;
                FleetGit::new(dir, ["symbolic-ref", "HEAD", reference]).run().await?;
            }
            None => {
                FleetGit::new(dir, ["update-ref", "--no-deref", "HEAD", &commits.head]).run().await?;
            }
        }
        FleetGit::new(dir, ["reset", "--quiet", "--mixed"]).run().await.map(drop)
    }

    async fn get(&self, hash: BlobHash) -> Result<Bytes, String> {
        self.store.blobs.get(self.tenant.clone(), hash).await.map_err(in_words)
    }
}

fn in_words(err: StoreError) -> String {
    err.to_string()
}

fn write_new(path: &Path, bytes: &[u8], mode: u32) -> Result<(), String> {
    let failed = |err: std::io::Error| format!("{}: {err}", path.display());
    if let Some(dir) = path.parent() {
        std::fs::DirBuilder::new().recursive(true).mode(0o755).create(dir).map_err(failed)?;
    }
    std::fs::write(path, bytes).map_err(failed)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).map_err(failed)
}

/// Joins a relative path to a directory; an error if it would leave it, also through symlinks.
fn below(root: &Path, name: &str) -> Result<PathBuf, String> {
    let wrong = || format!("the checkpoint names {name:?}");
    let mut path = root.to_owned();
    let parts: Vec<&str> = name.split('/').collect();
    for (number, part) in parts.iter().enumerate() {
        if part.is_empty() || *part == "." || *part == ".." || (number == 0 && *part == ".git") {
            return Err(wrong());
        }
        path.push(part);
        let is_last = number + 1 == parts.len();
        if !is_last && path.symlink_metadata().is_ok_and(|it| it.is_symlink()) {
            return Err(wrong());
        }
    }
    Ok(path)
}

fn files_below(dir: &Path) -> Vec<PathBuf> {
    let walk = ignore::WalkBuilder::new(dir).standard_filters(false).follow_links(false).build();
    let files = walk.flatten().filter(|it| it.file_type().is_some_and(|it| it.is_file()));
    files.map(ignore::DirEntry::into_path).filter(|it| it.file_name().is_none_or(|it| it != "lock")).collect()
}
