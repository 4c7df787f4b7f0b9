//! Where agents begin: everything of a session that they are made from.

use std::{path::Path, sync::Arc};

use haft_agent::{Inbox, Ledger, Masker, Prompt, UserInput};
use haft_model::Provider;
use haft_runtime::{CallSession, Limits, Pipeline, SessionState, SharedPool};
use haft_shell::run::Tasks;
use haft_tool::ProgressSink;
use haft_tools::agent::SpawnOrder;
use tokio::sync::mpsc;

use super::{AgentDesk, AgentKind, ChildFacts, child};
use crate::{
    SlashCommand,
    assembly::ChildrenHeld,
    premises::Premises,
    questions::{AskedCalls, QuestionDesk},
};

/// Everything of a session that its agents are made from.
pub(crate) struct AgentWorld {
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) premises: Arc<Premises>,
    /// Who pays.
    pub(crate) ledger: Ledger,
    /// Where the session runs, and what everybody should know.
    pub(crate) prompt: Prompt,
    /// Those of the main agent.
    pub(crate) calls: ParentCalls,
    pub(crate) tasks: Option<Arc<Tasks>>,
    pub(crate) held: ChildrenHeld,
    pub(crate) asked: Arc<AskedCalls>,
    pub(crate) questions: Arc<QuestionDesk>,
    pub(crate) masker: Masker,
    /// Skills that definitions may begin with.
    pub(crate) skills: Vec<SlashCommand>,
    /// Where agents that are kept apart work.
    pub(crate) worktrees: Option<Arc<crate::worktrees::WorktreeDesk>>,
}

/// What the calls of an agent pass through, and those of the agents it starts.
#[derive(Clone)]
pub(crate) struct ParentCalls {
    pub(crate) pipeline: Arc<Pipeline>,
    pub(crate) pool: SharedPool,
    pub(crate) limits: Limits,
    pub(crate) progress: ProgressSink,
    pub(crate) home: Option<Arc<Path>>,
}

impl ParentCalls {
    pub(crate) fn of(calls: &CallSession) -> Self {
        Self {
            pipeline: Arc::clone(&calls.pipeline),
            pool: calls.pool.clone(),
            limits: calls.limits,
            progress: calls.progress.clone(),
            home: calls.state.home.clone(),
        }
    }

    /// Calls as the parent would make them in a directory.
    pub(super) fn session(&self, cwd: &Path) -> CallSession {
        let mut state = SessionState::new(cwd);
        state.home.clone_from(&self.home);
        let mut calls = CallSession::new(Arc::clone(&self.pipeline), self.pool.clone(), state);
        calls.limits = self.limits;
        calls.progress = self.progress.clone();
        calls
    }
}

/// An agent that is to begin.
pub(crate) struct Birth {
    pub(super) facts: Arc<ChildFacts>,
    pub(super) kind: Arc<AgentKind>,
    pub(super) order: SpawnOrder,
    pub(super) cwd: Arc<Path>,
    pub(super) inbox: Inbox,
    pub(super) from: BirthFrom,
    /// Where it is kept apart, once it is.
    pub(super) isolation: Option<super::isolate::AgentIsolation>,
}

/// What an agent begins with.
#[derive(Debug)]
pub(super) enum BirthFrom {
    /// Nothing but its task.
    Nothing,
    /// Its own log: it goes on, with this message.
    ItsLog(Box<UserInput>),
}

impl Birth {
    pub(super) fn new(
        facts: Arc<ChildFacts>,
        kind: Arc<AgentKind>,
        order: SpawnOrder,
        cwd: Arc<Path>,
    ) -> Self {
        let (inbox, from, isolation) = (Inbox::default(), BirthFrom::Nothing, None);
        Self { facts, kind, order, cwd, inbox, from, isolation }
    }
}

/// Lets agents begin until the session ends.
pub(crate) fn start_nursery(
    world: AgentWorld,
    desk: Arc<AgentDesk>,
    mut births: mpsc::UnboundedReceiver<Birth>,
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
            tokio::spawn(child::live(Arc::clone(&world), Arc::clone(&desk), birth));
        }
    };
    tokio::spawn(async move {
        nursery.await;
        closed.cancel();
    });
}
