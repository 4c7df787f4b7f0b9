//! Watches a command or socket in the background; each output line is an event.

mod allowed_address;
mod input;
mod websocket;

use std::{sync::Arc, time::Duration};

use haft_shell::{
    own::Lifetime,
    run::{JobSpec, TaskAbout, TaskKind, TaskRegistry, TerminalMode},
};
use haft_tool::{
    Access, AccessSet, CallContext, Content, Exposure, Outcome, Tool, ToolContext, ToolError, Traits,
};

use crate::bash::{CommandConfiner, ConfinedCommand, NoConfiner, OutsideSandbox};
pub use allowed_address::LocalAddressPolicy;
pub use input::{Input, Output, Socket};

const USUAL: Duration = Duration::from_secs(300);
const LONGEST: Duration = Duration::from_secs(1_800);

pub struct Monitor {
    tasks: Arc<TaskRegistry>,
    neighbourhood: LocalAddressPolicy,
    confine: Arc<dyn CommandConfiner>,
}

impl Monitor {
    /// Creates the tool. Watches are tasks of this session.
    pub fn new(tasks: Arc<TaskRegistry>, neighbourhood: LocalAddressPolicy) -> Self {
        Self { tasks, neighbourhood, confine: Arc::new(NoConfiner) }
    }

    /// Runs watched commands in a sandbox.
    pub fn with_confinement(mut self, confine: Arc<dyn CommandConfiner>) -> Self {
        self.confine = confine;
        self
    }

    fn spec(&self, input: &Input, cx: &CallContext) -> JobSpec {
        let what = input.command.clone().or_else(|| input.ws.as_ref().map(|it| it.url.clone()));
        JobSpec {
            call: cx.call_id.clone(),
            agent: cx.agent_id.clone(),
            command: what.unwrap_or_default(),
            cwd: cx.cwd.to_path_buf(),
            limit: limit(input),
            variables: Vec::new(),
            lifetime: Lifetime::Session,
            confinement: None,
            reading: None,
            precious: Vec::new(),
            channel: None,
            terminal: TerminalMode::None,
        }
    }
}

fn limit(input: &Input) -> Duration {
    input.timeout_ms.map_or(USUAL, Duration::from_millis).min(LONGEST)
}

impl Tool for Monitor {
    type Input = Input;
    type Output = Output;
    type Progress = ();
    const NAME: &'static str = "Monitor";

    fn output_schema(&self) -> Option<serde_json::Value> {
        Some(haft_tool::schema_of::<Output>())
    }

    fn traits(&self) -> Traits {
        Traits {
            search_hint: "watch follow log events lines websocket feed",
            exposure: Exposure::Deferred,
            feature: Some("monitor"),
            ..Traits::default()
        }
    }

    fn reach(&self, input: &Input, _cx: &CallContext) -> AccessSet {
        let command = input.command.clone().map(|line| Access::Command(line.into()));
        let socket = input.ws.as_ref().map(|it| Access::Fetch(it.url.clone()));
        AccessSet::Declared(command.into_iter().chain(socket).collect())
    }

    fn validate(&self, input: &Input, _cx: &CallContext) -> Result<(), ToolError> {
        let command = input.command.as_deref().filter(|it| !it.trim().is_empty());
        let Some(socket) = &input.ws else {
            return match command {
                Some(text) if text.contains('\0') => {
                    Err(ToolError::invalid("The command contains a NUL byte, which no shell accepts"))
                }
                Some(_) => Ok(()),
                None => Err(ToolError::invalid("Give either command or ws: there is nothing to watch")),
            };
        };
        if command.is_some() {
            return Err(ToolError::invalid("Give either command or ws, not both"));
        }
        let mut seen = std::collections::BTreeSet::new();
        let is_token =
            |it: &String| !it.is_empty() && it.bytes().all(|it| it.is_ascii_graphic() && it != b',');
        if !socket.protocols.iter().all(|it| is_token(it) && seen.insert(it)) {
            return Err(ToolError::invalid("protocols must be different tokens without blanks or commas"));
        }
        websocket::address(socket, self.neighbourhood).map(drop)
    }

    fn describe(&self, input: &Input) -> String {
        let what = input.command.as_deref().or_else(|| input.ws.as_ref().map(|it| it.url.as_str()));
        format!("Watch {}: {}", input.description, what.unwrap_or_default())
    }

    async fn call(&self, input: Input, cx: &ToolContext<()>) -> Result<Outcome<Output>, ToolError> {
        let spec = self.spec(&input, cx);
        let about = TaskAbout {
            kind: TaskKind::Watch,
            description: input.description.clone(),
            agent: cx.agent_id.clone(),
        };
        let timeout_ms = u64::try_from(limit(&input).as_millis()).unwrap_or(u64::MAX);
        let job = match &input.ws {
            None => {
                let about = ConfinedCommand {
                    command: &spec.command,
                    cwd: &spec.cwd,
                    agent: &spec.agent,
                    outside: OutsideSandbox::No,
                    permit: cx.permit(),
                };
                let (confinement, reading) = self.confine.choose(&about).held()?;
                self.tasks.shell().start(JobSpec { confinement, reading, ..spec })?
            }
            Some(socket) => {
                let open = tokio::select! {
                    open = websocket::open(socket, self.neighbourhood) => open?,
                    () = cx.cancel.cancelled() => return Err(ToolError::failed("Interrupted before the watch began")),
                };
                let (job, feed) = self.tasks.shell().feed(spec)?;
                tokio::spawn(websocket::carry(open, feed));
                job
            }
        };
        job.persist().ok();
        let task_id = self.tasks.watch(job, about);
        Ok(Output { task_id, timeout_ms }.into())
    }

    fn to_content(&self, output: &Output) -> Content {
        Content::text(format!(
            "Watching as {id} for up to {} s. Its events reach you by themselves; TaskStop {id} ends it.",
            output.timeout_ms / 1_000,
            id = output.task_id,
        ))
    }

    fn classifier_input(&self, input: &Input) -> String {
        self.describe(input)
    }
}
