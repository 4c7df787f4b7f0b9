//! What is kept of a job: patch, branch, files, and whether the check passed.

use std::time::Duration;

use bytes::Bytes;
use globset::{Glob, GlobSetBuilder};
use haft_fleet_store::{FleetName, FleetStore, LeaseKey};
use haft_types::EnvVars;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::{
    checkout::{FleetGit, RunDirs, RunWorkspace, changes_since, push_branch, run_command},
    job_file::JobBody,
    run_log_lines::FleetState,
    secret_rules::ValueMask,
    store_log::StoreLog,
};

/// How long a check may take.
const CHECK_LIMIT: Duration = Duration::from_secs(3_600);
/// So many files are kept at most.
const MAX_FILES: usize = 1_000;
/// A larger file is named and not kept.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// Collects results.
pub(super) struct ResultCollector<'a> {
    pub(super) store: &'a FleetStore,
    pub(super) tenant: &'a FleetName,
    pub(super) key: &'a LeaseKey,
    pub(super) mask: &'a ValueMask,
    pub(super) fence: &'a StoreLog,
    pub(super) workspace: &'a RunWorkspace,
    pub(super) dirs: &'a RunDirs,
    pub(super) variables: &'a EnvVars,
    pub(super) body: &'a JobBody,
    /// Commits that earlier workers of the run may have pushed.
    pub(super) pushed: &'a [String],
}

impl ResultCollector<'_> {
    /// Runs the check, if there is one: what it said, and whether it passed.
    pub(super) async fn check(&self, cancel: &CancellationToken) -> Option<(Value, bool)> {
        let command = self.body.check.as_ref()?;
        let fence = self.fence.clone();
        let tell = move |text: &str| fence.live(text);
        let end = run_command(command, &self.workspace.dir, self.variables, CHECK_LIMIT, cancel, tell).await;
        Some(match end {
            Ok(end) => {
                let passed = end.code == Some(0);
                let output = self.mask.masked(haft_types::text::tail(&end.output, 4_000));
                (
                    json!({"command": command, "exit_code": end.code, "ended": end.ended, "output": output}),
                    passed,
                )
            }
            Err(why) => (json!({"command": command, "exit_code": null, "ended": why, "output": ""}), false),
        })
    }

    /// The patch since the beginning, as a blob.
    pub(super) async fn patch(&self) -> Result<Value, String> {
        let Some(patch) = changes_since(self.workspace, self.dirs.run()).await? else {
            return Ok(Value::Null);
        };
        let files = patch.windows(11).filter(|it| *it == b"diff --git ").count();
        let patch = self.mask.mask_bytes(&patch).unwrap_or(patch);
        let bytes = patch.len();
        let blob = self.put(patch).await?;
        Ok(json!({"blob": blob, "bytes": bytes, "files": files}))
    }

    /// The branch, pushed.
    pub(super) async fn branch(&self, message: &str) -> Result<Value, String> {
        let Some(branch) = &self.body.results.branch else { return Ok(Value::Null) };
        let remote = format!("refs/heads/{branch}");
        let there = FleetGit::new(&self.workspace.dir, ["ls-remote", "--", "origin", &remote]).text().await?;
        let there = there.split_whitespace().next().map(str::to_owned);
        let own = there.filter(|it| self.pushed.contains(it));
        // Who takes over must know which commit may be there.
        let (fence, lost) = (self.fence, self.fence.lost());
        let push = push_branch(self.workspace, branch, message, own.as_deref(), async |commit: &str| {
            fence.note(&FleetState::Pushing { commit: commit.to_owned() });
            fence.kept().await
        });
        let pushed = tokio::select! {
            pushed = push => pushed?,
            () = lost.cancelled() => return Err(String::from("the run is another worker's")),
        };
        Ok(pushed.map_or(Value::Null, |it| json!({"branch": it.branch, "commit": it.commit})))
    }

    /// The files that patterns name, as blobs.
    pub(super) async fn files(&self) -> Result<Value, String> {
        if self.body.results.files.is_empty() {
            return Ok(Value::Null);
        }
        let mut wanted = GlobSetBuilder::new();
        for pattern in &self.body.results.files {
            wanted.add(Glob::new(pattern).map_err(|err| format!("{pattern}: {err}"))?);
        }
        let wanted = wanted.build().map_err(|err| err.to_string())?;
        let root = &self.workspace.dir;
        let walk = ignore::WalkBuilder::new(root).standard_filters(false).follow_links(false).build();
        let mut kept = Vec::new();
        for entry in walk.flatten().filter(|it| it.file_type().is_some_and(|it| it.is_file())) {
            let Ok(name) = entry.path().strip_prefix(root) else { continue };
            if name.starts_with(".git") || !wanted.is_match(name) {
                continue;
            }
            let length = entry.metadata().map(|it| it.len()).unwrap_or_default();
            let blob = if length <= MAX_FILE_BYTES && kept.len() < MAX_FILES {
                let bytes = tokio::fs::read(entry.path()).await.map_err(|err| err.to_string())?;
                json!(self.put(self.mask.mask_bytes(&bytes).unwrap_or(bytes)).await?)
            } else {
                Value::Null
            };
            kept.push(json!({"path": name, "bytes": length, "blob": blob}));
        }
        kept.sort_by_key(|it| it["path"].to_string());
        Ok(Value::Array(kept))
    }

    async fn put(&self, bytes: Vec<u8>) -> Result<String, String> {
        let put = self.store.blobs.put(self.tenant.clone(), Bytes::from(bytes), Some(self.key.clone())).await;
        put.map(|it| it.to_string()).map_err(|err| err.to_string())
    }
}
