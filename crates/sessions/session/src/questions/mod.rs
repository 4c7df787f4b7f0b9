//! Questions of a session: values that go out as events and come back as
//! commands.
//!
//! **Invariant:** a question nobody answers, that is answered with the answer to
//! another kind of question, or whose face is gone, is answered with no.
//!
//! **Invariant:** a question its asker does not wait for any more is taken back
//! ([`SessionEventKind::Settled`]), and an answer to it is
//! ignored.

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

/// A question somebody has to answer.
#[derive(Clone, Debug)]
pub struct SessionQuestion {
    /// Its name; the answer repeats it.
    pub id: String,
    /// Who asks.
    pub agent: AgentId,
    /// What the agent that asks is, in words, where another one started it.
    pub asker: Option<String>,
    /// What is asked.
    pub subject: QuestionSubject,
}

/// What a question is about.
#[derive(Clone, Debug)]
pub enum QuestionSubject {
    /// Whether a call may run. Answered with [`QuestionAnswer::Permission`].
    Permission(Arc<PermissionQuestion>),
    /// What an MCP server wants to know. Answered with [`QuestionAnswer::Elicitation`].
    Elicitation(Box<Elicitation>),
    /// Whether a server of the project may be started from now on, exactly as it
    /// is. Answered with [`QuestionAnswer::ServerTrust`].
    ServerTrust(Box<WaitingServer>),
}

/// The answer to a question.
#[derive(Clone, Debug)]
pub enum QuestionAnswer {
    /// Whether the call may run.
    Permission(PermissionAnswer),
    /// What the server is told.
    Elicitation(ElicitAnswer),
    /// Whether the server may start.
    ServerTrust(bool),
    /// The face could not ask, for this reason.
    Unasked(String),
}

/// Keeps the questions of a session that wait for an answer.
pub(crate) struct QuestionRegistry {
    events: EventSender,
    /// By id, with whether it is a permission question.
    pending: PendingMap<String, bool, QuestionAnswer>,
    progress: Mutex<PromptProgress>,
    /// What agents are that others started.
    askers: Mutex<HashMap<AgentId, String>>,
}

#[derive(Default)]
struct PromptProgress {
    /// Whether a prompt is being worked on.
    is_working: bool,
    /// How many permission questions wait.
    permissions: usize,
}

impl QuestionRegistry {
    pub(crate) fn new(events: EventSender) -> Arc<Self> {
        let (pending, progress) = (PendingMap::default(), Mutex::default());
        Arc::new(Self { events, pending, progress, askers: Mutex::default() })
    }

    /// Questions of this agent say who asks.
    pub(crate) fn introduce(&self, agent: AgentId, what: String) {
        self.askers.lock().unwrap_or_else(PoisonError::into_inner).insert(agent, what);
    }

    fn progress(&self) -> MutexGuard<'_, PromptProgress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks, and waits for the answer; none when the face is gone. Dropping the
    /// future withdraws the question.
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
            // Who does not hear a question does not answer it.
            () = self.events.unread() => None,
        }
    }

    /// A question was answered. Answers to what nobody asks any more are ignored.
    pub(crate) fn answer(&self, id: &str, answer: QuestionAnswer) {
        if let Some((is_permission, sender)) = self.pending.take(id) {
            self.settle(id, is_permission, QuestionOutcome::Answered);
            sender.send(answer).ok();
        }
    }

    /// Tells that a question waits no more.
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

    /// A prompt begins or ends.
    pub(crate) fn set_working(&self, working: bool) {
        self.progress().is_working = working;
    }

    /// Nobody will answer any more: every question has the answer no.
    pub(crate) fn close(&self) {
        self.pending.close();
    }
}
