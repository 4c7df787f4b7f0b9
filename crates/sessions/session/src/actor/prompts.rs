//! Prompts: receiving, queueing, starting and withdrawing them.

use haft_types::ToolUse;
use tokio::time::Instant as Moment;
use tokio_util::sync::CancellationToken;

use super::{
    DeferredCalls, DeferredChange, RunnerState, STOPPING, SessionActor,
    running::{CallRun, RunningWork, ServerReadyPhase, TurnContext, TurnRun},
    typed_commands::TypedCommand,
};
use crate::{
    Activity, Interrupted, Prompt, PromptAuthor, PromptState, Reply, ServerStart, SessionEventKind,
    SessionSummary,
    build::SessionRunner,
    context_usage::ContextUsage,
    extensions::{LocalCommand, SlashCommand, SlashKind, names_something},
};

impl SessionActor {
    pub(super) fn tell_prompt(&self, name: Option<&str>, state: PromptState) {
        if let Some(name) = name {
            self.events.tell(SessionEventKind::PromptState(name.to_owned(), state));
        }
    }

    /// Whether the last message of the conversation is the model's.
    fn is_answered(&self) -> bool {
        let RunnerState::Idle(SessionRunner::Agent(agent)) = &self.seat else { return false };
        agent.is_answered()
    }

    pub(super) fn enqueue_prompt(&mut self, prompt: Prompt) {
        if !prompt.wants_answer && prompt.speaker == PromptAuthor::Task && self.is_answered() {
            // Appended to the log now, it would stand between calls and their results, or make the last
            // answer look unfinished. It goes into the next request instead.
            return self.reach.iter().for_each(|reach| reach.inbox.mention(prompt.to_input()));
        }
        if !prompt.wants_answer {
            return self.append(&prompt);
        }
        if let Some(text) = self.initial_prompt.take() {
            self.queue.push_back(Prompt { is_verbatim: true, ..Prompt::text(&text) });
        }
        self.tell_prompt(prompt.name(), PromptState::Queued);
        let RunnerState::Working(RunningWork::Turn(running)) = &mut self.seat else {
            return self.queue.push_back(prompt);
        };
        if !self.queue.is_empty() {
            return self.queue.push_back(prompt);
        }
        // Slash commands and prompts that name files start a turn of their own.
        let text = prompt.words();
        let is_command = self.spec.extensions.slash_commands && text.starts_with('/');
        let names_files = || names_something(&text, &self.premises.cwd, self.premises.home.as_deref());
        if !prompt.is_verbatim && (is_command || names_files()) {
            return self.queue.push_back(prompt);
        }
        running.meanwhile.extend(prompt.name().map(str::to_owned));
        if let Some(reach) = &self.reach {
            reach.inbox.push(prompt.to_input());
        }
        self.events.tell(SessionEventKind::Heard(Box::new(prompt)));
    }

    /// Adds a prompt that needs no answer to the conversation, after the running turn. Its state is
    /// reported like that of any other prompt.
    fn append(&mut self, prompt: &Prompt) {
        self.change(DeferredChange::Overhear(prompt.to_input()));
        if prompt.speaker == PromptAuthor::Task {
            return;
        }
        self.appended.push(prompt.name().map(str::to_owned));
        if matches!(self.seat, RunnerState::Idle(SessionRunner::Agent(_))) {
            self.events.tell(SessionEventKind::Activity(Activity::Running));
            self.tell_appended();
            self.events.tell(SessionEventKind::Activity(Activity::Idle));
        }
    }

    /// Background commands have news: the model receives them in the running turn, or in a new turn.
    pub(super) fn on_background_change(&mut self) {
        let works = matches!(self.seat, RunnerState::Working(RunningWork::Turn(_)));
        for notice in self.watch.background.take_notices() {
            match &self.reach {
                Some(reach) if works => {
                    let mut input = notice.to_input();
                    input.uuid = None;
                    reach.inbox.push(input);
                }
                Some(_) => self.queue.push_back(notice),
                None => (),
            }
        }
    }

