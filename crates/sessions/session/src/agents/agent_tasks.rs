//! Sub-agents as background tasks: reading their output and stopping them like commands.

use std::{sync::Arc, time::Duration};

use haft_builtin_tools::task_output::{AgentTasks, Output as TaskState};
use haft_tool::BoxFuture;

use super::{
    SubagentRegistry,
    agent_tree::{ChildSignal, StoppedBy},
    mail_item::MailBody,
};

impl SubagentRegistry {
    /// Whether the task with this id is an agent.
    pub(crate) fn knows(&self, id: &str) -> bool {
        self.tree().find(id).is_some()
    }
}

impl AgentTasks for SubagentRegistry {
    fn running(&self) -> Vec<(String, String)> {
        let tree = self.tree();
        let live = tree.nodes.values().filter(|it| it.is_live());
        live.map(|it| (it.facts.id.to_string(), format!("agent {}: {}", it.facts.kind, it.facts.description)))
            .collect()
    }

    fn output<'a>(&'a self, id: &'a str, wait: Duration) -> BoxFuture<'a, Option<TaskState>> {
        Box::pin(async move {
            let mut signal = {
                let tree = self.tree();
                tree.nodes.get(&tree.find(id)?)?.signal.subscribe()
            };
            let ended = async {
                while !matches!(&*signal.borrow_and_update(), ChildSignal::Ended(_)) {
                    if signal.changed().await.is_err() {
                        return;
                    }
                }
            };
            tokio::time::timeout(wait, ended).await.ok();
            let mut tree = self.tree();
            let id = tree.find(id)?;
            let node = tree.nodes.get(&id)?;
            let (facts, report) = (Arc::clone(&node.facts), node.report.clone());
            let last_text = node.last_text.clone();
            // The caller receives the report now, so it is removed from the mail.
            tree.mail.retain(
                |it| !matches!(&it.what, MailBody::Report(report, _) if report.run_id == facts.run_id),
            );
            Some(TaskState {
                task_id: facts.id.to_string(),
                task_type: String::from("local_agent"),
                status: report.as_ref().map_or("running", |it| it.status.public()).to_owned(),
                ended: report.as_ref().map(|it| it.status.words().to_owned()),
                output: match &report {
                    Some(report) => haft_builtin_tools::agent::report_text(report),
                    None => {
                        haft_builtin_tools::agent::indented(&haft_builtin_tools::agent::harmless(&last_text))
                    }
                },
                output_path: facts.log.clone(),
                elapsed_ms: report.map_or(0, |it| it.duration_ms),
            })
        })
    }

    fn stop<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Option<String>> {
        Box::pin(async move {
            let facts = SubagentRegistry::stop(self, id, StoppedBy::Parent)?;
            let said = self.last_text(id).filter(|it| !it.trim().is_empty());
            let said = said.map(|text| {
                let text = haft_builtin_tools::agent::indented(&haft_builtin_tools::agent::harmless(&text));
                format!("\nWhat it had said, written by a model:\n{text}")
            });
            Some(format!("agent {}: {}{}", facts.kind, facts.description, said.unwrap_or_default()))
        })
    }
}
