use std::{collections::VecDeque, sync::Arc};

use crate::run::{
    job::{Exit, JobEnd, Stop},
    tasks::{TaskInfo, end_of},
};

/// State of a background task.
#[derive(Clone, Debug)]
pub enum BackgroundStatus {
    /// Its command runs.
    Running,
    /// Its command has ended; processes it started still run.
    LeftRunning(Arc<JobEnd>),
    /// It has ended.
    Ended(Arc<JobEnd>),
}

impl BackgroundStatus {
    /// Name as in the Agent SDKs.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Running | Self::LeftRunning(_) => "running",
            Self::Ended(end) if end.is_success() => "completed",
            Self::Ended(end) if matches!(end.stopped, Some(Stop::Asked | Stop::Interrupted)) => "killed",
            Self::Ended(_) => "failed",
        }
    }
}

impl JobEnd {
    /// Short description of how it ended.
    pub fn describe(&self) -> String {
        let exit = match &self.exit {
            Exit::Code(code) => format!("exit code {code}"),
            Exit::Signal(signal) => format!("killed by {}", signal_name(*signal)),
            Exit::NotStarted(why) => format!("not started: {why}"),
            Exit::Lost(why) => format!("it ran, and how it ended is not known: {why}"),
            Exit::Ending => String::from("told to end"),
            Exit::Closed(how) => how.clone(),
        };
        let why = match self.stopped {
            _ if self.out_of_memory => "it took more memory than a command may",
            None => return exit,
            Some(Stop::Interrupted) => "interrupted",
            Some(Stop::TimedOut) => "it took too long",
            Some(Stop::OutputLimit) => "output_limit: it printed more than a command may",
            Some(Stop::WantsTerminal) => "it waited for somebody at a terminal, and there is none",
            Some(Stop::Asked) => "stopped",
        };
        format!("{why} ({exit})")
    }
}

/// Name of a signal: `SIGKILL` for 9.
pub fn signal_name(signal: i32) -> String {
    const NAMES: [(i32, &str); 15] = [
        (libc::SIGHUP, "SIGHUP"),
        (libc::SIGINT, "SIGINT"),
        (libc::SIGQUIT, "SIGQUIT"),
        (libc::SIGILL, "SIGILL"),
        (libc::SIGTRAP, "SIGTRAP"),
        (libc::SIGABRT, "SIGABRT"),
        (libc::SIGBUS, "SIGBUS"),
        (libc::SIGFPE, "SIGFPE"),
        (libc::SIGKILL, "SIGKILL"),
        (libc::SIGSEGV, "SIGSEGV"),
        (libc::SIGPIPE, "SIGPIPE"),
        (libc::SIGALRM, "SIGALRM"),
        (libc::SIGTERM, "SIGTERM"),
        (libc::SIGXFSZ, "SIGXFSZ"),
        (libc::SIGSYS, "SIGSYS"),
    ];
    let known = NAMES.iter().find(|it| it.0 == signal).map(|it| it.1.to_owned());
    known.unwrap_or_else(|| format!("signal {signal}"))
}

/// A notice to an agent about a task.
#[derive(Clone, Debug)]
pub struct TaskNotice {
    /// The task.
    pub task: TaskInfo,
    /// The event.
    pub news: TaskNoticeKind,
}

/// An event of a task.
#[derive(Clone, Debug)]
pub enum TaskNoticeKind {
    /// It has ended; its last lines.
    Ended(Vec<String>),
    /// A watch printed these lines, and this many more that were dropped.
    Events(Vec<String>, u64),
}

impl TaskNotice {
    pub(crate) fn ended(task: TaskInfo, tail: Vec<String>) -> Self {
        Self { task, news: TaskNoticeKind::Ended(tail) }
    }

    pub(crate) fn events(task: TaskInfo, lines: Vec<String>, missed: u64) -> Self {
        Self { task, news: TaskNoticeKind::Events(lines, missed) }
    }

    /// Text for the model.
    pub fn text(&self) -> String {
        let TaskInfo { id, about, command, file, .. } = &self.task;
        let what = if about.description.is_empty() { command } else { &about.description };
        let what = haft_types::text::one_line(what, 120);
        let mut lines = match &self.news {
            TaskNoticeKind::Ended(tail) => {
                let how = end_of(&self.task.status).map_or_else(String::new, |end| end.describe());
                let mut lines = vec![format!("Background task {id} ({what}) has ended: {how}.")];
                let violations = end_of(&self.task.status).map(|end| end.violations.clone());
                let violations = violations.unwrap_or_default();
                lines.extend(violations.iter().map(|it| format!("Blocked by sandbox: {it}.")));
                lines.extend(file.as_ref().map(|path| format!("Its output is in {}.", path.display())));
                if !tail.is_empty() {
                    lines.push(String::from("Its last lines:"));
                }
                lines.extend(tail.iter().map(|line| haft_types::text::head(line, 500).to_owned()));
                lines
            }
            TaskNoticeKind::Events(events, missed) => {
                let mut lines = vec![format!("Monitor {id} ({what}) reports:")];
                lines.extend(events.iter().cloned());
                if 0 < *missed {
                    lines.push(format!("[{missed} more lines were not kept]"));
                }
                lines
            }
        };
        lines.push(String::new());
        lines.join("\n").trim_end().to_owned()
    }
}

/// Lines of a watch that were not delivered yet.
#[derive(Debug, Default)]
pub(crate) struct PendingLines {
    lines: VecDeque<String>,
    chars: usize,
    missed: u64,
}

impl PendingLines {
    /// Maximum characters queued, so that an agent that does not read them costs no memory.
    const MOST: usize = 20_000;
    const LONGEST: usize = 2_000;

    pub(crate) fn push(&mut self, line: &str) {
        let line = haft_types::text::head(line, Self::LONGEST);
        let chars = line.chars().count() + 1;
        if Self::MOST < self.chars + chars {
            self.missed += 1;
        } else {
            self.chars += chars;
            self.lines.push_back(line.to_owned());
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.missed == 0
    }

    pub(crate) fn take(&mut self) -> Option<(Vec<String>, u64)> {
        if self.is_empty() {
            return None;
        }
        let taken = std::mem::take(self);
        Some((taken.lines.into(), taken.missed))
    }
}
