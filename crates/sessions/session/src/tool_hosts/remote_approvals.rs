//! Asks the local user about calls that rules of a tool host ask about.

use std::sync::Arc;

use haft_permission::Decision;
use haft_tool::{BoxFuture, Rendered, UserInteraction};
use haft_tool_host::{
    RemoteQuestionHandler,
    protocol::{AnswerFrame, QuestionFrame},
};
use haft_tool_runtime::{PermissionAnswer, PermissionQuestion};

use crate::late_pipeline::LatePipeline;

/// The local approver of the session.
pub(super) struct LocalQuestionHandler {
    pub(super) late: Arc<LatePipeline>,
}

impl RemoteQuestionHandler for LocalQuestionHandler {
    fn ask(&self, host: String, question: QuestionFrame) -> BoxFuture<'static, AnswerFrame> {
        let late = Arc::clone(&self.late);
        Box::pin(async move {
            let Some(pipeline) = late.get() else {
                return AnswerFrame::Deny { message: String::from("the session is over"), interrupt: false };
            };
            let reason = format!("the rules of host {host} ask: {}", question.reason);
            let asked = PermissionQuestion {
                tool: question.tool,
                call_id: question.key.call,
                agent_id: question.key.agent,
                input: question.input,
                description: format!("{} (on {host})", question.description),
                is_destructive: question.is_destructive,
                shown: Rendered::from(question.shown),
                decision: Decision::elsewhere(reason, question.suggestions),
                interaction: UserInteraction::None,
            };
            match pipeline.gate.ask_for_remote_host(Arc::new(asked)).await {
                PermissionAnswer::Allow { updates, .. } => AnswerFrame::Allow { updates },
                PermissionAnswer::Deny { message, interrupt } => AnswerFrame::Deny { message, interrupt },
                PermissionAnswer::Unavailable { message } => AnswerFrame::Deny { message, interrupt: false },
            }
        })
    }
}
