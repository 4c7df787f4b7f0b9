//! The to-do list of a session.

use std::sync::{Mutex, PoisonError};

use haft_tool::{
    AccessSet, CallContext, CallEffect, Content, LineStyle, Outcome, Rendered, RenderedLine, Stage, Tool,
    ToolContext, ToolError, Traits, WorkItem,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Replaces your to-do list for this session. Send the whole list every time: what is left out is
/// removed. Use it for work of three or more steps; keep exactly one item `in_progress` and mark it
/// `completed` as soon as it is done, not in batches.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The whole list, in order.
    #[schemars(length(max = 200))]
    pub todos: Vec<Todo>,
}

/// One thing to do.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Todo {
    /// What to do, in the imperative: "Run the tests".
    #[schemars(length(min = 1))]
    pub content: String,
    /// How far it is.
    pub status: Status,
    /// The same while it is being done: "Running the tests".
    #[schemars(length(min = 1))]
    pub active_form: String,
}

/// How far something is.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Not begun.
    Pending,
    /// Being done.
    InProgress,
    /// Done.
    Completed,
}

impl Status {
    fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
        }
    }
}

/// The list before and after.
#[derive(Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Output {
    old_todos: Vec<Todo>,
    new_todos: Vec<Todo>,
}

#[derive(Debug, Default)]
pub struct TodoWrite {
    todos: Mutex<Vec<Todo>>,
}

impl Tool for TodoWrite {
    type Input = Input;
    type Output = Output;
    type Progress = ();
    const NAME: &'static str = "TodoWrite";

    fn output_schema(&self) -> Option<serde_json::Value> {
        Some(haft_tool::schema_of::<Output>())
    }

    fn traits(&self) -> Traits {
        Traits {
            synonyms: &[("items", "todos"), ("tasks", "todos"), ("todo_list", "todos")],
            search_hint: "plan track to-do list tasks progress",
            ..Traits::default()
        }
    }

    /// The list is in memory only, so the tool reports read-only. Calls still run one after the other,
    /// so the later list wins.
    fn is_read_only(&self, _input: &Input) -> bool {
        true
    }

    fn reach(&self, _input: &Input, _cx: &CallContext) -> AccessSet {
        AccessSet::nothing()
    }

    fn describe(&self, input: &Input) -> String {
        format!("Update the to-do list ({} items)", input.todos.len())
    }

    async fn call(&self, input: Input, _cx: &ToolContext<()>) -> Result<Outcome<Output>, ToolError> {
        let mut todos = self.todos.lock().unwrap_or_else(PoisonError::into_inner);
        let old_todos = std::mem::replace(&mut *todos, input.todos.clone());
        let item =
            |todo: &Todo| WorkItem { text: todo.content.clone(), status: todo.status.name().to_owned() };
        let trace = CallEffect::Todos(input.todos.iter().map(item).collect());
        Ok(Outcome::from(Output { old_todos, new_todos: input.todos }).with_trace(trace))
    }

    fn to_content(&self, output: &Output) -> Content {
        let count = |status| output.new_todos.iter().filter(|todo| todo.status == status).count();
        let (open, active, done) =
            (count(Status::Pending), count(Status::InProgress), count(Status::Completed));
        let mut text = format!("The list has {active} in progress, {open} pending, {done} completed.");
        if 1 < active {
            text.push_str(" Keep only one item in progress.");
        }
        if active == 0 && 0 < open {
            text.push_str(" Mark the item you work on next as in_progress.");
        }
        Content::text(text)
    }

    fn render(&self, stage: Stage<'_, Input, Output>) -> Rendered {
        let output = match stage {
            Stage::Done(output) => output,
            Stage::Running(input) => return Rendered::headline(self.describe(input)),
            Stage::Failed(error) => return Rendered::error(&error.message),
        };
        let line = |todo: &Todo| match todo.status {
            Status::Completed => RenderedLine::new(LineStyle::Dim, format!("☒ {}", todo.content)),
            Status::InProgress => RenderedLine::new(LineStyle::Added, format!("▶ {}", todo.active_form)),
            Status::Pending => RenderedLine::new(LineStyle::Plain, format!("☐ {}", todo.content)),
        };
        Rendered {
            headline: String::from("To do"),
            lines: output.new_todos.iter().map(line).collect(),
            ..Rendered::default()
        }
    }
}