    /// Sub-agents have ended: the main agent receives their reports in the running turn, or in a new
    /// turn.
    pub(super) fn on_agents_change(&mut self) {
        let works = matches!(self.seat, RunnerState::Working(RunningWork::Turn(_)));
        let (waking, mentioned) = self.agents.take_mail();
        let Some(reach) = &self.reach else { return };
        if let Some(input) = mentioned {
            reach.inbox.mention(input);
        }
        match waking {
            Some(input) if works => reach.inbox.push(input),
            Some(input) => self.queue.push_back(Prompt {
                uuid: uuid::Uuid::new_v4().to_string(),
                content: input.content,
                wants_answer: true,
                is_verbatim: true,
                speaker: PromptAuthor::Task,
                origin: input.origin,
                ..Prompt::default()
            }),
            None => (),
        }
    }

    /// Whether background work is running whose end must be reported to the model.
    pub(super) fn is_busy(&self) -> bool {
        self.watch.background.is_busy() || self.agents.is_busy()
    }

    pub(super) fn interrupt(&mut self, cancel_queued: bool) -> Interrupted {
        let mut names: Vec<String> =
            self.queue.iter().filter_map(|it| it.name().map(str::to_owned)).collect();
        let inputs = self.reach.as_ref().map(|reach| reach.inbox.take()).unwrap_or_default();
        if let RunnerState::Working(running) = &mut self.seat {
            if let RunningWork::Turn(turn) = running {
                let named = &turn.meanwhile;
                let heard = inputs.iter().filter_map(|it| it.uuid.clone()).filter(|it| named.contains(it));
                names.extend(heard);
            }
            running.cancel();
        }
        if !cancel_queued {
            if let Some(reach) = &self.reach {
                inputs.into_iter().for_each(|input| reach.inbox.push(input));
            }
            return Interrupted { still_queued: names, cancelled: None };
        }
        self.queue.clear();
        if let RunnerState::Working(RunningWork::Turn(turn)) = &mut self.seat {
            turn.meanwhile.retain(|it| !names.contains(it));
        }
        names.iter().for_each(|name| self.tell_prompt(Some(name), PromptState::Cancelled));
        Interrupted { still_queued: Vec::new(), cancelled: Some(names) }
    }

    pub(super) fn withdraw(&mut self, name: &str) -> bool {
        let before = self.queue.len();
        self.queue.retain(|it| it.name() != Some(name));
        let withdrawn = self.queue.len() < before || self.withdraw_heard(name);
        if withdrawn {
            self.tell_prompt(Some(name), PromptState::Cancelled);
        }
        withdrawn
    }

    /// Withdraws a prompt from the inbox of the running turn if the model has not received it yet.
    fn withdraw_heard(&mut self, name: &str) -> bool {
        let (Some(reach), RunnerState::Working(RunningWork::Turn(turn))) = (&self.reach, &mut self.seat)
        else {
            return false;
        };
        let waiting = reach.inbox.take();
        let before = waiting.len();
        let kept: Vec<_> = waiting.into_iter().filter(|it| it.uuid.as_deref() != Some(name)).collect();
        let withdrawn = kept.len() < before;
        kept.into_iter().for_each(|input| reach.inbox.push(input));
        if withdrawn {
            turn.meanwhile.retain(|it| it != name);
        }
        withdrawn
    }

    /// Merges all queued reports of background work into the next request. A turn for each of thirty
    /// reports would send the conversation thirty times.
    fn join_news(&mut self) {
        let Some(reach) = &self.reach else { return };
        let (news, rest): (Vec<_>, Vec<_>) = self.queue.drain(..).partition(is_news);
        self.queue.extend(rest);
        for prompt in news {
            let mut input = prompt.to_input();
            input.uuid = None;
            reach.inbox.mention(input);
        }
    }

