//! Shows the output of background tasks.

use std::{path::PathBuf, sync::Arc, time::Duration};

use haft_shell::run::{BackgroundStatus, TaskInfo, TaskReader, TaskRegistry, WaitUntil};
use haft_tool::{
    AccessSet, BoxFuture, CallContext, CallEffect, Content, Outcome, Rendered, Stage, Tool, ToolContext,
    ToolError, Traits,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Shows what a background task printed since you asked the last time, and whether it has ended.
/// Waits for its end unless `block` is false. You are told when a task ends: there is no need to ask
/// again and again.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// Old name of task_id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bash_id: Option<String>,
    /// Whether to wait until it has ended; true unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block: Option<bool>,
    /// Milliseconds to wait at most; 30000 unless given, at most 600000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<u64>,
}

const TIMEOUT: Duration = Duration::from_secs(30);
const MAX_PATIENCE: Duration = Duration::from_secs(600);

/// The state of a task.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Output {
    /// The task.
    pub task_id: String,
    /// `bash`, `monitor`, `leftover`, or what another kind of task calls itself.
    pub task_type: String,
    /// `running`, `completed`, `failed` or `killed`.
    pub status: String,
    /// How it ended, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// What is new.
    pub output: String,
    /// Where all of it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_path: Option<PathBuf>,
    /// How long it has been running, or ran.
    pub elapsed_ms: u64,
}

/// Background tasks that are not commands, such as agents. Implemented by the session.
pub trait AgentTasks: Send + Sync {
    /// Returns the id and a short description of every running task.
    fn running(&self) -> Vec<(String, String)>;

    /// Returns the state and new output of a task, after waiting at most `wait` for its end. `None` if
    /// there is no such task.
    fn output<'a>(&'a self, id: &'a str, wait: Duration) -> BoxFuture<'a, Option<Output>>;

    /// Stops a task and returns its description; `None` if there is no such task.
    fn stop<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Option<String>>;
}

/// No tasks besides commands.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoAgentTasks;

impl AgentTasks for NoAgentTasks {
    fn running(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    fn output<'a>(&'a self, _id: &'a str, _wait: Duration) -> BoxFuture<'a, Option<Output>> {
        Box::pin(async { None })
    }

    fn stop<'a>(&'a self, _id: &'a str) -> BoxFuture<'a, Option<String>> {
        Box::pin(async { None })
    }
}

pub struct TaskOutput {
    tasks: Arc<TaskRegistry>,
    others: Arc<dyn AgentTasks>,
    shown_chars: usize,
}

impl TaskOutput {
    /// Creates the tool. Results show at most `shown_chars` characters of output.
    pub fn new(tasks: Arc<TaskRegistry>, others: Arc<dyn AgentTasks>, shown_chars: usize) -> Self {
        Self { tasks, others, shown_chars }
    }
}

impl Output {
    /// Builds the result of a call that asked for this id. If the task has ended, its end counts as
    /// reported.
    pub(crate) fn outcome(self, id: &str) -> Outcome<Self> {
        let ended = !matches!(self.status.as_str(), "" | "running");
        let outcome = Outcome::from(self);
        if ended { outcome.with_trace(CallEffect::BackgroundEnded(id.to_owned())) } else { outcome }
    }
}

impl Tool for TaskOutput {
    type Input = Input;
    type Output = Output;
    type Progress = ();
    const NAME: &'static str = "TaskOutput";

    fn output_schema(&self) -> Option<serde_json::Value> {
        Some(haft_tool::schema_of::<Output>())
    }

