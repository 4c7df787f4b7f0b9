//! Commands in the background, told to the host; their ends, told to the model.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
    time::{Duration, SystemTime},
};

use haft_agent::{ResultEvent, UserInput};
use haft_sdk::{Speaker, UserFrame, succeed};
use haft_shell::run::{Kind, Status, TaskInfo, Tasks};
use haft_types::{AgentId, CallId, MessageBlock};
use serde_json::{Value, json};

use super::{driver::Driver, requests::Answered};

/// The end of a task's output that a host may look at.
const TAIL: u64 = 8 << 10;

/// Tasks the host was told of, until it is told of their end.
#[derive(Default)]
pub(super) struct Background {
    tasks: Option<Arc<Tasks>>,
    open: BTreeMap<String, CallId>,
    /// Tasks the host stops: their end is no news to anybody.
    stopped: HashSet<String>,
}

impl Background {
    /// Those of a session.
    pub(super) fn new(tasks: Option<Arc<Tasks>>) -> Self {
        Self { tasks, ..Self::default() }
    }

    /// Whether commands still run whose end is news.
    pub(super) fn is_busy(&self) -> bool {
        let Some(tasks) = &self.tasks else { return false };
        let runs = |it: TaskInfo| it.about.kind == Kind::Command && matches!(it.status, Status::Running);
        tasks.has_news(&main_agent()) || self.open.keys().filter_map(|id| tasks.get(id)).any(runs)
    }

    /// Waits until there is something to tell; for ever where nothing can be.
    pub(super) async fn news(&self) {
        match &self.tasks {
            Some(tasks) => tasks.news(&main_agent()).await,
            None => std::future::pending().await,
        }
    }
}

/// How long a session that hears nothing more waits for commands in the
/// background; nothing for as long as it takes.
pub(super) fn patience() -> Option<Duration> {
    let set = std::env::var("CLAUDE_CODE_PRINT_BG_WAIT_CEILING_MS").ok();
    match set.and_then(|it| it.trim().parse::<u64>().ok()) {
        Some(0) => None,
        set => Some(Duration::from_millis(set.unwrap_or(600_000))),
    }
}

fn main_agent() -> AgentId {
    AgentId::Main
}

impl Driver {
    /// A call may have begun or ended a task.
    pub(super) fn tell_tasks_of(&mut self, it: &ResultEvent) {
        let data = it.report.data.as_ref();
        let begun = data.and_then(|data| {
            let id = &data["backgroundTaskId"];
            id.as_str().or_else(|| data["taskId"].as_str().filter(|_| it.report.name == "Monitor"))
        });
        if let Some(info) = begun.and_then(|id| self.background.tasks.as_ref()?.get(id)) {
            self.background.open.insert(info.id.clone(), it.report.id.clone());
            let description = described(&info);
            let fields = json!({
                "task_id": info.id, "tool_use_id": it.report.id, "description": description,
                "task_type": "local_bash", "is_backgrounded": true,
            });
            self.tell_all_tasks();
            self.out.frame(&self.frames.system("task_started", fields));
        }
        self.tell_ended_tasks();
    }

    /// What runs in the background now.
    fn tell_all_tasks(&self) {
        let Some(tasks) = &self.background.tasks else { return };
        let running = self.background.open.keys().filter_map(|id| tasks.get(id));
        let running: Vec<Value> = running
            .map(|it| json!({"task_id": it.id, "task_type": "local_bash", "description": described(&it)}))
            .collect();
        self.out.frame(&self.frames.system("background_tasks_changed", json!({"tasks": running})));
    }

