//! Drives one session of an editor: requests in, updates out.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use haft_agent::{AgentEvent, SettingsChange};
use haft_json_lines::LineBatch;
use haft_model::ModelEvent;
use haft_session::{
    CloseMode, Command, EventStream, Prompt, PromptState, QuestionAnswer, QuestionOutcome, QuestionSubject,
    Reply, SessionEvent, SessionEventKind, SessionHandle, SessionIntroduction, SessionQuestion, SlashCommand,
};
use haft_tool::UserInteraction;
use haft_types::{AgentId, MessageBlock, Usage};
use serde_json::{Value, json};
use tokio::{sync::mpsc, task::JoinHandle};

use crate::{
    client_capabilities::EditorCapabilities,
    config_options::{EFFORT, MODE, MODEL, SessionChoices},
    editor::EditorPeer,
    jsonrpc::{AcpError, CANCELLED, INTERNAL_ERROR},
    permission_request::{
        elicitation_request, permission_request, read_elicited, read_permission, read_trust, trust_request,
    },
    server_prompts::ServerPrompts,
    update_backlog::UpdateBacklog,
    updates::{
        AcpUpdate, CallInspector, JournalView, PromptResponse, UpdateBuilder, replay_log, title_of,
        turn_answer, usage_update,
    },
    user_question::ask_user,
};

/// Updates that may be sent at any time; others only during a prompt.
const ANY_TIME: [&str; 6] = [
    "session_info_update",
    "config_option_update",
    "current_mode_update",
    "available_commands_update",
    "usage_update",
    "notice",
];

/// Maximum updates held back until the next prompt; the log contains all of them.
const MAX_HELD: usize = 5_000;

/// A request to a session. `id` identifies the request to respond to.
pub(crate) enum EditorRequest {
    /// Responds with the session's state, after replaying its conversation if `replays`. `named`: the
    /// response contains the session id.
    Introduce { id: Value, replays: bool, named: bool },
    /// Runs a prompt.
    Prompt { id: Value, blocks: Vec<MessageBlock> },
    /// Cancels the current turn.
    Cancel,
    /// Cancels a single request.
    CancelRequest(Value),
    /// Changes the mode.
    SetMode { id: Value, mode: String },
    /// Changes an option.
    SetOption { id: Value, option: String, value: Value },
    /// Closes the session.
    Close { id: Option<Value>, how: CloseMode },
}

/// A session and its connection to the editor.
pub(crate) struct SessionDriver {
    pub(crate) editor: EditorPeer,
    pub(crate) id: String,
    pub(crate) handle: SessionHandle,
    pub(crate) events: EventStream,
    pub(crate) orders: mpsc::UnboundedReceiver<EditorRequest>,
    pub(crate) abilities: EditorCapabilities,
    pub(crate) choices: SessionChoices,
    pub(crate) commands: Vec<SlashCommand>,
}

/// Mutable state of a driven session.
struct DrivenSession {
    teller: UpdateBuilder,
    journal: JournalView,
    /// Prompt requests to respond to when their turn ends, by prompt id.
    prompts: HashMap<String, Value>,
    /// Prompts whose requests were cancelled individually.
    unwanted: HashSet<String>,
    /// Questions to the editor in progress, by id.
    asking: HashMap<String, JoinHandle<()>>,
    /// Questions whose answer is not needed any more but may still arrive.
    unwanted_answers: Vec<JoinHandle<()>>,
    /// Updates from outside of a prompt.
    held: Vec<Value>,
    /// Updates that wait because the editor does not read.
    backlog: UpdateBacklog,
    /// Whether the editor knows the session.
    is_introduced: bool,
    /// Commands that were added since the session was opened.
    new_commands: Vec<String>,
    /// Prompts of MCP servers as commands.
    server_commands: Vec<Value>,
    last_usage: Usage,
    usd: Option<f64>,
    titled: bool,
    cancelling: bool,
    closing: Vec<Value>,
}

impl SessionDriver {
    /// Builds the initial options from the session's introduction.
    pub(crate) fn choices(
        handle: &SessionHandle,
        introduction: &SessionIntroduction,
        may_bypass: bool,
    ) -> Result<SessionChoices, AcpError> {
        let catalog = handle.premises().catalog().map_err(|err| AcpError::internal(err.to_string()))?;
        let model = introduction.models.first().map(|(_, id)| id.clone()).unwrap_or_default();
        Ok(SessionChoices {
            mode: introduction.mode,
            may_bypass,
            models: introduction.models.clone(),
            model,
            effort: None,
            catalog,
        })
    }

