use std::{path::PathBuf, sync::Arc, time::Duration};

use haft_agent::LateInputPolicy;
use haft_config::SettingsLayer;
use haft_hooks::{HookCall, HookEvent};
use haft_model::{Provider, Thinking};
use haft_session::{
    ApproverSpec, LocationSpec, LogDestination, LogStart, ModelSpec, PluginDir, ProviderSpec, RuleOrigin,
    ServerStart, SessionSpec,
};
use haft_tool::DynTool;
use haft_tool_runtime::{PermissionAnswer, PermissionQuestion};
use haft_types::{EnvVars, PermissionMode};
use serde_json::Value;

use crate::BuildError;

use super::{
    Agent, HookReply,
    closures::{ClosureApprover, hook},
};

/// What an agent is made of. See [`Agent::builder`].
///
/// It is a [`SessionSpec`] that is filled step by step; [`AgentBuilder::spec`]
/// hands it out for everything that has no method here.
pub struct AgentBuilder {
    spec: SessionSpec,
    model: ModelSpec,
    cwd: Option<PathBuf>,
}

impl AgentBuilder {
    pub(super) fn new(provider: Arc<dyn Provider>) -> Self {
        let mut spec = program_spec(PathBuf::new());
        spec.late_input = LateInputPolicy::GoOn;
        let provider = ProviderSpec::Given { provider, catalog: None };
        Self { spec, model: ModelSpec { provider, ..ModelSpec::default() }, cwd: None }
    }

    /// Which model; see the provider for names.
    #[must_use]
    pub fn model(mut self, model: impl Into<String>) -> Self {
        self.model.model = Some(model.into());
        self
    }

    /// Which model when that one cannot answer.
    #[must_use]
    pub fn fallback_model(mut self, model: impl Into<String>) -> Self {
        self.model.fallback = Some(model.into());
        self
    }

    /// A tool the model may call.
    #[must_use]
    pub fn tool(mut self, tool: Arc<dyn DynTool>) -> Self {
        self.spec.tools.own.push(tool);
        self
    }

    /// Tools the model may call.
    #[must_use]
    pub fn tools(mut self, tools: impl IntoIterator<Item = Arc<dyn DynTool>>) -> Self {
        self.spec.tools.own.extend(tools);
        self
    }

    /// The tools the program `haft` has: files, commands, search. What calls
    /// change is kept in a journal below the state directory, where `haft undo`
    /// finds it.
    #[must_use]
    pub fn built_in_tools(mut self) -> Self {
        self.spec.tools.built_in = true;
        self
    }

