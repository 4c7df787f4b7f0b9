//! Messages that tools send to the user while a session works, and a summary of what the session has
//! done.

use std::{
    fmt::Write as _,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use haft_agent::log::{self, LogEntry};
use haft_builtin_tools::{
    brief::{UserMessage, UserMessenger},
    task_list::{TaskLists, TaskStatus},
};
use haft_shell::run::TaskRegistry;
use haft_tool::{BoxFuture, CallContext};
use haft_types::{MessageBlock, SessionId, text};
use haft_workspace::SessionFiles;

use crate::{EventSender, agents::SubagentRegistry};

/// Maximum number of prompts listed in a summary; the latest are kept.
const NAMED_PROMPTS: usize = 10;
/// Maximum number of changed files listed in a summary.
const NAMED_FILES: usize = 40;

/// Sends messages of tools to the user and summarises the session.
pub(crate) struct SessionMessenger {
    pub(crate) events: EventSender,
    pub(crate) files: Arc<SessionFiles>,
    pub(crate) lists: Arc<TaskLists>,
    pub(crate) agents: Arc<SubagentRegistry>,
    pub(crate) tasks: Arc<TaskRegistry>,
    pub(crate) session: SessionId,
    /// Path of the session's log; `None` before it is known or without a log.
    pub(crate) log: Mutex<Option<PathBuf>>,
}

impl SessionMessenger {
    /// Sets the path of the session's log.
    pub(crate) fn logged_at(&self, log: Option<PathBuf>) {
        *self.log.lock().unwrap_or_else(PoisonError::into_inner) = log;
    }
}

impl UserMessenger for SessionMessenger {
    fn tell(&self, message: &UserMessage, cx: &CallContext) -> String {
        let mut said = match cx.agent_id.child() {
            Some(_) => format!("{}: {}", self.agents.address_of(&cx.agent_id), message.message.trim()),
            None => message.message.trim().to_owned(),
        };
        for path in &message.attachments {
            let _ = write!(said, "\n  {}", path.display());
        }
        self.events.notice(said);
        log::now()
    }

    fn summary<'a>(&'a self, _cx: &'a CallContext) -> BoxFuture<'a, String> {
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (files, lists, session) =
            (Arc::clone(&self.files), Arc::clone(&self.lists), self.session.clone());
        let agents = self.agents.listed();
        let running: Vec<String> = self
            .tasks
            .list()
            .into_iter()
            .filter(|it| it.status.name() == "running")
            .map(|it| format!("{} ({})", it.id, text::one_line(&it.command, 80)))
            .collect();
        Box::pin(async move {
            let written = tokio::task::spawn_blocking(move || {
                let mut out = String::new();
                section(&mut out, "Asked for", prompts(log));
                section(&mut out, "Files changed", changed_files(&files, &session));
                section(&mut out, "Tasks", open_tasks(&lists));
                section(&mut out, "Agents", agents);
                section(&mut out, "Running in the background", running);
                if out.is_empty() { String::from("Nothing happened yet.") } else { out.trim_end().to_owned() }
            });
            written.await.unwrap_or_else(|_| String::from("The session could not be summed up."))
        })
    }
}

fn section(out: &mut String, title: &str, lines: Vec<String>) {
    if lines.is_empty() {
        return;
    }
    let _ = writeln!(out, "{title}:");
    for line in lines {
        let _ = writeln!(out, "- {line}");
    }
}

/// The latest prompts of the user, one line each. Reads the log.
fn prompts(log: Option<PathBuf>) -> Vec<String> {
    let mut said: Vec<String> = Vec::new();
    let Some(log) = log else { return said };
    log::read(&log, |entry| {
        let LogEntry::User(line) = entry else { return };
        for block in &line.message.message.content {
            if let MessageBlock::Text { text } = block
                && !text.trim_start().starts_with('<')
            {
                said.push(text::one_line(text, 200));
            }
        }
    })
    .ok();
    said.split_off(said.len().saturating_sub(NAMED_PROMPTS))
}

fn changed_files(files: &SessionFiles, session: &SessionId) -> Vec<String> {
    let Ok(journal) = files.workspace().journal() else { return Vec::new() };
    let entries = journal.entries().unwrap_or_default();
    let own = entries.iter().filter(|it| it.origin.session.as_ref() == Some(session));
    let mut paths: Vec<String> =
        own.flat_map(|it| &it.changes).map(|it| it.path.display().to_string()).collect();
    paths.sort();
    paths.dedup();
    let more = paths.len().saturating_sub(NAMED_FILES);
    paths.truncate(NAMED_FILES);
    if 0 < more {
        paths.push(format!("{more} more"));
    }
    paths
}

fn open_tasks(lists: &TaskLists) -> Vec<String> {
    let Ok(board) = lists.board() else { return Vec::new() };
    let done = board.tasks().filter(|it| it.1.status == TaskStatus::Completed).count();
    let open = board.tasks().filter(|it| it.1.status != TaskStatus::Completed);
    let mut lines: Vec<String> = open
        .map(|(id, it)| format!("#{id} [{}] {}", it.status.name(), text::one_line(&it.subject, 120)))
        .collect();
    if 0 < done {
        lines.push(format!("{done} completed"));
    }
    lines
}
