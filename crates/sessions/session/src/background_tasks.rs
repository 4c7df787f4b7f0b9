//! Background commands: events about them, and reports of their ends to the model.

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

/// Maximum bytes of output returned as a task's tail.
const TAIL: usize = 8 << 10;

/// The background commands of a session.
pub(crate) struct BackgroundCommands {
    tasks: Option<Arc<TaskRegistry>>,
    /// Tool hosts, whose commands run remotely.
    hosts: Option<Arc<HostSet>>,
    events: EventSender,
    told: Mutex<ReportedTasks>,
    /// Whether a remote caller receives the updates about commands.
    is_lent: AtomicBool,
}

/// What front ends were told.
#[derive(Default)]
struct ReportedTasks {
    /// Tasks whose end was not reported yet, with the calls that started them.
    open: BTreeMap<String, CallId>,
    /// Tasks stopped by a front end, whose end is not reported to the model.
    stopped: HashSet<String>,
}

/// The end of a task's output.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TaskTail {
    /// The last bytes as text.
    pub text: String,
    /// Total number of bytes.
    pub total: usize,
    /// Whether the beginning is missing.
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

    /// The registry of shell commands, if the session has one.
    pub(crate) fn tasks(&self) -> Option<&Arc<TaskRegistry>> {
        self.tasks.as_ref()
    }

    /// Leaves updates about commands to a remote caller.
    pub(crate) fn disable_notices(&self) {
        self.is_lent.store(true, Ordering::Release);
    }

    /// The tool hosts, if the session has any.
    pub(crate) fn hosts(&self) -> Option<&Arc<HostSet>> {
        self.hosts.as_ref()
    }

    /// Whether commands run whose end must be reported.
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

    /// Running commands that were started in the background.
    pub(crate) fn running(&self) -> Vec<TaskInfo> {
        let Some(tasks) = &self.tasks else { return Vec::new() };
        let told = self.told();
        let open = told.open.keys().filter_map(|id| tasks.get(id));
        open.filter(|it| !matches!(it.status, TaskStatus::Ended(_))).collect()
    }

    /// Tells the user what an otherwise finished session waits for.
    pub(crate) fn tell_waiting(&self, patience: Option<Duration>) {
        let running = self.running();
        if running.is_empty() {
            return;
        }
        let limit =
            patience.map(|it| format!(", for {} s at most", it.as_secs_f32().ceil())).unwrap_or_default();
        self.events.notice(format!("waiting for what runs in the background{limit}: {}", listed(&running)));
    }

    /// Reports commands that end with the session to the user. Returns the text for the model, in case
    /// the session is resumed.
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

    /// Waits for an update; forever if none can come.
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

    /// Updates the state from the result of a call, which may have started or ended a task.
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

    /// Emits the end of each task that has ended, once.
    pub(crate) fn tell_ended(&self) {
        let Some(tasks) = &self.tasks else { return };
        let infos = self.told().open.keys().filter_map(|id| tasks.get(id)).collect::<Vec<TaskInfo>>();
        let ended: Vec<TaskInfo> =
            infos.into_iter().filter(|it| matches!(it.status, TaskStatus::Ended(_))).collect();
        let mut any = false;
        for info in ended {
            // Several callers may check at once; the one that removes the entry reports it.
            let Some(call) = self.told().open.remove(&info.id) else { continue };
            self.events.tell(SessionEventKind::TaskEnded(Box::new(info), Some(call)));
            any = true;
        }
        if any {
            self.tell_running(tasks);
        }
    }

    /// Takes the reports for the model since the last call.
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
            // Marks the log line as not written by the user.
            origin: Some(json!({"kind": "task-notification"})),
            ..Prompt::default()
        };
        let texts = news.map(|text| {
            tags::task_notification("This comes from a task in the background, not from the user.", &text)
        });
        texts.map(prompt).collect()
    }

    /// Records that a front end is about to stop a task.
    pub(crate) fn will_stop(&self, id: &str) {
        let mut told = self.told();
        if told.open.contains_key(id) {
            told.stopped.insert(id.to_owned());
        }
    }

    /// Makes calls return while their commands continue in the background: one call, or all with `None`.
    pub(crate) fn move_to_background(&self, call: Option<&CallId>) {
        if let Some(tasks) = &self.tasks {
            tasks.move_to_background(call);
        }
    }

    /// The end of a task's output; `None` for an unknown task.
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

/// How long a session without further input waits for background commands; `None` for no limit.
pub(crate) fn patience(premises: &SessionEnvironment) -> Option<Duration> {
    let set = premises.variables.text("CLAUDE_CODE_PRINT_BG_WAIT_CEILING_MS");
    match set.and_then(|it| it.trim().parse::<u64>().ok()) {
        Some(0) => None,
        set => Some(Duration::from_millis(set.unwrap_or(600_000))),
    }
}
