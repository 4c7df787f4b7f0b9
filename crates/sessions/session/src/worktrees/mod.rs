//! Worktrees of a session: assignment to agents, hooks around creation and removal, notices.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use haft_builtin_tools::worktree::{
    EnteredWorktree, ExitWorktree, LeaveAction, LeaveReport, LeaveWorktree, WorktreeTarget, Worktrees,
};
use haft_config::SettingsStore;
use haft_hooks::{HookEvent, HooksOutcome};
use haft_process::ProcessOwner;
use haft_tool::{BoxFuture, CallContext, DynTool, Tool as _};
use haft_types::AgentId;
use haft_workspace::SessionFiles;
use haft_worktree::{
    CreateWorktree, CreatedWorktree, RemovalBackup, RemovedWorktree, WorktreeBase, WorktreeContents,
    WorktreeManager, WorktreeRecord, WorktreeUser,
};
use serde_json::json;

use crate::{EventSender, environment::SessionEnvironment, late_pipeline::LatePipeline, task_hooks::refusal};

/// Manager of worktrees created by sessions, for callers without a session.
pub fn worktree_keeper(premises: &SessionEnvironment) -> WorktreeManager {
    let owner = ProcessOwner::unrecorded(premises.session_id.as_str());
    WorktreeManager::new(&premises.state_dir(), owner, &premises.variables)
}

/// The worktrees of a session.
pub(crate) struct SessionWorktrees {
    keeper: Arc<WorktreeManager>,
    /// Removes worktrees of killed sessions. Its processes do not belong to the session, so that short
    /// sessions do not interrupt it every time.
    sweeper: WorktreeManager,
    files: Arc<SessionFiles>,
    store: Arc<SettingsStore>,
    session: String,
    cwd: PathBuf,
    late: Arc<LatePipeline>,
    read: Arc<dyn DynTool>,
    events: EventSender,
}

impl SessionWorktrees {
    pub(crate) fn new(
        premises: &SessionEnvironment,
        owner: &Arc<ProcessOwner>,
        files: &Arc<SessionFiles>,
        late: &Arc<LatePipeline>,
        read: &Arc<dyn DynTool>,
    ) -> Arc<Self> {
        let keeper = WorktreeManager::new(&premises.state_dir(), Arc::clone(owner), &premises.variables);
        Arc::new(Self {
            keeper: Arc::new(keeper),
            sweeper: worktree_keeper(premises),
            files: Arc::clone(files),
            store: Arc::clone(&premises.store),
            session: premises.session_id.to_string(),
            cwd: premises.cwd.clone(),
            late: Arc::clone(late),
            read: Arc::clone(read),
            events: premises.events.clone(),
        })
    }

