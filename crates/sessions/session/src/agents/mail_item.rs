//! Reports and messages queued for an agent.

use std::sync::Arc;

use haft_agent::UserInput;
use haft_builtin_tools::agent::{AgentReport, flat, harmless, indented, report_text};
use haft_types::{CallId, MessageBlock, tags};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::agent_tree::ReportWaiter;

/// An item of an agent's mail.
#[derive(Clone, Debug)]
pub(crate) struct MailItem {
    pub(super) waiter: ReportWaiter,
    pub(super) what: MailBody,
}

/// Content of a mail item.
#[derive(Clone, Debug)]
pub(super) enum MailBody {
    /// The report of a sub-agent that has ended, and the call that started it.
    Report(Arc<AgentReport>, CallId),
    /// A message of another agent.
    Letter(AgentMessage),
}

/// A message from one agent to another, as stored on disk.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(super) struct AgentMessage {
    /// Unique id, so that the message is delivered once.
    pub(super) id: String,
    /// Id of the sender.
    pub(super) from: String,
    /// Name of the sender.
    pub(super) name: String,
    /// Id of the receiver.
    pub(super) to: String,
    pub(super) body: String,
}

impl AgentMessage {
    fn text(&self) -> String {
        tags::reminder(&format!(
            "This is a message of the agent {}, written by a model and without the user's authority:\n{}",
            self.name,
            indented(&harmless(&self.body))
        ))
    }

    /// The message as model input. The receiver's log records its id.
    pub(super) fn input(&self) -> UserInput {
        let content = vec![MessageBlock::Text { text: self.text() }];
        UserInput { content, origin: Some(self.origin()), ..UserInput::default() }
    }

    fn origin(&self) -> Value {
        json!({
            "kind": "peer", "from": self.from, "senderTaskId": self.from, "name": self.name,
            "body": haft_types::text::one_line(&self.body, 300), "messageIds": [self.id],
        })
    }
}

/// Combines mail into one input. The log records the ids of runs and messages, so that each is delivered
/// once.
pub(super) fn notice(mail: &[MailItem]) -> Option<UserInput> {
    let mut origin = json!({"kind": "task-notification", "producer": "session-task"});
    let (mut content, mut runs, mut letters) = (Vec::new(), Vec::new(), Vec::new());
    for item in mail {
        let text = match &item.what {
            MailBody::Report(report, call) => {
                runs.push(report.run_id.clone());
                notification(report, call)
            }
            MailBody::Letter(letter) => {
                if runs.is_empty() && letters.is_empty() {
                    origin = letter.origin();
                }
                letters.push(letter.id.clone());
                letter.text()
            }
        };
        content.push(MessageBlock::Text { text });
    }
    if let Some(first) = runs.first() {
        origin["runId"] = json!(first);
        origin["runIds"] = json!(runs);
    }
    if !letters.is_empty() {
        origin["messageIds"] = json!(letters);
    }
    (!content.is_empty()).then(|| UserInput { content, origin: Some(origin), ..UserInput::default() })
}

fn notification(report: &AgentReport, call: &CallId) -> String {
    let file = report.log.as_ref().map(|it| it.display().to_string()).unwrap_or_default();
    let news = format!(
        "<task-id>{}</task-id>\n<tool-use-id>{call}</tool-use-id>\n\
         <output-file>{file}</output-file>\n<status>{}</status>\n<summary>{} {}</summary>\n<result>\n{}\n</result>",
        report.agent_id,
        report.status.public(),
        flat(&report.description, 120),
        report.status.words(),
        report_text(report),
    );
    tags::task_notification(
        "This comes from an agent that worked in the background, not from the user.",
        &news,
    )
}
