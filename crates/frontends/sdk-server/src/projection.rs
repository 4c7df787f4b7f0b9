//! Converts events of a session to frames.

use std::{collections::HashSet, time::SystemTime};

use haft_agent::{AgentEvent, DeniedToolCall, EndReason};
use haft_hooks::{CompactTrigger, HookEvent, HookId, HookReport, HookRunResult};
use haft_session::{
    Activity, ApiFailure, CommandEnded, CommandResult, HookRun, PromptState, SessionEvent, SessionEventKind,
    TurnEnded, TurnStarted,
};
use haft_shell::run::{BackgroundStatus as TaskStatus, TaskInfo};
use haft_tool_runtime::DenialSource;
use haft_types::{AgentId, CallId, SessionId};
use serde_json::{Value, json};

use crate::{
    Frames, PartialMessages,
    agent_frames::AgentFrames,
    call_progress::CallProgress,
    frames::{supersede, uuid},
    local_result,
    result_frame::appended_frame,
    turn_frame,
};

/// Optional frames that a host has requested.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct FrameOptions {
    /// Streaming events of answers.
    pub partial: bool,
    /// Echoes of prompts.
    pub replay: bool,
    /// Events of all hooks; otherwise only those of SessionStart hooks.
    pub hooks: bool,
    /// State of the session.
    pub state: StateFrames,
}

/// Whether and how state changes of the session are sent.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum StateFrames {
    /// Not sent.
    #[default]
    None,
    /// Sent in a form that the SDK does not pass on to its user.
    HostOnly,
    /// Sent in a form that the SDK passes on.
    Open,
}

/// Converts the events of one session to frames.
pub struct Projection {
    frames: Frames,
    told: FrameOptions,
    partial: Option<PartialMessages>,
    progress: CallProgress,
    /// Hooks that are callbacks of the host, which needs no events about them.
    host_hooks: HashSet<HookId>,
    /// Names of prompts of this turn that no answer has been attributed to yet.
    unmarked: Vec<String>,
    /// Whether a requested compaction is running.
    compacting: bool,
    /// Whether the compaction is done; what follows is sent at its end.
    compacted: bool,
    failed: bool,
    /// Running background commands, in the format of frames.
    commands_running: Vec<Value>,
    children: AgentFrames,
    /// Withdrawn blocks of the main agent that the host was not told about yet.
    withdrawn: Vec<String>,
}

/// Approximate maximum bytes of log lines in one frame.
const MIRROR_BATCH: usize = 400_000;

impl Projection {
    /// Creates a converter for this session.
    pub fn new(session_id: SessionId, told: FrameOptions) -> Self {
        Self {
            frames: Frames { session_id },
            told,
            partial: told.partial.then(PartialMessages::default),
            progress: CallProgress::default(),
            host_hooks: HashSet::new(),
            unmarked: Vec::new(),
            compacting: false,
            compacted: false,
            failed: false,
            commands_running: Vec::new(),
            children: AgentFrames::default(),
            withdrawn: Vec::new(),
        }
    }

    /// The frame builder, with the current session id.
    pub fn frames(&self) -> &Frames {
        &self.frames
    }

    /// Marks hooks as callbacks of the host.
    pub fn leave_out(&mut self, hooks: impl IntoIterator<Item = HookId>) {
        self.host_hooks = hooks.into_iter().collect();
    }

    /// Sets whether text of sub-agents is sent.
    pub fn forward_text(&mut self, wanted: bool) {
        self.children.forward_text = wanted;
    }

    /// Whether the last turn failed.
    pub fn last_failed(&self) -> bool {
        self.failed
    }

