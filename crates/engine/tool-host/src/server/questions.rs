//! Permission questions of the host, answered by the client's user.

use std::sync::{
    Arc, Weak,
    atomic::{AtomicU64, Ordering},
};

use haft_permission::{Destination, PermissionUpdate};
use haft_tool::BoxFuture;
use haft_tool_runtime::{Approver, NoApprover, PendingMap, PermissionAnswer, PermissionQuestion};

use super::host_run::HostRun;
use crate::protocol::{AnswerFrame, CallKey, HostFrame, QuestionFrame, RenderedFrame};

/// Questions waiting for an answer.
#[derive(Default)]
pub(crate) struct PendingQuestions {
    last: AtomicU64,
    pub(crate) open: PendingMap<u64, QuestionFrame, AnswerFrame>,
}

/// Asks the client's user about calls of one run.
pub(crate) struct RemoteApprover(pub(crate) Weak<HostRun>);

impl Approver for RemoteApprover {
    fn ask(&self, question: Arc<PermissionQuestion>) -> BoxFuture<'static, PermissionAnswer> {
        let Some(run) = self.0.upgrade().filter(|it| it.is_attended()) else {
            return NoApprover.ask(question);
        };
        let id = run.questions.last.fetch_add(1, Ordering::Relaxed) + 1;
        let frame = QuestionFrame::new(id, &question);
        let suggestions = frame.suggestions.clone();
        Box::pin(async move {
            let send = || run.say(&HostFrame::Ask(Box::new(frame.clone())));
            let withdraw = |it: QuestionFrame| run.say(&HostFrame::Withdrawn { question: it.question });
            match run.questions.open.ask(id, frame.clone(), send, withdraw).await {
                Some(AnswerFrame::Allow { updates }) => {
                    // Accept only updates that were offered, and only for the session.
                    let updates = updates.into_iter().map(for_session).filter(|it| suggestions.contains(it));
                    PermissionAnswer::allow_and_keep(updates.collect())
                }
                Some(AnswerFrame::Deny { message, interrupt }) => {
                    PermissionAnswer::Deny { message, interrupt }
                }
                None => PermissionAnswer::unavailable("the question was not answered"),
            }
        })
    }
}

impl QuestionFrame {
    fn new(id: u64, question: &PermissionQuestion) -> Self {
        Self {
            question: id,
            key: CallKey { agent: question.agent_id.clone(), call: question.call_id.clone() },
            tool: question.tool.clone(),
            input: question.input.clone(),
            description: question.description.clone(),
            is_destructive: question.is_destructive,
            shown: RenderedFrame::from(&question.shown),
            reason: question.decision.reason.clone(),
            suggestions: question.decision.suggestions.iter().cloned().map(for_session).collect(),
        }
    }
}

/// Limits a permission update to the session.
fn for_session(update: PermissionUpdate) -> PermissionUpdate {
    let destination = Destination::Session;
    match update {
        PermissionUpdate::AddRules(list) => {
            PermissionUpdate::AddRules(haft_permission::RuleList { destination, ..list })
        }
        PermissionUpdate::ReplaceRules(list) => {
            PermissionUpdate::ReplaceRules(haft_permission::RuleList { destination, ..list })
        }
        PermissionUpdate::RemoveRules(list) => {
            PermissionUpdate::RemoveRules(haft_permission::RuleList { destination, ..list })
        }
        PermissionUpdate::SetMode { mode, .. } => PermissionUpdate::SetMode { mode, destination },
        PermissionUpdate::AddDirectories { directories, .. } => {
            PermissionUpdate::AddDirectories { directories, destination }
        }
        PermissionUpdate::RemoveDirectories { directories, .. } => {
            PermissionUpdate::RemoveDirectories { directories, destination }
        }
    }
}