    /// Where Haft keeps what it needs to undo changes, and the output of
    /// commands; `~/.haft`, as the program has it, when nobody says.
    #[must_use]
    pub fn state_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.spec.place.state_dir = Some(dir.into());
        self
    }

    /// Works on another machine: files and commands are there
    /// (`NAME=ssh://user@box/dir`, `NAME=https://box/`). Several times for several
    /// machines.
    #[must_use]
    pub fn host(mut self, host: impl Into<String>) -> Self {
        self.spec.hosts.named.push(host.into());
        self
    }

    /// Where it works; the current directory when nobody says.
    #[must_use]
    pub fn cwd(mut self, dir: impl Into<PathBuf>) -> Self {
        self.cwd = Some(dir.into());
        self
    }

    /// The environment variables it sees, `HOME` among them; those of the process
    /// when nobody says.
    #[must_use]
    pub fn variables(mut self, variables: EnvVars) -> Self {
        self.spec.place.variables = variables;
        self
    }

    /// Reads settings files of these layers, with their rules, hooks, servers,
    /// skills and memory. Without this only settings of the organisation count. What a
    /// project's files allow or run needs `haft trust` or [`Self::trust_project`].
    #[must_use]
    pub fn settings(mut self, layers: impl IntoIterator<Item = SettingsLayer>) -> Self {
        let layers: Vec<SettingsLayer> = layers.into_iter().collect();
        if !layers.is_empty() {
            self.spec.permissions.deny.retain(|rule| rule != WITHOUT_SETTINGS);
            self.spec.servers.start = ServerStart::FirstPrompt;
        }
        self.spec.settings.sources = Some(layers);
        self
    }

    /// Answers for the project: what its own files say about hooks, servers, variables,
    /// directories and allow rules counts although the user did not agree to it with
    /// `haft trust`. For directories whose content this program controls.
    #[must_use]
    pub fn trust_project(mut self) -> Self {
        self.spec.settings.trusts_project = true;
        self
    }

    /// MCP servers: the text of a configuration, or the path of a file with one.
    #[must_use]
    pub fn mcp_config(mut self, config: impl Into<String>) -> Self {
        self.spec.servers.configs.push(config.into());
        self.spec.servers.start = ServerStart::FirstPrompt;
        self
    }

    /// The directory of a plugin.
    #[must_use]
    pub fn plugin(mut self, dir: impl Into<PathBuf>) -> Self {
        self.spec.extensions.plugins.push(PluginDir { path: dir.into(), with_servers: true });
        self
    }

    /// Prompts are taken word for word: none of them is a slash command.
    #[must_use]
    pub fn without_commands(mut self) -> Self {
        self.spec.extensions.slash_commands = false;
        self
    }

    /// Replaces the system prompt.
    #[must_use]
    pub fn system_prompt(mut self, text: impl Into<String>) -> Self {
        self.model.system_prompt = Some(text.into());
        self
    }

    /// Adds to the system prompt.
    #[must_use]
    pub fn append_system_prompt(mut self, text: impl Into<String>) -> Self {
        self.model.append_system_prompt = Some(text.into());
        self
    }

    /// Calls that match this rule need no question: `Read`, `Bash(git log *)`.
    #[must_use]
    pub fn allow(mut self, rule: impl Into<String>) -> Self {
        self.spec.permissions.allow.push(rule.into());
        self
    }

    /// Calls that match this rule are refused, whatever else is said.
    #[must_use]
    pub fn deny(mut self, rule: impl Into<String>) -> Self {
        self.spec.permissions.deny.push(rule.into());
        self
    }

    /// What happens to calls no rule speaks about.
    #[must_use]
    pub fn permission_mode(mut self, mode: PermissionMode) -> Self {
        self.spec.permissions.mode = Some(mode);
        self
    }

    /// Who is asked about calls that no rule decides. Without this they are
    /// denied.
    #[must_use]
    pub fn ask<F, A>(mut self, answer: F) -> Self
    where
        F: Fn(Arc<PermissionQuestion>) -> A + Send + Sync + 'static,
        A: Future<Output = PermissionAnswer> + Send + 'static,
    {
        self.spec.asking = ApproverSpec::Port(Arc::new(ClosureApprover(answer)));
        self
    }

    /// Code that hears about an event and may object. `matcher` names what it
    /// is for (`Edit|Write`, a regular expression, `*` for everything). A hook
    /// that panics or takes too long could not run; before a call that means no.
    #[must_use]
    pub fn hook<F, A>(mut self, event: HookEvent, matcher: &str, code: F) -> Self
    where
        F: Fn(HookCall) -> A + Send + Sync + 'static,
        A: Future<Output = HookReply> + Send + 'static,
    {
        self.spec.hooks.push(hook(event, matcher, self.spec.hooks.len(), code));
        self
    }

    /// Requests to the model per prompt, at most.
    #[must_use]
    pub fn max_turns(mut self, turns: u32) -> Self {
        self.model.limits.max_turns = Some(turns);
        self
    }

    /// Dollars at most, where prices are known.
    #[must_use]
    pub fn max_usd(mut self, usd: f64) -> Self {
        self.model.limits.max_usd = Some(usd);
        self
    }

    /// Tokens at most, cached ones included.
    #[must_use]
    pub fn max_tokens(mut self, tokens: u64) -> Self {
        self.model.limits.max_tokens = Some(tokens);
        self
    }

    /// Time per prompt, at most.
    #[must_use]
    pub fn max_time(mut self, time: Duration) -> Self {
        self.model.limits.max_time = Some(time);
        self
    }

    /// Whether and how the model thinks.
    #[must_use]
    pub fn thinking(mut self, thinking: Thinking) -> Self {
        self.model.thinking = thinking;
        self
    }

    /// A prompt must end in output that follows this JSON Schema; it is in
    /// [`TurnEnd::structured_output`](haft_agent::TurnEnd::structured_output).
    #[must_use]
    pub fn output_schema(mut self, schema: Value) -> Self {
        self.model.output_schema = Some(schema);
        self
    }

    /// Keeps the session in this file.
    #[must_use]
    pub fn log(mut self, path: impl Into<PathBuf>) -> Self {
        self.spec.log.kept = LogDestination::File(path.into());
        self
    }

    /// Goes on from the session in this file, and keeps it there unless
    /// [`AgentBuilder::log`] names another.
    #[must_use]
    pub fn resume(mut self, path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        if self.spec.log.kept == LogDestination::Nowhere {
            self.spec.log.kept = LogDestination::File(path.clone());
        }
        self.spec.log.start = LogStart::File(path);
        self
    }

    /// The whole spec, for what has no method here.
    pub fn spec(self) -> Result<SessionSpec, BuildError> {
        let mut spec = self.spec;
        spec.place.cwd = match self.cwd {
            Some(dir) => dir.canonicalize().map_err(BuildError::Directory)?,
            None => std::env::current_dir().map_err(BuildError::Directory)?,
        };
        spec.model = Some(self.model);
        Ok(spec)
    }

    /// Puts it together. Must be called inside a tokio runtime.
    pub fn build(self) -> Result<Agent, BuildError> {
        Agent::of(self.spec()?)
    }
}

/// A tool that is about settings, for agents that have none.
const WITHOUT_SETTINGS: &str = haft_session::SETTINGS_TOOL;

/// What a program gets that says nothing: its own tools, no settings but the
/// organisation's, no log, nobody to ask.
pub(crate) fn program_spec(cwd: PathBuf) -> SessionSpec {
    let mut spec = SessionSpec::new(LocationSpec::new(cwd));
    spec.settings.sources = Some(Vec::new());
    spec.permissions.origin = RuleOrigin::Program;
    spec.permissions.deny.push(WITHOUT_SETTINGS.to_owned());
    spec.tools.built_in = false;
    spec.servers.start = ServerStart::Never;
    spec.log.kept = LogDestination::Nowhere;
    spec
}