    fn traits(&self) -> Traits {
        Traits {
            aliases: &["BashOutput"],
            synonyms: &[("id", "task_id"), ("bash_id", "task_id")],
            search_hint: "background task output status wait",
            max_result_chars: None,
            timeout: None,
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

    fn validate(&self, input: &Input, _cx: &CallContext) -> Result<(), ToolError> {
        named([&input.task_id, &input.bash_id]).map(drop)
    }

    fn describe(&self, input: &Input) -> String {
        format!("Show the output of {}", named([&input.task_id, &input.bash_id]).unwrap_or("a task"))
    }

    async fn call(&self, input: Input, cx: &ToolContext<()>) -> Result<Outcome<Output>, ToolError> {
        let id = named([&input.task_id, &input.bash_id])?;
        let patience = match input.block {
            Some(false) => Duration::ZERO,
            _ => input.timeout.map_or(TIMEOUT, Duration::from_millis).min(MAX_PATIENCE),
        };
        let Some(reader) = self.tasks.reader(id) else {
            let other = tokio::select! {
                other = self.others.output(id, patience) => other,
                () = cx.cancel.cancelled() => None,
            };
            let found = other.or_else(|| earlier(&self.tasks, id, self.shown_chars));
            return found
                .map(|it| it.outcome(id))
                .ok_or_else(|| unknown(id, &self.tasks, self.others.as_ref()));
        };
        tokio::select! {
            () = reader.wait(WaitUntil::Ended, patience) => {}
            () = cx.cancel.cancelled() => {}
        }
        let read = fresh(&reader, self.shown_chars);
        read.map(|it| it.outcome(id)).ok_or_else(|| unknown(id, &self.tasks, self.others.as_ref()))
    }

    fn to_content(&self, output: &Output) -> Content {
        told(output)
    }

    fn render(&self, stage: Stage<'_, Input, Output>) -> Rendered {
        match stage {
            Stage::Running(input) => Rendered::headline(self.describe(input)),
            Stage::Done(output) => shown(output),
            Stage::Failed(error) => Rendered::error(&error.message),
        }
    }
}

/// Formats the state of a task for the user.
pub(crate) fn shown(output: &Output) -> Rendered {
    let mut shown = Rendered::preview(output.output.trim_end_matches('\n'));
    shown.headline = format!("{} {}", output.task_id, output.status);
    shown
}

/// Returns the state of a task and its output since the last request.
pub(crate) fn fresh(reader: &TaskReader, shown_chars: usize) -> Option<Output> {
    let read = reader.read(shown_chars)?;
    let TaskInfo { id, about, status, elapsed, file, .. } = read.info;
    let ended = match &status {
        BackgroundStatus::Running => None,
        BackgroundStatus::LeftRunning(end) => {
            Some(format!("its command has ended ({}), what it started runs on", end.describe()))
        }
        BackgroundStatus::Ended(end) => Some(end.describe()),
    };
    let (task_type, status) = (about.kind.name().to_owned(), status.name().to_owned());
    let elapsed_ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
    let output = read.fresh.text;
    Some(Output { task_id: id, task_type, status, ended, output, output_path: file, elapsed_ms })
}

/// Returns what is known of a task that ended with an earlier process of this session.
fn earlier(tasks: &TaskRegistry, id: &str, shown_chars: usize) -> Option<Output> {
    let (file, output) = tasks.earlier(id, shown_chars)?;
    Some(Output {
        task_id: id.to_owned(),
        task_type: String::from("bash"),
        status: String::from("killed"),
        ended: Some(String::from(
            "it does not run any more: it ended, at the latest, with an earlier run of this session",
        )),
        output,
        output_path: Some(file),
        elapsed_ms: 0,
    })
}

/// Formats the state of a task for the model.
pub(crate) fn told(output: &Output) -> Content {
    let mut text = match output.output.trim_end_matches('\n') {
        "" => String::from("(no new output)"),
        printed => printed.to_owned(),
    };
    let state = match &output.ended {
        Some(how) => format!("{}: {how}", output.status),
        None => output.status.clone(),
    };
    text.push_str(&format!("\n[{} {state}]", output.task_id));
    if let Some(path) = &output.output_path {
        text.push_str(&format!("\n[all of its output: {}]", path.display()));
    }
    Content::text(text)
}

/// Returns the id from whichever parameter has it.
pub(crate) fn named(ids: [&Option<String>; 2]) -> Result<&str, ToolError> {
    let given = ids.into_iter().flatten().map(|id| id.trim()).find(|id| !id.is_empty());
    given.ok_or_else(|| ToolError::invalid("task_id is missing: say which task"))
}

/// Builds the error for an unknown id, which lists the existing tasks.
pub(crate) fn unknown(id: &str, tasks: &TaskRegistry, others: &dyn AgentTasks) -> ToolError {
    let own = tasks.list().into_iter().map(|task| {
        let what = if task.about.description.is_empty() { task.command } else { task.about.description };
        (task.id, format!("{}, {}", haft_types::text::one_line(&what, 80), task.status.name()))
    });
    let known: Vec<String> = own.chain(others.running()).map(|(id, what)| format!("{id} ({what})")).collect();
    let known = match known.len() {
        0 => String::from("No task was started in this session"),
        1..=20 => format!("Tasks of this session: {}", known.join("; ")),
        count => format!("The last tasks of this session: {}", known[count - 20..].join("; ")),
    };
    ToolError::invalid(format!("There is no task {id}. {known}"))
}
