//! Running work of a session: a turn, or the calls of one message, each in a task of its own.

use std::{sync::Arc, time::Duration};

use haft_agent::{Agent, CompactionOutcome, EndReason, TurnEnd, WindowUsage};
use haft_hooks::{HookEvent, OtherInput, SessionSource, SessionStart};
use haft_tool_runtime::{CallReport, CallSession};
use haft_types::{AgentId, ToolUse};
use serde_json::json;
use tokio::task::{JoinError, JoinHandle};
use tokio_util::sync::CancellationToken;

use crate::{
    ApiFailure, EventSender, ModelSpec, Prompt, PromptAuthor, QuestionAnswer, QuestionSubject, Reply,
    SessionEventKind, SessionSummary, TurnStarted,
    build::{ReadOnlyTools, record},
    environment::SessionEnvironment,
    extensions::{LocalCommand, NamedBy, attachments, from_editor},
    hook_events::run_hooks,
    mcp_servers::{ServerTools, SessionServers, expand_command, needs_servers},
    questions::QuestionRegistry,
};

use super::typed_commands::{TypedCommand, unknown_command};

/// How long requests after the first wait for MCP servers that are starting, unless the spec sets
/// another limit.
const USUAL_TIMEOUT: Duration = Duration::from_millis(600);

/// Work that is running.
pub(super) enum RunningWork {
    /// A turn.
    Turn(TurnRun),
    /// The calls of one message.
    Calls(CallRun),
    /// Computing what the next request would contain.
    Look(JoinHandle<Box<Agent>>, CancellationToken),
}

/// The result of work that ended. An error means that its task panicked or was aborted.
pub(super) enum FinishedWork {
    Turn(Result<(Box<Agent>, TurnEnding), JoinError>),
    Calls(Result<Box<CallSession>, JoinError>),
    Look(Result<Box<Agent>, JoinError>),
}

impl RunningWork {
    /// Takes over the tools of the MCP servers and computes what the next request would contain.
    pub(super) fn look(agent: Box<Agent>, reply: Reply<Option<WindowUsage>>, setting: TurnContext) -> Self {
        let mut agent = agent;
        let cancel = CancellationToken::new();
        let token = cancel.clone();
        let task = tokio::spawn(async move {
            tokio::select! {
                () = take_server_tools(&mut agent, &setting) => (),
                () = token.cancelled() => (),
            }
            let fill = agent.window_fill();
            reply.send(Some(fill), &setting.events);
            agent
        });
        Self::Look(task, cancel)
    }

    pub(super) fn cancel(&self) {
        match self {
            Self::Turn(turn) => turn.cancel.cancel(),
            Self::Calls(calls) => calls.cancel.cancel(),
            Self::Look(_, cancel) => cancel.cancel(),
        }
    }

    pub(super) async fn ended(&mut self) -> FinishedWork {
        match self {
            Self::Turn(turn) => FinishedWork::Turn((&mut turn.task).await),
            Self::Calls(calls) => FinishedWork::Calls((&mut calls.task).await),
            Self::Look(task, _) => FinishedWork::Look(task.await),
        }
    }
}

/// A running turn.
pub(super) struct TurnRun {
    task: JoinHandle<(Box<Agent>, TurnEnding)>,
    cancel: CancellationToken,
    /// Uuids of the prompts the turn answers.
    pub(super) prompts: Vec<String>,
    /// Names of prompts sent during the turn. The model may not have received them yet.
    pub(super) meanwhile: Vec<String>,
    pub(super) prompt_text: String,
    pub(super) speaker: PromptAuthor,
    pub(super) origin: Option<serde_json::Value>,
}

/// The outcome of a turn.
pub(super) enum TurnEnding {
    /// The model ran.
    Turn(Box<TurnEnd>),
    /// A built-in command ran. `/compact` has an outcome.
    Local(LocalCommand, Option<CompactionOutcome>),
    /// The command failed: its name, and the reason.
    Failed(String, String),
}

