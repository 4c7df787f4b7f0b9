//! Permission questions and questions of servers, answered by the face.

use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use haft_mcp_client::{ElicitAnswer, Elicitation, ElicitationHandler};
use haft_tool::BoxFuture;
use haft_tool_runtime::{Answer, Approver, Question};
use haft_types::{AgentId, CallId};

use super::{EditorDiffs, PermissionQuestion, QuestionAnswer, QuestionRegistry, QuestionSubject};
use crate::DenialText;

/// Tools whose calls are questions to a person: they are not there where nobody
/// answers.
pub(crate) const OF_PERSON: [&str; 2] = ["AskUserQuestion", "ExitPlanMode"];

/// Whether a tool is there only where somebody answers. Plan mode ends with the user's approval, so
/// where nobody can give it the model is not offered the way in: it could not come out again.
pub(crate) fn needs_answers(tool: &str) -> bool {
    OF_PERSON.contains(&tool) || tool == "EnterPlanMode"
}

/// What became of permission questions, for those who tell about calls.
#[derive(Default)]
pub(crate) struct QuestionedCalls {
    wants_end: AtomicBool,
    asked: Mutex<HashSet<CallId>>,
}

impl QuestionedCalls {
    /// Whether somebody was asked about a call; the question is forgotten then.
    pub(crate) fn take(&self, call: &CallId) -> bool {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).remove(call)
    }

    /// Whether a denial since the last time asked for the end of the turn.
    pub(crate) fn take_interrupt(&self) -> bool {
        self.wants_end.swap(false, Ordering::AcqRel)
    }
}

/// Asks the face whether calls may run.
pub(crate) struct EventApprover {
    pub(crate) desk: Arc<QuestionRegistry>,
    pub(crate) calls: Arc<QuestionedCalls>,
    pub(crate) words: DenialText,
    /// The person's editor, where changes are shown, too.
    pub(crate) editor: Option<EditorDiffs>,
}

impl Approver for EventApprover {
    fn ask<'a>(&'a self, question: Question<'a>) -> BoxFuture<'a, Answer> {
        let asked = PermissionQuestion {
            tool: question.tool.to_owned(),
            call_id: question.call_id.clone(),
            input: question.input.clone(),
            description: question.description.to_owned(),
            is_destructive: question.is_destructive,
            shown: question.shown.clone(),
            decision: question.decision.clone(),
            needs_person: OF_PERSON.contains(&question.tool),
        };
        let agent = question.agent_id.clone();
        self.calls.asked.lock().unwrap_or_else(PoisonError::into_inner).insert(asked.call_id.clone());
        Box::pin(async move {
            let subject = QuestionSubject::Permission(Box::new(asked.clone()));
            let in_editor = async {
                match &self.editor {
                    Some(editor) => editor.answer(&asked).await,
                    None => std::future::pending().await,
                }
            };
            let answer = tokio::select! {
                answer = self.desk.ask(agent, subject) => answer,
                answer = in_editor => Some(QuestionAnswer::Permission(answer)),
            };
            let answer = match answer {
                Some(QuestionAnswer::Permission(answer)) => answer,
                Some(QuestionAnswer::Unasked(why)) => Answer::unasked(why),
                Some(_) => Answer::no("the answer is no answer to this question"),
                None => Answer::unasked("Tool permission stream closed before response received"),
            };
            if let Answer::Deny { interrupt: true, .. } = answer {
                self.calls.wants_end.store(true, Ordering::Release);
            }
            answer
        })
    }

    fn refusal(&self, tool: &str, reason: &str) -> String {
        match self.words {
            DenialText::Verbatim => reason.to_owned(),
            DenialText::Explained => format!("{tool} was not allowed to run: {reason}"),
        }
    }
}

/// Asks the face what servers want to know.
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
