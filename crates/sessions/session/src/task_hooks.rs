//! Hooks about tasks of task lists.

use std::sync::Arc;

use haft_builtin_tools::task_list::{HookTask, TaskLists, TaskObserver};
use haft_hooks::{HookDecision, HookEvent, HooksOutcome};
use haft_tool::{BoxFuture, CallContext};
use haft_types::AgentId;
use serde_json::{Value, json};

use crate::{agents::SubagentRegistry, environment::SessionEnvironment, late_pipeline::LatePipeline};

/// The task lists of a session: a named one, or its own.
pub(crate) fn task_lists(premises: &SessionEnvironment) -> Arc<TaskLists> {
    let named = ["HAFT_TASK_LIST", "CLAUDE_CODE_TASK_LIST_ID"].iter().find_map(|it| premises.variable(it));
    let named = named.filter(|it| !it.trim().is_empty());
    let list = named.unwrap_or_else(|| premises.session_id.to_string());
    Arc::new(TaskLists::at(premises.state_dir().join("task-lists"), &list))
}

/// Runs hooks about tasks.
pub(crate) struct TaskHooks {
    pub(crate) late: Arc<LatePipeline>,
    pub(crate) agents: Arc<SubagentRegistry>,
    pub(crate) lists: Arc<TaskLists>,
}

impl TaskHooks {
    fn fields(&self, task: &HookTask) -> Value {
        let mut fields = json!({"task_id": task.id.to_string(), "task_subject": task.subject});
        if !task.description.is_empty() {
            fields["task_description"] = json!(task.description);
        }
        if let Some(owner) = &task.owner {
            fields["teammate_name"] = json!(owner);
        }
        if let Some(team) = self.agents.team() {
            fields["team_name"] = json!(team);
        }
        fields["task_list"] = json!(self.lists.current());
        fields
    }

    async fn run(&self, event: HookEvent, task: &HookTask, cx: &CallContext) -> Result<(), String> {
        if !self.late.listens(event) {
            return Ok(());
        }
        refusal(self.late.run(event, self.fields(task), cx).await)
    }
}

/// The reason why hooks reject something, as an error.
pub(crate) fn refusal(outcome: HooksOutcome) -> Result<(), String> {
    match (outcome.decision, outcome.stop) {
        (HookDecision::Block { reason, .. }, _) => Err(reason),
        (_, Some(stop)) => Err(stop.reason),
        _ => Ok(()),
    }
}

impl TaskObserver for TaskHooks {
    fn created<'a>(&'a self, task: &'a HookTask, cx: &'a CallContext) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(self.run(HookEvent::TaskCreated, task, cx))
    }

    fn completed<'a>(&'a self, task: &'a HookTask, cx: &'a CallContext) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(self.run(HookEvent::TaskCompleted, task, cx))
    }

    fn caller(&self, cx: &CallContext) -> Option<String> {
        match &cx.agent_id {
            AgentId::Main => None,
            id => Some(self.agents.address_of(id)),
        }
    }

    fn has_ended(&self, owner: &str) -> bool {
        self.agents.is_known_and_ended(owner)
    }
}