    /// The frames of an event, in order.
    pub fn of(&mut self, event: &SessionEvent) -> Vec<Value> {
        let one = |frame: Value| vec![frame];
        match &event.what {
            SessionEventKind::Agent(it) if event.agent.is_main() => self.agent(it),
            SessionEventKind::Agent(it) => self.children.work(&self.frames, &event.agent, it),
            SessionEventKind::ChildStarted(it) => self.children.started(&self.frames, it),
            SessionEventKind::ChildProgress(it, progress) => {
                one(AgentFrames::progress(&self.frames, it, progress))
            }
            SessionEventKind::ChildMoved(it) => self.children.moved(&self.frames, it),
            SessionEventKind::ChildEnded(it, report) => self.children.ended(&self.frames, it, report),
            SessionEventKind::ChildrenRunning(running) => {
                self.children.running = running.iter().map(|it| AgentFrames::listed(it)).collect();
                one(self.all_running())
            }
            SessionEventKind::PromptState(name, state) => one(self.prompt_state(name, *state)),
            SessionEventKind::Activity(activity) => self.activity(*activity).into_iter().collect(),
            SessionEventKind::TurnBegan(it) => self.turn_began(it),
            SessionEventKind::Heard(prompt) if self.told.replay => {
                one(self.frames.replay(&prompt.message, &prompt.uuid))
            }
            SessionEventKind::CallDenied(it) => one(self.denied(it, &event.agent)),
            SessionEventKind::TaskStarted(task, call) => one(self.task_started(task, call)),
            SessionEventKind::TasksRunning(tasks) => {
                self.commands_running = tasks.iter().map(listed_command).collect();
                one(self.all_running())
            }
            SessionEventKind::TaskEnded(task, call) => self.task_ended(task, call.as_ref()),
            SessionEventKind::ModeChanged(mode) => {
                let fields = json!({"status": null, "permissionMode": mode.name()});
                one(self.frames.system("status", fields))
            }
            SessionEventKind::ModelChanged(model) => {
                let said = format!("<local-command-stdout>Set model to `{model}`</local-command-stdout>");
                one(self.frames.replay(&json!({"role": "user", "content": said}), &uuid()))
            }
            SessionEventKind::Renamed(title) => {
                one(self.frames.system("session_title_changed", json!({"title": title})))
            }
            SessionEventKind::HookStarted(run) => self.hook_started(run).into_iter().collect(),
            SessionEventKind::HookEnded(run, report) => self.hook_ended(run, report).into_iter().collect(),
            SessionEventKind::Logged(path, entries) => mirrored(&path.display().to_string(), entries),
            SessionEventKind::Cleared(id) => {
                let fields = json!({"new_conversation_id": id, "trigger": "clear"});
                let frame = self.frames.of_type("conversation_reset", fields);
                self.frames.session_id = id.clone();
                one(frame)
            }
            SessionEventKind::CompactionBegan => {
                self.compacting = true;
                one(self.frames.system("status", json!({"status": "compacting"})))
            }
            SessionEventKind::CommandEnded(it) => self.command_ended(it),
            SessionEventKind::TurnEnded(it) => self.turn_ended(it),
            SessionEventKind::Appended(it) => {
                one(appended_frame(&self.frames.session_id, &it.bill, &it.facts))
            }
            SessionEventKind::Echo(frame) => one(self.echoed(frame.clone())),
            SessionEventKind::Broke(problem) => {
                self.failed = true;
                one(crate::failed_start(self.frames.session_id.as_str(), problem))
            }
            SessionEventKind::Heard(_)
            | SessionEventKind::Notice(_)
            | SessionEventKind::Detail(_)
            | SessionEventKind::Asked(_)
            | SessionEventKind::Settled(..)
            | SessionEventKind::Closed => Vec::new(),
        }
    }

    fn agent(&mut self, event: &AgentEvent) -> Vec<Value> {
        let mut out = Vec::new();
        let progress = self.progress.see(event);
        out.extend(progress.map(|fields| self.frames.of_type("tool_progress", fields)));
        if let (Some(partial), AgentEvent::Model(event)) = (&mut self.partial, event) {
            let events = partial.events(event);
            out.extend(events.iter().map(|event| self.frames.stream_event(event)));
        }
        if let AgentEvent::Withdrawn(it) = event {
            self.withdrawn.extend(it.blocks.iter().cloned());
        }
        if let AgentEvent::Compacted(it) = event
            && it.trigger == CompactTrigger::Manual
            && self.compacting
        {
            self.compacted = true;
        }
        if let Some(mut frame) = self.frames.frame(event).filter(|_| !self.compacted) {
            if matches!(event, AgentEvent::Block(_)) && !self.unmarked.is_empty() {
                let prompts = std::mem::take(&mut self.unmarked);
                frame["user_message_uuid"] = json!(prompts.last());
                frame["user_message_uuids"] = json!(prompts);
            }
            if matches!(event, AgentEvent::Block(_)) {
                supersede(&mut frame, &mut self.withdrawn);
            }
            out.push(frame);
        }
        if let (Some(partial), AgentEvent::Block(_)) = (&mut self.partial, event)
            && let Some(end) = partial.block_end()
        {
            out.push(self.frames.stream_event(&end));
        }
        out
    }

