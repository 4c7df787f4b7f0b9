use std::{collections::BTreeSet, sync::Arc};

use haft_tool::{
    AccessSet, CallContext, CallEffect, Content, Exposure, Outcome, Tool, ToolContext, ToolError, Traits,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    HookTask, TaskBoard, TaskEvent, TaskPatch, TaskServices, TaskStatus, create::check_texts, on_disk,
    task_number,
};

/// Changes a task of the task list. Set `in_progress` when you begin it and `completed` only when it
/// is really done; when something keeps you from it, leave it open and make a task for that. Tasks
/// that would wait for each other are refused. `deleted` takes it off the list for good.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Input {
    /// Its number.
    pub task_id: String,
    /// Another subject.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// Another description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The subject while it is being done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_form: Option<String>,
    /// How far it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<WantedStatus>,
    /// Numbers of tasks that wait for this one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub add_blocks: Vec<String>,
    /// Numbers of tasks this one waits for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub add_blocked_by: Vec<String>,
    /// The agent that does it; an empty one takes the owner away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Notes to keep with it; null takes one away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
}

/// How far a task is, or that it goes.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WantedStatus {
    /// Not begun.
    Pending,
    /// Being done.
    InProgress,
    /// Done.
    Completed,
    /// Off the list.
    Deleted,
}

impl WantedStatus {
    fn status(self) -> Option<TaskStatus> {
        match self {
            Self::Pending => Some(TaskStatus::Pending),
            Self::InProgress => Some(TaskStatus::InProgress),
            Self::Completed => Some(TaskStatus::Completed),
            Self::Deleted => None,
        }
    }
}

#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Output {
    success: bool,
    task_id: String,
    updated_fields: Vec<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status_change: Option<StatusChange>,
}

/// The old and the new state.
#[derive(Clone, Debug, Serialize)]
struct StatusChange {
    from: &'static str,
    to: &'static str,
}

impl Output {
    fn refused(task_id: &str, error: String) -> Self {
        Self { task_id: task_id.to_owned(), error: Some(error), ..Self::default() }
    }
}

pub struct TaskUpdate {
    services: TaskServices,
}

impl TaskUpdate {
    pub fn new(services: TaskServices) -> Self {
        Self { services }
    }

    fn patch(&self, input: &Input, cx: &CallContext) -> Result<TaskPatch, ToolError> {
        let numbers = |texts: &[String]| -> Result<BTreeSet<u64>, ToolError> {
            let number = |text: &String| {
                task_number(text)
                    .ok_or_else(|| ToolError::invalid(format!("{text:?} is no number of a task")))
            };
            texts.iter().map(number).collect()
        };
        let status = input.status.and_then(WantedStatus::status);
        // An agent that starts a task becomes its owner, unless the call says otherwise.
        let begins = status == Some(TaskStatus::InProgress);
        let own = input.owner.clone().or_else(|| self.services.watch.caller(cx).filter(|_| begins));
        Ok(TaskPatch {
            subject: input.subject.as_deref().map(|it| it.trim().to_owned()),
            description: input.description.clone(),
            active_form: input.active_form.clone(),
            status,
            owner: own.map(|it| it.trim().to_owned()),
            blocks: numbers(&input.add_blocks)?,
            blocked_by: numbers(&input.add_blocked_by)?,
            metadata: input.metadata.clone().unwrap_or_default(),
        })
    }
}

/// Returns the names of the fields a patch changes.
fn changed_fields(patch: &TaskPatch) -> Vec<&'static str> {
    let fields = [
        ("subject", patch.subject.is_some()),
        ("description", patch.description.is_some()),
        ("activeForm", patch.active_form.is_some()),
        ("status", patch.status.is_some()),
        ("owner", patch.owner.is_some()),
        ("blocks", !patch.blocks.is_empty()),
        ("blockedBy", !patch.blocked_by.is_empty()),
        ("metadata", !patch.metadata.is_empty()),
    ];
    fields.into_iter().filter(|it| it.1).map(|it| it.0).collect()
}

