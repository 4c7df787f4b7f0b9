//! Commands in the background: told as events, and their ends to the model.

use std::{
    collections::{BTreeMap, HashSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use haft_shell::run::{BackgroundStatus as TaskStatus, TaskInfo, TaskKind, TaskRegistry};
use haft_tool_host::HostSet;
use haft_tool_runtime::CallReport;
use haft_types::{AgentId, CallId, MessageBlock, tags};
use serde_json::json;

use crate::{EventSender, Prompt, PromptAuthor, SessionEventKind, environment::SessionEnvironment};

/// The end of a task's output that a face may look at.
const TAIL: usize = 8 << 10;

/// The commands of a session that go on in the background.
pub(crate) struct BackgroundCommands {
    tasks: Option<Arc<TaskRegistry>>,
    /// Those of tool hosts are there.
    hosts: Option<Arc<HostSet>>,
    events: EventSender,
    told: Mutex<ReportedTasks>,
    /// Whether somebody else takes the news of commands.
    is_lent: AtomicBool,
}

/// What faces were told.
#[derive(Default)]
struct ReportedTasks {
    /// Tasks whose end was not told yet, with their calls.
    open: BTreeMap<String, CallId>,
    /// Tasks a face stops: their end is no news to the model.
    stopped: HashSet<String>,
}

/// The end of what a task printed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TaskTail {
    /// The last of it.
    pub text: String,
    /// Bytes in all.
    pub total: usize,
    /// Whether there is more before it.
    pub truncated: bool,
}

impl BackgroundCommands {
    pub(crate) fn new(
        tasks: Option<Arc<TaskRegistry>>,
        hosts: Option<Arc<HostSet>>,
        events: EventSender,
    ) -> Self {
        Self { tasks, hosts, events, told: Mutex::default(), is_lent: AtomicBool::new(false) }
    }

    fn told(&self) -> MutexGuard<'_, ReportedTasks> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The commands themselves, where the session has any.
    pub(crate) fn tasks(&self) -> Option<&Arc<TaskRegistry>> {
        self.tasks.as_ref()
    }

    /// The session is lent: news of its commands are the caller's.
    pub(crate) fn disable_notices(&self) {
        self.is_lent.store(true, Ordering::Release);
    }

    /// The hosts, where the session has any.
    pub(crate) fn hosts(&self) -> Option<&Arc<HostSet>> {
        self.hosts.as_ref()
    }

    /// Whether commands still run whose end is news.
    pub(crate) fn is_busy(&self) -> bool {
        let busy_hosts = |it: &Arc<HostSet>| it.has_news(&AgentId::Main) || it.has_running(&AgentId::Main);
        if self.hosts.as_ref().is_some_and(busy_hosts) {
            return true;
        }
        let Some(tasks) = &self.tasks else { return false };
        let runs =
            |it: TaskInfo| it.about.kind == TaskKind::Command && matches!(it.status, TaskStatus::Running);
        tasks.has_news(&AgentId::Main) || self.told().open.keys().filter_map(|id| tasks.get(id)).any(runs)
    }

    /// Commands that run and were started to go on in the background.
    pub(crate) fn running(&self) -> Vec<TaskInfo> {
        let Some(tasks) = &self.tasks else { return Vec::new() };
        let told = self.told();
        let open = told.open.keys().filter_map(|id| tasks.get(id));
        open.filter(|it| !matches!(it.status, TaskStatus::Ended(_))).collect()
    }

    /// Says what a session that has nothing else to do waits for.
    pub(crate) fn tell_waiting(&self, patience: Option<Duration>) {
        let running = self.running();
        if running.is_empty() {
            return;
        }
        let limit =
            patience.map(|it| format!(", for {} s at most", it.as_secs_f32().ceil())).unwrap_or_default();
        self.events.notice(format!("waiting for what runs in the background{limit}: {}", listed(&running)));
    }

    /// Says that these ended because their session did: to the person now, and
    /// in these words to the model when the session goes on.
    pub(crate) fn tell_cut_off(&self, cut_off: &[TaskInfo]) -> String {
        self.events.notice(format!("ended with the session, in the background: {}", listed(cut_off)));
        let line = |it: &TaskInfo| {
            let file = it.file.as_ref().map(|file| format!(" Its output is in {}.", file.display()));
            format!("Background task {} was ended.{}", named(it), file.unwrap_or_default())
        };
        let lines: Vec<String> = cut_off.iter().map(line).collect();
        tags::task_notification(
            "The session was left while these still ran, so they were ended; nothing of them runs now.",
            &lines.join("\n"),
        )
    }

    /// Waits until there is something to tell; for ever where nothing can be.
    pub(crate) async fn news(&self) {
        let here = async {
            match self.tasks.as_ref().filter(|_| !self.is_lent.load(Ordering::Acquire)) {
                Some(tasks) => tasks.news(&AgentId::Main).await,
                None => std::future::pending().await,
            }
        };
        let there = async {
            match &self.hosts {
                Some(hosts) => hosts.news(&AgentId::Main).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = here => (),
            () = there => (),
        }
    }

    /// A call may have begun or ended a task.
    pub(crate) fn on_result(&self, report: &CallReport) {
        let Some(tasks) = &self.tasks else { return };
        let ids = report.data.as_ref().into_iter();
        let ids = ids.flat_map(|data| [&data["backgroundTaskId"], &data["taskId"]]);
        let begun = ids.filter_map(|id| tasks.get(id.as_str()?)).find(|info| info.call == report.id);
        if let Some(info) = begun {
            self.told().open.insert(info.id.clone(), report.id.clone());
            self.tell_running(tasks);
            self.events.tell(SessionEventKind::TaskStarted(Box::new(info), report.id.clone()));
        }
        self.tell_ended();
    }

    fn tell_running(&self, tasks: &TaskRegistry) {
        let running = self.told().open.keys().filter_map(|id| tasks.get(id)).collect();
        self.events.tell(SessionEventKind::TasksRunning(running));
    }

    /// Tells of tasks that have ended, each once.
    pub(crate) fn tell_ended(&self) {
        let Some(tasks) = &self.tasks else { return };
        let infos = self.told().open.keys().filter_map(|id| tasks.get(id)).collect::<Vec<TaskInfo>>();
        let ended: Vec<TaskInfo> =
            infos.into_iter().filter(|it| matches!(it.status, TaskStatus::Ended(_))).collect();
        let mut any = false;
        for info in ended {
            // Others look at the same moment; whoever takes it out tells it.
            let Some(call) = self.told().open.remove(&info.id) else { continue };
            self.events.tell(SessionEventKind::TaskEnded(Box::new(info), Some(call)));
            any = true;
        }
        if any {
            self.tell_running(tasks);
        }
    }

    /// What happened in the background since the last time, as the model is told.
    pub(crate) fn take_notices(&self) -> Vec<Prompt> {
        let Some(tasks) = &self.tasks else { return Vec::new() };
        let notices = tasks.drain(&AgentId::Main);
        let of_hosts = self.hosts.as_ref().map(|it| it.take_news(&AgentId::Main));
        self.tell_ended();
        let told = self.told();
        let news = notices.into_iter().filter(|notice| !told.stopped.contains(&notice.task.id));
        let news = news.map(|notice| notice.text()).chain(of_hosts.unwrap_or_default());
        let prompt = |text: String| Prompt {
            uuid: uuid::Uuid::new_v4().to_string(),
            content: vec![MessageBlock::Text { text }],
            wants_answer: true,
            is_verbatim: true,
            speaker: PromptAuthor::Task,
            // Also in the log: it is not the person who says so.
            origin: Some(json!({"kind": "task-notification"})),
            ..Prompt::default()
        };
        let texts = news.map(|text| {
            tags::task_notification("This comes from a task in the background, not from the user.", &text)
        });
        texts.map(prompt).collect()
    }

    /// A face is about to stop a task.
    pub(crate) fn will_stop(&self, id: &str) {
        let mut told = self.told();
        if told.open.contains_key(id) {
            told.stopped.insert(id.to_owned());
        }
    }

    /// Calls that wait for their commands go on without them: one of them, or
    /// all.
    pub(crate) fn move_to_background(&self, call: Option<&CallId>) {
        if let Some(tasks) = &self.tasks {
            tasks.move_to_background(call);
        }
    }

    /// The end of what a task printed.
    pub(crate) fn tail(&self, id: &str) -> Option<TaskTail> {
        let info = self.tasks.as_ref().and_then(|tasks| tasks.get(id))?;
        let bytes = info.file.and_then(|file| std::fs::read(file).ok()).unwrap_or_default();
        let cut = bytes.len().saturating_sub(TAIL);
        let text = String::from_utf8_lossy(&bytes[cut..]).into_owned();
        Some(TaskTail { text, total: bytes.len(), truncated: 0 < cut })
    }
}

fn named(it: &TaskInfo) -> String {
    format!("{} ({})", it.id, haft_types::text::one_line(&it.command, 80))
}

fn listed(tasks: &[TaskInfo]) -> String {
    tasks.iter().map(named).collect::<Vec<_>>().join(", ")
}

/// How long a session that hears nothing more waits for commands in the
/// background; nothing for as long as it takes.
pub(crate) fn patience(premises: &SessionEnvironment) -> Option<Duration> {
    let set = premises.variables.text("CLAUDE_CODE_PRINT_BG_WAIT_CEILING_MS");
    match set.and_then(|it| it.trim().parse::<u64>().ok()) {
        Some(0) => None,
        set => Some(Duration::from_millis(set.unwrap_or(600_000))),
    }
}