    fn prompt_state(&self, name: &str, state: PromptState) -> Value {
        let state = match state {
            PromptState::Queued => "queued",
            PromptState::Started => "started",
            PromptState::Completed => "completed",
            PromptState::Cancelled => "cancelled",
        };
        self.frames.of_type("command_lifecycle", json!({"command_uuid": name, "state": state}))
    }

    fn activity(&self, activity: Activity) -> Option<Value> {
        let state = match activity {
            Activity::Idle => "idle",
            Activity::Running => "running",
            Activity::RequiresAction => "requires_action",
        };
        let fields = match self.told.state {
            StateFrames::None => return None,
            StateFrames::HostOnly => json!({"state": state, "sdk_host_only": true}),
            StateFrames::Open => json!({"state": state}),
        };
        Some(self.frames.system("session_state_changed", fields))
    }

    fn turn_began(&mut self, it: &TurnStarted) -> Vec<Value> {
        let mut out = vec![self.frames.init(&it.facts)];
        self.unmarked = it.prompt.iter().filter_map(|it| it.name().map(str::to_owned)).collect();
        if let Some(prompt) = it.prompt.as_ref().filter(|it| self.told.replay && !it.message.is_null()) {
            out.push(self.frames.replay(&prompt.message, &prompt.uuid));
        }
        if self.told.partial {
            out.push(self.frames.system("status", json!({"status": "requesting"})));
        }
        out
    }

    fn denied(&self, it: &DeniedToolCall, agent: &AgentId) -> Value {
        let mut fields = json!({
            "tool_name": it.tool_name, "tool_use_id": it.tool_use_id, "message": it.reason,
        });
        if let Some(kind) = match it.by {
            Some(DenialSource::Rule) => Some("rule"),
            Some(DenialSource::Mode) => Some("mode"),
            Some(DenialSource::Check) => Some("safetyCheck"),
            Some(DenialSource::Hook | DenialSource::Asked) | None => None,
        } {
            fields["decision_reason_type"] = json!(kind);
        }
        if let Some(child) = agent.child() {
            fields["agent_id"] = json!(child);
        }
        self.frames.system("permission_denied", fields)
    }

    fn task_started(&self, task: &TaskInfo, call: &CallId) -> Value {
        let fields = json!({
            "task_id": task.id, "tool_use_id": call, "description": described(task),
            "task_type": "local_bash", "is_backgrounded": true,
        });
        self.frames.system("task_started", fields)
    }

    /// All running background tasks.
    fn all_running(&self) -> Value {
        let running: Vec<&Value> = self.commands_running.iter().chain(&self.children.running).collect();
        self.frames.system("background_tasks_changed", json!({"tasks": running}))
    }

    fn task_ended(&self, task: &TaskInfo, call: Option<&CallId>) -> Vec<Value> {
        let status = task.status.name();
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let patch = json!({"status": status, "end_time": now.as_millis()});
        let updated = self.frames.system("task_updated", json!({"task_id": task.id, "patch": patch}));
        let status = if status == "killed" { "stopped" } else { status };
        let fields = json!({
            "task_id": task.id, "tool_use_id": call, "status": status,
            "output_file": task.file.as_ref().map(|it| it.display().to_string()).unwrap_or_default(),
            "summary": summary(task),
        });
        vec![updated, self.frames.system("task_notification", fields)]
    }

    fn tells_hook(&self, run: &HookRun) -> bool {
        let is_told = self.told.hooks || matches!(run.event, HookEvent::SessionStart | HookEvent::Setup);
        is_told && !self.host_hooks.contains(&run.hook)
    }

    fn hook_frame(&self, subtype: &str, run: &HookRun, more: Value) -> Value {
        let mut fields =
            json!({"hook_id": run.run, "hook_name": run.label, "hook_event": run.event.as_str()});
        if let (Some(fields), Value::Object(more)) = (fields.as_object_mut(), more) {
            fields.extend(more);
        }
        self.frames.system(subtype, fields)
    }

    fn hook_started(&self, run: &HookRun) -> Option<Value> {
        self.tells_hook(run).then(|| self.hook_frame("hook_started", run, json!({})))
    }

    fn hook_ended(&self, run: &HookRun, report: &HookReport) -> Option<Value> {
        let outcome = match &report.happened {
            HookRunResult::Ran | HookRunResult::InBackground => "success",
            HookRunResult::SaidNo | HookRunResult::Broke { .. } => "error",
        };
        let output = format!("{}{}", report.stdout, report.stderr);
        let more = json!({
            "output": output, "stdout": report.stdout, "stderr": report.stderr,
            "exit_code": report.status, "outcome": outcome,
        });
        self.tells_hook(run).then(|| self.hook_frame("hook_response", run, more))
    }

