use std::sync::Arc;

use haft_tool::{
    AccessSet, CallContext, CallEffect, Content, Exposure, Outcome, Tool, ToolContext, ToolError, Traits,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{
    HookTask, MAX_DESCRIPTION, MAX_SUBJECT, MAX_TASKS, TaskEvent, TaskPatch, TaskServices, TaskStatus,
    on_disk,
};

/// Puts a task on the task list, which you share with the agents you start. It begins as `pending`
/// and without an owner; say with TaskUpdate what it waits for. Use it for work of several steps, or
/// to hand out work; look with TaskList first, so that nothing is on the list twice.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Input {
    /// What is to be done, in the imperative and in a few words: "Fix the login test".
    #[schemars(length(min = 1))]
    pub subject: String,
    /// All that somebody else needs to do it, and when it is done.
    pub description: String,
    /// The subject while it is being done: "Fixing the login test".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_form: Option<String>,
    /// Anything else to keep with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
}

#[derive(Clone, Debug)]
pub struct Output {
    id: u64,
    subject: String,
    description: String,
}

impl Serialize for Output {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let task =
            json!({"id": self.id.to_string(), "subject": self.subject, "description": self.description});
        json!({"task": task}).serialize(serializer)
    }
}

pub struct TaskCreate {
    services: TaskServices,
}

impl TaskCreate {
    pub fn new(services: TaskServices) -> Self {
        Self { services }
    }
}

impl Tool for TaskCreate {
    type Input = Input;
    type Output = Output;
    type Progress = ();
    const NAME: &'static str = "TaskCreate";

    fn output_schema(&self) -> Option<serde_json::Value> {
        Some(serde_json::json!({
            "type": "object",
            "properties": {"task": {"type": "object", "properties": {"id": {"type": "string"}, "subject": {"type": "string"}}}},
            "required": ["task"],
        }))
    }

    fn traits(&self) -> Traits {
        Traits {
            search_hint: "task list create add plan share",
            exposure: Exposure::Deferred,
            synonyms: &[("title", "subject")],
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
        check_texts(Some(&input.subject), Some(&input.description))
    }

    fn describe(&self, input: &Input) -> String {
        format!("New task: {}", haft_types::text::one_line(&input.subject, 100))
    }

    async fn call(&self, input: Input, cx: &ToolContext<()>) -> Result<Outcome<Output>, ToolError> {
        let lists = || Arc::clone(&self.services.lists);
        // Reserve the number first, so that hooks can refer to the task.
        let taken = lists();
        let reserved = on_disk(move || {
            taken.change(|board| {
                let open = board.tasks().filter(|(_, it)| it.status != TaskStatus::Completed).count();
                if open < MAX_TASKS {
                    (vec![TaskEvent::Reserved { id: board.next_id() }], Some(board.next_id()))
                } else {
                    (Vec::new(), None)
                }
            })
        });
        let Some(id) = reserved.await? else {
            return Err(ToolError::failed(format!(
                "there are {MAX_TASKS} open tasks, which is the limit: complete or delete some first"
            )));
        };
        let subject = input.subject.trim().to_owned();
        let heard =
            HookTask { id, subject: subject.clone(), description: input.description.clone(), owner: None };
        if let Err(why) = self.services.watch.created(&heard, cx).await {
            return Err(ToolError::failed(format!("a hook refused the task: {why}")));
        }
        let task = TaskPatch {
            subject: Some(subject.clone()),
            description: Some(input.description.clone()),
            active_form: input.active_form.clone(),
            metadata: input.metadata.clone().unwrap_or_default(),
            ..TaskPatch::default()
        };
        let written = lists();
        on_disk(move || written.change(|_| (vec![TaskEvent::Created { id, task }], ()))).await?;
        let status = TaskStatus::Pending.name().to_owned();
        let trace = CallEffect::Task { id: id.to_string(), text: Some(subject.clone()), status };
        let output = Output { id, subject, description: input.description };
        Ok(Outcome::from(output).with_trace(trace))
    }

    fn to_content(&self, output: &Output) -> Content {
        Content::text(format!("Task #{} is on the list: {}", output.id, output.subject))
    }
}

/// Checks the length of a task's texts.
pub(super) fn check_texts(subject: Option<&str>, description: Option<&str>) -> Result<(), ToolError> {
    if subject.is_some_and(|it| it.trim().is_empty()) {
        return Err(ToolError::invalid("subject is empty: say in a few words what is to be done"));
    }
    for (name, text, most) in
        [("subject", subject, MAX_SUBJECT), ("description", description, MAX_DESCRIPTION)]
    {
        if text.is_some_and(|it| most < it.chars().count()) {
            return Err(ToolError::invalid(format!("{name} is longer than {most} characters: shorten it")));
        }
    }
    Ok(())
}
