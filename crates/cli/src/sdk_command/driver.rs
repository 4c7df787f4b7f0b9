//! What happens when: lines, events, questions, signals, ends.

use std::{collections::VecDeque, process::ExitCode, sync::Arc, time::Duration};

use haft_agent::{Agent, AgentEvent, EndReason, Inbox, TurnEnd};
use haft_hooks::Hooks;
use haft_mcp::{Manager, ServerConfig};
use haft_runtime::Pipeline;
use haft_sdk::{AskHost, Frames, Host, HostServers, Inbound, Init, Partial, UserFrame, result_frame};
use haft_tool::ErrorKind;
use haft_types::PermissionMode;
use serde_json::{Value, json};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::mpsc,
    task::JoinError,
};

use super::{
    lines::Writer,
    turn::{Running, Surroundings},
};
use crate::output::write_error;

/// A change of the agent that has to wait until it is not working.
pub(super) type Change = Box<dyn FnOnce(&mut Agent) + Send>;

/// A session and everybody who has a say in it.
pub(super) struct Driver {
    pub(super) frames: Frames,
    pub(super) first_model: String,
    pub(super) told_mode: PermissionMode,
    /// Hooks of the settings, without those of the host.
    pub(super) own_hooks: Hooks,
    pub(super) inbox: Inbox,
    pub(super) cwd: String,
    pub(super) output_style: String,
    pub(super) forbids_bypass: bool,
    pub(super) key_source: String,
    /// Nothing while a turn has it.
    pub(super) agent: Option<Box<Agent>>,
    pub(super) events: mpsc::UnboundedReceiver<AgentEvent>,
    pub(super) partial: Option<Partial>,
    pub(super) replay: bool,
    pub(super) state_frames: StateFrames,
    pub(super) out: Writer,
    pub(super) lines: mpsc::Receiver<Vec<u8>>,
    pub(super) pipeline: Arc<Pipeline>,
    pub(super) host: Host,
    pub(super) asked: mpsc::UnboundedReceiver<Value>,
    pub(super) asker: AskHost,
    pub(super) servers: HostServers,
    pub(super) manager: Manager,
    pub(super) configured: Vec<ServerConfig>,
    /// Whether servers were started.
    pub(super) begun: bool,
    pub(super) queue: VecDeque<UserFrame>,
    pub(super) running: Option<Running>,
    pub(super) later: Vec<Change>,
    pub(super) agents: Vec<String>,
    pub(super) last_failed: bool,
}

/// Whether and how the state of the session is told.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum StateFrames {
    None,
    /// The SDK reads them and keeps them to itself.
    HostOnly,
    /// For everybody.
    Open,
}

impl StateFrames {
    pub(super) fn from_env() -> Self {
        let set = |name: &str| std::env::var(name).is_ok_and(|it| !matches!(it.as_str(), "" | "0" | "false"));
        if set("CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS") {
            Self::Open
        } else if set("CLAUDE_CODE_SDK_READS_SESSION_STATE") {
            Self::HostOnly
        } else {
            Self::None
        }
    }
}

/// Why the loop ended.
enum Over {
    /// Everything is done.
    Done,
    /// With this code, at once.
    Now(u8),
}

/// How long what runs may take to end when we are told to go.
const LAST_WORDS: Duration = Duration::from_secs(1);

