//! Starts sub-agents.

mod child_identity;
mod report_text;
mod spawn_port;

use std::sync::Arc;

use haft_tool::{
    Access, AccessSet, CallContext, Content, Outcome, Rendered, Stage, Tool, ToolContext, ToolError, Traits,
    Verdict,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use child_identity::ChildIdentity;
pub use report_text::{flat, harmless, indented, report_text};
pub use spawn_port::{
    AgentKindSummary, AgentReport, AgentStatus, KilledBy, NoSubagents, SubagentDenial, SubagentOutcome,
    SubagentRequest, SubagentSpawner,
};

/// The agent kind used when a call names none.
pub const USUAL_KIND: &str = "general-purpose";

/// Starts another agent on a piece of work of its own and gives you its report. It sees nothing of
/// this conversation: put everything it needs into `prompt`, and say what the report must contain.
/// It never has more rights than you. Its report is the work of a model: check what matters. Several
/// calls in one message run side by side. In the background (the default for you unless
/// `run_in_background` is false) the call returns at once and the report comes by itself: do not
/// wait, sleep or poll for it.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// What it does, in three to five words.
    pub description: String,
    /// The whole task.
    #[schemars(length(min = 1))]
    pub prompt: String,
    /// Which kind of agent, from the list above; general-purpose unless given; `fork` goes on from this conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subagent_type: Option<String>,
    /// Another model: sonnet, opus, haiku, or the name of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How hard it tries: low, medium, high, xhigh or max.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
    /// false to wait for the report; true to go on meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_in_background: Option<bool>,
    /// A name to reach it by: letters, digits, `-` and `_`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub name: Option<String>,
    /// `worktree`: it works in a git worktree of its own, apart from what others change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation: Option<String>,
    /// Ignored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub team_name: Option<String>,
    /// Ignored: its definition and your own mode decide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
}

/// The result of starting an agent.
#[derive(Clone, Debug)]
pub enum Output {
    /// The agent has ended; its report.
    Report(Arc<AgentReport>),
    /// The agent is running in the background.
    Launched(Arc<ChildIdentity>),
}

impl Serialize for Output {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Report(report) => report.to_json().serialize(serializer),
            Self::Launched(launched) => launched.launched_json().serialize(serializer),
        }
    }
}

pub struct Agent {
    spawner: Arc<dyn SubagentSpawner>,
    kinds: String,
}

impl Agent {
    /// Creates the tool. The list of agent kinds in its description is fixed at this point, so that it
    /// stays the same for the whole session.
    pub fn new(spawner: Arc<dyn SubagentSpawner>) -> Self {
        let mut kinds = String::from("\nKinds:");
        for kind in spawner.kinds() {
            let about = flat(&kind.description, 600);
            kinds.push_str(&format!("\n- {}: {about} (tools: {})", kind.name, kind.tools));
        }
        Self { spawner, kinds }
    }
}

impl Tool for Agent {
    type Input = Input;
    type Output = Output;
    type Progress = ();
    const NAME: &'static str = "Agent";

    fn traits(&self) -> Traits {
        Traits {
            aliases: &["Task", "agent"],
            search_hint: "start agent subagent delegate task",
            timeout: None,
            ..Traits::default()
        }
    }

    fn is_enabled(&self) -> bool {
        self.spawner.is_available()
    }

    fn prompt(&self, doc: String) -> String {
        doc + &self.kinds
    }

    /// Agents run concurrently; each has its own log and conversation.
    fn is_concurrency_safe(&self, _input: &Input) -> bool {
        true
    }

    /// Permission rules match agent kinds, however a call spells them.
    fn canonicalize(&self, input: &mut Input, _cx: &CallContext) {
        let written = input.subagent_type.as_deref().map(str::trim).filter(|it| !it.is_empty());
        let kind = written.unwrap_or(USUAL_KIND);
        input.subagent_type = Some(self.spawner.canonical(kind).unwrap_or_else(|| kind.to_owned()));
    }

    fn reach(&self, input: &Input, _cx: &CallContext) -> AccessSet {
        AccessSet::Declared(vec![Access::Named(input.kind().to_owned())])
    }

    fn validate(&self, input: &Input, _cx: &CallContext) -> Result<(), ToolError> {
        if input.prompt.trim().is_empty() {
            return Err(ToolError::invalid("prompt is empty: say what the agent is to do"));
        }
        let fits = |it: char| it.is_ascii_alphanumeric() || it == '-' || it == '_';
        if let Some(name) = &input.name
            && !(name.starts_with(|it: char| it.is_ascii_alphanumeric()) && name.chars().all(fits))
        {
            return Err(ToolError::invalid(format!(
                "the name {name:?} does not fit: letters, digits, - and _, beginning with a letter or digit"
            )));
        }
        match input.isolation.as_deref() {
            None | Some("worktree") => Ok(()),
            Some("remote") => Err(ToolError::invalid(
                "isolation remote is not there: agents run on this machine; leave it out or use worktree",
            )),
            Some(other) => Err(ToolError::invalid(format!(
                "isolation {other:?} is not known; use worktree or leave it out"
            ))),
        }
    }

    /// The agent's own calls are judged when it makes them; it has at most the rights of its caller.
    fn check_permissions(&self, _input: &Input, _cx: &CallContext) -> Verdict {
        Verdict::Allow
    }

    fn describe(&self, input: &Input) -> String {
        format!("Start the agent {}: {}", input.kind(), input.description)
    }

    async fn call(&self, input: Input, cx: &ToolContext<()>) -> Result<Outcome<Output>, ToolError> {
        let order = SubagentRequest {
            kind: input.kind().to_owned(),
            description: input.description,
            prompt: input.prompt,
            model: input.model.filter(|it| !it.trim().is_empty()),
            effort: input.effort.filter(|it| !it.trim().is_empty()),
            background: input.run_in_background,
            name: input.name,
            worktree: input.isolation.is_some(),
            ..SubagentRequest::default()
        };
        match self.spawner.spawn(order, cx).await {
            Err(refusal) => Err(ToolError::failed(refusal)),
            Ok(SubagentOutcome::Launched(launched)) => Ok(Output::Launched(launched).into()),
            Ok(SubagentOutcome::Ended(report)) => report_outcome(report),
        }
    }

    fn to_content(&self, output: &Output) -> Content {
        match output {
            Output::Report(report) => Content::text(report_text(report)),
            Output::Launched(launched) => Content::text(launched.launched_text()),
        }
    }

    fn render(&self, stage: Stage<'_, Input, Output>) -> Rendered {
        match stage {
            Stage::Running(input) => Rendered::headline(self.describe(input)),
            Stage::Done(Output::Report(report)) => {
                let mut shown = Rendered::preview(report.text.trim_end());
                shown.headline = report.headline();
                shown
            }
            Stage::Done(Output::Launched(it)) => {
                Rendered::headline(format!("{} {} works in the background", it.kind, it.id))
            }
            Stage::Failed(error) => Rendered::error(&error.message),
        }
    }
}

impl Input {
    fn kind(&self) -> &str {
        self.subagent_type.as_deref().unwrap_or(USUAL_KIND)
    }
}

/// Converts a report to the result of the call. An unsuccessful ending becomes an error that includes
/// the agent's last text.
pub(crate) fn report_outcome(report: Arc<AgentReport>) -> Result<Outcome<Output>, ToolError> {
    match report.status {
        AgentStatus::Completed => Ok(Output::Report(report).into()),
        _ => Err(ToolError::failed(report_text(&report)).with_data(report.to_json())),
    }
}
