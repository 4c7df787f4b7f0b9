//! Commands of front ends about files, messages and tasks.

use std::{
    fs::File,
    io::Read as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::UNIX_EPOCH,
};

use haft_agent::WindowUsage;
use haft_permission::{HookOpinion, Policy};
use haft_tool::{CallContext, DynTool};
use haft_tool_host::protocol::HostCommand;
use haft_types::{AgentId, CallId, Message};
use haft_workspace::{ReadBy, SessionFiles};
use serde_json::json;

use super::{RunnerState, SessionActor};
use crate::{
    FileContent, Reply, RewindReport,
    agents::StoppedBy,
    build::SessionRunner,
    context_usage::ContextUsage,
    rewind_files::{rewind, rewind_on_hosts},
};

/// Maximum size in bytes of files that [`seed`] accepts.
const MAX_SEEDED: u64 = 8 << 20;

impl SessionActor {
    /// Reads a file in a background task, then replies. Fails if the rules do not let Read open it
    /// without a prompt.
    pub(super) fn read_file(&self, path: &Path, max_bytes: u64, reply: Reply<Result<FileContent, String>>) {
        let events = self.events.clone();
        let Some(path) = self.expanded(path) else {
            return reply.send(Err(format!("{}: there is no such path", path.display())), &events);
        };
        let policy = self.pipeline.gate.permissions().policy();
        let may =
            self.readers.as_ref().is_some_and(|it| may_read(&policy, &it.read, &path, &self.premises.cwd));
        if !may {
            let problem = format!("the permission rules do not let {} be read", path.display());
            return reply.send(Err(problem), &events);
        }
        tokio::task::spawn_blocking(move || {
            let read = content(&path, max_bytes).map_err(|problem| format!("{}: {problem}", path.display()));
            reply.send(read, &events);
        });
    }

    /// Marks a file as read by the model, if it has not changed since `mtime` (milliseconds since the
    /// epoch).
    pub(super) fn seed_read(&self, path: &Path, mtime: f64) {
        if let (Some(files), Some(path)) = (&self.files, self.expanded(path)) {
            seed(files, &path, mtime);
        }
    }

    fn expanded(&self, path: &Path) -> Option<PathBuf> {
        let path = haft_paths::expand(path, &self.premises.cwd, self.premises.home.as_deref()).ok()?;
        Some(haft_paths::lexical(&path))
    }

    pub(super) fn rewind(&self, prompt: &str, dry_run: bool) -> Result<RewindReport, String> {
        if !self.spec.checkpoints {
            return Err(String::from("File rewinding is not enabled."));
        }
        let log = self.logs.path(self.session_id.as_str());
        match self.watch.background.hosts() {
            Some(hosts) => rewind_on_hosts(hosts, &log, prompt, dry_run),
            None => rewind(&self.premises, &self.session_id, &log, prompt, dry_run),
        }
    }

    /// Stops a task and replies when it has ended. An unknown task is not an error.
    pub(super) fn stop_task(&self, task: String, reply: Reply<()>) {
        self.agents.stop(&task, StoppedBy::Person);
        self.watch.background.will_stop(&task);
        let (watch, events) = (Arc::clone(&self.watch), self.events.clone());
        tokio::spawn(async move {
            if let Some(tasks) = watch.background.tasks() {
                tasks.stop(&task).await;
                watch.background.tell_ended();
            }
            if let Some(hosts) = watch.background.hosts().filter(|it| it.knows_task(&task)) {
                hosts.order(HostCommand::StopTask { id: task }).await;
            }
            reply.send((), &events);
        });
    }

    pub(super) fn context_usage(&self) -> ContextUsage {
        match (&self.seat, &self.snapshot) {
            (RunnerState::Idle(SessionRunner::Agent(agent)), _) => {
                ContextUsage::measure(agent, &self.catalog)
            }
            (_, Some(snapshot)) => snapshot.clone(),
            _ => ContextUsage::default(),
        }
    }

    /// Computes what the next request would contain, including the tools of the MCP servers, which are
    /// started for it.
    pub(super) fn window_fill(&mut self, reply: Reply<Option<WindowUsage>>) {
        if !matches!(self.seat, RunnerState::Idle(SessionRunner::Agent(_))) {
            return reply.send(None, &self.events);
        }
        self.begin_servers();
        let RunnerState::Idle(SessionRunner::Agent(agent)) =
            std::mem::replace(&mut self.seat, RunnerState::Broken)
        else {
            return;
        };
        let setting = self.turn_setting();
        self.seat = RunnerState::Working(super::running::RunningWork::look(agent, reply, setting));
    }

    pub(super) fn messages(&self) -> Vec<Message> {
        match (&self.seat, &self.snapshot) {
            (RunnerState::Idle(SessionRunner::Agent(agent)), _) => {
                agent.conversation.messages().iter().map(|it| Message::clone(it)).collect()
            }
            (_, Some(snapshot)) => snapshot.messages(),
            _ => Vec::new(),
        }
    }
}

/// Whether Read would show a file without a prompt.
fn may_read(policy: &Policy, read: &Arc<dyn DynTool>, path: &Path, cwd: &Path) -> bool {
    let cx = CallContext::detached("read_file", cwd);
    // A path that is not UTF-8 cannot appear in a tool input, so no rule allows it.
    let Some(path) = path.to_str() else { return false };
    let parsed = Arc::clone(read).parse(json!({"file_path": path}), &cx);
    let judged = parsed.map(|call| policy.judge(read.name(), call.as_ref(), &cx, &HookOpinion::default()));
    judged.is_ok_and(|decision| decision.permit().is_ok())
}

fn content(path: &Path, most: u64) -> Result<FileContent, String> {
    let in_words = |err: std::io::Error| err.to_string();
    let about = std::fs::metadata(path).map_err(in_words)?;
    if !about.is_file() {
        return Err(String::from("not a regular file"));
    }
    let mut bytes = Vec::new();
    File::open(path).map_err(in_words)?.take(most).read_to_end(&mut bytes).map_err(in_words)?;
    let truncated = (bytes.len() as u64) < about.len();
    Ok(FileContent { path: path.to_owned(), bytes, truncated })
}

/// Marks a file as read. A file that has changed since `mtime` or does not exist is skipped and must be
/// read again.
fn seed(files: &Arc<SessionFiles>, path: &Path, mtime: f64) {
    let Ok(about) = std::fs::metadata(path) else { return };
    let changed = about.modified().ok().and_then(|it| it.duration_since(UNIX_EPOCH).ok());
    // Hosts round to whole milliseconds, up or down.
    let is_same = changed.is_some_and(|it| it.as_secs_f64() * 1000.0 < mtime + 1.0);
    if !about.is_file() || MAX_SEEDED < about.len() || !is_same {
        return;
    }
    let viewer = ReadBy { agent: AgentId::Main, call: CallId::from("seed_read_state") };
    let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if let Ok(text) = std::fs::read_to_string(&real) {
        files.printed(&viewer, &real, &text).ok();
    }
}