/// Determines the events and the result of a requested change, from the current list.
fn decide(board: &TaskBoard, id: u64, patch: TaskPatch, deletes: bool) -> (Vec<TaskEvent>, Output) {
    let task_id = id.to_string();
    let Some(task) = board.get(id) else {
        let why = format!("there is no task #{id}; TaskList shows all");
        return (Vec::new(), Output::refused(&task_id, why));
    };
    let from = task.status.name();
    if deletes {
        let status_change = Some(StatusChange { from, to: "deleted" });
        let done =
            Output { success: true, task_id, updated_fields: vec!["deleted"], error: None, status_change };
        return (vec![TaskEvent::Deleted { id }], done);
    }
    if let Some(why) = board.refusal(id, &patch) {
        return (Vec::new(), Output::refused(&task_id, why));
    }
    let updated_fields = changed_fields(&patch);
    let to = patch.status.map(TaskStatus::name).filter(|it| *it != from);
    let status_change = to.map(|to| StatusChange { from, to });
    let events = if updated_fields.is_empty() { Vec::new() } else { vec![TaskEvent::Updated { id, patch }] };
    (events, Output { success: true, task_id, updated_fields, error: None, status_change })
}

impl Tool for TaskUpdate {
    type Input = Input;
    type Output = Output;
    type Progress = ();
    const NAME: &'static str = "TaskUpdate";

    fn output_schema(&self) -> Option<serde_json::Value> {
        Some(serde_json::json!({
            "type": "object",
            "properties": {"success": {"type": "boolean"}, "taskId": {"type": "string"}, "updatedFields": {"type": "array", "items": {"type": "string"}}, "error": {"type": "string"}, "statusChange": {"type": "object"}},
            "required": ["success", "taskId", "updatedFields"],
        }))
    }

    fn traits(&self) -> Traits {
        Traits {
            search_hint: "task list update status owner complete delete",
            exposure: Exposure::Deferred,
            synonyms: &[("id", "taskId"), ("task_id", "taskId")],
            ..Traits::default()
        }
    }

    /// The list belongs to Haft; no project file changes.
    fn is_read_only(&self, _input: &Input) -> bool {
        true
    }

    fn reach(&self, _input: &Input, _cx: &CallContext) -> AccessSet {
        AccessSet::nothing()
    }

    fn validate(&self, input: &Input, _cx: &CallContext) -> Result<(), ToolError> {
        check_texts(input.subject.as_deref(), input.description.as_deref())
    }

    fn describe(&self, input: &Input) -> String {
        format!("Update task {}", haft_types::text::one_line(&input.task_id, 40))
    }

    async fn call(&self, input: Input, cx: &ToolContext<()>) -> Result<Outcome<Output>, ToolError> {
        let Some(id) = task_number(&input.task_id) else {
            let shown = haft_types::text::one_line(&input.task_id, 40);
            let why = format!("{shown:?} is no number of a task; TaskList shows all");
            return Ok(Output::refused(&input.task_id, why).into());
        };
        let patch = self.patch(&input, cx)?;
        if patch.status == Some(TaskStatus::Completed) {
            let lists = Arc::clone(&self.services.lists);
            let board = on_disk(move || lists.board()).await?;
            if let Some(task) = board.get(id).filter(|it| it.status != TaskStatus::Completed) {
                let heard = HookTask {
                    id,
                    subject: patch.subject.clone().unwrap_or_else(|| task.subject.clone()),
                    description: patch.description.clone().unwrap_or_else(|| task.description.clone()),
                    owner: patch.owner.clone().or_else(|| task.owner.clone()),
                };
                if let Err(why) = self.services.watch.completed(&heard, cx).await {
                    let why = format!("a hook says it is not done: {why}");
                    return Ok(Output::refused(&id.to_string(), why).into());
                }
            }
        }
        let deletes = input.status == Some(WantedStatus::Deleted);
        let (lists, wanted) = (Arc::clone(&self.services.lists), patch.clone());
        let output = on_disk(move || lists.change(|board| decide(board, id, wanted, deletes))).await?;
        let status = match (deletes, patch.status) {
            (true, _) => Some(String::from("deleted")),
            (false, status) => status.map(|it| it.name().to_owned()),
        };
        let is_done = output.success;
        let outcome = Outcome::from(output);
        Ok(match status.filter(|_| is_done) {
            Some(status) => {
                outcome.with_trace(CallEffect::Task { id: id.to_string(), text: patch.subject, status })
            }
            None => outcome,
        })
    }

    fn to_content(&self, output: &Output) -> Content {
        Content::text(match (&output.error, output.updated_fields.as_slice()) {
            (Some(error), _) => format!("Task {} stays as it was: {error}.", output.task_id),
            (None, []) => format!("Task #{}: nothing to change.", output.task_id),
            (None, ["deleted"]) => format!("Task #{} is off the list.", output.task_id),
            (None, fields) => format!("Task #{} has changed: {}.", output.task_id, fields.join(", ")),
        })
    }
}
