use std::{
    collections::{BTreeMap, HashMap},
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use haft_types::{AgentId, CallId};
use tokio::sync::{Notify, watch};

use crate::{
    output::{Excerpt, Mark, OutputView},
    run::{
        Shell,
        job::{Job, JobEnd, JobPhase, Stop},
        job_lines::JobLines,
        task_notice::{BackgroundStatus, PendingLines, TaskNotice},
    },
};

/// Background tasks of a session: commands in the background, watches, and processes that commands left
/// running.
///
/// **Invariant:** the end of a task is delivered to its agent exactly once: either through [`TaskRegistry::drain`] or as the result of [`TaskRegistry::read`]. While a [`TaskReader`] exists for the task, only the reader gets it. Ids stay valid for the whole session.
#[derive(Debug)]
pub struct TaskRegistry {
    shell: Arc<Shell>,
    inner: Mutex<TasksInner>,
    /// Incremented when there may be new notices.
    news: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct TasksInner {
    tasks: BTreeMap<u64, Task>,
    foreground: HashMap<CallId, (Job, Arc<Notify>)>,
    number: u64,
}

#[derive(Debug)]
struct Task {
    job: Job,
    about: TaskAbout,
    cursor: Mark,
    /// Whether its end was delivered.
    told: bool,
    /// Number of [`TaskReader`]s.
    readers: usize,
    events: PendingLines,
    /// Whether more lines of a watch may follow; its end is delivered after them.
    following: bool,
    /// Number of lines reported as events.
    reported: u64,
}

/// Description of a task.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TaskAbout {
    pub kind: TaskKind,
    /// Short description by the caller.
    pub description: String,
    /// The agent that gets its notices.
    pub agent: AgentId,
}

/// Kind of a task.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TaskKind {
    /// A command in the background.
    Command,
    /// A command whose output lines are events.
    Watch,
    /// Processes that a command left running. Their end is not reported.
    Leftover,
}

impl TaskKind {
    /// Public name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Command => "bash",
            Self::Watch => "monitor",
            Self::Leftover => "leftover",
        }
    }
}

/// Public information about a task.
#[derive(Clone, Debug)]
pub struct TaskInfo {
    pub id: String,
    /// Its description.
    pub about: TaskAbout,
    /// Its command line.
    pub command: String,
    /// The call that started it.
    pub call: CallId,
    /// Its state.
    pub status: BackgroundStatus,
    /// Run time so far, or total.
    pub elapsed: Duration,
    /// Its output file, if it is on disk.
    pub file: Option<PathBuf>,
}

/// Result of [`TaskRegistry::read`].
#[derive(Clone, Debug)]
pub struct TaskRead {
    pub info: TaskInfo,
    /// Output since the last read.
    pub fresh: Excerpt,
}

impl TaskRegistry {
    /// A registry for the commands of this shell.
    pub fn new(shell: Arc<Shell>) -> Arc<Self> {
        Arc::new(Self { shell, inner: Mutex::default(), news: watch::Sender::new(0) })
    }

    pub fn shell(&self) -> &Arc<Shell> {
        &self.shell
    }

    /// Turns a running job into a background task. Output up to `seen` was already shown. Returns the
    /// task id.
    pub fn adopt(self: &Arc<Self>, job: Job, about: TaskAbout, seen: Mark) -> String {
        let id = job.id().to_owned();
        let mut inner = self.inner();
        inner.number += 1;
        let number = inner.number;
        let told = about.kind == TaskKind::Leftover;
        let (cursor, events) = (seen, PendingLines::default());
        let following = about.kind == TaskKind::Watch;
        let task = Task { job: job.clone(), about, cursor, told, readers: 0, events, following, reported: 0 };
        inner.tasks.insert(number, task);
        drop(inner);
        let tasks = Arc::clone(self);
        tokio::spawn(async move {
            job.ended().await;
            tasks.tell_news();
        });
        id
    }

    /// Turns a job into a watch, whose lines are reported as events. Returns the task id.
    pub fn watch(self: &Arc<Self>, job: Job, about: TaskAbout) -> String {
        let id = self.adopt(job.clone(), about, Mark::default());
        let (tasks, name) = (Arc::clone(self), id.clone());
        tokio::spawn(async move {
            let mut reader = JobLines::new(job);
            while let Some(lines) = reader.next().await {
                tasks.report(&name, &lines);
            }
            if let Some(task) = tasks.inner().named_mut(&name) {
                task.following = false;
            }
            tasks.tell_news();
        });
        id
    }

    /// Registers a call that waits for its command, so that the user can move it to the background.
    pub fn in_foreground(self: &Arc<Self>, job: &Job) -> ForegroundCall {
        let (call, moved) = (job.spec().call.clone(), Arc::new(Notify::new()));
        self.inner().foreground.insert(call.clone(), (job.clone(), Arc::clone(&moved)));
        ForegroundCall { tasks: Arc::clone(self), call, moved }
    }

