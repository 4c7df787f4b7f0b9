//! Questions of a session: emitted as events, answered with commands.
//!
//! **Invariant:** a question counts as denied if it is not answered, if the answer belongs to
//! another kind of question, or if the front end is gone.
//!
//! **Invariant:** a question whose asker no longer waits is withdrawn
//! ([`SessionEventKind::Settled`]), and an answer to it is ignored.

mod client_approver;
mod editor_diff;
mod mcp_approver;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use haft_mcp_client::{ElicitAnswer, Elicitation};
use haft_tool_runtime::{PendingMap, PermissionAnswer, PermissionQuestion};
use haft_types::AgentId;

pub(crate) use self::{
    client_approver::{EventApprover, EventElicitation, QuestionedCalls},
    editor_diff::EditorDiffs,
    mcp_approver::McpToolApprover,
};
pub use mcp_approver::read_permission_answer;

use crate::{Activity, EventSender, QuestionOutcome, SessionEventKind, mcp_servers::WaitingServer};

/// A question that waits for an answer.
#[derive(Clone, Debug)]
pub struct SessionQuestion {
    /// Id of the question; [`Command::Answer`](crate::Command::Answer) repeats it.
    pub id: String,
    /// The agent that asks.
    pub agent: AgentId,
    /// Description of the agent that asks, if it is a sub-agent.
    pub asker: Option<String>,
    /// What the question is about.
    pub subject: QuestionSubject,
}

/// What a question is about.
#[derive(Clone, Debug)]
pub enum QuestionSubject {
    /// Whether a call may run. Answered with [`QuestionAnswer::Permission`].
    Permission(Arc<PermissionQuestion>),
    /// An elicitation request of an MCP server. Answered with [`QuestionAnswer::Elicitation`].
    Elicitation(Box<Elicitation>),
    /// Whether a server of the project may be started, with exactly this configuration. Answered with
    /// [`QuestionAnswer::ServerTrust`].
    ServerTrust(Box<WaitingServer>),
}

/// The answer to a question.
#[derive(Clone, Debug)]
pub enum QuestionAnswer {
    /// Whether the call may run.
    Permission(PermissionAnswer),
    /// The reply that is sent to the server.
    Elicitation(ElicitAnswer),
    /// Whether the server may start.
    ServerTrust(bool),
    /// The front end could not ask, for this reason. Counts as a denial.
    Unasked(String),
}

/// The open questions of a session.
pub(crate) struct QuestionRegistry {
    events: EventSender,
    /// By id; the flag is set for permission questions.
    pending: PendingMap<String, bool, QuestionAnswer>,
    progress: Mutex<PromptProgress>,
    /// Descriptions of sub-agents, by id.
    askers: Mutex<HashMap<AgentId, String>>,
}

#[derive(Default)]
struct PromptProgress {
    /// Whether a turn is running.
    is_working: bool,
    /// Number of open permission questions.
    permissions: usize,
}

impl QuestionRegistry {
    pub(crate) fn new(events: EventSender) -> Arc<Self> {
        let (pending, progress) = (PendingMap::default(), Mutex::default());
        Arc::new(Self { events, pending, progress, askers: Mutex::default() })
    }

    /// Sets the description shown with questions of this agent.
    pub(crate) fn introduce(&self, agent: AgentId, what: String) {
        self.askers.lock().unwrap_or_else(PoisonError::into_inner).insert(agent, what);
    }

    fn progress(&self) -> MutexGuard<'_, PromptProgress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks a question and waits for the answer. Returns `None` if the event stream was dropped or the
    /// registry was closed. Dropping the future withdraws the question.
    pub(crate) async fn ask(&self, agent: AgentId, subject: QuestionSubject) -> Option<QuestionAnswer> {
        let asker = self.askers.lock().unwrap_or_else(PoisonError::into_inner).get(&agent).cloned();
        let question = SessionQuestion { id: uuid::Uuid::new_v4().to_string(), agent, asker, subject };
        let is_permission = matches!(question.subject, QuestionSubject::Permission(_));
        let id = question.id.clone();
        let send = || {
            if is_permission {
                self.progress().permissions += 1;
                self.events.tell(SessionEventKind::Activity(Activity::RequiresAction));
            }
            let agent = question.agent.clone();
            self.events.tell_of(agent, None, SessionEventKind::Asked(Arc::new(question)));
        };
        let withdraw = |is_permission| self.settle(&id, is_permission, QuestionOutcome::TakenBack);
        tokio::select! {
            answer = self.pending.ask(id.clone(), is_permission, send, withdraw) => answer,
            // Nobody can answer without an event stream.
            () = self.events.unread() => None,
        }
    }

    /// Answers a question. Answers to unknown or withdrawn questions are ignored.
    pub(crate) fn answer(&self, id: &str, answer: QuestionAnswer) {
        if let Some((is_permission, sender)) = self.pending.take(id) {
            self.settle(id, is_permission, QuestionOutcome::Answered);
            sender.send(answer).ok();
        }
    }

    /// Emits that a question is settled.
    fn settle(&self, id: &str, is_permission: bool, how: QuestionOutcome) {
        let resumes = {
            let mut progress = self.progress();
            progress.permissions -= usize::from(is_permission);
            progress.is_working && progress.permissions == 0
        };
        self.events.tell(SessionEventKind::Settled(id.to_owned(), how));
        if resumes {
            self.events.tell(SessionEventKind::Activity(Activity::Running));
        }
    }

    /// Records that a turn starts or ends.
    pub(crate) fn set_working(&self, working: bool) {
        self.progress().is_working = working;
    }

    /// Denies all open and future questions.
    pub(crate) fn close(&self) {
        self.pending.close();
    }
}