impl Driver {
    /// Works until the host has nothing more to say and everything is done.
    pub(super) async fn run(mut self) -> ExitCode {
        let (Ok(mut terminate), Ok(mut interrupt)) =
            (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
        else {
            write_error("Error: signals cannot be received");
            return ExitCode::from(1);
        };
        let over = self.work(&mut terminate, &mut interrupt).await;
        self.host.close();
        if let Some(running) = self.running.take() {
            running.cancel.cancel();
            tokio::time::timeout(LAST_WORDS, running.task).await.ok();
        }
        let closing = async {
            if let Some(agent) = &self.agent {
                agent.tools.close().await;
            }
            self.manager.shutdown().await;
        };
        tokio::time::timeout(LAST_WORDS * 3, closing).await.ok();
        let patience = match over {
            Over::Done => Duration::from_secs(30),
            Over::Now(_) => Duration::from_millis(200),
        };
        self.out.finish(patience).await;
        ExitCode::from(match over {
            Over::Done => u8::from(self.last_failed),
            Over::Now(code) => code,
        })
    }

    async fn work(&mut self, terminate: &mut Signal, interrupt: &mut Signal) -> Over {
        let broken = self.out.broken();
        let (mut input_open, mut ending) = (true, false);
        loop {
            self.start_next(ending);
            if self.running.is_none() && (ending || (!input_open && self.queue.is_empty())) {
                self.drain();
                return if ending { Over::Now(0) } else { Over::Done };
            }
            tokio::select! {
                biased;
                _ = terminate.recv() => return Over::Now(143),
                _ = interrupt.recv() => {
                    ending = true;
                    self.interrupt();
                }
                () = broken.cancelled() => return Over::Now(1),
                line = self.lines.recv(), if input_open => match line {
                    None => {
                        input_open = false;
                        self.host.close();
                    }
                    Some(line) => if let Err(code) = self.hear(&line) {
                        return Over::Now(code);
                    },
                },
                Some(frame) = self.asked.recv() => self.tell_asked(&frame),
                Some(event) = self.events.recv() => self.tell(&event),
                ended = ended(&mut self.running) => {
                    self.running = None;
                    if let Err(code) = self.finish(ended) {
                        return Over::Now(code);
                    }
                }
            }
        }
    }

    fn hear(&mut self, line: &[u8]) -> Result<(), u8> {
        match Inbound::parse(line) {
            None => {
                let shown = String::from_utf8_lossy(&line[..line.len().min(200)]).trim_end().to_owned();
                write_error(&format!("Error parsing streaming input line: {shown}"));
                return Err(1);
            }
            Some(Inbound::User(frame)) => self.hear_user(frame),
            Some(Inbound::Control(control)) => self.control(control),
            Some(Inbound::Answer { request_id, answer }) => self.host.answered(&request_id, answer),
            Some(Inbound::Cancel | Inbound::Nothing) => (),
        }
        Ok(())
    }

    fn hear_user(&mut self, frame: UserFrame) {
        if !frame.wants_answer {
            let input = frame.to_input();
            return self.change(Box::new(move |agent| agent.overhear(input)));
        }
        if self.running.is_none() || !self.queue.is_empty() {
            return self.queue.push_back(frame);
        }
        if self.replay {
            self.out.frame(&self.frames.replay(&frame.message, frame.uuid.as_deref()));
        }
        self.inbox.push(frame.to_input());
    }

    /// Changes the agent now, or when it is done with what it does.
    pub(super) fn change(&mut self, change: Change) {
        match &mut self.agent {
            Some(agent) => change(agent),
            None => self.later.push(change),
        }
    }

    pub(super) fn interrupt(&mut self) {
        if let Some(running) = &self.running {
            running.cancel.cancel();
        }
    }

    fn start_next(&mut self, ending: bool) {
        if self.running.is_some() || ending {
            return;
        }
        let Some(prompt) = self.queue.pop_front() else { return };
        let Some(agent) = self.agent.take() else { return };
        self.begin_servers(&[]);
        self.state("running");
        let init = Init {
            cwd: self.cwd.clone(),
            tools: Vec::new(),
            model: String::new(),
            permission_mode: String::new(),
            api_key_source: self.key_source.clone(),
            mcp_servers: Vec::new(),
            output_style: self.output_style.clone(),
            agents: self.agents.clone(),
        };
        let around = Surroundings {
            manager: self.manager.clone(),
            host: self.host.clone(),
            frames: self.frames.clone(),
            init,
            partial: self.partial.is_some(),
            replay: self.replay,
        };
        self.running = Some(Running::start(agent, prompt, around));
    }

    /// Starts the servers of the flags and of the host, once.
    pub(super) fn begin_servers(&mut self, of_host: &[String]) {
        if self.begun && of_host.is_empty() {
            return;
        }
        self.begun = true;
        let mut all = self.configured.clone();
        for name in of_host {
            all.retain(|it| it.name != *name);
            all.push(self.servers.config(name));
        }
        self.configured.clone_from(&all);
        if !all.is_empty() {
            self.manager.set_servers(all);
        }
    }

    fn state(&self, state: &str) {
        let fields = match self.state_frames {
            StateFrames::None => return,
            StateFrames::HostOnly => json!({"state": state, "sdk_host_only": true}),
            StateFrames::Open => json!({"state": state}),
        };
        self.out.frame(&self.frames.system("session_state_changed", fields));
    }

    /// Writes what the agent did before it asked this, then the question.
    fn tell_asked(&mut self, frame: &Value) {
        while let Ok(event) = self.events.try_recv() {
            self.tell(&event);
        }
        self.out.frame(frame);
    }

    fn drain(&mut self) {
        while let Ok(frame) = self.asked.try_recv() {
            self.tell_asked(&frame);
        }
        while let Ok(event) = self.events.try_recv() {
            self.tell(&event);
        }
    }

    fn tell(&mut self, event: &AgentEvent) {
        if let (Some(partial), AgentEvent::Model(event)) = (&mut self.partial, event) {
            for event in partial.events(event) {
                self.out.frame(&self.frames.stream_event(&event));
            }
        }
        if let AgentEvent::Result(it) = event {
            let was_asked = self.asker.take_asked(&it.report.id);
            if it.report.error == Some(ErrorKind::Denied) && !was_asked {
                let fields = json!({
                    "tool_name": it.report.name, "tool_use_id": it.report.id,
                    "message": it.report.content.to_text(),
                });
                self.out.frame(&self.frames.system("permission_denied", fields));
            }
        }
        if let Some(frame) = self.frames.frame(event) {
            self.out.frame(&frame);
        }
        if let (Some(partial), AgentEvent::Block(_)) = (&mut self.partial, event)
            && let Some(end) = partial.block_end()
        {
            self.out.frame(&self.frames.stream_event(&end));
        }
        self.tell_mode();
    }

    /// Says when the permission mode is another one than before.
    pub(super) fn tell_mode(&mut self) {
        let mode = self.pipeline.gate.mode();
        if mode != self.told_mode {
            self.told_mode = mode;
            let fields = json!({"status": null, "permissionMode": mode.name()});
            self.out.frame(&self.frames.system("status", fields));
        }
    }

    fn finish(&mut self, ended: Ended) -> Result<(), u8> {
        self.drain();
        let (mut agent, mut end, uuid) = match ended {
            (Ok((agent, end)), uuid) => (agent, end, uuid),
            (Err(err), _) => {
                let problem = format!("the turn broke off inside Haft: {err}");
                self.out.frame(&haft_sdk::failed_start(self.frames.session_id.as_str(), &problem));
                return Err(1);
            }
        };
        if self.asker.take_interrupt() && matches!(end.reason, EndReason::Stopped(_)) {
            end.reason = EndReason::Interrupted;
        }
        if let EndReason::Failed(error) = &end.reason {
            self.out.frame(&self.frames.api_error(&format!("API Error: {error}"), error_kind(error)));
        }
        self.tell_mirrored(&mut agent);
        let mut result = result_frame(&self.frames.session_id, &end, agent.spending(), &agent.settings.model);
        let late = agent.inbox.take();
        self.queue.extend(late.into_iter().map(|input| UserFrame {
            uuid: input.uuid,
            message: Value::Null,
            content: input.content,
            wants_answer: true,
        }));
        result["queued_turn_count"] = json!(self.queue.len());
        if let Some(uuid) = uuid {
            result["user_message_uuid"] = json!(uuid);
        }
        self.last_failed = result["is_error"] == true;
        self.out.frame(&result);
        std::mem::take(&mut self.later).into_iter().for_each(|change| change(&mut agent));
        self.agent = Some(agent);
        if self.queue.is_empty() {
            self.state("idle");
        }
        Ok(())
    }

    /// The lines that were written to the log, in frames that are short enough.
    fn tell_mirrored(&self, agent: &mut Agent) {
        const BATCH: usize = 400_000;
        let path = agent.conversation.log_path().map(|it| it.display().to_string()).unwrap_or_default();
        let (mut batch, mut size) = (Vec::new(), 0);
        let tell = |batch: &mut Vec<Value>| {
            let entries = std::mem::take(batch);
            self.out.frame(&json!({"type": "transcript_mirror", "filePath": path, "entries": entries}));
        };
        for entry in agent.conversation.take_mirrored() {
            let Ok(entry) = serde_json::to_value(&entry) else { continue };
            size += entry.to_string().len();
            if BATCH < size && !batch.is_empty() {
                tell(&mut batch);
                size = entry.to_string().len();
            }
            batch.push(entry);
        }
        if !batch.is_empty() {
            tell(&mut batch);
        }
    }
}

/// The end of a turn, and the host's name for its prompt.
type Ended = (Result<(Box<Agent>, TurnEnd), JoinError>, Option<String>);

/// The end of the turn, if one runs.
async fn ended(running: &mut Option<Running>) -> Ended {
    match running {
        Some(running) => ((&mut running.task).await, running.uuid.clone()),
        None => std::future::pending().await,
    }
}

/// The word the SDKs know for a failed request.
fn error_kind(error: &haft_model::ModelError) -> &'static str {
    use haft_model::ModelError as E;
    match error {
        E::Auth { .. } => "authentication_failed",
        E::RateLimited { .. } => "rate_limit",
        E::Server { status: 529, .. } => "overloaded",
        E::Server { .. } | E::Network { .. } | E::Stalled { .. } => "server_error",
        E::Invalid { .. } | E::TooLong { .. } => "invalid_request",
        E::UnknownModel { .. } => "model_not_found",
        _ => "unknown",
    }
}
