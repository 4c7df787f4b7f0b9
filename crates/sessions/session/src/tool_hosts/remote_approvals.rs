//! Questions of far rules, asked of the person here.

use std::sync::Arc;

use haft_tool::{BoxFuture, Rendered};
use haft_tool_host::{
    RemoteQuestionHandler,
    protocol::{AnswerFrame, QuestionFrame},
};
use haft_tool_runtime::{Answer, ElsewhereQuestion};

use crate::late_pipeline::LatePipeline;

/// The person of the session.
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
            let shown = Rendered::from(question.shown);
            let description = format!("{} (on {host})", question.description);
            let asked = ElsewhereQuestion {
                tool: &question.tool,
                call_id: &question.key.call,
                agent_id: &question.key.agent,
                input: &question.input,
                description: &description,
                is_destructive: question.is_destructive,
                shown: &shown,
                reason: format!("the rules of host {host} ask: {}", question.reason),
                suggestions: question.suggestions,
            };
            match pipeline.gate.ask_elsewhere(asked).await {
                Answer::Allow { updates, .. } => AnswerFrame::Allow { updates },
                Answer::Deny { message, interrupt } => AnswerFrame::Deny { message, interrupt },
                Answer::Unasked { message } => AnswerFrame::Deny { message, interrupt: false },
            }
        })
    }
}
