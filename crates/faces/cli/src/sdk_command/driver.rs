//! What happens when: lines, events, questions, signals, ends.

use std::{
    collections::{HashSet, VecDeque},
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use haft_agent::{Agent, AgentEvent, Inbox, Orders};
use haft_hooks::{HookInput, Hooks, SessionEnd, SessionSource};
use haft_mcp_client::{Manager, ServerConfig};
use haft_runtime::Pipeline;
use haft_sdk::{
    Additions, AskHost, Bill, Frames, HookFrames, Host, HostServers, Inbound, Init, Partial, UserFrame,
};
use haft_types::PermissionMode;
use serde_json::{Map, Value, json};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::mpsc,
    task::JoinError,
};

use super::{
    extensions::{Extensions, Kind, skill_tool},
    lines::Writer,
    mentions::names_something,
    observe::Observer,
    states::{Bypass, Checkpoints, Commands, LeftForLater, Seen, StateFrames},
    tasks::{Background, patience},
    turn::{Ending, Running, Servers, Surroundings},
    usage::Snapshot,
};
use crate::{
    output::write_error,
    wiring::{Readers, Setup},
};

/// A change of the agent that has to wait until it is not working.
pub(super) type Change = Box<dyn FnOnce(&mut Agent) + Send>;

/// A session and everybody who has a say in it.
pub(super) struct Driver {
    pub(super) setup: Setup,
    pub(super) frames: Frames,
    pub(super) first_model: String,
    pub(super) told_mode: PermissionMode,
    /// Hooks of the settings, without those of the host.
    pub(super) own_hooks: Hooks,
    pub(super) hook_frames: Arc<HookFrames>,
    pub(super) inbox: Inbox,
    pub(super) orders: Orders,
    pub(super) cwd: String,
    pub(super) output_style: String,
    /// Whether the session may be switched to the bypass mode.
    pub(super) bypass: Bypass,
    pub(super) key_source: String,
    /// Nothing while a turn has it.
    pub(super) agent: Option<Box<Agent>>,
    pub(super) events: mpsc::UnboundedReceiver<AgentEvent>,
    pub(super) observer: Observer,
    pub(super) partial: Option<Partial>,
    pub(super) replay: bool,
    pub(super) state_frames: StateFrames,
    pub(super) out: Writer,
    pub(super) lines: mpsc::Receiver<Vec<u8>>,
    pub(super) pipeline: Arc<Pipeline>,
    pub(super) host: Host,
    pub(super) asked: mpsc::UnboundedReceiver<Value>,
    pub(super) asker: AskHost,
    /// Permission questions that wait for an answer.
    pub(super) questions: HashSet<String>,
    pub(super) servers: HostServers,
    pub(super) manager: Manager,
    pub(super) configured: Vec<ServerConfig>,
    /// Whether servers were started.
    pub(super) begun: bool,
    pub(super) queue: VecDeque<UserFrame>,
    pub(super) running: Option<Running>,
    pub(super) later: Vec<Change>,
    pub(super) extensions: Extensions,
    pub(super) background: Background,
    /// Show files to whoever is not the model.
    pub(super) readers: Readers,
    pub(super) plugin_dirs: Vec<PathBuf>,
    /// Agents of the host: name and description.
    pub(super) agents: Vec<(String, String)>,
    /// The agent that the session is, if it is one.
    pub(super) main_agent: Option<String>,
    /// Whether somebody chose the model.
    pub(super) model_is_named: bool,
    /// The skills the host wants, if it said so.
    pub(super) wanted_skills: Option<Vec<String>>,
    pub(super) commands: Commands,
    /// How the session began, until hooks were told.
    pub(super) begins: Option<SessionSource>,
    /// What every line of the log says.
    pub(super) stamp: Map<String, Value>,
    pub(super) checkpoints: Checkpoints,
    pub(super) snapshot: Snapshot,
    pub(super) server_tools: Servers,
    pub(super) left_for_later: LeftForLater,
    /// The answer to `initialize` while it waits, and until when.
    pub(super) introduction: Option<(Value, tokio::time::Instant)>,
    pub(super) bill: Bill,
    pub(super) seen: Seen,
    pub(super) results: usize,
    pub(super) last_failed: bool,
    /// How long models have been answering.
    pub(super) api_ms: u64,
    pub(super) begun_at: Instant,
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
            if let Ok(Ok((agent, _))) = tokio::time::timeout(LAST_WORDS, running.task).await {
                self.agent = Some(agent);
            }
        }
        let closing = async {
            if matches!(over, Over::Done) {
                self.say_goodbye("other").await;
            }
            if let Some(agent) = &self.agent {
                self.setup.close(&agent.tools).await;
            }
            self.manager.shutdown().await;
        };
        tokio::time::timeout(LAST_WORDS * 3, closing).await.ok();
        self.observer.finish().await;
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
        let (patience, mut waits_until) = (patience(), None);
        loop {
            self.start_next(ending);
            let is_idle = self.running.is_none() && self.queue.is_empty() && !input_open;
            if self.running.is_none() && ending || is_idle && !self.background.is_busy() {
                self.drain();
                return if ending { Over::Now(0) } else { Over::Done };
            }
            // Nothing is left but commands in the background: not for ever.
            if !is_idle {
                waits_until = None;
            } else if waits_until.is_none() {
                waits_until = patience.map(|it| tokio::time::Instant::now() + it);
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
                        self.introduce();
                        self.host.close();
                    }
                    Some(line) => if let Err(code) = self.hear(&line) {
                        return Over::Now(code);
                    },
                },
                Some(frame) = self.asked.recv() => self.tell_asked(frame),
                Some(event) = self.events.recv() => self.tell(&event),
                () = at(waits_until) => return Over::Done,
                () = at(self.introduction.as_ref().map(|it| it.1)) => self.introduce(),
                () = self.background.news() => self.hear_tasks(),
                ended = ended(&mut self.running) => if let Err(code) = self.finish(ended) {
                    return Over::Now(code);
                },
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
            Some(Inbound::Answer { request_id, answer }) => {
                self.answered(&request_id);
                self.host.answered(&request_id, answer);
            }
            Some(Inbound::Cancel | Inbound::Nothing) => (),
        }
        Ok(())
    }

    fn hear_user(&mut self, frame: UserFrame) {
        if !frame.wants_answer {
            let input = frame.to_input();
            return self.change(Box::new(move |agent| agent.overhear(input)));
        }
        self.tell_lifecycle(frame.name(), "queued");
        let Some(running) = self.running.as_mut().filter(|_| self.queue.is_empty()) else {
            return self.queue.push_back(frame);
        };
        // Commands, and prompts that name files, are prompts of their own.
        let text = frame.text();
        let is_command = self.commands == Commands::On && text.starts_with('/');
        let names_files = || names_something(&text, &self.setup.cwd, self.setup.home.as_deref());
        if !frame.is_verbatim && (is_command || names_files()) {
            return self.queue.push_back(frame);
        }
        running.meanwhile.extend(frame.name().map(str::to_owned));
        if self.replay {
            self.out.frame(&self.frames.replay(&frame.message, &frame.uuid));
        }
        self.inbox.push(frame.to_input());
    }

    /// Hooks of the settings hear that the session ends; the host knows.
    pub(super) async fn say_goodbye(&self, reason: &str) {
        let gate = &self.pipeline.gate;
        let base = gate.hooks().base(self.setup.cwd.clone(), gate.mode());
        let event = SessionEnd { reason: reason.to_owned() }.into();
        self.own_hooks.run(&HookInput { base, event, aliases: Vec::new() }).await;
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
        if self.left_for_later == LeftForLater::Ready
            && let Some(agent) = self.agent.take()
        {
            self.left_for_later = LeftForLater::Nothing;
            self.state("running");
            self.seen = Seen::default();
            let around = self.surroundings();
            self.running = Some(Running::take_up(agent, around));
            return;
        }
        let Some(mut prompt) = self.queue.pop_front() else { return };
        self.follow_settings();
        let Some(agent) = self.agent.take() else { return };
        self.begin_servers(&[]);
        self.state("running");
        self.tell_lifecycle(prompt.name(), "started");
        self.seen = Seen::default();
        self.snapshot = Snapshot::of(&agent);
        self.observer.begin(self.frames.session_id.as_str(), &agent.settings.model, &prompt.text());
        let mut around = self.surroundings();
        let command = self.typed_command(&prompt);
        self.running = Some(match command {
            Some((Kind::Builtin(builtin), args, _)) => {
                if builtin == super::extensions::Builtin::Compact {
                    self.out.frame(&self.frames.system("status", json!({"status": "compacting"})));
                }
                Running::local(agent, &prompt, builtin, args, around)
            }
            Some((_, _, Some(expanded))) => {
                prompt.content = expanded.content;
                let resolve = |it: String| haft_model::Catalog::built_in().resolve(&it).to_owned();
                around.model = expanded.model.map(resolve);
                Running::start(agent, prompt, around)
            }
            _ => Running::start(agent, prompt, around),
        });
    }

    /// The command a prompt is, if it is one: what, with which arguments, and
    /// what it says to the model.
    fn typed_command(
        &self,
        prompt: &UserFrame,
    ) -> Option<(Kind, String, Option<super::extensions::Expanded>)> {
        if self.commands == Commands::Off || prompt.is_verbatim {
            return None;
        }
        let text = prompt.text();
        let typed = text.trim().strip_prefix('/')?;
        let (name, args) = typed.split_once(char::is_whitespace).unwrap_or((typed, ""));
        let command = self.extensions.find(name)?;
        let args = args.trim();
        Some((command.kind.clone(), args.to_owned(), command.expand(args)))
    }

    fn surroundings(&mut self) -> Surroundings {
        let servers = std::mem::replace(&mut self.server_tools, Servers::Known);
        Surroundings {
            manager: self.manager.clone(),
            host: self.host.clone(),
            frames: self.frames.clone(),
            init: self.init(),
            partial: self.partial.is_some(),
            replay: self.replay,
            begins: self.begins.take(),
            readers: self.readers.clone(),
            servers,
            model: None,
        }
    }

    /// The tool for skills, as far as there are any and it is wanted.
    pub(super) fn install_skills(&mut self) {
        let skills = self.extensions.skills(self.wanted_skills.as_deref());
        let is_wanted =
            self.setup.only_tools.as_ref().is_none_or(|only| only.iter().any(|name| name == "Skill"));
        let policy = self.pipeline.gate.permissions().policy();
        let tool = skill_tool(skills).filter(|_| is_wanted && policy.removes("Skill").is_none());
        self.change(Box::new(move |agent| {
            agent.tools.pool.set(agent.tools.pool.get().with_builtin("Skill", tool));
        }));
    }

    /// What a session says about itself, but for what its agent knows.
    pub(super) fn init(&self) -> (Init, Additions) {
        let skills = self.extensions.skills(self.wanted_skills.as_deref());
        let directories = self.setup.options.add_dir.iter().map(|dir| dir.display().to_string());
        let added = Additions {
            slash_commands: self.extensions.command_names(),
            skills: skills.into_iter().map(|it| it.name).collect(),
            plugins: self.extensions.plugins_json(),
            additional_directories: directories.collect(),
            ..Additions::default()
        };
        let init = Init {
            cwd: self.cwd.clone(),
            api_key_source: self.key_source.clone(),
            output_style: self.output_style.clone(),
            agents: self.all_agents().map(|(name, _)| name.clone()).collect(),
            ..Init::default()
        };
        (init, added)
    }

    pub(super) fn all_agents(&self) -> impl Iterator<Item = &(String, String)> {
        self.agents.iter().chain(&self.extensions.agents)
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
            self.setup.launch_all(all);
        }
    }
}

/// Waits for a moment, if there is one.
async fn at(moment: Option<tokio::time::Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// The end of a turn.
pub(super) type Ended = Result<(Box<Agent>, Ending), JoinError>;

/// The end of the turn, if one runs.
async fn ended(running: &mut Option<Running>) -> Ended {
    match running {
        Some(running) => (&mut running.task).await,
        None => std::future::pending().await,
    }
}
