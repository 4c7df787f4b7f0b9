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

/// What goes on beside the conversation: commands in the background, watches,
/// and what commands left running.
///
/// **Invariant:** the end of a task reaches its agent once: either through
/// [`TaskRegistry::drain`] or as the answer to [`TaskRegistry::read`], never both, never
/// neither. While a [`TaskReader`] waits for it, it is the reader's. Ids stay
/// known as long as the session lives.
#[derive(Debug)]
pub struct TaskRegistry {
    shell: Arc<Shell>,
    inner: Mutex<TasksInner>,
    /// Counts what became worth draining.
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
    /// Whether the agent knows how it ended.
    told: bool,
    /// How many [`TaskReader`]s there are.
    readers: usize,
    events: PendingLines,
    /// Whether lines may still come in as events: its end is told after them.
    following: bool,
    /// How many lines came in as events.
    reported: u64,
}

/// What a task is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TaskAbout {
    /// Which kind.
    pub kind: TaskKind,
    /// In a few words, by whoever started it.
    pub description: String,
    /// Who gets to know of its end.
    pub agent: AgentId,
}

/// Kinds of tasks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TaskKind {
    /// A command in the background.
    Command,
    /// A command whose lines are events.
    Watch,
    /// What a command left running when it ended. Its end is not news.
    Leftover,
}

impl TaskKind {
    /// The public name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Command => "bash",
            Self::Watch => "monitor",
            Self::Leftover => "leftover",
        }
    }
}

/// One line of the task list.
#[derive(Clone, Debug)]
pub struct TaskInfo {
    /// Its id.
    pub id: String,
    /// What it is.
    pub about: TaskAbout,
    /// Its command line.
    pub command: String,
    /// The call that started it.
    pub call: CallId,
    /// How far it is.
    pub status: BackgroundStatus,
    /// How long it has been running, or ran.
    pub elapsed: Duration,
    /// Where its output is.
    pub file: Option<PathBuf>,
}

/// What somebody who asked for output gets.
#[derive(Clone, Debug)]
pub struct TaskRead {
    /// The task.
    pub info: TaskInfo,
    /// What it printed since somebody asked the last time.
    pub fresh: Excerpt,
}

impl TaskRegistry {
    /// Tasks of the commands this shell runs.
    pub fn new(shell: Arc<Shell>) -> Arc<Self> {
        Arc::new(Self { shell, inner: Mutex::default(), news: watch::Sender::new(0) })
    }

    /// The shell.
    pub fn shell(&self) -> &Arc<Shell> {
        &self.shell
    }

    /// Goes on with a job in the background. What it printed up to `seen` has
    /// been shown already.
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

    /// Goes on with a job in the background and reports each line it prints.
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

    /// Registers a call that waits for its command, so that a person can send
    /// it to the background.
    pub fn in_foreground(self: &Arc<Self>, job: &Job) -> ForegroundCall {
        let (call, moved) = (job.spec().call.clone(), Arc::new(Notify::new()));
        self.inner().foreground.insert(call.clone(), (job.clone(), Arc::clone(&moved)));
        ForegroundCall { tasks: Arc::clone(self), call, moved }
    }

    /// Command lines of which something is still running, and the directory that
    /// each was started in: tasks, and commands that a call waits for.
    pub fn running(&self) -> Vec<(String, PathBuf)> {
        let inner = self.inner();
        let waited_for = inner.foreground.values().map(|(job, _)| job);
        let all = inner.tasks.values().map(|task| &task.job).chain(waited_for);
        all.filter(|job| !matches!(job.phase(), JobPhase::Gone(_)))
            .map(|job| (job.spec().command.clone(), job.spec().cwd.clone()))
            .collect()
    }

    /// Sends a call that waits for its command to the background; false if none
    /// does. All of them for `None`.
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

    /// The task of this id.
    pub fn get(&self, id: &str) -> Option<TaskInfo> {
        self.inner().named(id).map(|task| task.info())
    }

    /// What a task of an earlier process of this session printed, as far as it is
    /// kept: it is no task any more, but its output is still there.
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

    /// Someone who waits for a task and then reads what it printed; `None` if
    /// there is no such task.
    pub fn reader(self: &Arc<Self>, id: &str) -> Option<TaskReader> {
        let mut inner = self.inner();
        let task = inner.named_mut(id)?;
        task.readers += 1;
        Some(TaskReader { tasks: Arc::clone(self), id: task.job.id().to_owned() })
    }

    /// What a task printed since somebody asked the last time. Whoever learns
    /// of its end this way is not told again.
    pub fn read(&self, id: &str, limit: usize) -> Option<TaskRead> {
        let mut inner = self.inner();
        let task = inner.named_mut(id)?;
        let ended = task.job.end();
        let end = task.job.printed();
        let fresh = task.job.read(OutputView { limit, from: task.cursor });
        task.cursor = end;
        // What is printed after its end is told when asked for, not announced.
        task.told |= ended.is_some();
        Some(TaskRead { info: task.info(), fresh })
    }