    /// Command lines and initial directories of all running tasks and foreground commands.
    pub fn running(&self) -> Vec<(String, PathBuf)> {
        let inner = self.inner();
        let waited_for = inner.foreground.values().map(|(job, _)| job);
        let all = inner.tasks.values().map(|task| &task.job).chain(waited_for);
        all.filter(|job| !matches!(job.phase(), JobPhase::Gone(_)))
            .map(|job| (job.spec().command.clone(), job.spec().cwd.clone()))
            .collect()
    }

    /// Moves a waiting call to the background, or all for `None`. Returns false if there is none.
    pub fn move_to_background(&self, call: Option<&CallId>) -> bool {
        let inner = self.inner();
        let wanted = |it: &&CallId| call.is_none_or(|call| call == *it);
        let mut moved = false;
        for call in inner.foreground.keys().filter(wanted) {
            inner.foreground[call].1.notify_one();
            moved = true;
        }
        moved
    }

    /// All tasks, oldest first.
    pub fn list(&self) -> Vec<TaskInfo> {
        self.inner().tasks.values().map(Task::info).collect()
    }

    pub fn get(&self, id: &str) -> Option<TaskInfo> {
        self.inner().named(id).map(|task| task.info())
    }

    /// Path and excerpt of the output of a task from an earlier process of this session, if it is still
    /// on disk.
    pub fn earlier(&self, id: &str, limit: usize) -> Option<(PathBuf, String)> {
        if self.get(id).is_some() {
            return None;
        }
        let config = self.shell.config();
        let file = Shell::output_of(&config.state, &config.session, id);
        let bytes = std::fs::read(&file).ok()?;
        let text = String::from_utf8_lossy(&bytes);
        Some((file, haft_types::text::tail(&text, limit).to_owned()))
    }

    /// Reserves the end of a task for a caller that waits for it and then reads its output; `None` if
    /// there is no such task.
    pub fn reader(self: &Arc<Self>, id: &str) -> Option<TaskReader> {
        let mut inner = self.inner();
        let task = inner.named_mut(id)?;
        task.readers += 1;
        Some(TaskReader { tasks: Arc::clone(self), id: task.job.id().to_owned() })
    }

    /// Output since the last read. If the task has ended, this delivers its end.
    pub fn read(&self, id: &str, limit: usize) -> Option<TaskRead> {
        let mut inner = self.inner();
        let task = inner.named_mut(id)?;
        let ended = task.job.end();
        let end = task.job.printed();
        let fresh = task.job.read(OutputView { limit, from: task.cursor });
        task.cursor = end;
        // Output after the end is returned on request but not announced.
        task.told |= ended.is_some();
        Some(TaskRead { info: task.info(), fresh })
    }

    /// Waits until a task has ended or printed something new, at most `patience`. Returns false if there
    /// is no such task.
    pub async fn wait(&self, id: &str, until: WaitUntil, patience: Duration) -> bool {
        let Some((job, cursor)) = self.inner().named(id).map(|it| (it.job.clone(), it.cursor)) else {
            return false;
        };
        let happens = async {
            match until {
                WaitUntil::Ended => drop(job.ended().await),
                WaitUntil::News => job.printed_more_than(cursor.bytes).await,
            }
        };
        tokio::time::timeout(patience, happens).await.ok();
        true
    }

    /// Stops a task with all its processes. Waits up to two seconds until they are gone. Counts as
    /// delivery of its end.
    pub async fn stop(&self, id: &str) -> Option<TaskInfo> {
        let job = self.inner().named(id)?.job.clone();
        if !matches!(job.phase(), JobPhase::Gone(_)) {
            job.stop(Stop::Asked);
            tokio::time::timeout(Duration::from_secs(2), job.gone()).await.ok();
        }
        let mut inner = self.inner();
        let task = inner.named_mut(id)?;
        // The caller knows that it has ended.
        task.told = true;
        Some(task.info())
    }

    /// The job of a task.
    pub fn job(&self, id: &str) -> Option<Job> {
        self.inner().named(id).map(|task| task.job.clone())
    }

    /// Lets the processes of a task outlive the session.
    pub fn detach(&self, id: &str) -> Option<std::io::Result<bool>> {
        let job = self.inner().named(id)?.job.clone();
        Some(job.detach())
    }

    /// Takes all pending notices of an agent, in task order.
    pub fn drain(&self, agent: &AgentId) -> Vec<TaskNotice> {
        self.drain_where(|it| it == agent)
    }

    /// Like [`TaskRegistry::drain`], for all matching agents, such as ended ones whose parent takes
    /// over.
    pub fn drain_where(&self, wanted: impl Fn(&AgentId) -> bool) -> Vec<TaskNotice> {
        let mut inner = self.inner();
        let mut notices = Vec::new();
        for task in inner.tasks.values_mut().filter(|it| wanted(&it.about.agent)) {
            if let Some((lines, missed)) = task.events.take() {
                notices.push(TaskNotice::events(task.info(), lines, missed));
            }
            if task.has_untold_end() {
                task.told = true;
                // The notice contains only the last lines; the full output can be read.
                notices.push(TaskNotice::ended(task.info(), task.job.recent_lines(20)));
            }
        }
        notices
    }