    /// A frame created by the server itself; frames about the session get its id.
    fn echoed(&self, mut frame: Value) -> Value {
        if frame["type"] == "system" && frame.get("session_id").is_none() {
            frame["session_id"] = json!(self.frames.session_id);
        }
        frame
    }

    fn turn_ended(&mut self, it: &TurnEnded) -> Vec<Value> {
        let mut out = Vec::new();
        match &it.end.reason {
            EndReason::Failed(error) => {
                let mut frame = self.frames.api_error(&ApiFailure::from_error(error));
                supersede(&mut frame, &mut self.withdrawn);
                out.push(frame);
            }
            EndReason::Stopped(reason) if it.end.turns == 0 => {
                let prompt = &it.facts.prompt_text;
                let content = format!(
                    "UserPromptSubmit operation blocked by hook:\n{reason}\n\nOriginal prompt: {prompt}"
                );
                let fields = json!({"content": content, "level": "warning", "prevent_continuation": true});
                out.push(self.frames.system("informational", fields));
            }
            _ => (),
        }
        let mut result = turn_frame(&self.frames.session_id, &it.end, &it.bill, &it.facts);
        if let Some(stats) = self.children.stats.frame() {
            result["subagent_stats"] = stats;
        }
        self.failed = result["is_error"] == true;
        out.push(result);
        out
    }

    fn command_ended(&mut self, it: &CommandEnded) -> Vec<Value> {
        let mut out = Vec::new();
        (self.compacting, self.compacted, self.failed) = (false, false, false);
        let init = self.frames.init(&it.session);
        let (name, text) = match &it.result {
            CommandResult::Cleared => ("clear", String::new()),
            CommandResult::Compacted { event, summary } => {
                let fields = json!({"status": null, "compact_result": "success"});
                out.push(self.frames.system("status", fields));
                out.push(init.clone());
                out.extend(event.as_ref().map(|event| self.frames.compacted(event)));
                if !summary.is_empty() {
                    out.push(self.frames.summary(summary));
                }
                let told = json!({
                    "role": "user", "content": "<local-command-stdout>Compacted</local-command-stdout>",
                });
                out.push(self.frames.replay(&told, &uuid()));
                ("compact", String::new())
            }
            CommandResult::NotCompacted(why) => {
                let fields = json!({"status": null, "compact_result": "failed", "compact_error": why});
                out.push(self.frames.system("status", fields));
                ("compact", format!("Not compacted: {why}"))
            }
            CommandResult::Context(text) => ("context", text.clone()),
            CommandResult::Cost(text) => ("cost", text.clone()),
            CommandResult::Failed(name, problem) => (name.trim_start_matches('/'), problem.clone()),
        };
        if name != "compact" {
            out.push(init);
        }
        if !text.is_empty() {
            out.push(self.frames.command_output(&text));
        }
        out.push(local_result(&self.frames.session_id, name, &text, &it.bill, &it.facts));
        out
    }
}

fn listed_command(task: &TaskInfo) -> Value {
    json!({"task_id": task.id, "task_type": "local_bash", "description": described(task)})
}

/// Log lines, split into frames of limited size.
fn mirrored(path: &str, entries: &[Value]) -> Vec<Value> {
    let mut out = Vec::new();
    let (mut batch, mut size) = (Vec::new(), 0);
    let frame =
        |entries: Vec<Value>| json!({"type": "transcript_mirror", "filePath": path, "entries": entries});
    for entry in entries {
        let length = entry.to_string().len();
        size += length;
        if MIRROR_BATCH < size && !batch.is_empty() {
            out.push(frame(std::mem::take(&mut batch)));
            size = length;
        }
        batch.push(entry.clone());
    }
    if !batch.is_empty() {
        out.push(frame(batch));
    }
    out
}

fn described(task: &TaskInfo) -> String {
    let what = if task.about.description.is_empty() { &task.command } else { &task.about.description };
    haft_types::text::one_line(what, 200)
}

fn summary(task: &TaskInfo) -> String {
    let how = match &task.status {
        TaskStatus::Running => String::from("is running"),
        TaskStatus::LeftRunning(end) | TaskStatus::Ended(end) => {
            format!("{} ({})", task.status.name(), end.describe())
        }
    };
    format!("Background command \"{}\" {how}", described(task))
}