    /// No more input follows: the session closes when everything is done, and open questions are denied.
    pub(super) fn finish_when_done(&mut self) {
        self.finishing = true;
        // Deferred calls wait for the parts of a host, which will not come.
        if self.left_for_later == DeferredCalls::Waiting {
            self.left_for_later = DeferredCalls::Nothing;
        }
        self.desk.close();
    }

    /// Starts the next prompt or batch of calls, if nothing runs.
    pub(super) fn start_next(&mut self) {
        if matches!(self.seat, RunnerState::Idle(SessionRunner::Calls(_)))
            && let Some((calls, cancel, reply)) = self.waiting_calls.pop_front()
        {
            return self.run_calls(calls, cancel, reply);
        }
        if self.ending || !matches!(self.seat, RunnerState::Idle(SessionRunner::Agent(_))) {
            return;
        }
        // A user who stopped agents, or interrupted the call waiting for one, usually asks about them
        // next. The model must have their reports by then.
        if !self.agents.is_stopping() {
            self.stopping_until = None;
            self.stopping_given_up = false;
        } else if !self.stopping_given_up {
            self.stopping_until.get_or_insert_with(|| Moment::now() + STOPPING);
            return;
        }
        self.on_agents_change();
        let takes_up = matches!(self.left_for_later, DeferredCalls::Ready | DeferredCalls::GoesOn);
        let prompt = if takes_up {
            None
        } else {
            match self.queue.pop_front() {
                Some(prompt) => Some(prompt),
                None => return,
            }
        };
        if prompt.as_ref().is_some_and(is_news) {
            self.join_news();
        }
        self.follow_settings();
        self.follow_extensions();
        self.begin_servers();
        let RunnerState::Idle(SessionRunner::Agent(agent)) =
            std::mem::replace(&mut self.seat, RunnerState::Broken)
        else {
            return;
        };
        self.desk.set_working(true);
        self.events.tell(SessionEventKind::Activity(Activity::Running));
        self.snapshot = Some(ContextUsage::measure(&agent, &self.catalog));
        let is_of_person = prompt.as_ref().is_some_and(|it| it.speaker == PromptAuthor::Person);
        self.agents.begin_prompt(&agent.settings, is_of_person);
        self.skills.begin_turn(agent.settings.effort, &agent.settings.model);
        let words = prompt.as_ref().map(Prompt::words).unwrap_or_default();
        self.watch.begin_turn(self.session_id.as_str(), &agent.settings.model, &words);
        self.begin_file_turn(prompt.as_ref().map(|it| it.uuid.as_str()));
        let mut setting = self.turn_setting();
        let Some(prompt) = prompt else {
            let before = std::mem::replace(&mut self.left_for_later, DeferredCalls::Nothing);
            let goes_on = before == DeferredCalls::GoesOn;
            self.seat = RunnerState::Working(RunningWork::Turn(TurnRun::take_up(agent, setting, goes_on)));
            return;
        };
        self.tell_prompt(prompt.name(), PromptState::Started);
        let run = match self.typed_command(&prompt) {
            Some((SlashCommand { kind: SlashKind::Local(command), .. }, args)) => {
                if command == LocalCommand::Compact {
                    self.events.tell(SessionEventKind::CompactionBegan);
                }
                TurnRun::local(agent, &prompt, command, args, setting)
            }
            Some((command, args)) => {
                setting.model = command.model.as_ref().map(|it| self.catalog.resolve(it).to_owned());
                setting.typed =
                    Some(TypedCommand { command, args, skills: std::sync::Arc::clone(&self.skills) });
                TurnRun::start(agent, prompt, setting)
            }
            None => TurnRun::start(agent, prompt, setting),
        };
        self.seat = RunnerState::Working(RunningWork::Turn(run));
    }

    /// Starts a new undo turn: file changes from now on belong to it. Its id is that of the prompt.
    fn begin_file_turn(&self, prompt: Option<&str>) {
        if let Some(files) = &self.files {
            let id = prompt.map_or_else(|| uuid::Uuid::new_v4().to_string(), str::to_owned);
            files.begin_turn(haft_workspace::TurnId::new(id));
        }
    }

