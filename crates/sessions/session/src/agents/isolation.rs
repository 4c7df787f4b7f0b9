//! Sub-agents that work in a git worktree of their own.

use std::{path::Path, sync::Arc};

use haft_permission::ExcludedDir;
use haft_tool::CallContext;
use haft_types::AgentId;
use haft_worktree::WorktreeRecord;

use super::{AgentReport, ParentCalls, SpawnContext, SubagentRegistry, spawner::SpawnJob};
use crate::{agents::spawner::SpawnOrigin, environment::WorktreeRestriction};

/// The worktree an isolated agent works in.
#[derive(Clone, Debug)]
pub(crate) struct AgentIsolation {
    record: WorktreeRecord,
    branch: Option<String>,
}

impl AgentIsolation {
    pub(super) fn path(&self) -> &Path {
        &self.record.path
    }

    pub(super) fn branch(&self) -> Option<&str> {
        self.branch.as_deref()
    }

    /// The checkout the agent must not change.
    pub(super) fn kept_out(&self) -> Option<ExcludedDir> {
        let (of, but) = (self.record.top.clone(), self.record.path.clone());
        (!self.record.is_of_hook).then_some(ExcludedDir { of, but })
    }
}

/// Creates the worktree of an agent that is about to start, or reuses its earlier one. Fails with a text
/// about why the agent cannot start.
pub(super) async fn isolate(
    world: &Arc<SpawnContext>,
    desk: &Arc<SubagentRegistry>,
    birth: &mut SpawnJob,
) -> Result<(), String> {
    let walls = &world.premises.walls;
    let facts = Arc::clone(&birth.facts);
    let earlier = match (&birth.from, desk.logs()) {
        (SpawnOrigin::ItsLog(_), Some(logs)) => {
            let id = facts.id.clone();
            tokio::task::spawn_blocking(move || logs.meta(&id)).await.ok().flatten()
        }
        _ => None,
    };
    if let Some(meta) = earlier {
        birth.cwd = Arc::from(meta.cwd.as_path());
        // A directory on a tool host cannot be checked here.
        if world.premises.hosts.get().is_none() && !meta.cwd.is_dir() {
            return Err(format!("the directory it worked in is gone: {}", meta.cwd.display()));
        }
        if let Some(path) = &meta.worktree_path {
            let worktrees = world.worktrees.as_ref().ok_or("there are no worktrees here")?;
            let record = worktrees.go_on(path, &facts.id).await?;
            birth.isolation = Some(AgentIsolation { record, branch: meta.worktree_branch.clone() });
        }
    } else if birth.order.worktree || birth.kind.worktree {
        // An agent in a worktree shares it with the sub-agents it spawns.
        if walls.fence_of(&facts.parent).is_none() {
            let parent = parent_calls(world, desk, &facts.parent);
            if parent.is_none_or(|it| it.pipeline.gate.permissions().policy().plans()) {
                return Err(String::from(
                    "nothing can be changed while somebody plans, so it cannot have a worktree: start it without isolation, or when the plan is approved",
                ));
            }
            let worktrees = world.worktrees.as_ref().ok_or("there are no worktrees here")?;
            let cx = call_context(birth);
            let made = worktrees.make(&format!("agent-{}", facts.id), &facts.id, &cx).await?;
            birth.cwd = Arc::from(made.record.path.as_path());
            birth.isolation = Some(AgentIsolation { record: made.record, branch: made.branch });
        }
    }
    let own = birth
        .isolation
        .as_ref()
        .filter(|it| !it.record.is_of_hook)
        .map(|it| WorktreeRestriction { worktree: it.record.path.clone(), checkout: it.record.top.clone() });
    if let Some(fence) = own.or_else(|| walls.fence_of(&facts.parent)) {
        walls.fence_in(facts.id.clone(), fence);
    }
    Ok(())
}

/// The call state of the parent of an agent.
pub(super) fn parent_calls(
    world: &SpawnContext,
    desk: &SubagentRegistry,
    parent: &AgentId,
) -> Option<ParentCalls> {
    match parent.child() {
        None => Some(world.calls.clone()),
        Some(_) => desk.calls_of(parent),
    }
}

fn call_context(birth: &SpawnJob) -> CallContext {
    let mut cx = CallContext::detached(birth.facts.call.clone(), Arc::clone(&birth.cwd));
    cx.agent_id = birth.facts.id.clone();
    cx
}

/// Removes the worktree of an agent that has ended, if it contains no changes. Otherwise the report
/// names it.
pub(super) async fn settle(world: &SpawnContext, birth: &SpawnJob, report: &mut AgentReport) {
    world.premises.walls.unfence(&birth.facts.id);
    let (Some(isolation), Some(worktrees)) = (&birth.isolation, &world.worktrees) else { return };
    let stays = worktrees.settle(isolation.record.clone(), &call_context(birth)).await;
    if stays {
        let branch = isolation.branch.clone().unwrap_or_default();
        report.worktree = Some((isolation.path().to_owned(), branch));
    }
}
