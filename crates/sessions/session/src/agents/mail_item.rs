//! Reports and messages on their way to an agent.

use std::sync::Arc;

use haft_agent::UserInput;
use haft_builtin_tools::agent::{AgentReport, flat, harmless, indented, report_text};
use haft_types::{CallId, MessageBlock, tags};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::agent_tree::ReportWaiter;

/// Something an agent is to hear.
#[derive(Clone, Debug)]
pub(crate) struct MailItem {
    pub(super) waiter: ReportWaiter,
    pub(super) what: MailBody,
}

/// What an agent is to hear.
#[derive(Clone, Debug)]
pub(super) enum MailBody {
    /// An agent it started has ended.
    Report(Arc<AgentReport>, CallId),
    /// Another agent says something.
    Letter(AgentMessage),
}

/// A message from one agent to another, as it is kept until it was read.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(super) struct AgentMessage {
    /// Names it, so that it is read once.
    pub(super) id: String,
    /// The agent that wrote it.
    pub(super) from: String,
    /// What that agent is called.
    pub(super) name: String,
    /// The agent it is for.
    pub(super) to: String,
    /// What it says.
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

    /// As the agent that gets it hears it. Its log says which message it was.
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

/// What an agent hears of all this; several at once are one message. The log
/// says which runs and messages it is about, so that each is told once.
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
