//! Tasks with numbers, owners and dependencies, shared by all agents of a session and all sessions that
//! use the same list.

mod create;
mod get;
mod list;
mod task_board;
mod task_store;
mod update;

use std::sync::Arc;

use haft_tool::{BoxFuture, CallContext, DynTool, ToolError, erase};

pub use create::TaskCreate;
pub use get::TaskGet;
pub use list::TaskList;
pub use task_board::{BoardTask, TaskBoard, TaskEvent, TaskPatch, TaskStatus};
pub use task_store::TaskLists;
pub use update::TaskUpdate;

/// Maximum number of tasks in a list.
const MAX_TASKS: usize = 1_000;
/// Maximum characters of a subject.
const MAX_SUBJECT: usize = 300;
/// Maximum characters of a description.
const MAX_DESCRIPTION: usize = 20_000;

/// A task as passed to hooks.
#[derive(Clone, Debug, Default)]
pub struct HookTask {
    /// Task number.
    pub id: u64,
    /// Short description.
    pub subject: String,
    pub description: String,
    /// The agent that works on it.
    pub owner: Option<String>,
}

/// Runs the task hooks and knows the agents. Implemented by the session.
pub trait TaskObserver: Send + Sync {
    /// Called before a task is created. An error prevents it; its text is shown to the model.
    fn created<'a>(&'a self, task: &'a HookTask, cx: &'a CallContext) -> BoxFuture<'a, Result<(), String>>;

    /// Called before a task is completed. An error prevents it; its text is shown to the model.
    fn completed<'a>(&'a self, task: &'a HookTask, cx: &'a CallContext) -> BoxFuture<'a, Result<(), String>>;

    /// Returns the name of the calling agent; `None` for the main agent.
    fn caller(&self, cx: &CallContext) -> Option<String>;

    /// Whether the owner is an agent that has ended.
    fn has_ended(&self, owner: &str) -> bool;
}

/// Runs no hooks.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoTaskObserver;

impl TaskObserver for NoTaskObserver {
    fn created<'a>(&'a self, _task: &'a HookTask, _cx: &'a CallContext) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async { Ok(()) })
    }

    fn completed<'a>(
        &'a self,
        _task: &'a HookTask,
        _cx: &'a CallContext,
    ) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async { Ok(()) })
    }

    fn caller(&self, _cx: &CallContext) -> Option<String> {
        None
    }

    fn has_ended(&self, _owner: &str) -> bool {
        false
    }
}

/// The services that the four task tools share.
#[derive(Clone)]
pub struct TaskServices {
    pub lists: Arc<TaskLists>,
    /// Observes changes of tasks.
    pub watch: Arc<dyn TaskObserver>,
}

impl TaskServices {
    /// Creates services with a private list below `dir` and no hooks.
    pub fn alone(dir: &std::path::Path) -> Self {
        let lists = Arc::new(TaskLists::at(dir.join("task-lists"), "default"));
        Self { lists, watch: Arc::new(NoTaskObserver) }
    }
}

/// Returns the task tools.
pub fn tools(services: &TaskServices) -> Vec<Arc<dyn DynTool>> {
    vec![
        erase(TaskCreate::new(services.clone())),
        erase(TaskGet::new(services.clone())),
        erase(TaskList::new(services.clone())),
        erase(TaskUpdate::new(services.clone())),
    ]
}

/// Parses a task number as models write it: `3`, `#3`.
fn task_number(text: &str) -> Option<u64> {
    text.trim().trim_start_matches('#').parse().ok().filter(|it| 0 < *it)
}

/// Runs blocking work on a thread of its own. The error says that the list was not changed.
async fn on_disk<T: Send + 'static>(
    work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> Result<T, ToolError> {
    let failed = |err: &dyn std::fmt::Display| {
        ToolError::failed(format!("the task list cannot be used: {err}. Nothing was changed."))
    };
    match tokio::task::spawn_blocking(work).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(err)) => Err(failed(&err)),
        Err(err) => Err(failed(&err)),
    }
}
