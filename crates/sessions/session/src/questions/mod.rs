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
use haft_permission::Decision;
use haft_tool::Rendered;
use haft_tool_runtime::Answer;
use haft_types::{AgentId, CallId};
use serde_json::Value;
use tokio::sync::oneshot;

pub(crate) use self::{
    client_approver::{EventApprover, EventElicitation, QuestionedCalls, needs_answers},
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
    Permission(Box<PermissionQuestion>),
    /// What an MCP server wants to know. Answered with [`QuestionAnswer::Elicitation`].
    Elicitation(Box<Elicitation>),
    /// Whether a server of the project may be started from now on, exactly as it
    /// is. Answered with [`QuestionAnswer::ServerTrust`].
    ServerTrust(Box<WaitingServer>),
}

/// Whether a call may run.
#[derive(Clone, Debug)]
pub struct PermissionQuestion {
    /// The tool.
    pub tool: String,
    /// The call.
    pub call_id: CallId,
    /// Its input.
    pub input: Value,
    /// One line that says what would happen.
    pub description: String,
    /// Whether it loses data that cannot be brought back.
    pub is_destructive: bool,
    /// What a person should see of it before answering: the command, the change.
    pub shown: Rendered,
    /// Why it is asked, part by part, and which rules would answer it for good.
    pub decision: Decision,
    /// Whether only a person can answer: what they say is the input of the call.
    pub needs_person: bool,
}

impl PermissionQuestion {
    /// What a person has to know before anything else.
    pub fn warning(&self) -> Option<&'static str> {
        self.is_destructive.then_some("what it removes or overwrites cannot be brought back")
    }
}

/// The answer to a question.
#[derive(Clone, Debug)]
pub enum QuestionAnswer {
    /// Whether the call may run.
    Permission(Answer),
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
    waiting: Mutex<WaitingQuestions>,
    /// What agents are that others started.
    askers: Mutex<HashMap<AgentId, String>>,
}

#[derive(Default)]
struct WaitingQuestions {
    closed: bool,
    /// Whether a prompt is being worked on.
    working: bool,
    by_id: HashMap<String, (oneshot::Sender<QuestionAnswer>, bool)>,
}

impl WaitingQuestions {
    /// Whether the session waits for a permission.
    fn requires_action(&self) -> bool {
        self.by_id.values().any(|(_, is_permission)| *is_permission)
    }
}

/// Takes a question back when nobody waits for its answer any more.
struct OpenQuestion<'a> {
    desk: &'a QuestionRegistry,
    id: String,
}

impl Drop for OpenQuestion<'_> {
    fn drop(&mut self) {
        self.desk.settle(&self.id, QuestionOutcome::TakenBack);
    }
}

impl QuestionRegistry {
    pub(crate) fn new(events: EventSender) -> Arc<Self> {
        Arc::new(Self { events, waiting: Mutex::default(), askers: Mutex::default() })
    }

    /// Questions of this agent say who asks.
    pub(crate) fn introduce(&self, agent: AgentId, what: String) {
        self.askers.lock().unwrap_or_else(PoisonError::into_inner).insert(agent, what);
    }

    fn waiting(&self) -> MutexGuard<'_, WaitingQuestions> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks, and waits for the answer; none when the face is gone. Dropping the
    /// future takes the question back.
    pub(crate) async fn ask(&self, agent: AgentId, subject: QuestionSubject) -> Option<QuestionAnswer> {
        let asker = self.askers.lock().unwrap_or_else(PoisonError::into_inner).get(&agent).cloned();
        let question = SessionQuestion { id: uuid::Uuid::new_v4().to_string(), agent, asker, subject };
        let is_permission = matches!(question.subject, QuestionSubject::Permission(_));
        let (sender, receiver) = oneshot::channel();
        {
            let mut waiting = self.waiting();
            if waiting.closed {
                return None;
            }
            waiting.by_id.insert(question.id.clone(), (sender, is_permission));
        }
        let _open = OpenQuestion { desk: self, id: question.id.clone() };
        if is_permission {
            self.events.tell(SessionEventKind::Activity(Activity::RequiresAction));
        }
        let agent = question.agent.clone();
        self.events.tell_of(agent, None, SessionEventKind::Asked(Arc::new(question)));
        tokio::select! {
            answer = receiver => answer.ok(),
            // Who does not hear a question does not answer it.
            () = self.events.unread() => None,
        }
    }

    /// A question was answered. Answers to what nobody asks any more are ignored.
    pub(crate) fn answer(&self, id: &str, answer: QuestionAnswer) {
        if let Some(sender) = self.settle(id, QuestionOutcome::Answered) {
            sender.send(answer).ok();
        }
    }

    fn settle(&self, id: &str, how: QuestionOutcome) -> Option<oneshot::Sender<QuestionAnswer>> {
        let mut waiting = self.waiting();
        let (sender, _) = waiting.by_id.remove(id)?;
        let goes_on = waiting.working && !waiting.requires_action();
        drop(waiting);
        self.events.tell(SessionEventKind::Settled(id.to_owned(), how));
        if goes_on {
            self.events.tell(SessionEventKind::Activity(Activity::Running));
        }
        Some(sender)
    }

    /// A prompt begins or ends.
    pub(crate) fn set_working(&self, working: bool) {
        self.waiting().working = working;
    }

    /// Nobody will answer any more: every question has the answer no.
    pub(crate) fn close(&self) {
        let mut waiting = self.waiting();
        waiting.closed = true;
        waiting.by_id.clear();
    }
}
