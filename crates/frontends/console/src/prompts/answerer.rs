//! Answers the prompts of a session by asking the user at the terminal.

use std::collections::HashMap;

use haft_mcp_client::ElicitationHandler as _;
use haft_session::{
    QuestionAnswer, QuestionSubject, SessionEvent, SessionEventKind, SessionHandle, SessionQuestion,
};
use tokio::task::AbortHandle;

use crate::prompts::{ConsoleElicitation, permission::ask_permission, server_trust::may_start};

/// Asks the user; withdraws a prompt when it is settled elsewhere.
pub struct ConsoleAnswerer {
    handle: SessionHandle,
    open: HashMap<String, AbortHandle>,
}

impl ConsoleAnswerer {
    /// Sends the answers to `handle`.
    pub fn new(handle: SessionHandle) -> Self {
        Self { handle, open: HashMap::new() }
    }

    /// If the event is a prompt, asks in a separate task. If it settles a prompt, withdraws that one.
    pub fn take(&mut self, event: &SessionEvent) {
        match &event.what {
            SessionEventKind::Asked(question) => {
                let (handle, question) = (self.handle.clone(), SessionQuestion::clone(question));
                let id = question.id.clone();
                let asking = tokio::spawn(async move {
                    let id = question.id.clone();
                    handle.answer(id, answer(question).await);
                });
                self.open.insert(id, asking.abort_handle());
            }
            SessionEventKind::Settled(id, _) => {
                if let Some(asking) = self.open.remove(id) {
                    asking.abort();
                }
            }
            _ => (),
        }
    }
}

async fn answer(question: SessionQuestion) -> QuestionAnswer {
    match question.subject {
        QuestionSubject::Permission(asked) => {
            QuestionAnswer::Permission(ask_permission(asked, question.asker).await)
        }
        QuestionSubject::Elicitation(asked) => {
            QuestionAnswer::Elicitation(ConsoleElicitation.elicit(*asked).await)
        }
        QuestionSubject::ServerTrust(waiting) => {
            let agreed = tokio::task::spawn_blocking(move || may_start(&waiting)).await;
            QuestionAnswer::ServerTrust(agreed.unwrap_or(false))
        }
    }
}
