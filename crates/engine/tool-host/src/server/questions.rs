//! Permission questions of the host, answered by the client's user.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use haft_permission::{Destination, PermissionUpdate};
use haft_tool::BoxFuture;
use haft_tool_runtime::{Answer, Approver, NoApprover, Question};
use tokio::sync::oneshot;

use super::host_run::HostRun;
use crate::protocol::{AnswerFrame, CallKey, HostFrame, QuestionFrame, RenderedFrame};

/// Questions waiting for an answer.
#[derive(Default)]
pub(crate) struct PendingQuestions(Mutex<PendingQuestionState>);

#[derive(Default)]
struct PendingQuestionState {
    last: u64,
    open: BTreeMap<u64, (QuestionFrame, oneshot::Sender<AnswerFrame>)>,
}

impl PendingQuestions {
    fn lock(&self) -> MutexGuard<'_, PendingQuestionState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, mut frame: QuestionFrame) -> (QuestionFrame, oneshot::Receiver<AnswerFrame>) {
        let (answer, answered) = oneshot::channel();
        let mut waiting = self.lock();
        waiting.last += 1;
        frame.question = waiting.last;
        waiting.open.insert(frame.question, (frame.clone(), answer));
        (frame, answered)
    }

    fn remove(&self, question: u64) -> bool {
        self.lock().open.remove(&question).is_some()
    }

    /// Delivers an answer; ignored if the question is not pending.
    pub(crate) fn answer(&self, question: u64, answer: AnswerFrame) {
        if let Some((_, waits)) = self.lock().open.remove(&question) {
            waits.send(answer).ok();
        }
    }

    /// Returns all pending questions, for a client that reconnected.
    pub(crate) fn open(&self) -> Vec<QuestionFrame> {
        self.lock().open.values().map(|(frame, _)| frame.clone()).collect()
    }
}

/// Asks the client's user about calls of one run.
pub(crate) struct RemoteApprover(pub(crate) Weak<HostRun>);

/// Withdraws a question when its caller stops waiting.
struct PendingQuestionGuard {
    run: Arc<HostRun>,
    question: u64,
}

impl Drop for PendingQuestionGuard {
    fn drop(&mut self) {
        if self.run.questions.remove(self.question) {
            self.run.say(&HostFrame::Withdrawn { question: self.question });
        }
    }
}

impl Approver for RemoteApprover {
    fn ask<'a>(&'a self, question: Question<'a>) -> BoxFuture<'a, Answer> {
        let Some(run) = self.0.upgrade().filter(|it| it.is_attended()) else {
            return NoApprover.ask(question);
        };
        let suggestions: Vec<PermissionUpdate> =
            question.decision.suggestions.iter().cloned().map(for_session).collect();
        let frame = QuestionFrame {
            question: 0,
            key: CallKey { agent: question.agent_id.clone(), call: question.call_id.clone() },
            tool: question.tool.to_owned(),
            input: question.input.clone(),
            description: question.description.to_owned(),
            is_destructive: question.is_destructive,
            shown: RenderedFrame::from(question.shown),
            reason: question.decision.reason.clone(),
            suggestions: suggestions.clone(),
        };
        Box::pin(async move {
            let (frame, answered) = run.questions.add(frame);
            let _asked = PendingQuestionGuard { run: Arc::clone(&run), question: frame.question };
            run.say(&HostFrame::Ask(Box::new(frame)));
            match answered.await {
                Ok(AnswerFrame::Allow { updates }) => {
                    // Accept only updates that were offered, and only for the session.
                    let updates = updates.into_iter().map(for_session).filter(|it| suggestions.contains(it));
                    Answer::Allow { updated_input: None, updates: updates.collect() }
                }
                Ok(AnswerFrame::Deny { message, interrupt }) => Answer::Deny { message, interrupt },
                Err(_) => Answer::unasked("the question was not answered"),
            }
        })
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