    /// Takes over the session's worktrees from an earlier process, and removes unchanged ones of killed
    /// sessions. Reports those with changes.
    pub(crate) fn begin(self: &Arc<Self>) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let desk = Arc::clone(self);
        runtime.spawn_blocking(move || {
            for mut record in desk.keeper.records() {
                let is_own = record.holder.as_ref().is_some_and(|it| it.session == desk.session);
                if is_own && !record.owner.is_alive() && !record.is_cut_off() {
                    let holder = record.holder.clone();
                    desk.keeper.claim(&mut record, holder).ok();
                }
            }
            let workspace = desk.files.workspace();
            let origin = desk.files.origin(&"sweep".into(), ExitWorktree::NAME);
            let swept = desk.sweeper.sweep(&desk.cwd, &desk.session, workspace, &origin);
            if !swept.left.is_empty() {
                let names: Vec<&str> = swept.left.iter().map(|it| it.0.name.as_str()).collect();
                desk.events.notice(format!(
                    "worktrees with work in them are left by sessions that ended: {}; see `haft worktrees`",
                    names.join(", ")
                ));
            }
        });
    }

    fn base(&self) -> WorktreeBase {
        let loaded = self.store.current();
        let set = loaded.settings.get("worktree.baseRef").and_then(|it| it.value.as_str().map(str::to_owned));
        match set.as_deref() {
            Some("fresh") => WorktreeBase::Fresh,
            _ => WorktreeBase::Head,
        }
    }

    fn shape(&self) -> WorktreeContents {
        let loaded = self.store.current();
        let texts = |name: &str| -> Vec<String> {
            let set = loaded.settings.get(name).and_then(|it| it.value.as_array().cloned());
            set.into_iter().flatten().filter_map(|it| it.as_str().map(str::to_owned)).collect()
        };
        WorktreeContents {
            linked: texts("worktree.symlinkDirectories"),
            sparse: texts("worktree.sparsePaths"),
        }
    }

    fn holder(&self, agent: &AgentId, came_from: &Path) -> WorktreeUser {
        let (session, agent) = (self.session.clone(), agent.to_string());
        WorktreeUser { session, agent, came_from: came_from.to_owned() }
    }

    /// Creates a worktree for an agent, by a hook or with git.
    pub(crate) async fn make(
        &self,
        name: &str,
        agent: &AgentId,
        cx: &CallContext,
    ) -> Result<CreatedWorktree, String> {
        let holder = self.holder(agent, &cx.cwd);
        if self.late.listens(HookEvent::WorktreeCreate) {
            let outcome = self.late.run(HookEvent::WorktreeCreate, json!({"name": name}), cx).await;
            let path = path_said(&outcome);
            refusal(outcome).map_err(|why| format!("a hook refused the worktree: {why}"))?;
            if let Some(path) = path {
                let (keeper, name) = (Arc::clone(&self.keeper), name.to_owned());
                return blocking(move || keeper.record_hook_worktree(&name, &path, holder)).await;
            }
        }
        let (keeper, base, shape) = (Arc::clone(&self.keeper), self.base(), self.shape());
        let may_copy = self.late.reading(&self.read, cx);
        let (name, from) = (name.to_owned(), cx.cwd.to_path_buf());
        blocking(move || {
            let order = CreateWorktree { from: &from, name: &name, holder, base, shape };
            keeper.make(&order, &may_copy)
        })
        .await
    }

    /// The worktree of an agent.
    async fn held(&self, agent: &AgentId) -> Option<WorktreeRecord> {
        let (keeper, session, agent) = (Arc::clone(&self.keeper), self.session.clone(), agent.to_string());
        blocking(move || keeper.held_by(&session, &agent).ok_or_else(String::new)).await.ok()
    }

    /// Reopens the worktree of an agent that is resumed.
    pub(crate) async fn go_on(&self, path: &Path, agent: &AgentId) -> Result<WorktreeRecord, String> {
        let (keeper, path) = (Arc::clone(&self.keeper), path.to_owned());
        let holder = self.holder(agent, &self.cwd);
        blocking(move || {
            let gone = || format!("its worktree {} is gone, so it cannot go on", path.display());
            let found = keeper.records().into_iter().find(|it| it.path == path && it.is_there());
            let mut record = found.ok_or_else(gone)?;
            let is_other = record.holder.as_ref().is_some_and(|it| it.agent != holder.agent);
            if is_other && record.owner.is_alive() {
                return Err(format!("its worktree {} is in use by another agent", path.display()));
            }
            keeper.claim(&mut record, Some(holder))?;
            Ok(record)
        })
        .await
    }

    /// Removes the worktree of an agent that has ended if it contains no changes. Returns whether it was
    /// kept.
    pub(crate) async fn settle(&self, mut record: WorktreeRecord, cx: &CallContext) -> bool {
        if record.is_of_hook {
            self.release(record).await;
            return true;
        }
        let (keeper, files) = (Arc::clone(&self.keeper), Arc::clone(&self.files));
        let origin = files.origin(&cx.call_id, ExitWorktree::NAME);
        let path = record.path.clone();
        let removed = blocking(move || {
            let is_untouched = keeper.inspect(&record).is_ok_and(|it| it.is_untouched());
            if is_untouched {
                let kept = RemovalBackup::WhatIsOnlyThere;
                if keeper.remove(&mut record, kept, files.workspace(), &origin).is_ok() {
                    return Ok(true);
                }
            }
            keeper.release(&mut record)?;
            Ok(false)
        });
        let is_removed = removed.await.unwrap_or(false);
        if is_removed && self.late.listens(HookEvent::WorktreeRemove) {
            self.late
                .run(HookEvent::WorktreeRemove, json!({"worktree_path": path.to_string_lossy()}), cx)
                .await;
        }
        !is_removed
    }

    async fn release(&self, mut record: WorktreeRecord) {
        let keeper = Arc::clone(&self.keeper);
        blocking(move || keeper.release(&mut record)).await.ok();
    }

    async fn remove(
        &self,
        mut record: WorktreeRecord,
        order: LeaveWorktree,
        cx: &CallContext,
    ) -> Result<RemovedWorktree, String> {
        let (keeper, files) = (Arc::clone(&self.keeper), Arc::clone(&self.files));
        let origin = files.origin(&cx.call_id, ExitWorktree::NAME);
        let (path, is_of_hook) = (record.path.clone(), record.is_of_hook);
        let removed = blocking(move || {
            if !record.is_of_hook && record.is_ours && !order.discards {
                let found = keeper.inspect(&record)?;
                if !found.is_clean() {
                    return Err(format!(
                        "{} has {}. Commit and merge them, leave it with action \"keep\", or ask the user whether they may go and say discard_changes",
                        record.path.display(),
                        found.words()
                    ));
                }
            }
            keeper.remove(&mut record, RemovalBackup::Everything, files.workspace(), &origin)
        });
        let mut removed = removed.await?;
        if self.late.listens(HookEvent::WorktreeRemove) {
            let outcome = self
                .late
                .run(HookEvent::WorktreeRemove, json!({"worktree_path": path.to_string_lossy()}), cx)
                .await;
            if let Err(why) = refusal(outcome) {
                removed.notes.push(format!("A hook objected: {why}"));
            }
        }
        if is_of_hook && path.exists() {
            removed.notes.push(format!("{} is still there: it is its hook that removes it.", path.display()));
        }
        Ok(removed)
    }
}

