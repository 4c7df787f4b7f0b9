//! Questions of far rules, asked of the person here.

use std::sync::Arc;

use haft_tool::{BoxFuture, Rendered};
use haft_tool_host::{
    NearAsk,
    frame::{AskFrame, WireAnswer},
};
use haft_tool_runtime::{Answer, ElsewhereQuestion};

use crate::late::LatePipeline;

/// The person of the session.
pub(super) struct PersonHere {
    pub(super) late: Arc<LatePipeline>,
}

impl NearAsk for PersonHere {
    fn ask(&self, host: String, question: AskFrame) -> BoxFuture<'static, WireAnswer> {
        let late = Arc::clone(&self.late);
        Box::pin(async move {
            let Some(pipeline) = late.get() else {
                return WireAnswer::Deny { message: String::from("the session is over"), interrupt: false };
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
                Answer::Allow { updates, .. } => WireAnswer::Allow { updates },
                Answer::Deny { message, interrupt } => WireAnswer::Deny { message, interrupt },
                Answer::Unasked { message } => WireAnswer::Deny { message, interrupt: false },
            }
        })
    }
}
