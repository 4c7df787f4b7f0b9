use std::sync::Arc;

use haft_tool::{
    AccessSet, CallContext, Content, Exposure, LineStyle, Outcome, Rendered, RenderedLine, Stage, Tool,
    ToolContext, ToolError, Traits,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{TaskServices, TaskStatus, on_disk};

/// Lists all tasks by number, with their state, owner and what they wait for. Take the lowest number
/// that is pending, has no owner and waits for nothing.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Input {}

/// A task in the list.
#[derive(Clone, Debug)]
struct ListedTask {
    id: u64,
    subject: String,
    status: TaskStatus,
    owner: Option<String>,
    owner_ended: bool,
    blocked_by: Vec<u64>,
}

impl ListedTask {
    fn text(&self) -> String {
        let mut text = format!("#{} [{}] {}", self.id, self.status.name(), self.subject);
        match (&self.owner, self.owner_ended) {
            (Some(owner), true) => text.push_str(&format!(" ({owner}, which has ended)")),
            (Some(owner), false) => text.push_str(&format!(" ({owner})")),
            (None, _) => (),
        }
        if !self.blocked_by.is_empty() {
            let ids: Vec<String> = self.blocked_by.iter().map(|it| format!("#{it}")).collect();
            text.push_str(&format!(" [blocked by {}]", ids.join(", ")));
        }
        text
    }
}

#[derive(Clone, Debug)]
pub struct Output {
    tasks: Vec<ListedTask>,
}

impl Serialize for Output {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let tasks: Vec<Value> = self
            .tasks
            .iter()
            .map(|it| {
                let blocked: Vec<String> = it.blocked_by.iter().map(u64::to_string).collect();
                let mut task = json!({
                    "id": it.id.to_string(), "subject": it.subject, "status": it.status, "blockedBy": blocked,
                });
                if let Some(owner) = &it.owner {
                    task["owner"] = json!(owner);
                }
                task
            })
            .collect();
        json!({"tasks": tasks}).serialize(serializer)
    }
}

pub struct TaskList {
    services: TaskServices,
}

impl TaskList {
    pub fn new(services: TaskServices) -> Self {
        Self { services }
    }
}

impl Tool for TaskList {
    type Input = Input;
    type Output = Output;
    type Progress = ();
    const NAME: &'static str = "TaskList";

    fn output_schema(&self) -> Option<serde_json::Value> {
        Some(serde_json::json!({
            "type": "object",
            "properties": {"tasks": {"type": "array", "items": {"type": "object"}}},
            "required": ["tasks"],
        }))
    }

    fn traits(&self) -> Traits {
        Traits { search_hint: "task list show all", exposure: Exposure::Deferred, ..Traits::default() }
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

    fn describe(&self, _input: &Input) -> String {
        String::from("List the tasks")
    }

    async fn call(&self, _input: Input, _cx: &ToolContext<()>) -> Result<Outcome<Output>, ToolError> {
        let lists = Arc::clone(&self.services.lists);
        let board = on_disk(move || lists.board()).await?;
        let ended =
            |owner: &Option<String>| owner.as_deref().is_some_and(|it| self.services.watch.has_ended(it));
        let tasks = board.tasks().map(|(id, task)| ListedTask {
            id,
            subject: haft_types::text::one_line(&task.subject, super::MAX_SUBJECT),
            status: task.status,
            owner_ended: task.status == TaskStatus::InProgress && ended(&task.owner),
            owner: task.owner.clone(),
            blocked_by: board.open_blockers(task),
        });
        Ok(Output { tasks: tasks.collect() }.into())
    }

    fn to_content(&self, output: &Output) -> Content {
        if output.tasks.is_empty() {
            return Content::text("There are no tasks.");
        }
        let lines: Vec<String> = output.tasks.iter().map(ListedTask::text).collect();
        Content::text(lines.join("\n"))
    }

    fn render(&self, stage: Stage<'_, Input, Output>) -> Rendered {
        let output = match stage {
            Stage::Done(output) => output,
            Stage::Running(input) => return Rendered::headline(self.describe(input)),
            Stage::Failed(error) => return Rendered::error(&error.message),
        };
        let line = |task: &ListedTask| match task.status {
            TaskStatus::Completed => RenderedLine::new(LineStyle::Dim, format!("☒ {}", task.text())),
            TaskStatus::InProgress => RenderedLine::new(LineStyle::Added, format!("▶ {}", task.text())),
            TaskStatus::Pending => RenderedLine::new(LineStyle::Plain, format!("☐ {}", task.text())),
        };
        Rendered {
            headline: String::from("Tasks"),
            lines: output.tasks.iter().map(line).collect(),
            ..Rendered::default()
        }
    }
}