    /// Waits until a task has ended or printed something new, or the time is
    /// up. False if there is no such task.
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

    /// Ends a task, with everything it started. Waits until it is told to have
    /// ended, a fraction of a second at most.
    pub async fn stop(&self, id: &str) -> Option<TaskInfo> {
        let job = self.inner().named(id)?.job.clone();
        if !matches!(job.phase(), JobPhase::Gone(_)) {
            job.stop(Stop::Asked);
            tokio::time::timeout(Duration::from_secs(2), job.gone()).await.ok();
        }
        let mut inner = self.inner();
        let task = inner.named_mut(id)?;
        // Whoever stops it knows that it has ended.
        task.told = true;
        Some(task.info())
    }

    /// The job behind a task.
    pub fn job(&self, id: &str) -> Option<Job> {
        self.inner().named(id).map(|task| task.job.clone())
    }

    /// Lets what a task started go on after the session.
    pub fn detach(&self, id: &str) -> Option<std::io::Result<bool>> {
        let job = self.inner().named(id)?.job.clone();
        Some(job.detach())
    }

    /// Everything an agent has not been told yet, in the order of the tasks.
    pub fn drain(&self, agent: &AgentId) -> Vec<TaskNotice> {
        self.drain_where(|it| it == agent)
    }

    /// The same for all agents that match, such as those that have ended: their
    /// parent takes their place.
    pub fn drain_where(&self, wanted: impl Fn(&AgentId) -> bool) -> Vec<TaskNotice> {
        let mut inner = self.inner();
        let mut notices = Vec::new();
        for task in inner.tasks.values_mut().filter(|it| wanted(&it.about.agent)) {
            if let Some((lines, missed)) = task.events.take() {
                notices.push(TaskNotice::events(task.info(), lines, missed));
            }
            if task.has_untold_end() {
                task.told = true;
                // Only the last lines are in the notice: who asks for the output gets all of it.
                notices.push(TaskNotice::ended(task.info(), task.job.recent_lines(20)));
            }
        }
        notices
    }

    /// Whether an agent has something to be told.
    pub fn has_news(&self, agent: &AgentId) -> bool {
        let inner = self.inner();
        let mut of_agent = inner.tasks.values().filter(|it| it.about.agent == *agent);
        of_agent.any(|it| !it.events.is_empty() || it.has_untold_end())
    }

    /// Which agents have something to be told.
    pub fn agents_with_news(&self) -> Vec<AgentId> {
        let inner = self.inner();
        let told = inner.tasks.values().filter(|it| !it.events.is_empty() || it.has_untold_end());
        let mut agents: Vec<AgentId> = told.map(|it| it.about.agent.clone()).collect();
        agents.sort();
        agents.dedup();
        agents
    }

    /// Waits until something happened that an agent may have to be told.
    pub async fn any_news(&self) {
        let mut news = self.news.subscribe();
        news.borrow_and_update();
        news.changed().await.ok();
    }

    /// Waits until an agent has something to be told.
    pub async fn news(&self, agent: &AgentId) {
        let mut news = self.news.subscribe();
        while !self.has_news(agent) {
            news.borrow_and_update();
            if self.has_news(agent) || news.changed().await.is_err() {
                return;
            }
        }
    }

    /// Whether somebody has yet to be told one of the lines that a watch wrote, of
    /// which there were so many.
    pub fn has_unheard(&self, id: &str, written: u64) -> bool {
        self.inner().named(id).is_some_and(|it| !it.events.is_empty() || it.reported < written)
    }

    /// Reports lines of a watch.
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

/// What a wait waits for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum WaitUntil {
    /// The end of the task.
    Ended,
    /// Its end, or more output.
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

/// Someone who waits for a task and then reads what it printed. As long as it
/// lives, nobody else is told that the task has ended; if it did not read that,
/// it is announced when the reader is dropped.
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

/// A call that waits for its command. Forgotten when dropped.
#[derive(Debug)]
pub struct ForegroundCall {
    tasks: Arc<TaskRegistry>,
    call: CallId,
    moved: Arc<Notify>,
}

impl ForegroundCall {
    /// Waits until a person sends the call to the background.
    pub async fn moved(&self) {
        self.moved.notified().await;
    }
}

impl Drop for ForegroundCall {
    fn drop(&mut self) {
        self.tasks.inner().foreground.remove(&self.call);
    }
}

/// How a task ended, for those who only want to know that.
pub(crate) fn end_of(status: &BackgroundStatus) -> Option<&Arc<JobEnd>> {
    match status {
        BackgroundStatus::Running => None,
        BackgroundStatus::LeftRunning(end) | BackgroundStatus::Ended(end) => Some(end),
    }
}
