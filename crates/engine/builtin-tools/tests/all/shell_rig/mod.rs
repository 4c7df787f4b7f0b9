//! A session with a shell, and tools called as the runtime calls them.
#![allow(dead_code, unreachable_pub, reason = "every test file uses its own part")]

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use haft_builtin_tools::{
    bash::{Bash, BashInspector, BashSettings},
    task_input::TaskInput,
    task_output::{NoAgentTasks, TaskOutput},
    task_stop::TaskStop,
};
use haft_shell::run::{Shell, ShellConfig, TaskRegistry};
use haft_tool::{
    AllowReason, CallContext, DynTool, Output, Permit, ProgressEvent, ProgressSink, ToolError,
    UnrestrictedRead, erase,
};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

pub struct Rig {
    _dir: tempfile::TempDir,
    pub work: PathBuf,
    pub outside: PathBuf,
    pub tasks: Arc<TaskRegistry>,
    pub settings: BashSettings,
}

impl Rig {
    pub fn new() -> Self {
        Self::with(|_| {})
    }

    pub fn with(change: impl FnOnce(&mut ShellConfig)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        let mut config = ShellConfig::new("test", top.join("state"));
        config.capture = None;
        config.memory = None;
        change(&mut config);
        let (work, outside) = (top.join("work"), top.join("outside"));
        std::fs::create_dir_all(&work).unwrap();
        std::fs::create_dir_all(&outside).unwrap();
        let tasks = TaskRegistry::new(Shell::open(config).unwrap());
        Self { _dir: dir, work, outside, tasks, settings: BashSettings::default() }
    }

    pub fn bash(&self) -> Arc<dyn DynTool> {
        let facts = BashInspector { home: None, roots: vec![self.work.clone()] };
        let workspace = Arc::new(vec![self.work.clone()]);
        erase(Bash::new(self.tasks.clone(), Arc::new(facts), workspace, self.settings))
    }

    pub fn task_output(&self) -> Arc<dyn DynTool> {
        erase(TaskOutput::new(self.tasks.clone(), Arc::new(NoAgentTasks), 30_000))
    }

    pub fn task_input(&self) -> Arc<dyn DynTool> {
        erase(TaskInput::new(self.tasks.clone(), 30_000))
    }

    pub fn task_stop(&self) -> Arc<dyn DynTool> {
        erase(TaskStop::new(self.tasks.clone(), Arc::new(NoAgentTasks)))
    }

    pub fn context(&self) -> CallContext {
        CallContext::detached("call_1", self.work.as_path())
    }

    pub async fn call(&self, tool: &Arc<dyn DynTool>, input: Value) -> Result<Output, ToolError> {
        call(tool, input, self.context()).await
    }

    /// Returns what the model reads, with the paths of this run replaced.
    pub async fn text(&self, tool: &Arc<dyn DynTool>, input: Value) -> String {
        let text = match self.call(tool, input).await {
            Ok(output) => output.content.to_text(),
            Err(error) => format!("{}: {}", error.kind.name(), error.message),
        };
        self.plain(&text)
    }

    pub fn plain(&self, text: &str) -> String {
        let state = self.tasks.shell().outputs().parent().unwrap().parent().unwrap();
        text.replace(&*self.work.to_string_lossy(), "WORK")
            .replace(&*self.outside.to_string_lossy(), "OUTSIDE")
            .replace(&*state.to_string_lossy(), "STATE")
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.tasks.shell().owner().end(Duration::from_secs(5));
    }
}

pub async fn call(tool: &Arc<dyn DynTool>, input: Value, cx: CallContext) -> Result<Output, ToolError> {
    let call = Arc::clone(tool).parse(input, &cx)?;
    call.validate(&cx)?;
    #[expect(clippy::disallowed_methods, reason = "stands in for the permission engine")]
    let permit = Permit::issue(AllowReason::Mode, Vec::new(), Arc::new(UnrestrictedRead));
    call.run(permit, cx).await
}

pub fn watched(cx: CallContext) -> (CallContext, mpsc::Receiver<ProgressEvent>) {
    let (progress, events) = ProgressSink::channel();
    (CallContext { progress, ..cx }, events)
}

pub fn interruptible(cx: CallContext) -> (CallContext, CancellationToken) {
    let cancel = CancellationToken::new();
    (CallContext { cancel: cancel.clone(), ..cx }, cancel)
}

/// Waits until a condition holds.
pub async fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !is_so() {
        assert!(Instant::now() < deadline, "{what} did not happen");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Whether a process is running; a zombie is not.
pub fn lives(pid: i32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(") ").next().unwrap_or("").starts_with(['Z', 'X']))
}

pub fn exists(path: &Path) -> bool {
    path.exists()
}