/// How a turn treats the MCP servers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum ServerReadyPhase {
    /// Waits for the servers and installs their tools for the first time.
    First,
    /// The tools are installed; changes are announced to the model.
    Known,
    /// The turn does not use the servers.
    Without,
}

/// Everything a turn needs besides the agent.
pub(super) struct TurnContext {
    pub(super) events: EventSender,
    pub(super) premises: Arc<SessionEnvironment>,
    pub(super) servers: Arc<SessionServers>,
    pub(super) server_tools: ServerTools,
    pub(super) server_turn: ServerReadyPhase,
    /// Snapshot of the session, without what only the agent and the servers know.
    pub(super) facts: SessionSummary,
    /// How the session started, if the SessionStart hooks have not run yet.
    pub(super) begins: Option<SessionSource>,
    /// Tools that read the files a prompt mentions.
    pub(super) readers: Option<ReadOnlyTools>,
    pub(super) slash_commands: bool,
    /// Asks whether servers of the project may be started; `None` if nobody can answer.
    pub(super) trust_desk: Option<Arc<QuestionRegistry>>,
    /// The model spec with the recording options, before the first turn.
    pub(super) record: Option<ModelSpec>,
    /// Model for this turn only.
    pub(super) model: Option<String>,
    /// The slash command or skill that was typed, if any.
    pub(super) typed: Option<TypedCommand>,
}

impl TurnRun {
    pub(super) fn start(mut agent: Box<Agent>, mut prompt: Prompt, setting: TurnContext) -> Self {
        Self::on(&prompt.clone(), async move |token: CancellationToken| {
            if let Err(problem) = get_ready(&mut agent, &setting, &token).await {
                return (agent, TurnEnding::Failed(String::from("record"), problem));
            }
            let mut named_by = setting.typed.as_ref().map_or(NamedBy::Person, TypedCommand::named_by);
            if let Some(typed) = &setting.typed {
                match typed.content(&agent, &token).await {
                    Ok((content, run)) => {
                        prompt.content = content;
                        run.into_iter().for_each(|run| agent.record_report(run));
                    }
                    Err(problem) => {
                        return (agent, TurnEnding::Failed(typed.command.name.clone(), problem));
                    }
                }
            } else if setting.slash_commands && !prompt.is_verbatim {
                let words = prompt.words();
                match expand_command(setting.servers.manager(), &words).await {
                    Ok(None) => prompt.content.extend(unknown_command(&words)),
                    Ok(Some(text)) => {
                        // The prompt text comes from an MCP server; only the arguments come from the
                        // user.
                        named_by = NamedBy::Command { args: words, vouched: String::new() };
                        prompt.content = vec![haft_types::MessageBlock::Text { text }];
                    }
                    Err(problem) => {
                        let name = words.split_whitespace().next().unwrap_or_default();
                        return (agent, TurnEnding::Failed(name.to_owned(), problem));
                    }
                }
            }
            let before =
                setting.model.clone().map(|model| std::mem::replace(&mut agent.settings.model, model));
            let asked = agent.settings.model.clone();
            begin(&agent, Some(&prompt), &setting);
            let mut input = prompt.to_input();
            if let Some(readers) = setting.readers.as_ref().filter(|_| !prompt.is_verbatim) {
                let text = prompt.words();
                input.attachments = tokio::select! {
                    found = attachments(&agent, &text, named_by, readers) => found,
                    () = token.cancelled() => Vec::new(),
                };
                if let Some(news) =
                    setting.servers.editor.as_ref().filter(|_| prompt.speaker == PromptAuthor::Person)
                {
                    let seen = tokio::select! {
                        seen = from_editor(&agent, news, readers) => seen,
                        () = token.cancelled() => Vec::new(),
                    };
                    input.attachments.extend(seen);
                }
            }
            let end = agent.run(input, &token).await;
            if let Some(before) = before.filter(|_| agent.settings.model == asked) {
                agent.settings.model = before;
            }
            if let EndReason::Failed(error) = &end.reason {
                tell_failure(&agent, error).await;
            }
            (agent, TurnEnding::Turn(Box::new(end)))
        })
    }