/// The path in a hook's result: a field of its answer, or the last line of its output.
fn path_said(outcome: &HooksOutcome) -> Option<PathBuf> {
    if let Some(path) = outcome.extras.other.get("worktreePath").and_then(|it| it.as_str()) {
        return Some(PathBuf::from(path));
    }
    let last = |text: &str| text.lines().rev().map(str::trim).find(|it| !it.is_empty()).map(str::to_owned);
    let said = outcome.reports.iter().rev().find_map(|it| last(&it.stdout))?;
    Some(PathBuf::from(said)).filter(|it| it.is_absolute())
}

/// Runs git or disk operations on a blocking thread.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|err| Err(format!("it broke off: {err}")))
}

/// Texts about what a removed worktree leaves behind.
fn kept_words(removed: &RemovedWorktree) -> Vec<String> {
    let mut notes = removed.notes.clone();
    if !removed.rescued.is_empty() {
        notes.push(format!(
            "What was changed in it is kept in {} (git show, git cherry-pick).",
            removed.rescued.join(", ")
        ));
    }
    if 0 < removed.found.commits {
        notes.push(format!("{} commit(s) of its own are on its branch, which stays.", removed.found.commits));
    }
    if let Some(undo) = &removed.undo {
        notes.push(format!("Undo id: {undo} (haft undo {undo} brings it back as it was)."));
    }
    notes
}

impl Worktrees for SessionWorktrees {
    fn enter<'a>(
        &'a self,
        wanted: WorktreeTarget,
        cx: &'a CallContext,
    ) -> BoxFuture<'a, Result<EnteredWorktree, String>> {
        Box::pin(async move {
            if let Some(held) = self.held(&cx.agent_id).await {
                return Err(format!(
                    "you work in the worktree {} already: leave it with ExitWorktree first",
                    held.path.display()
                ));
            }
            let made = match wanted {
                WorktreeTarget::Named(name) => {
                    let name = name.unwrap_or_else(made_up_name);
                    self.make(&name, &cx.agent_id, cx).await?
                }
                WorktreeTarget::At(path) => {
                    let (keeper, from) = (Arc::clone(&self.keeper), cx.cwd.to_path_buf());
                    let holder = self.holder(&cx.agent_id, &cx.cwd);
                    blocking(move || keeper.enter(&from, &path, holder)).await?
                }
            };
            Ok(EnteredWorktree { path: made.record.path, branch: made.branch, notes: made.notes })
        })
    }

    fn leave<'a>(
        &'a self,
        order: LeaveWorktree,
        cx: &'a CallContext,
    ) -> BoxFuture<'a, Result<LeaveReport, String>> {
        Box::pin(async move {
            let Some(mut record) = self.held(&cx.agent_id).await else {
                return Err(String::from("no-op: there is no worktree to leave, and nothing was changed"));
            };
            let came_from = record.holder.as_ref().map(|it| it.came_from.clone()).filter(|it| it.is_dir());
            let mut left = LeaveReport {
                back_in: came_from.unwrap_or_else(|| self.cwd.clone()),
                path: record.path.clone(),
                branch: record.branch.clone(),
                is_removed: false,
                changed_files: 0,
                commits: 0,
                notes: Vec::new(),
            };
            if order.action == LeaveAction::Keep {
                record.is_kept = true;
                self.release(record).await;
                return Ok(left);
            }
            let removed = self.remove(record, order, cx).await?;
            left.is_removed = true;
            left.changed_files = removed.found.changed.len();
            left.commits = removed.found.commits + removed.found.loose.len();
            left.notes = kept_words(&removed);
            Ok(left)
        })
    }
}

fn made_up_name() -> String {
    format!("w{}", &uuid::Uuid::new_v4().simple().to_string()[..8])
}