    /// Whether notices are pending for an agent.
    pub fn has_news(&self, agent: &AgentId) -> bool {
        let inner = self.inner();
        let mut of_agent = inner.tasks.values().filter(|it| it.about.agent == *agent);
        of_agent.any(|it| !it.events.is_empty() || it.has_untold_end())
    }

    /// The agents with pending notices.
    pub fn agents_with_news(&self) -> Vec<AgentId> {
        let inner = self.inner();
        let told = inner.tasks.values().filter(|it| !it.events.is_empty() || it.has_untold_end());
        let mut agents: Vec<AgentId> = told.map(|it| it.about.agent.clone()).collect();
        agents.sort();
        agents.dedup();
        agents
    }

    /// Waits until there may be a new notice for any agent.
    pub async fn any_news(&self) {
        let mut news = self.news.subscribe();
        news.borrow_and_update();
        news.changed().await.ok();
    }

    /// Waits until a notice is pending for an agent.
    pub async fn news(&self, agent: &AgentId) {
        let mut news = self.news.subscribe();
        while !self.has_news(agent) {
            news.borrow_and_update();
            if self.has_news(agent) || news.changed().await.is_err() {
                return;
            }
        }
    }

    /// Whether lines of a watch are undelivered: some are queued, or fewer than `written` were reported.
    pub fn has_unheard(&self, id: &str, written: u64) -> bool {
        self.inner().named(id).is_some_and(|it| !it.events.is_empty() || it.reported < written)
    }

    /// Queues lines of a watch.
    fn report(&self, id: &str, lines: &[String]) {
        if let Some(task) = self.inner().named_mut(id) {
            task.reported += lines.len() as u64;
            for line in lines {
                task.events.push(line);
            }
        }
        self.tell_news();
    }

    fn tell_news(&self) {
        self.news.send_modify(|count| *count += 1);
    }

    fn inner(&self) -> MutexGuard<'_, TasksInner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Condition of a wait.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum WaitUntil {
    /// The task has ended.
    Ended,
    /// The task has ended or printed something new.
    News,
}

impl TasksInner {
    fn named(&self, id: &str) -> Option<&Task> {
        self.tasks.values().find(|it| it.job.id() == id)
    }

    fn named_mut(&mut self, id: &str) -> Option<&mut Task> {
        self.tasks.values_mut().find(|it| it.job.id() == id)
    }
}

impl Task {
    fn info(&self) -> TaskInfo {
        let spec = self.job.spec();
        TaskInfo {
            id: self.job.id().to_owned(),
            about: self.about.clone(),
            command: spec.command.clone(),
            call: spec.call.clone(),
            status: self.status(),
            elapsed: self.job.elapsed(),
            file: self.job.file(),
        }
    }

    fn has_untold_end(&self) -> bool {
        !self.told && self.readers == 0 && !self.following && self.job.end().is_some()
    }

    fn status(&self) -> BackgroundStatus {
        match self.job.phase() {
            JobPhase::Running => BackgroundStatus::Running,
            JobPhase::Ended(end) if self.about.kind == TaskKind::Leftover => {
                BackgroundStatus::LeftRunning(end)
            }
            JobPhase::Ended(end) | JobPhase::Gone(end) => BackgroundStatus::Ended(end),
        }
    }
}

/// A caller that waits for a task and then reads its output. While it exists, the end of the task is not
/// announced; if it was not read, it is announced when the reader is dropped.
#[derive(Debug)]
pub struct TaskReader {
    tasks: Arc<TaskRegistry>,
    id: String,
}

impl TaskReader {
    /// See [`TaskRegistry::wait`].
    pub async fn wait(&self, until: WaitUntil, patience: Duration) {
        self.tasks.wait(&self.id, until, patience).await;
    }

    /// See [`TaskRegistry::read`].
    pub fn read(&self, limit: usize) -> Option<TaskRead> {
        self.tasks.read(&self.id, limit)
    }
}

impl Drop for TaskReader {
    fn drop(&mut self) {
        if let Some(task) = self.tasks.inner().named_mut(&self.id) {
            task.readers -= 1;
        }
        self.tasks.tell_news();
    }
}

/// A call that waits for its command. Unregistered on drop.
#[derive(Debug)]
pub struct ForegroundCall {
    tasks: Arc<TaskRegistry>,
    call: CallId,
    moved: Arc<Notify>,
}

impl ForegroundCall {
    /// Waits until the user moves the call to the background.
    pub async fn moved(&self) {
        self.moved.notified().await;
    }
}

impl Drop for ForegroundCall {
    fn drop(&mut self) {
        self.tasks.inner().foreground.remove(&self.call);
    }
}

/// The result of an ended task.
pub(crate) fn end_of(status: &BackgroundStatus) -> Option<&Arc<JobEnd>> {
    match status {
        BackgroundStatus::Running => None,
        BackgroundStatus::LeftRunning(end) | BackgroundStatus::Ended(end) => Some(end),
    }
}
