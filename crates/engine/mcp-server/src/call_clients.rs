//! Gives tools access to the client that made their call.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use haft_tool::{BoxFuture, CallId};
use haft_tool_runtime::{Approver, NoApprover, PermissionAnswer, PermissionQuestion};
use rmcp::model::ClientCapabilities;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

/// Clients of all running calls. Tools that ask the client something get it in their constructor.
#[derive(Clone, Default)]
pub struct Clients(Arc<Mutex<HashMap<CallId, CallClient>>>);

impl Clients {
    fn calls(&self) -> MutexGuard<'_, HashMap<CallId, CallClient>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the client that made a call; `None` if the call did not come from a client.
    pub fn of(&self, call: &CallId) -> Option<CallClient> {
        self.calls().get(call).cloned()
    }

    /// Registers the client of a call until the guard is dropped.
    pub(super) fn enter(&self, call: CallId, client: CallClient) -> CallInFlight {
        self.calls().insert(call.clone(), client);
        CallInFlight { clients: self.clone(), call }
    }
}

/// Registration of a running call.
pub(super) struct CallInFlight {
    clients: Clients,
    call: CallId,
}

impl Drop for CallInFlight {
    fn drop(&mut self) {
        self.clients.calls().remove(&self.call);
    }
}

/// The client that made a call.
#[derive(Clone)]
pub struct CallClient {
    wishes: mpsc::UnboundedSender<ClientRequest>,
    can: DeclaredCapabilities,
}

/// Capabilities a client declared.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct DeclaredCapabilities {
    pub(super) elicit: bool,
    pub(super) sample: bool,
    pub(super) list_roots: bool,
    pub(super) follow_tasks: bool,
}

impl DeclaredCapabilities {
    pub(super) fn from_capabilities(capabilities: &ClientCapabilities) -> Self {
        Self {
            elicit: capabilities.elicitation.is_some(),
            sample: capabilities.sampling.is_some(),
            list_roots: capabilities.roots.is_some(),
            follow_tasks: capabilities.supports_tasks(),
        }
    }

    fn answers(self, kind: InputKind) -> bool {
        match kind {
            InputKind::Elicit => self.elicit,
            InputKind::Sample => self.sample,
            InputKind::Roots => self.list_roots,
        }
    }
}

/// A request of a call to its client.
pub(super) enum ClientRequest {
    Inputs { inputs: Vec<ClientInput>, answers: oneshot::Sender<Vec<Value>> },
    Log { level: String, data: Value },
}

/// A question to a client.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientInput {
    /// Identifies the question within its call; must be the same when the call is repeated.
    pub key: String,
    /// Kind of question.
    pub kind: InputKind,
    /// Parameters of the request.
    pub params: Value,
    /// Whether the answer counts only if exactly this question was sent, so that a client cannot answer
    /// an important question in advance.
    pub must_be_asked: bool,
}

impl ClientInput {
    /// Creates a question with `must_be_asked` unset.
    pub fn new(key: impl Into<String>, kind: InputKind, params: Value) -> Self {
        Self { key: key.into(), kind, params, must_be_asked: false }
    }
}

/// Kind of question.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum InputKind {
    /// To the user.
    Elicit,
    /// To the client's model.
    Sample,
    /// Directories the client works in.
    Roots,
}

impl InputKind {
    pub(super) fn method(self) -> &'static str {
        match self {
            Self::Elicit => "elicitation/create",
            Self::Sample => "sampling/createMessage",
            Self::Roots => "roots/list",
        }
    }
}

/// The client cannot answer, or declined.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the client cannot answer this")]
pub struct NotAnswered;

impl CallClient {
    pub(super) fn new(can: DeclaredCapabilities) -> (Self, mpsc::UnboundedReceiver<ClientRequest>) {
        let (wishes, receiver) = mpsc::unbounded_channel();
        (Self { wishes, can }, receiver)
    }

    /// Whether the client declared the capability for this kind of question.
    pub fn answers(&self, kind: InputKind) -> bool {
        self.can.answers(kind)
    }

    /// Asks several questions at once and waits for all answers, in order.
    ///
    /// In the modern protocol the call may be aborted here and started again from its beginning once the
    /// answers are there. So ask before making changes.
    pub async fn ask(&self, inputs: Vec<ClientInput>) -> Result<Vec<Value>, NotAnswered> {
        if !inputs.iter().all(|input| self.answers(input.kind)) {
            return Err(NotAnswered);
        }
        let (answers, answered) = oneshot::channel();
        self.wishes.send(ClientRequest::Inputs { inputs, answers }).map_err(|_| NotAnswered)?;
        answered.await.map_err(|_| NotAnswered)
    }

    /// Asks one question.
    pub async fn ask_one(&self, input: ClientInput) -> Result<Value, NotAnswered> {
        self.ask(vec![input]).await?.pop().ok_or(NotAnswered)
    }

    /// Sends a log message, if the client requested log messages.
    pub fn log(&self, level: &str, data: Value) {
        let _ = self.wishes.send(ClientRequest::Log { level: level.to_owned(), data });
    }
}

/// Lets the client's user decide about permission prompts. If the client cannot ask a user, the call is
/// denied.
pub struct ClientApprover {
    clients: Clients,
}

impl ClientApprover {
    /// Creates an approver that asks the client of each call.
    pub fn new(clients: Clients) -> Self {
        Self { clients }
    }
}

impl Approver for ClientApprover {
    fn ask(&self, question: Arc<PermissionQuestion>) -> BoxFuture<'static, PermissionAnswer> {
        let client = self.clients.of(&question.call_id).filter(|it| it.answers(InputKind::Elicit));
        let Some(client) = client else { return NoApprover.ask(question) };
        let input = permission_question(&question);
        Box::pin(async move {
            match client.ask_one(input).await {
                Ok(answer) if answer["action"] == "accept" && answer["content"]["decision"] == "allow" => {
                    PermissionAnswer::allow()
                }
                Ok(_) => PermissionAnswer::deny("the user said no"),
                Err(NotAnswered) => PermissionAnswer::unavailable("the user could not be asked"),
            }
        })
    }
}

fn permission_question(question: &PermissionQuestion) -> ClientInput {
    let message = format!("Allow {}?\n{}", question.description, question.decision.reason);
    let params = json!({
        "mode": "form",
        "message": haft_types::text::head(&message, 2000),
        "requestedSchema": {
            "type": "object",
            "properties": {
                "decision": {
                    "type": "string",
                    "title": "Decision",
                    "enum": ["allow", "deny"],
                    "default": "deny",
                },
            },
            "required": ["decision"],
        },
    });
    ClientInput { must_be_asked: true, ..ClientInput::new("permission", InputKind::Elicit, params) }
}