    /// Returns the slash command a prompt invokes, and its arguments.
    fn typed_command(&self, prompt: &Prompt) -> Option<(SlashCommand, String)> {
        if !self.spec.extensions.slash_commands || prompt.is_verbatim {
            return None;
        }
        let text = prompt.words();
        let typed = text.trim().strip_prefix('/')?;
        let (name, args) = typed.split_once(char::is_whitespace).unwrap_or((typed, ""));
        let command = self.extensions.find(name)?;
        Some((command.clone(), args.trim().to_owned()))
    }

    pub(super) fn turn_setting(&mut self) -> TurnContext {
        let server_turn = std::mem::replace(&mut self.server_turn, ServerReadyPhase::Known);
        TurnContext {
            events: self.events.clone(),
            premises: std::sync::Arc::clone(&self.premises),
            servers: std::sync::Arc::clone(&self.servers),
            server_tools: self.server_tools.clone(),
            server_turn: if self.servers_wanted() { server_turn } else { ServerReadyPhase::Without },
            facts: self.facts(),
            begins: self.begins.take(),
            readers: self.readers.clone(),
            slash_commands: self.spec.extensions.slash_commands,
            trust_desk: self.spec.face_answers.server_trust.then(|| std::sync::Arc::clone(&self.desk)),
            record: self.spec.model.clone().filter(|_| self.results == 0),
            model: None,
            typed: None,
        }
    }

    /// Snapshot of the session, without what only the agent and the servers know.
    pub(super) fn facts(&self) -> SessionSummary {
        let skills = self.extensions.skills(self.wanted_skills.as_deref());
        SessionSummary {
            cwd: self.premises.cwd.clone(),
            key_source: self.key_source.clone(),
            output_style: self.premises.output_style(),
            agents: self.agents().map(|(name, _, _)| name).collect(),
            commands: self.extensions.command_names(),
            skills: skills.into_iter().map(|it| it.name).collect(),
            plugins: self.extensions.plugins(),
            extra_dirs: self.premises.extra_dirs.clone(),
            ..SessionSummary::default()
        }
    }

    /// Whether MCP servers are started before they are first used.
    pub(super) fn servers_wanted(&self) -> bool {
        match self.spec.servers.start {
            ServerStart::FirstPrompt => true,
            ServerStart::OnDemand | ServerStart::ForHooks => self.hooks_need_servers(),
            ServerStart::Never => false,
        }
    }

    /// Runs the calls of one message, or queues them behind the running ones.
    pub(super) fn run_calls(
        &mut self,
        calls: Vec<ToolUse>,
        cancel: CancellationToken,
        reply: Reply<Vec<haft_tool_runtime::CallReport>>,
    ) {
        match std::mem::replace(&mut self.seat, RunnerState::Broken) {
            RunnerState::Idle(SessionRunner::Calls(session)) => {
                self.follow_settings();
                self.begin_file_turn(None);
                let setting = self.turn_setting();
                let on_demand = self.spec.servers.start == ServerStart::OnDemand;
                let run = CallRun::start(session, calls, cancel, reply, setting, on_demand);
                self.seat = RunnerState::Working(RunningWork::Calls(run));
            }
            RunnerState::Working(running @ RunningWork::Calls(_)) => {
                // Only one batch runs at a time.
                self.seat = RunnerState::Working(running);
                self.waiting_calls.push_back((calls, cancel, reply));
            }
            other => {
                self.seat = other;
                let why = "this session runs the calls of its model";
                let refused = |call: ToolUse| {
                    haft_tool_runtime::CallReport::refused(
                        call.id,
                        call.name,
                        haft_tool::ErrorKind::Failed,
                        why,
                    )
                };
                reply.send(calls.into_iter().map(refused).collect(), &self.events);
            }
        }
    }
}

/// Whether the prompt reports the end of background work and has no name that a caller waits for.
fn is_news(prompt: &Prompt) -> bool {
    prompt.speaker == PromptAuthor::Task && prompt.wants_answer && !prompt.is_named
}