    /// Runs until the session is closed. Returns the pending close requests, to be answered once the
    /// session is no longer registered.
    pub(crate) async fn run(mut self) -> Vec<Value> {
        let calls = self.handle.calls();
        let looks = CallInspector {
            pool: calls.pool.clone(),
            cwd: Arc::clone(&calls.state.cwd),
            files: self.handle.files().cloned(),
        };
        let premises = self.handle.premises();
        let mut driven = DrivenSession {
            journal: JournalView::new(premises.journal_state_dir(), &premises.cwd, self.handle.id().clone()),
            teller: UpdateBuilder::new(looks, self.abilities),
            prompts: HashMap::new(),
            unwanted: HashSet::new(),
            asking: HashMap::new(),
            unwanted_answers: Vec::new(),
            held: Vec::new(),
            backlog: UpdateBacklog::default(),
            is_introduced: false,
            new_commands: Vec::new(),
            server_commands: Vec::new(),
            last_usage: Usage::default(),
            usd: None,
            titled: false,
            cancelling: false,
            closing: Vec::new(),
        };
        let mut prompts = ServerPrompts::watch(self.handle.servers());
        let mut orders_open = true;
        loop {
            tokio::select! {
                biased;
                order = self.orders.recv(), if orders_open => match order {
                    Some(order) => self.obey(order, &mut driven).await,
                    None => {
                        orders_open = false;
                        self.handle.send(Command::Close(CloseMode::Orderly));
                    }
                },
                event = self.events.next() => match event {
                    None | Some(SessionEvent { what: SessionEventKind::Closed, .. }) => break,
                    Some(event) => self.tell(event, &mut driven).await,
                },
                commands = prompts.next(), if driven.is_introduced => {
                    driven.server_commands = commands;
                    self.tell_commands(&driven);
                }
                () = self.editor.waiting().wait_until_drained(), if !driven.backlog.is_empty() => {
                    self.tell_backlog(&mut driven);
                }
            }
        }
        self.tell_backlog(&mut driven);
        let gone: PromptResponse = Err(AcpError::new(INTERNAL_ERROR, "the session was closed"));
        driven.prompts.values().for_each(|id| self.editor.answer(id, &gone));
        // Tasks that still ask hold the session, so that it could not be opened again.
        driven.asking.values().chain(&driven.unwanted_answers).for_each(JoinHandle::abort);
        driven.closing
    }

    fn update(&self, update: &Value) {
        self.editor.update(&self.id, update);
    }

    /// Sends an update now, or holds it back until the next prompt.
    fn show(&self, update: Value, driven: &mut DrivenSession) {
        let kind = update["sessionUpdate"].as_str().unwrap_or_default();
        if !driven.prompts.is_empty() || ANY_TIME.contains(&kind) {
            if self.editor.waiting().is_behind() {
                return driven.backlog.add(update);
            }
            self.tell_backlog(driven);
            self.update(&update);
        } else if driven.held.len() < MAX_HELD {
            driven.held.push(update);
        }
    }

    /// Sends updates that waited for the editor to read.
    fn tell_backlog(&self, driven: &mut DrivenSession) {
        driven.backlog.drain().for_each(|update| self.update(&update));
    }

    async fn obey(&mut self, order: EditorRequest, driven: &mut DrivenSession) {
        match order {
            EditorRequest::Introduce { id, replays, named } => {
                self.introduce(&id, replays, named, driven).await
            }
            EditorRequest::Prompt { id, blocks } => self.prompt(id, blocks, driven),
            // Without a running prompt, a cancel must not affect the next one.
            EditorRequest::Cancel if driven.prompts.is_empty() => (),
            EditorRequest::Cancel => {
                driven.cancelling = true;
                self.handle.send(Command::Interrupt { cancel_queued: true, reply: Reply::ignored() });
            }
            EditorRequest::CancelRequest(request) => self.cancel_request(&request, driven),
            EditorRequest::SetMode { id, mode } => {
                let answer = self.set_mode(&mode, driven).await.map(|()| json!({}));
                self.editor.answer(&id, &answer);
            }
            EditorRequest::SetOption { id, option, value } => {
                let set = self.set_option(&option, &value, driven).await;
                let answer = set.map(|()| json!({"configOptions": self.choices.options()}));
                self.editor.answer(&id, &answer);
            }
            EditorRequest::Close { id, how } => {
                driven.closing.extend(id);
                driven.cancelling = true;
                self.handle.send(Command::Close(how));
            }
        }
    }

