//! The tool hosts of a session.

use std::{
    collections::{BTreeSet, HashMap},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, OnceLock},
    time::Duration,
};

use haft_tool::{BoxFuture, CallContext, CallEffect, ContextChange, DynTool, ErrorKind, Output, ToolError};
use haft_tool_runtime::CallReport;
use haft_types::{AgentId, Block, CallId, ToolUse};
use serde_json::{Value, json};

use super::{
    HostLink, LinkConfig, LinkError,
    link::{RemoteCallEvent, locked},
    remote_call::{RemoteCaller, heard},
    remote_tool::HostTool,
};
use crate::{
    host_address::HostConfig,
    protocol::{AnswerFrame, CallKey, HostCommand, HostLocation, QuestionFrame, ReportFrame},
};

/// The tool hosts of a session; the first is the default.
pub struct HostSet {
    pub(super) session: String,
    pub(super) hosts: Vec<ConnectedHost>,
    /// Host and owner of each background task.
    tasks: Mutex<HashMap<String, BackgroundTask>>,
    person: OnceLock<Arc<dyn RemoteQuestionHandler>>,
    task_home: OnceLock<Arc<dyn LocalTasks>>,
    notice: Arc<dyn Fn(String) + Send + Sync>,
}

/// A background task on a host.
struct BackgroundTask {
    host: usize,
    agent: AgentId,
    is_running: bool,
}

/// Asks the local user questions of a host.
pub trait RemoteQuestionHandler: Send + Sync {
    /// Asks about a call at a host. Dropping the future withdraws the question.
    fn ask(&self, host: String, question: QuestionFrame) -> BoxFuture<'static, AnswerFrame>;
}

/// Knows which background tasks, such as agents, are local.
pub trait LocalTasks: Send + Sync {
    /// Whether the task named in a call's input is local.
    fn is_near(&self, input: &Value) -> bool;
}

pub(super) struct ConnectedHost {
    pub(super) link: HostLink,
    pub(super) place: HostLocation,
    /// Working directories of agents on hosts other than the default one.
    dirs: Mutex<HashMap<AgentId, PathBuf>>,
}

/// Outcome of a call that was interrupted by the end of its process.
pub enum RecoveredCallState {
    /// It has ended with this result.
    Ended(Box<Result<Output, ToolError>>),
    /// The host never received it.
    Absent,
}

