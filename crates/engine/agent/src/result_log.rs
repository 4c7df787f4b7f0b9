//! Adds results of calls to the conversation and its log.

use std::sync::Arc;

use haft_tool_runtime::AnsweredCall;
use haft_types::{Message, Role};
use serde_json::{Map, Value};

use crate::{
    Agent, AgentEvent,
    conversation::{MessageOrigin, NewLogLine, uuid},
    log::{CallFinishedLine, LogState},
};

impl Agent {
    /// Logs and emits a finished call.
    pub(crate) fn add_result(&mut self, answered: &Arc<AnsweredCall>) {
        let uuid = self.log_result(answered);
        self.tell(AgentEvent::CallFinished(Arc::clone(answered)));
        self.tell(AgentEvent::ResultLogged { uuid, answered: Arc::clone(answered) });
    }

    /// Adds a result to the conversation and returns the uuid of its log line.
    pub(crate) fn log_result(&mut self, AnsweredCall { call, report }: &AnsweredCall) -> String {
        if let Some(tape) = &self.tape {
            tape.call(call, report);
        }
        let uuid = uuid();
        let tool_use_result = match report.error {
            None => report.data.clone(),
            Some(_) => Some(format!("Error: {}", report.content.to_text()).into()),
        };
        let line = NewLogLine {
            uuid: uuid.clone(),
            message: Message { role: Role::User, content: vec![report.to_block()] },
            origin: MessageOrigin::User,
            tool_use_result,
        };
        if report.left_for_later {
            self.left.insert(call.id.clone())
        } else {
            self.left.remove(&call.id)
        };
        let mut states =
            vec![LogState::Call(Box::new(CallFinishedLine::from_report(report, &self.tools.agent_id)))];
        let ours = report.meta.as_ref().and_then(Value::as_object).map(|meta| {
            let ours = meta.iter().filter(|(key, _)| key.starts_with("haft/"));
            ours.map(|(key, value)| (key.clone(), value.clone())).collect::<Map<_, _>>()
        });
        states.extend(
            ours.filter(|it| !it.is_empty()).map(|meta| LogState::Meta { call: call.id.clone(), meta }),
        );
        self.add_with(vec![line], states);
        for notice in &report.notices {
            self.tell(AgentEvent::Notice(notice.clone()));
        }
        uuid
    }
}
