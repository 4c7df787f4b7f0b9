//! Stops background tasks.

use std::sync::Arc;

use haft_shell::run::TaskRegistry;
use haft_tool::{
    AccessSet, CallContext, CallEffect, Content, Outcome, Tool, ToolContext, ToolError, Traits, Verdict,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::task_output::{AgentTasks, named, unknown};

/// Ends a background task together with every process it started.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// Old name of task_id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shell_id: Option<String>,
}

/// What was ended.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub struct Output {
    /// In one sentence.
    pub message: String,
    /// The task.
    pub task_id: String,
    /// What it was.
    pub task_type: String,
    /// Its command line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

pub struct TaskStop {
    tasks: Arc<TaskRegistry>,
    others: Arc<dyn AgentTasks>,
}

impl TaskStop {
    pub fn new(tasks: Arc<TaskRegistry>, others: Arc<dyn AgentTasks>) -> Self {
        Self { tasks, others }
    }
}

impl Tool for TaskStop {
    type Input = Input;
    type Output = Output;
    type Progress = ();
    const NAME: &'static str = "TaskStop";

    fn output_schema(&self) -> Option<serde_json::Value> {
        Some(haft_tool::schema_of::<Output>())
    }

    fn traits(&self) -> Traits {
        Traits {
            aliases: &["KillShell"],
            synonyms: &[("id", "task_id"), ("bash_id", "task_id")],
            search_hint: "stop kill end background task process",
            ..Traits::default()
        }
    }

    fn reach(&self, _input: &Input, _cx: &CallContext) -> AccessSet {
        AccessSet::nothing()
    }

    fn validate(&self, input: &Input, _cx: &CallContext) -> Result<(), ToolError> {
        named([&input.task_id, &input.shell_id]).map(drop)
    }

    /// It can only stop what this session started.
    fn check_permissions(&self, _input: &Input, _cx: &CallContext) -> Verdict {
        Verdict::Allow
    }

    fn describe(&self, input: &Input) -> String {
        format!("End {}", named([&input.task_id, &input.shell_id]).unwrap_or("a task"))
    }

    async fn call(&self, input: Input, _cx: &ToolContext<()>) -> Result<Outcome<Output>, ToolError> {
        let id = named([&input.task_id, &input.shell_id])?;
        let before = self.tasks.get(id);
        if let Some(task) = self.tasks.stop(id).await {
            let was_over = before.is_some_and(|it| it.status.name() != "running");
            let message = if was_over {
                format!("{id} had already ended: {}", task.status.name())
            } else {
                format!("Ended {id}: {}", haft_types::text::one_line(&task.command, 120))
            };
            let task_type = task.about.kind.name().to_owned();
            let output = Output { message, task_id: task.id, task_type, command: Some(task.command) };
            return Ok(Outcome::from(output).with_trace(CallEffect::BackgroundEnded(id.to_owned())));
        }
        match self.others.stop(id).await {
            Some(what) => {
                let message = format!("Ended {id}: {what}");
                let output = Output { message, task_id: id.to_owned(), task_type: what, command: None };
                Ok(Outcome::from(output).with_trace(CallEffect::BackgroundEnded(id.to_owned())))
            }
            None => Err(unknown(id, &self.tasks, self.others.as_ref())),
        }
    }

    fn to_content(&self, output: &Output) -> Content {
        Content::text(output.message.clone())
    }
}