    async fn introduce(&mut self, id: &Value, replays: bool, named: bool, driven: &mut DrivenSession) {
        if replays && let Err(problem) = self.replay(driven).await {
            return self.editor.answer(id, &Err(problem));
        }
        let mut answer = json!({"modes": self.choices.modes(), "configOptions": self.choices.options()});
        if named {
            answer["sessionId"] = json!(self.id);
        }
        self.editor.answer(id, &Ok(answer));
        driven.titled |= replays;
        driven.is_introduced = true;
        self.tell_commands(driven);
        // The editor shows their prompts as commands before the first turn.
        self.handle.send(Command::StartServers);
    }

    /// Sends the whole conversation again.
    async fn replay(&self, driven: &mut DrivenSession) -> Result<(), AcpError> {
        let Some(path) = self.handle.log_path().map(ToOwned::to_owned) else { return Ok(()) };
        let mut teller = UpdateBuilder::new(driven.teller.looks.clone(), self.abilities);
        let (editor, session) = (self.editor.clone(), self.id.clone());
        let (journal, catalog) = (driven.journal.clone(), Arc::clone(&self.choices.catalog));
        let runtime = tokio::runtime::Handle::current();
        let replayed = tokio::task::spawn_blocking(move || {
            let mut batch = LineBatch::default();
            // A slow editor must not cause the conversation to be buffered in memory.
            let tell = |update: AcpUpdate<'_>| {
                if editor.waiting().is_behind() {
                    runtime.block_on(editor.waiting().wait_until_drained());
                }
                editor.update_many(&mut batch, &session, &update);
            };
            let replayed = replay_log(&path, &mut teller, &journal, &catalog, tell);
            editor.finish_batch(&mut batch);
            replayed.map_err(|err| AcpError::internal(format!("{}: {err}", path.display())))
        });
        replayed.await.map_err(|err| AcpError::internal(err.to_string()))?
    }

    /// Sends the list of commands.
    fn tell_commands(&self, driven: &DrivenSession) {
        // Editors have their own button for a new conversation.
        let shown = self.commands.iter().filter(|it| it.name != "clear").map(|it| {
            let mut command = json!({"name": it.name, "description": it.description});
            if !it.argument_hint.is_empty() {
                command["input"] = json!({"hint": it.argument_hint});
            }
            command
        });
        let new =
            driven.new_commands.iter().map(|it| json!({"name": it, "description": "New in this session"}));
        let commands: Vec<Value> = shown.chain(new).chain(driven.server_commands.iter().cloned()).collect();
        self.update(&json!({"sessionUpdate": "available_commands_update", "availableCommands": commands}));
    }

    fn prompt(&self, id: Value, blocks: Vec<MessageBlock>, driven: &mut DrivenSession) {
        let prompt = Prompt { is_named: true, ..Prompt::of_content(blocks) };
        driven.prompts.insert(prompt.uuid.clone(), id);
        for update in std::mem::take(&mut driven.held) {
            self.update(&update);
        }
        if !std::mem::replace(&mut driven.titled, true) {
            let title = title_of(&prompt.words());
            self.update(&json!({"sessionUpdate": "session_info_update", "title": title}));
        }
        self.handle.prompt(prompt);
    }

    fn cancel_request(&self, request: &Value, driven: &mut DrivenSession) {
        let meant = driven.prompts.iter().find(|(_, id)| *id == request).map(|(name, _)| name.clone());
        let Some(name) = meant else { return };
        driven.unwanted.insert(name.clone());
        match driven.prompts.len() {
            1 => {
                driven.cancelling = true;
                self.handle.send(Command::Interrupt { cancel_queued: true, reply: Reply::ignored() });
            }
            _ => self.handle.send(Command::Withdraw { name, reply: Reply::ignored() }),
        }
    }

    async fn set_mode(&mut self, name: &str, driven: &mut DrivenSession) -> Result<(), AcpError> {
        let mode = self.choices.read_mode(name);
        let mode = mode.ok_or_else(|| AcpError::params(format!("there is no mode `{name}` here")))?;
        match self.handle.ask(|reply| Command::SetMode { mode, reply }).await {
            Some(Ok(mode)) => self.mode_is(mode, driven),
            Some(Err(_)) => {
                return Err(AcpError::params(format!("the mode `{name}` may not be switched on here")));
            }
            None => return Err(AcpError::no_session(&self.id)),
        }
        Ok(())
    }

    /// Reports a changed mode.
    fn mode_is(&mut self, mode: haft_types::PermissionMode, driven: &mut DrivenSession) {
        if std::mem::replace(&mut self.choices.mode, mode) != mode {
            self.show(json!({"sessionUpdate": "current_mode_update", "currentModeId": mode.name()}), driven);
            self.tell_options(driven);
        }
    }

    fn tell_options(&self, driven: &mut DrivenSession) {
        let options = self.choices.options();
        self.show(json!({"sessionUpdate": "config_option_update", "configOptions": options}), driven);
    }

    async fn set_option(
        &mut self,
        option: &str,
        value: &Value,
        driven: &mut DrivenSession,
    ) -> Result<(), AcpError> {
        let shown = value;
        let wrong = || AcpError::params(format!("{shown} is no value of the option `{option}`"));
        let value = value.as_str().ok_or_else(wrong)?;
        match option {
            MODE => self.set_mode(value, driven).await,
            MODEL if !self.choices.offers_model(value) => Err(wrong()),
            MODEL => {
                let model = Some(value.to_owned());
                let set = self.handle.ask(|reply| Command::SetModel { model, reply }).await;
                let set = set.ok_or_else(|| AcpError::no_session(&self.id))?;
                self.choices.model = set.map_err(AcpError::params)?;
                self.tell_options(driven);
                Ok(())
            }
            EFFORT => {
                let effort = self.choices.read_effort(value).ok_or_else(wrong)?;
                self.handle.send(Command::Order(SettingsChange::Effort(effort)));
                self.choices.effort = effort;
                self.tell_options(driven);
                Ok(())
            }
            _ => Err(AcpError::params(format!("there is no option `{option}`"))),
        }
    }

    async fn tell(&mut self, event: SessionEvent, driven: &mut DrivenSession) {
        match &event.what {
            SessionEventKind::Asked(question) => return self.ask(question, driven),
            SessionEventKind::Settled(id, how) => return settle(id, *how, driven),
            SessionEventKind::ModeChanged(mode) => return self.mode_is(*mode, driven),
            SessionEventKind::ModelChanged(model) => {
                if self.choices.model != *model {
                    self.choices.model.clone_from(model);
                    self.tell_options(driven);
                }
                return;
            }
            SessionEventKind::TurnBegan(began) => self.meet_commands(&began.facts.commands, driven),
            SessionEventKind::PromptState(name, PromptState::Cancelled) => {
                return self.finish(name, Ok(json!({"stopReason": "cancelled"})), driven);
            }
            SessionEventKind::Agent(AgentEvent::Model(it)) if event.agent == AgentId::Main => {
                self.note_usage(it, driven);
            }
            _ => (),
        }
        let changes = self.changes(&event, driven).await;
        for update in driven.teller.of(&event, changes) {
            self.show(update, driven);
        }
        match &event.what {
            SessionEventKind::TurnEnded(it) => {
                driven.usd = Some(it.bill.usd);
                self.tell_usage(driven);
                let answer = turn_answer(&it.end);
                it.facts.prompts.iter().for_each(|name| self.finish(name, answer.clone(), driven));
            }
            SessionEventKind::CommandEnded(it) => {
                driven.usd = Some(it.bill.usd);
                let answer: PromptResponse = Ok(json!({"stopReason": "end_turn"}));
                it.facts.prompts.iter().for_each(|name| self.finish(name, answer.clone(), driven));
            }
            SessionEventKind::Broke(problem) => {
                let names: Vec<String> = driven.prompts.keys().cloned().collect();
                let answer: PromptResponse = Err(AcpError::internal(problem.as_str()));
                names.iter().for_each(|name| self.finish(name, answer.clone(), driven));
            }
            _ => (),
        }
    }

    /// Adds commands that became available.
    fn meet_commands(&self, names: &[String], driven: &mut DrivenSession) {
        let is_new = |name: &&String| !self.commands.iter().any(|it| it.name == **name);
        let new: Vec<String> = names.iter().filter(is_new).cloned().collect();
        if driven.new_commands != new {
            driven.new_commands = new;
            self.tell_commands(driven);
        }
    }

    fn note_usage(&self, event: &ModelEvent, driven: &mut DrivenSession) {
        match event {
            ModelEvent::Usage(usage) => driven.last_usage = *usage,
            ModelEvent::Stopped(_) => self.tell_usage(driven),
            _ => (),
        }
    }

    fn tell_usage(&self, driven: &mut DrivenSession) {
        let update = usage_update(&driven.last_usage, self.choices.window(), driven.usd);
        self.show(update, driven);
    }

    /// Returns the diffs of what a finished command changed.
    async fn changes(&self, event: &SessionEvent, driven: &DrivenSession) -> Vec<Value> {
        let SessionEventKind::Agent(AgentEvent::ResultLogged { answered, .. }) = &event.what else {
            return Vec::new();
        };
        let call = answered.call.id.clone();
        if driven.teller.open_call(&call).is_none_or(|look| look.command.is_none()) {
            return Vec::new();
        }
        let journal = driven.journal.clone();
        tokio::task::spawn_blocking(move || journal.diffs(&call)).await.unwrap_or_default()
    }

    /// Responds to a prompt request, once.
    fn finish(&self, name: &str, answer: PromptResponse, driven: &mut DrivenSession) {
        let Some(id) = driven.prompts.remove(name) else { return };
        self.tell_backlog(driven);
        let answer = if driven.unwanted.remove(name) {
            Err(AcpError::new(CANCELLED, "the request was cancelled"))
        } else {
            answer
        };
        self.editor.answer(&id, &answer);
        driven.cancelling &= !driven.prompts.is_empty();
    }

    /// Forwards a question to the editor in a task of its own.
    fn ask(&self, question: &Arc<SessionQuestion>, driven: &mut DrivenSession) {
        if driven.prompts.is_empty() {
            let why = "nobody is at the editor between prompts; ask again when the user has said something";
            return self.handle.answer(&question.id, QuestionAnswer::Unasked(why.to_owned()));
        }
        let (editor, handle, session) = (self.editor.clone(), self.handle.clone(), self.id.clone());
        let (id, question) = (question.id.clone(), Arc::clone(question));
        let abilities = self.abilities;
        let looks = driven.teller.looks.clone();
        let asking = tokio::spawn(async move {
            let answer = match &question.subject {
                QuestionSubject::Permission(asked) => {
                    if let UserInteraction::Questions(choices) = &asked.interaction {
                        ask_user(&editor, &session, asked, choices, abilities).await
                    } else {
                        let (call, shown) = (Arc::clone(asked), session);
                        let request =
                            tokio::task::spawn_blocking(move || permission_request(&shown, &call, &looks));
                        match request.await {
                            Ok(request) => {
                                let answer = editor.ask("session/request_permission", &request).await;
                                read_permission(answer, &asked.decision.suggestions)
                            }
                            Err(err) => QuestionAnswer::Unasked(err.to_string()),
                        }
                    }
                }
                QuestionSubject::Elicitation(asked) => {
                    match elicitation_request(&session, asked, abilities.forms, abilities.addresses) {
                        Some(request) => read_elicited(editor.ask("elicitation/create", &request).await),
                        None => read_elicited(Err(AcpError::internal("the editor shows no such question"))),
                    }
                }
                QuestionSubject::ServerTrust(waiting) => {
                    let request = trust_request(&session, waiting);
                    read_trust(&editor.ask("session/request_permission", &request).await)
                }
            };
            handle.answer(&question.id, answer);
        });
        driven.asking.insert(id, asking);
    }
}

/// Ends a question whose answer is no longer needed. If the user cancelled, the editor still answers it;
/// otherwise the request is cancelled.
fn settle(id: &str, how: QuestionOutcome, driven: &mut DrivenSession) {
    let Some(asking) = driven.asking.remove(id) else { return };
    match how {
        QuestionOutcome::TakenBack if !driven.cancelling => asking.abort(),
        QuestionOutcome::TakenBack => driven.unwanted_answers.push(asking),
        QuestionOutcome::Answered => (),
    }
}