impl HostSet {
    /// Connects to all hosts concurrently. Fails if the first (default) host is unreachable; for others
    /// the user is notified. Blocks the thread.
    pub fn open(setups: Vec<LinkConfig>) -> Result<Arc<Self>, String> {
        let Some(first) = setups.first() else { return Err(String::from("no host is named")) };
        let (session, notice) = (first.session.clone(), Arc::clone(&first.notice));
        let mut seen = BTreeSet::new();
        if let Some(twice) = setups.iter().find(|it| !seen.insert(it.config.name.clone())) {
            return Err(format!("two hosts are called {}", twice.config.name));
        }
        for (idx, it) in setups.iter().enumerate() {
            let same = setups.iter().take(idx).find(|before| before.config.address == it.config.address);
            if let Some(same) = same {
                let (one, other, at) = (&same.config.name, &it.config.name, &it.config.address);
                return Err(format!("the hosts {one} and {other} are the same place: {at}"));
            }
        }
        let opened: Vec<(HostLink, Result<_, LinkError>)> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                setups.iter().map(|it| scope.spawn(|| HostLink::open(it.clone()))).collect();
            threads.into_iter().filter_map(|it| it.join().ok()).collect()
        });
        let mut hosts = Vec::new();
        for (idx, (link, welcome)) in opened.into_iter().enumerate() {
            let place = match welcome {
                Ok(welcome) => welcome.place,
                Err(trouble) if idx == 0 => return Err(unreachable_host(&link.config, &trouble)),
                Err(trouble) => {
                    notice(unreachable_host(&link.config, &trouble));
                    HostLocation { cwd: PathBuf::from(link.config.address.dir()), ..HostLocation::default() }
                }
            };
            hosts.push(ConnectedHost { link, place, dirs: Mutex::default() });
        }
        Ok(Arc::new(Self {
            session,
            hosts,
            tasks: Mutex::default(),
            person: OnceLock::new(),
            task_home: OnceLock::new(),
            notice,
        }))
    }

    /// Sets the handler of the hosts' permission questions. Only the first call has an effect.
    pub fn with_question_handler(&self, person: Arc<dyn RemoteQuestionHandler>) {
        self.person.set(person).ok();
    }

    /// Sets the registry of local tasks. Only the first call has an effect.
    pub fn tasks_known_by(&self, home: Arc<dyn LocalTasks>) {
        self.task_home.set(home).ok();
    }

    /// Wraps a tool so that it runs on these hosts. `may_be_near`: its input may name a local task.
    pub fn tool(self: &Arc<Self>, inner: Arc<dyn DynTool>, may_be_near: bool) -> Arc<dyn DynTool> {
        Arc::new(HostTool::new(inner, Arc::clone(self), may_be_near))
    }

    /// Returns the names of the hosts, default first.
    pub fn names(&self) -> Vec<String> {
        self.hosts.iter().map(|it| it.link.config.name.to_string()).collect()
    }

    /// Returns configuration and location of the hosts, default first.
    pub fn places(&self) -> impl Iterator<Item = (&HostConfig, &HostLocation)> {
        self.hosts.iter().map(|it| (&it.link.config, &it.place))
    }

    /// Returns the location of the default host.
    pub fn place(&self) -> &HostLocation {
        // A set is never empty.
        &self.hosts[0].place
    }

    pub(super) fn is_several(&self) -> bool {
        1 < self.hosts.len()
    }

    pub(super) fn is_near(&self, input: &Value) -> bool {
        self.task_home.get().is_some_and(|it| it.is_near(input))
    }

    /// Returns the host of a call: the one it names, else the one that has the task it names, else the
    /// default.
    pub(super) fn index_of(&self, named: Option<&Value>, input: &Value) -> Result<usize, ToolError> {
        match named {
            None | Some(Value::Null) => {
                let tasks = locked(&self.tasks);
                let ids = ["task_id", "bash_id", "shell_id"].iter().filter_map(|it| input[*it].as_str());
                Ok(ids.into_iter().find_map(|id| tasks.get(id)).map_or(0, |it| it.host))
            }
            Some(name) => {
                let found =
                    self.hosts.iter().position(|it| Some(it.link.config.name.as_str()) == name.as_str());
                found.ok_or_else(|| {
                    ToolError::invalid(format!(
                        "there is no host {name}; the hosts are {}",
                        self.names().join(", ")
                    ))
                })
            }
        }
    }

    /// Returns the context of a call with the host's directories.
    pub(super) fn context(&self, host: usize, cx: &CallContext) -> CallContext {
        let Some(it) = self.hosts.get(host).filter(|_| host != 0) else { return cx.clone() };
        let dir = locked(&it.dirs).get(&cx.agent_id).cloned().unwrap_or_else(|| it.place.cwd.clone());
        let home = it.place.home.as_deref().map(Arc::<Path>::from);
        CallContext { cwd: Arc::from(dir), home, ..cx.clone() }
    }

    pub(super) fn ask(&self, host: usize, question: QuestionFrame) -> BoxFuture<'static, AnswerFrame> {
        let name = self.name(host);
        match self.person.get() {
            Some(person) => person.ask(name, question),
            None => {
                let message = String::from("nobody is there to ask");
                Box::pin(async { AnswerFrame::Deny { message, interrupt: false } })
            }
        }
    }

    pub(super) fn name(&self, host: usize) -> String {
        self.hosts.get(host).map(|it| it.link.config.name.to_string()).unwrap_or_default()
    }

    /// Converts a host's report for the session: adds its origin, and applies changes that concern only
    /// the host.
    pub(super) fn taken(
        &self,
        host: usize,
        agent: &AgentId,
        mut report: ReportFrame,
    ) -> Result<Output, ToolError> {
        let name = self.name(host);
        for notice in std::mem::take(&mut report.notices) {
            (self.notice)(format!("host {name}: {notice}"));
        }
        report.harmless();
        for change in &report.changes {
            match change {
                ContextChange::Trace(CallEffect::BackgroundStarted { id, .. }) => {
                    let task = BackgroundTask { host, agent: agent.clone(), is_running: true };
                    locked(&self.tasks).insert(id.clone(), task);
                }
                ContextChange::Trace(CallEffect::BackgroundEnded(id)) => self.note_end(id),
                _ => (),
            }
        }
        if let (Some(at), true) = (self.hosts.get(host), host != 0) {
            report.changes.retain(|change| match change {
                ContextChange::Cwd(dir) => {
                    locked(&at.dirs).insert(agent.clone(), dir.clone());
                    false
                }
                _ => true,
            });
        }
        if report.error == Some(ErrorKind::UnknownTool) {
            let why = "its settings or rules leave it out. Go on without it, or on another host";
            return Err(ToolError::failed(format!("host {name} does not offer {}: {why}", report.name)));
        }
        let denied = report.error == Some(ErrorKind::Denied);
        if let Some(way_out) = report.way_out.take().filter(|_| denied) {
            (self.notice)(format!("host {name} denied {}; on that machine, {way_out}", report.name));
        }
        match report.into_outcome() {
            Ok(mut output) => {
                if self.is_several() {
                    output.content.0.insert(0, Block::text(format!("[host {name}]")));
                }
                output.meta = Some(json!({"haft/host": name}));
                Ok(output)
            }
            Err(mut error) => {
                if denied {
                    error.message = format!("The rules of host {name} decided: {}", error.message);
                } else if self.is_several() {
                    error.message = format!("[host {name}]\n{}", error.message);
                }
                Err(error)
            }
        }
    }

    /// Returns the error for the model when a host is unreachable. `was_sent`: the call may have run.
    pub(super) fn lost(&self, host: usize, tool: &str, trouble: &LinkError, was_sent: bool) -> ToolError {
        let Some(it) = self.hosts.get(host) else { return ToolError::failed("there is no such host") };
        let HostConfig { name, address, .. } = &it.link.config;
        let (kind, what) = if was_sent {
            (
                ErrorKind::Interrupted,
                "the call came there or was on its way: it may or may not have had its effect, and may still run. \
                 Check before doing it again",
            )
        } else {
            (ErrorKind::NotStarted, "the call did not run")
        };
        let message = format!(
            "host {name} ({address}) cannot be reached: {trouble}. {tool}: {what}. Files and commands are there, not \
             here; if it stays away, tell the user"
        );
        let state = if was_sent { "unknown" } else { "not_started" };
        let data = json!({"host": name.as_str(), "address": address.to_string(), "state": state});
        ToolError::new(kind, message).with_data(data)
    }

    /// Determines the outcome of an interrupted call; waits for its end if it is still running.
    pub async fn resolve(&self, agent: &AgentId, call: &ToolUse) -> RecoveredCallState {
        let host =
            self.index_of(call.input.get("host").filter(|_| self.is_several()), &call.input).unwrap_or(0);
        let Some(it) = self.hosts.get(host) else { return RecoveredCallState::Absent };
        let key = CallKey { agent: agent.clone(), call: call.id.clone() };
        let maker = RemoteCaller { set: self, host, tool: &call.name, key: key.clone() };
        match heard(&maker, it.link.find(key), None).await {
            RemoteCallEvent::Report(report) => {
                RecoveredCallState::Ended(Box::new(self.taken(host, agent, *report)))
            }
            RemoteCallEvent::Lost { trouble, .. } => {
                RecoveredCallState::Ended(Box::new(Err(self.lost(host, &call.name, &trouble, true))))
            }
            _ => RecoveredCallState::Absent,
        }
    }

    /// Whether hosts have notices for an agent.
    pub fn has_news(&self, agent: &AgentId) -> bool {
        self.hosts.iter().any(|it| it.link.news().borrow().contains_key(agent))
    }

    /// Waits for notices of hosts for an agent.
    pub async fn news(&self, agent: &AgentId) {
        let waits = self.hosts.iter().map(|it| {
            let mut news = it.link.news();
            Box::pin(async move {
                if news.wait_for(|it| it.contains_key(agent)).await.is_err() {
                    std::future::pending::<()>().await;
                }
            })
        });
        futures_util::future::select_all(waits).await;
    }

    /// Takes the notices of hosts for an agent, as texts.
    pub fn take_news(&self, agent: &AgentId) -> Vec<String> {
        let told = self.hosts.iter().flat_map(|it| {
            let news = it.link.take_news(agent);
            news.iter().filter(|it| it.ended).for_each(|it| self.note_end(&it.task));
            let name = it.link.config.name.to_string();
            news.into_iter().map(move |it| format!("On host {name}: {}", it.text))
        });
        told.collect()
    }

    fn note_end(&self, task: &str) {
        if let Some(task) = locked(&self.tasks).get_mut(task) {
            task.is_running = false;
        }
    }

    /// Whether an agent has a background task on a host.
    pub fn has_running(&self, agent: &AgentId) -> bool {
        locked(&self.tasks).values().any(|it| it.is_running && it.agent == *agent)
    }

    /// Whether a host has a task with this id.
    pub fn knows_task(&self, id: &str) -> bool {
        locked(&self.tasks).contains_key(id)
    }

    /// Runs a command on the host of the named task, or else on all hosts. Returns the result of each
    /// host.
    pub async fn order(&self, order: HostCommand) -> Vec<(String, Result<Value, String>)> {
        let only = match &order {
            HostCommand::StopTask { id } => locked(&self.tasks).get(id).map(|it| it.host),
            _ => None,
        };
        let mut outcomes = Vec::new();
        for (idx, it) in self.hosts.iter().enumerate() {
            if only.is_none_or(|only| only == idx) {
                outcomes.push((it.link.config.name.to_string(), it.link.order(order.clone()).await));
            }
        }
        outcomes
    }

    /// Like [`order`](Self::order), always on all hosts. Blocks the thread for at most `limit` per host.
    pub fn order_and_wait(
        &self,
        order: &HostCommand,
        limit: Duration,
    ) -> Vec<(String, Result<Value, String>)> {
        let each = self
            .hosts
            .iter()
            .map(|it| (it.link.config.name.to_string(), it.link.order_and_wait(order.clone(), limit)));
        each.collect()
    }

    /// Ends the session on all hosts and stops what it has running there.
    pub async fn close(&self) {
        futures_util::future::join_all(self.hosts.iter().map(|it| it.link.close())).await;
    }
}

impl RecoveredCallState {
    /// Returns the report of the call.
    pub fn report(self, call: &ToolUse) -> CallReport {
        let (id, name) = (CallId::clone(&call.id), call.name.clone());
        match self {
            Self::Ended(outcome) => match *outcome {
                Ok(output) => CallReport::recovered(id, name, output),
                Err(error) => {
                    let mut report = CallReport::refused(id, name, error.kind, error.message);
                    report.data = error.data.map(|it| *it);
                    report
                }
            },
            Self::Absent => CallReport::refused(
                id,
                name,
                ErrorKind::NotStarted,
                "interrupted before it came to its host: the call had no effect. Make it again if it is still needed.",
            ),
        }
    }
}

fn unreachable_host(host: &HostConfig, trouble: &LinkError) -> String {
    format!("host {} ({}) cannot be reached: {trouble}", host.name, host.address)
}
