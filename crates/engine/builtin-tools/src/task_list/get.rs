use std::sync::Arc;

use haft_tool::{AccessSet, CallContext, Content, Exposure, Outcome, Tool, ToolContext, ToolError, Traits};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{BoardTask, TaskServices, on_disk, task_number};

/// Shows one task of the task list with all that is known about it. Read a task before you begin it.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Input {
    /// Its number.
    pub task_id: String,
}

/// The task, if one with this number exists.
#[derive(Clone, Debug)]
pub struct Output {
    asked: String,
    task: Option<(u64, BoardTask)>,
}

impl Serialize for Output {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let texts =
            |ids: &std::collections::BTreeSet<u64>| ids.iter().map(u64::to_string).collect::<Vec<_>>();
        let task = self.task.as_ref().map(|(id, it)| {
            let mut task = json!({
                "id": id.to_string(), "subject": it.subject, "description": it.description,
                "status": it.status, "blocks": texts(&it.blocks), "blockedBy": texts(&it.blocked_by),
            });
            if let Some(owner) = &it.owner {
                task["owner"] = json!(owner);
            }
            if let Some(form) = &it.active_form {
                task["activeForm"] = json!(form);
            }
            if !it.metadata.is_empty() {
                task["metadata"] = json!(it.metadata);
            }
            task
        });
        json!({"task": task}).serialize(serializer)
    }
}

pub struct TaskGet {
    services: TaskServices,
}

impl TaskGet {
    pub fn new(services: TaskServices) -> Self {
        Self { services }
    }
}

impl Tool for TaskGet {
    type Input = Input;
    type Output = Output;
    type Progress = ();
    const NAME: &'static str = "TaskGet";

    fn output_schema(&self) -> Option<serde_json::Value> {
        Some(serde_json::json!({
            "type": "object",
            "properties": {"task": {"type": ["object", "null"]}},
            "required": ["task"],
        }))
    }

    fn traits(&self) -> Traits {
        Traits {
            search_hint: "task list get show one",
            exposure: Exposure::Deferred,
            synonyms: &[("id", "taskId"), ("task_id", "taskId")],
            ..Traits::default()
        }
    }

    fn is_read_only(&self, _input: &Input) -> bool {
        true
    }

    fn is_concurrency_safe(&self, _input: &Input) -> bool {
        true
    }

    fn reach(&self, _input: &Input, _cx: &CallContext) -> AccessSet {
        AccessSet::nothing()
    }

    fn describe(&self, input: &Input) -> String {
        format!("Task {}", haft_types::text::one_line(&input.task_id, 40))
    }

    async fn call(&self, input: Input, _cx: &ToolContext<()>) -> Result<Outcome<Output>, ToolError> {
        let lists = Arc::clone(&self.services.lists);
        let board = on_disk(move || lists.board()).await?;
        let task = task_number(&input.task_id).and_then(|id| Some((id, board.get(id)?.clone())));
        Ok(Output { asked: input.task_id, task }.into())
    }

    fn to_content(&self, output: &Output) -> Content {
        let Some((id, task)) = &output.task else {
            let asked = haft_types::text::one_line(&output.asked, 40);
            return Content::text(format!("There is no task {asked}. TaskList shows all."));
        };
        let mut text = format!("#{id} [{}] {}", task.status.name(), task.subject);
        if let Some(owner) = &task.owner {
            text.push_str(&format!("\nowner: {owner}"));
        }
        for (word, ids) in [("blocked by", &task.blocked_by), ("blocks", &task.blocks)] {
            if !ids.is_empty() {
                let ids: Vec<String> = ids.iter().map(|it| format!("#{it}")).collect();
                text.push_str(&format!("\n{word}: {}", ids.join(", ")));
            }
        }
        text.push_str(&format!("\n\n{}", task.description));
        Content::text(text)
    }
}
