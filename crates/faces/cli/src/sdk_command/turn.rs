//! One prompt, on a task of its own.

use std::time::Duration;

use haft_agent::{Agent, EndReason, SummedUp, TurnEnd};
use haft_hooks::{EventInput, HookEvent, HookInput, OtherInput, SessionSource, SessionStart};
use haft_mcp_client::Manager;
use haft_sdk::{Additions, Frames, Host, Init, Speaker, UserFrame, mcp_servers};
use serde_json::json;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{extensions::Builtin, mentions::attachments};
use crate::wiring::{Readers, ServerTools};

/// How long the first request waits for servers that are being started.
const SERVERS_PATIENCE: Duration = Duration::from_secs(30);

/// A prompt that is being worked on.
pub(super) struct Running {
    pub(super) task: JoinHandle<(Box<Agent>, Ending)>,
    pub(super) cancel: CancellationToken,
    /// The host's names for what it answers.
    pub(super) prompts: Vec<String>,
    /// The host's names for what was said meanwhile: it may still be heard.
    pub(super) meanwhile: Vec<String>,
    pub(super) prompt_text: String,
    /// Who said it.
    pub(super) speaker: Speaker,
    pub(super) started: std::time::Instant,
}

/// What came of a prompt.
pub(super) enum Ending {
    /// The model worked on it.
    Turn(Box<TurnEnd>),
    /// A command of ours; sums up, when that was the command.
    Local(Builtin, Option<SummedUp>),
}

/// Whether the servers' tools come in for the first time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Servers {
    First,
    Known,
}

/// What a turn needs beside the agent.
pub(super) struct Surroundings {
    pub(super) manager: Manager,
    pub(super) host: Host,
    pub(super) frames: Frames,
    /// All but tools, servers, model and mode, which may change until it begins.
    pub(super) init: (Init, Additions),
    pub(super) partial: bool,
    pub(super) replay: bool,
    /// How the session began, if nobody was told yet.
    pub(super) begins: Option<SessionSource>,
    /// Show what a prompt names.
    pub(super) readers: Readers,
    /// Whether the servers' tools come in for the first time.
    pub(super) servers: Servers,
    /// Another model for this prompt only.
    pub(super) model: Option<String>,
}

impl Running {
    pub(super) fn start(mut agent: Box<Agent>, prompt: UserFrame, around: Surroundings) -> Self {
        Self::on(&prompt.clone(), async move |token: CancellationToken| {
            get_ready(&mut agent, &around, &token).await;
            let before =
                around.model.clone().map(|model| std::mem::replace(&mut agent.settings.model, model));
            let asked = agent.settings.model.clone();
            begin(&agent, &prompt, &around);
            let mut input = prompt.to_input();
            if !prompt.is_verbatim {
                let text = prompt.text();
                input.attachments = tokio::select! {
                    found = attachments(&agent, &text, &around.readers) => found,
                    () = token.cancelled() => Vec::new(),
                };
            }
            let end = agent.run(input, &token).await;
            if let Some(before) = before.filter(|_| agent.settings.model == asked) {
                agent.settings.model = before;
            }
            if let EndReason::Failed(error) = &end.reason {
                let fields = json!({"error": haft_sdk::ApiFailure::of(error).kind, "error_details": error.to_string()});
                let fields = fields.as_object().cloned().unwrap_or_default();
                let event = OtherInput { event: HookEvent::StopFailure, subject: None, fields };
                run_hooks(&agent, event.into()).await;
            }
            (agent, Ending::Turn(Box::new(end)))
        })
    }

    /// Takes up calls that were left for later when the session was last here.
    pub(super) fn take_up(mut agent: Box<Agent>, around: Surroundings) -> Self {
        Self::on(&UserFrame::default(), async move |token: CancellationToken| {
            get_ready(&mut agent, &around, &token).await;
            begin(&agent, &UserFrame::default(), &around);
            let end = agent.take_up(&token).await;
            (agent, Ending::Turn(Box::new(end)))
        })
    }

    /// A command of ours. Frames of it come at its end.
    pub(super) fn local(
        mut agent: Box<Agent>,
        prompt: &UserFrame,
        command: Builtin,
        args: String,
        around: Surroundings,
    ) -> Self {
        Self::on(prompt, async move |token: CancellationToken| {
            get_ready(&mut agent, &around, &token).await;
            let summed_up = match command {
                Builtin::Compact => Some(agent.compact(Some(&args), &token).await),
                Builtin::Clear | Builtin::Context | Builtin::Cost => None,
            };
            (agent, Ending::Local(command, summed_up))
        })
    }

    fn on<F>(prompt: &UserFrame, work: impl FnOnce(CancellationToken) -> F) -> Self
    where
        F: Future<Output = (Box<Agent>, Ending)> + Send + 'static,
    {
        let cancel = CancellationToken::new();
        Self {
            task: tokio::spawn(work(cancel.clone())),
            cancel,
            prompts: prompt.name().map(str::to_owned).into_iter().collect(),
            meanwhile: Vec::new(),
            prompt_text: prompt.text(),
            speaker: prompt.speaker,
            started: std::time::Instant::now(),
        }
    }
}

async fn get_ready(agent: &mut Agent, around: &Surroundings, token: &CancellationToken) {
    tokio::select! {
        () = take_tools(agent, around) => (),
        () = token.cancelled() => (),
    }
    agent.obey();
    if let Some(source) = around.begins {
        let event = SessionStart { source, model: Some(agent.settings.model.clone()) };
        for context in run_hooks(agent, event.into()).await.additional_context {
            agent.remind(context);
        }
    }
}

async fn run_hooks(agent: &Agent, event: EventInput) -> haft_hooks::Outcome {
    let gate = &agent.tools.pipeline.gate;
    let hooks = gate.hooks().get();
    if !hooks.listens(event.event()) {
        return haft_hooks::Outcome::default();
    }
    let base = gate.hooks().base(agent.tools.state.cwd.to_path_buf(), gate.mode());
    hooks.run(&HookInput { base, event, aliases: Vec::new() }).await
}

async fn take_tools(agent: &mut Agent, around: &Surroundings) {
    let tools = ServerTools::new(&around.manager, &agent.tools);
    match around.servers {
        Servers::First => {
            tools.begin(agent, Some(SERVERS_PATIENCE)).await;
            tools.follow(&agent.inbox);
        }
        Servers::Known => {
            around.manager.settled(SERVERS_PATIENCE).await;
            tools.announce(&agent.inbox);
        }
    }
}

/// What a session is right now.
pub(super) fn init(agent: &Agent, manager: &Manager, (rest, added): (Init, Additions)) -> (Init, Additions) {
    let init = Init {
        tools: agent.tools.pool.get().present().map(str::to_owned).collect(),
        mcp_servers: mcp_servers(manager),
        model: agent.settings.model.clone(),
        permission_mode: agent.tools.pipeline.gate.mode().name().to_owned(),
        ..rest
    };
    (init, Additions { betas: agent.settings.betas.clone(), ..added })
}

fn begin(agent: &Agent, prompt: &UserFrame, around: &Surroundings) {
    let (init, added) = init(agent, &around.manager, around.init.clone());
    around.host.tell(around.frames.init_with(&init, &added));
    if around.replay && !prompt.message.is_null() {
        around.host.tell(around.frames.replay(&prompt.message, &prompt.uuid));
    }
    if around.partial {
        around.host.tell(around.frames.system("status", json!({"status": "requesting"})));
    }
}
