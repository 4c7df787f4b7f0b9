//! Where agents begin: everything of a session that they are made from.

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

/// Everything of a session that its agents are made from.
pub(crate) struct SpawnContext {
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) premises: Arc<SessionEnvironment>,
    /// Who pays.
    pub(crate) ledger: Budget,
    /// Where the session runs, and what everybody should know.
    pub(crate) prompt: SystemPrompt,
    /// Those of the main agent.
    pub(crate) calls: ParentCalls,
    pub(crate) tasks: Option<Arc<TaskRegistry>>,
    pub(crate) files: Option<Arc<SessionFiles>>,
    pub(crate) held: ChildContextViews,
    pub(crate) asked: Arc<QuestionedCalls>,
    pub(crate) questions: Arc<QuestionRegistry>,
    pub(crate) masker: Masker,
    /// What the last requests of agents that work were made of.
    pub(crate) forks: Mutex<HashMap<AgentId, ForkPoint>>,
    /// Skills that definitions may begin with.
    pub(crate) skills: Arc<ActiveSkills>,
    /// Who starts servers for agents that bring their own.
    pub(crate) servers: Arc<SessionServers>,
    /// Where agents that are kept apart work.
    pub(crate) worktrees: Option<Arc<crate::worktrees::SessionWorktrees>>,
}

/// What the calls of an agent pass through, and those of the agents it starts.
#[derive(Clone)]
pub(crate) struct ParentCalls {
    pub(crate) pipeline: Arc<Pipeline>,
    pub(crate) pool: SharedPool,
    pub(crate) limits: BatchLimits,
    pub(crate) progress: ProgressSink,
    pub(crate) home: Option<Arc<Path>>,
    pub(crate) companion: Option<Arc<dyn BatchObserver>>,
    /// Who pays for it, if that is not the session at once.
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

    /// Calls as the parent would make them in a directory.
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

/// An agent that is to begin.
pub(crate) struct SpawnJob {
    pub(super) facts: Arc<ChildIdentity>,
    pub(super) kind: Arc<AgentDefinition>,
    pub(super) order: SubagentRequest,
    pub(super) cwd: Arc<Path>,
    pub(super) inbox: AgentInbox,
    pub(super) from: SpawnOrigin,
    /// Where it is kept apart, once it is.
    pub(super) isolation: Option<super::isolation::AgentIsolation>,
}

/// What an agent begins with.
#[derive(Debug)]
pub(super) enum SpawnOrigin {
    /// Nothing but its task.
    Nothing,
    /// Its own log: it goes on, with this message.
    ItsLog(Box<UserInput>),
    /// The conversation of the agent that starts it.
    Parent,
}

impl SpawnContext {
    /// What the last request of an agent was made of.
    pub(super) fn fork_basis(&self, id: &AgentId) -> Option<Arc<ForkBasis>> {
        self.forks.lock().unwrap_or_else(PoisonError::into_inner).get(id)?.basis()
    }

    /// An agent works, and can be gone on from.
    pub(super) fn can_fork(&self, id: &AgentId, point: ForkPoint) {
        self.forks.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone(), point);
    }

    /// An agent has ended.
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

/// Lets agents begin until the session ends.
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