    /// Runs the deferred calls of a resumed session, or with `goes_on` continues its unfinished turn.
    pub(super) fn take_up(mut agent: Box<Agent>, setting: TurnContext, goes_on: bool) -> Self {
        Self::on(&Prompt::default(), async move |token: CancellationToken| {
            get_ready(&mut agent, &setting, &token).await.ok();
            begin(&agent, None, &setting);
            let end = if goes_on { agent.go_on(&token).await } else { agent.take_up(&token).await };
            if let EndReason::Failed(error) = &end.reason {
                tell_failure(&agent, error).await;
            }
            (agent, TurnEnding::Turn(Box::new(end)))
        })
    }

    /// Runs a built-in command.
    pub(super) fn local(
        mut agent: Box<Agent>,
        prompt: &Prompt,
        command: LocalCommand,
        args: String,
        setting: TurnContext,
    ) -> Self {
        Self::on(prompt, async move |token: CancellationToken| {
            get_ready(&mut agent, &setting, &token).await.ok();
            let summed_up = match command {
                LocalCommand::Compact => Some(agent.compact(Some(&args), &token).await),
                LocalCommand::Clear | LocalCommand::Context | LocalCommand::Cost => None,
            };
            (agent, TurnEnding::Local(command, summed_up))
        })
    }

    fn on<F>(prompt: &Prompt, work: impl FnOnce(CancellationToken) -> F) -> Self
    where
        F: Future<Output = (Box<Agent>, TurnEnding)> + Send + 'static,
    {
        let cancel = CancellationToken::new();
        Self {
            task: tokio::spawn(work(cancel.clone())),
            cancel,
            prompts: prompt.name().map(str::to_owned).into_iter().collect(),
            meanwhile: Vec::new(),
            prompt_text: prompt.words(),
            speaker: prompt.speaker,
            origin: prompt.origin.clone(),
        }
    }
}

/// Runs the StopFailure hooks: the provider returned an error.
async fn tell_failure(agent: &Agent, error: &haft_model::ModelError) {
    let fields = json!({"error": ApiFailure::from_error(error).kind, "error_details": error.to_string()});
    let fields = fields.as_object().cloned().unwrap_or_default();
    let event = OtherInput { event: HookEvent::StopFailure, subject: None, fields };
    run_hooks(&agent.tools, event.into()).await;
}

/// Takes over the tools of the MCP servers, starts the recording and runs the SessionStart hooks. Fails
/// if the recording cannot be written.
async fn get_ready(
    agent: &mut Agent,
    setting: &TurnContext,
    token: &CancellationToken,
) -> Result<(), String> {
    tokio::select! {
        () = take_server_tools(agent, setting) => (),
        () = token.cancelled() => (),
    }
    settle_open_calls(agent, &setting.premises, &setting.events, token).await;
    agent.obey();
    if let Some(model) = &setting.record {
        record(&setting.premises, agent, model)?;
    }
    if let Some(source) = setting.begins {
        let event = SessionStart { source, model: Some(agent.settings.model.clone()) };
        for context in run_hooks(&agent.tools, event.into()).await.additional_context {
            agent.remind(context);
        }
        crate::memory::tell_hooks(&agent.tools, &agent.prompt.memory).await;
    }
    Ok(())
}

/// Asks the tool hosts for the results of calls that a killed process left open. Waits for calls that
/// still run, until the turn is interrupted.
async fn settle_open_calls(
    agent: &mut Agent,
    premises: &SessionEnvironment,
    events: &EventSender,
    token: &CancellationToken,
) {
    let Some(hosts) = premises.hosts.get() else { return };
    for call in agent.open_calls() {
        if !haft_builtin_tools::OF_MACHINE.contains(&call.name.as_str()) {
            continue;
        }
        events.notice(format!("asking the host what came of {} ({})", call.name, &*call.id));
        tokio::select! {
            came = hosts.resolve(&agent.tools.agent_id, &call) => {
                let report = came.report(&call);
                agent.settle_call(&call, report);
            }
            () = token.cancelled() => return,
        }
    }
}

