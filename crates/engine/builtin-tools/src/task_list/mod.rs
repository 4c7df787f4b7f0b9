//! Tasks with numbers, owners and an order, shared by all agents of a session
//! and by whoever uses the same list.

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

/// Tasks of one list.
const MAX_TASKS: usize = 1_000;
/// Characters of a subject.
const MAX_SUBJECT: usize = 300;
/// Characters of a description.
const MAX_DESCRIPTION: usize = 20_000;

/// A task, as hooks hear of it.
#[derive(Clone, Debug, Default)]
pub struct HookTask {
    /// Its number.
    pub id: u64,
    /// What is to be done.
    pub subject: String,
    /// All that is known about it.
    pub description: String,
    /// Who does it.
    pub owner: Option<String>,
}

/// Hears of tasks, and knows agents. Whoever runs sessions implements this.
pub trait TaskObserver: Send + Sync {
    /// A task is about to be new. An error keeps it from being so.
    fn created<'a>(&'a self, task: &'a HookTask, cx: &'a CallContext) -> BoxFuture<'a, Result<(), String>>;

    /// A task is about to be done. An error keeps it from being so.
    fn completed<'a>(&'a self, task: &'a HookTask, cx: &'a CallContext) -> BoxFuture<'a, Result<(), String>>;

    /// What the agent that calls is called, if it is not the main one.
    fn caller(&self, cx: &CallContext) -> Option<String>;

    /// Whether an owner is an agent that has ended.
    fn has_ended(&self, owner: &str) -> bool;
}

/// Nobody listens.
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

/// What the four tools share.
#[derive(Clone)]
pub struct TaskServices {
    /// The lists.
    pub lists: Arc<TaskLists>,
    /// Who hears of tasks.
    pub watch: Arc<dyn TaskObserver>,
}

impl TaskServices {
    /// A list of nobody else below a directory.
    pub fn alone(dir: &std::path::Path) -> Self {
        let lists = Arc::new(TaskLists::at(dir.join("task-lists"), "default"));
        Self { lists, watch: Arc::new(NoTaskObserver) }
    }
}

/// The tools.
pub fn tools(services: &TaskServices) -> Vec<Arc<dyn DynTool>> {
    vec![
        erase(TaskCreate::new(services.clone())),
        erase(TaskGet::new(services.clone())),
        erase(TaskList::new(services.clone())),
        erase(TaskUpdate::new(services.clone())),
    ]
}

/// A number as models write it: `3`, `#3`.
fn task_number(text: &str) -> Option<u64> {
    text.trim().trim_start_matches('#').parse().ok().filter(|it| 0 < *it)
}

/// Runs something that waits for the disk.
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
