//! Spawns sub-agents, from the parts of the session they share.

use std::{
    collections::HashMap,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use haft_agent::{AgentInbox, Budget, ForkBasis, ForkPoint, Masker, SystemPrompt, UserInput};
use haft_builtin_tools::agent::SubagentRequest;
use haft_model::Provider;
use haft_shell::run::TaskRegistry;
use haft_tool::ProgressSink;
use haft_tool_runtime::{BatchLimits, BatchObserver, CallSession, CallSessionState, Pipeline, SharedPool};
use haft_types::AgentId;
use haft_workspace::SessionFiles;
use tokio::sync::mpsc;

use super::{AgentDefinition, ChildIdentity, SubagentRegistry, child_run};
use crate::{
    build::ChildContextViews,
    environment::SessionEnvironment,
    extensions::ActiveSkills,
    mcp_servers::SessionServers,
    questions::{QuestionRegistry, QuestionedCalls},
};

/// The parts of a session that sub-agents are built from.
pub(crate) struct SpawnContext {
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) premises: Arc<SessionEnvironment>,
    /// The budget that runs are charged to.
    pub(crate) ledger: Budget,
    /// Environment and memory parts of the system prompt.
    pub(crate) prompt: SystemPrompt,
    /// The call state of the main agent.
    pub(crate) calls: ParentCalls,
    pub(crate) tasks: Option<Arc<TaskRegistry>>,
    pub(crate) files: Option<Arc<SessionFiles>>,
    pub(crate) held: ChildContextViews,
    pub(crate) asked: Arc<QuestionedCalls>,
    pub(crate) questions: Arc<QuestionRegistry>,
    pub(crate) masker: Masker,
    /// What the latest requests of running agents consisted of, for forks.
    pub(crate) forks: Mutex<HashMap<AgentId, ForkPoint>>,
    /// Skills that definitions can preload.
    pub(crate) skills: Arc<ActiveSkills>,
    /// Starts the MCP servers that definitions bring.
    pub(crate) servers: Arc<SessionServers>,
    /// Worktrees of isolated agents; `None` where they are not supported.
    pub(crate) worktrees: Option<Arc<crate::worktrees::SessionWorktrees>>,
}

/// The call state of an agent, from which that of its sub-agents is derived.
#[derive(Clone)]
pub(crate) struct ParentCalls {
    pub(crate) pipeline: Arc<Pipeline>,
    pub(crate) pool: SharedPool,
    pub(crate) limits: BatchLimits,
    pub(crate) progress: ProgressSink,
    pub(crate) home: Option<Arc<Path>>,
    pub(crate) companion: Option<Arc<dyn BatchObserver>>,
    /// The parent's budget, if the agent is not charged to the session directly.
    pub(crate) payer: Option<Budget>,
}

impl ParentCalls {
    pub(crate) fn from_calls(calls: &CallSession) -> Self {
        Self {
            pipeline: Arc::clone(&calls.pipeline),
            pool: calls.pool.clone(),
            limits: calls.limits,
            progress: calls.progress.clone(),
            home: calls.state.home.clone(),
            companion: calls.companion.clone(),
            payer: None,
        }
    }

    /// Creates a call session like the parent's, in another directory.
    pub(crate) fn session(&self, cwd: &Path) -> CallSession {
        let mut state = CallSessionState::new(cwd);
        state.home.clone_from(&self.home);
        let mut calls = CallSession::new(Arc::clone(&self.pipeline), self.pool.clone(), state);
        calls.limits = self.limits;
        calls.progress = self.progress.clone();
        calls.companion.clone_from(&self.companion);
        calls
    }
}

/// An agent to spawn.
pub(crate) struct SpawnJob {
    pub(super) facts: Arc<ChildIdentity>,
    pub(super) kind: Arc<AgentDefinition>,
    pub(super) order: SubagentRequest,
    pub(super) cwd: Arc<Path>,
    pub(super) inbox: AgentInbox,
    pub(super) from: SpawnOrigin,
    /// The worktree, once it is created.
    pub(super) isolation: Option<super::isolation::AgentIsolation>,
}

/// What an agent starts with.
#[derive(Debug)]
pub(super) enum SpawnOrigin {
    /// Only its task.
    Nothing,
    /// Its own log: it is resumed with this message.
    ItsLog(Box<UserInput>),
    /// The conversation of its parent.
    Parent,
}

impl SpawnContext {
    /// The parts of an agent's latest request; `None` before the first one.
    pub(super) fn fork_basis(&self, id: &AgentId) -> Option<Arc<ForkBasis>> {
        self.forks.lock().unwrap_or_else(PoisonError::into_inner).get(id)?.basis()
    }

    /// Sets the fork point of a running agent.
    pub(super) fn can_fork(&self, id: &AgentId, point: ForkPoint) {
        self.forks.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone(), point);
    }

    /// Removes the fork point of an agent that has ended; later forks of it fail.
    pub(super) fn cannot_fork(&self, id: &AgentId) {
        self.forks.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
    }
}

impl SpawnJob {
    pub(super) fn new(
        facts: Arc<ChildIdentity>,
        kind: Arc<AgentDefinition>,
        order: SubagentRequest,
        cwd: Arc<Path>,
    ) -> Self {
        let from = if kind.is_fork() { SpawnOrigin::Parent } else { SpawnOrigin::Nothing };
        Self { facts, kind, order, cwd, inbox: AgentInbox::default(), from, isolation: None }
    }
}

/// Spawns agents in a background task until the session ends.
pub(crate) fn start_nursery(
    world: SpawnContext,
    desk: Arc<SubagentRegistry>,
    mut births: mpsc::UnboundedReceiver<SpawnJob>,
) {
    let world = Arc::new(world);
    let closed = desk.nursery_closed.clone();
    let nursery = async move {
        loop {
            let birth = tokio::select! {
                birth = births.recv() => birth,
                () = desk.session.cancelled() => None,
            };
            let Some(birth) = birth else { return };
            tokio::spawn(child_run::live(Arc::clone(&world), Arc::clone(&desk), birth));
        }
    };
    tokio::spawn(async move {
        nursery.await;
        closed.cancel();
    });
}