    /// Tells the host of tasks that have ended, each once.
    pub(super) fn tell_ended_tasks(&mut self) {
        let Some(tasks) = self.background.tasks.clone() else { return };
        let ended: Vec<TaskInfo> = self
            .background
            .open
            .keys()
            .filter_map(|id| tasks.get(id))
            .filter(|it| matches!(it.status, Status::Ended(_)))
            .collect();
        for info in &ended {
            let call = self.background.open.remove(&info.id);
            let status = info.status.name();
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            let patch = json!({"status": status, "end_time": now.as_millis()});
            let fields = json!({"task_id": info.id, "patch": patch});
            self.out.frame(&self.frames.system("task_updated", fields));
            let status = if status == "killed" { "stopped" } else { status };
            let fields = json!({
                "task_id": info.id, "tool_use_id": call, "status": status,
                "output_file": info.file.as_ref().map(|it| it.display().to_string()).unwrap_or_default(),
                "summary": summary(info),
            });
            self.out.frame(&self.frames.system("task_notification", fields));
        }
        if !ended.is_empty() {
            self.tell_all_tasks();
        }
    }

    /// Something happened in the background: the host hears of it, and the model
    /// in this turn or in one of its own.
    pub(super) fn hear_tasks(&mut self) {
        let Some(tasks) = self.background.tasks.clone() else { return };
        let notices = tasks.drain(&main_agent());
        self.tell_ended_tasks();
        for notice in notices {
            if self.background.stopped.contains(&notice.task.id) {
                continue;
            }
            let text = format!(
                "<system-reminder>\nThis comes from a task in the background, not from the user.\n\
                 <task-notification>\n{}\n</task-notification>\n</system-reminder>",
                notice.text()
            );
            match self.running.is_some() {
                true => self.inbox.push(UserInput::text(text)),
                false => self.queue.push_back(UserFrame {
                    uuid: uuid::Uuid::new_v4().to_string(),
                    content: vec![MessageBlock::Text { text }],
                    wants_answer: true,
                    is_verbatim: true,
                    speaker: Speaker::Task,
                    ..UserFrame::default()
                }),
            }
        }
    }

    /// Ends a task; one that is not there is no problem. Answered when it ended.
    pub(super) fn stop_task(&mut self, request_id: String, request: &Value) {
        let id = request["task_id"].as_str().unwrap_or_default().to_owned();
        if self.background.open.contains_key(&id) {
            self.background.stopped.insert(id.clone());
        }
        let (tasks, host) = (self.background.tasks.clone(), self.host.clone());
        tokio::spawn(async move {
            if let Some(tasks) = tasks {
                tasks.stop(&id).await;
            }
            host.tell(succeed(&request_id, json!({})));
        });
    }

    /// Calls that wait for their commands go on without them.
    pub(super) fn move_to_background(&self, request: &Value) -> Value {
        let call = request["tool_use_id"].as_str().map(CallId::from);
        if let Some(tasks) = &self.background.tasks {
            tasks.move_to_background(call.as_ref());
        }
        json!({})
    }

    /// The end of what a task printed.
    pub(super) fn task_output(&self, request: &Value) -> Answered {
        let id = request["task_id"].as_str().unwrap_or_default();
        let info = self.background.tasks.as_ref().and_then(|tasks| tasks.get(id));
        let Some(info) = info else { return Err(format!("No task {id}").into()) };
        let bytes = info.file.and_then(|file| std::fs::read(file).ok()).unwrap_or_default();
        let cut = (bytes.len() as u64).saturating_sub(TAIL);
        let tail = &bytes[usize::try_from(cut).unwrap_or(0)..];
        let output = String::from_utf8_lossy(tail);
        Ok(json!({"output": output, "total_bytes": bytes.len(), "truncated": 0 < cut}))
    }
}

fn described(info: &TaskInfo) -> String {
    let what = if info.about.description.is_empty() { &info.command } else { &info.about.description };
    haft_types::text::one_line(what, 200)
}

fn summary(info: &TaskInfo) -> String {
    let how = match &info.status {
        Status::Running => String::from("is running"),
        Status::LeftRunning(end) | Status::Ended(end) => {
            format!("{} ({})", info.status.name(), end.describe())
        }
    };
    format!("Background command \"{}\" {how}", described(info))
}
