//! Approver and elicitation handler that ask the front end.

use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use haft_agent::DeniedToolCall;
use haft_mcp_client::{ElicitAnswer, Elicitation, ElicitationHandler};
use haft_tool::{BoxFuture, ErrorKind};
use haft_tool_runtime::{AnsweredCall, Approver, DenialSource, PermissionAnswer, PermissionQuestion};
use haft_types::{AgentId, CallId};

use super::{EditorDiffs, QuestionAnswer, QuestionRegistry, QuestionSubject};
use crate::DenialText;

/// Which calls a permission question was asked about, for the components that report results of calls.
#[derive(Default)]
pub(crate) struct QuestionedCalls {
    wants_end: AtomicBool,
    asked: Mutex<HashSet<CallId>>,
}

impl QuestionedCalls {
    /// Whether a question was asked about the call. Removes the entry.
    fn take(&self, call: &CallId) -> bool {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).remove(call)
    }

    /// The denial of a call that neither a user nor a hook denied; `None` for other results.
    pub(crate) fn unasked_denial(&self, answered: &AnsweredCall) -> Option<DeniedToolCall> {
        let was_asked = self.take(&answered.call.id);
        let denied = DeniedToolCall::from_answered(answered)?;
        let is_plain = answered.report.error == Some(ErrorKind::Denied);
        let by_rules = denied.by.is_some_and(|by| by != DenialSource::Hook);
        (is_plain && by_rules && !was_asked).then_some(denied)
    }

    /// Whether, since the last call of this method, a denial asked to end the turn.
    pub(crate) fn take_interrupt(&self) -> bool {
        self.wants_end.swap(false, Ordering::AcqRel)
    }
}

/// Asks the front end whether calls may run.
pub(crate) struct EventApprover {
    pub(crate) desk: Arc<QuestionRegistry>,
    pub(crate) calls: Arc<QuestionedCalls>,
    pub(crate) words: DenialText,
    /// The user's editor, which also shows file changes as diffs.
    pub(crate) editor: Option<EditorDiffs>,
}

impl Approver for EventApprover {
    fn ask(&self, question: Arc<PermissionQuestion>) -> BoxFuture<'static, PermissionAnswer> {
        let (desk, calls, editor) = (Arc::clone(&self.desk), Arc::clone(&self.calls), self.editor.clone());
        calls.asked.lock().unwrap_or_else(PoisonError::into_inner).insert(question.call_id.clone());
        Box::pin(async move {
            let subject = QuestionSubject::Permission(Arc::clone(&question));
            let in_editor = async {
                match &editor {
                    Some(editor) => editor.answer(&question).await,
                    None => std::future::pending().await,
                }
            };
            let answer = tokio::select! {
                answer = desk.ask(question.agent_id.clone(), subject) => answer,
                answer = in_editor => Some(QuestionAnswer::Permission(answer)),
            };
            let answer = match answer {
                Some(QuestionAnswer::Permission(answer)) => answer,
                Some(QuestionAnswer::Unasked(why)) => PermissionAnswer::unavailable(why),
                Some(_) => PermissionAnswer::deny("the answer is no answer to this question"),
                None => {
                    PermissionAnswer::unavailable("Tool permission stream closed before response received")
                }
            };
            if let PermissionAnswer::Deny { interrupt: true, .. } = answer {
                calls.wants_end.store(true, Ordering::Release);
            }
            answer
        })
    }

    fn denial_text(&self, tool: &str, reason: &str) -> String {
        match self.words {
            DenialText::Verbatim => reason.to_owned(),
            DenialText::Explained => format!("{tool} was not allowed to run: {reason}"),
        }
    }
}

/// Passes elicitation requests of MCP servers to the front end.
pub(crate) struct EventElicitation {
    pub(crate) desk: Arc<QuestionRegistry>,
}

impl ElicitationHandler for EventElicitation {
    fn elicit(&self, request: Elicitation) -> BoxFuture<'static, ElicitAnswer> {
        let desk = Arc::clone(&self.desk);
        Box::pin(async move {
            match desk.ask(AgentId::Main, QuestionSubject::Elicitation(Box::new(request))).await {
                Some(QuestionAnswer::Elicitation(answer)) => answer,
                _ => ElicitAnswer::Decline,
            }
        })
    }
}