async fn take_server_tools(agent: &mut Agent, setting: &TurnContext) {
    let patience = setting.servers.spec().patience;
    match setting.server_turn {
        ServerReadyPhase::First => {
            if ask_about_servers(setting).await {
                setting.servers.start();
            }
            setting.server_tools.begin(agent, patience).await;
            setting.server_tools.follow(&agent.inbox);
        }
        ServerReadyPhase::Known => {
            setting.servers.manager().settled(patience.unwrap_or(USUAL_TIMEOUT)).await;
            setting.server_tools.announce(&agent.inbox);
        }
        ServerReadyPhase::Without => (),
    }
}

/// Snapshot of the session now.
pub(super) fn facts_of(agent: &Agent, servers: &SessionServers, rest: &SessionSummary) -> SessionSummary {
    SessionSummary {
        tools: agent.tools.pool.get().present().map(str::to_owned).collect(),
        servers: servers.manager().status(),
        model: agent.settings.model.clone(),
        mode: agent.tools.pipeline.gate.mode(),
        betas: agent.settings.betas.clone(),
        ..rest.clone()
    }
}

fn begin(agent: &Agent, prompt: Option<&Prompt>, setting: &TurnContext) {
    let facts = facts_of(agent, &setting.servers, &setting.facts);
    setting
        .events
        .tell(SessionEventKind::TurnBegan(Box::new(TurnStarted { facts, prompt: prompt.cloned() })));
}

/// A running batch of calls.
pub(super) struct CallRun {
    task: JoinHandle<Box<CallSession>>,
    cancel: CancellationToken,
}

impl CallRun {
    pub(super) fn start(
        mut session: Box<CallSession>,
        calls: Vec<ToolUse>,
        cancel: CancellationToken,
        reply: Reply<Vec<CallReport>>,
        setting: TurnContext,
        on_demand: bool,
    ) -> Self {
        let token = cancel.clone();
        let task = tokio::spawn(async move {
            let is_needed = on_demand && calls.iter().any(|call| needs_servers(&call.name));
            if is_needed || setting.server_turn != ServerReadyPhase::Without {
                if setting.servers.manager().names().is_empty() {
                    ask_about_servers(&setting).await;
                    setting.servers.start();
                    setting.servers.settled().await;
                }
                setting.server_tools.take();
            }
            begin_calls(&session, &setting).await;
            let reports: Vec<CallReport> = session.run_message(calls, &token).await;
            reply.send(reports, &setting.events);
            session
        });
        Self { task, cancel }
    }

    /// Runs only the SessionStart hooks.
    pub(super) fn ready(session: Box<CallSession>, reply: Reply<()>, setting: TurnContext) -> Self {
        let task = tokio::spawn(async move {
            if setting.server_turn != ServerReadyPhase::Without {
                setting.servers.start();
            }
            begin_calls(&session, &setting).await;
            reply.send((), &setting.events);
            session
        });
        Self { task, cancel: CancellationToken::new() }
    }
}

/// Asks the front end about untrusted servers of the project. Returns whether at least one was approved.
async fn ask_about_servers(setting: &TurnContext) -> bool {
    let Some(desk) = &setting.trust_desk else { return false };
    let mut agreed = false;
    for waiting in setting.servers.found().waiting {
        let asked = QuestionSubject::ServerTrust(Box::new(waiting.clone()));
        if let Some(QuestionAnswer::ServerTrust(true)) = desk.ask(AgentId::Main, asked).await {
            setting.servers.agree_to(&waiting);
            agreed = true;
        }
    }
    agreed
}

/// Runs the SessionStart hooks of a session without a model. Context they return for the model is
/// discarded.
async fn begin_calls(session: &CallSession, setting: &TurnContext) {
    if let Some(source) = setting.begins {
        run_hooks(session, SessionStart { source, model: None }.into()).await;
    }
}
