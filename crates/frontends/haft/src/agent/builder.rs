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

/// Builds an [`Agent`]; see [`Agent::builder`].
///
/// The builder fills a [`SessionSpec`]. [`AgentBuilder::spec`] returns it, for settings without a method
/// here.
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

    /// Sets the model, by a name the provider knows.
    #[must_use]
    pub fn model(mut self, model: impl Into<String>) -> Self {
        self.model.model = Some(model.into());
        self
    }

    /// Sets the model to use when the first one is overloaded or unavailable.
    #[must_use]
    pub fn fallback_model(mut self, model: impl Into<String>) -> Self {
        self.model.fallback = Some(model.into());
        self
    }

    /// Adds a tool.
    #[must_use]
    pub fn tool(mut self, tool: Arc<dyn DynTool>) -> Self {
        self.spec.tools.own.push(tool);
        self
    }

    /// Adds tools.
    #[must_use]
    pub fn tools(mut self, tools: impl IntoIterator<Item = Arc<dyn DynTool>>) -> Self {
        self.spec.tools.own.extend(tools);
        self
    }

    /// Adds the built-in tools of the `haft` program: files, commands, search. File changes are recorded
    /// in a journal in the state directory, so that `haft undo` can revert them.
    #[must_use]
    pub fn built_in_tools(mut self) -> Self {
        self.spec.tools.built_in = true;
        self
    }

    /// Sets the directory of undo journals and command output. Default: `~/.haft`, like the program.
    #[must_use]
    pub fn state_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.spec.place.state_dir = Some(dir.into());
        self
    }

    /// Adds a tool host, a remote machine for files and commands (`NAME=ssh://user@box/dir`,
    /// `NAME=https://box/`). Can be called several times; the first host is the default.
    #[must_use]
    pub fn host(mut self, host: impl Into<String>) -> Self {
        self.spec.hosts.named.push(host.into());
        self
    }

    /// Sets the working directory. Default: the current directory.
    #[must_use]
    pub fn cwd(mut self, dir: impl Into<PathBuf>) -> Self {
        self.cwd = Some(dir.into());
        self
    }

    /// Sets the environment variables, including `HOME`. Default: those of the process.
    #[must_use]
    pub fn variables(mut self, variables: EnvVars) -> Self {
        self.spec.place.variables = variables;
        self
    }

    /// Reads the settings files of these layers, with their rules, hooks, servers, skills and memory. By
    /// default only managed settings apply. What a project's files allow or run also needs `haft trust`
    /// or [`Self::trust_project`].
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

    /// Trusts the project: hooks, servers, variables, directories and allow rules of its own files apply
    /// although the user has not run `haft trust`. Use it only for directories whose content this
    /// program controls.
    #[must_use]
    pub fn trust_project(mut self) -> Self {
        self.spec.settings.trusts_project = true;
        self
    }

    /// Adds MCP servers: JSON text, or the path of a JSON file.
    #[must_use]
    pub fn mcp_config(mut self, config: impl Into<String>) -> Self {
        self.spec.servers.configs.push(config.into());
        self.spec.servers.start = ServerStart::FirstPrompt;
        self
    }

    /// Adds a plugin directory.
    #[must_use]
    pub fn plugin(mut self, dir: impl Into<PathBuf>) -> Self {
        self.spec.extensions.plugins.push(PluginDir { path: dir.into(), with_servers: true });
        self
    }

    /// Sends prompts unchanged, even if they look like slash commands.
    #[must_use]
    pub fn without_commands(mut self) -> Self {
        self.spec.extensions.slash_commands = false;
        self
    }

    /// Replaces the default system prompt.
    #[must_use]
    pub fn system_prompt(mut self, text: impl Into<String>) -> Self {
        self.model.system_prompt = Some(text.into());
        self
    }

    /// Appends to the system prompt.
    #[must_use]
    pub fn append_system_prompt(mut self, text: impl Into<String>) -> Self {
        self.model.append_system_prompt = Some(text.into());
        self
    }

    /// Adds an allow rule, such as `Read` or `Bash(git log *)`: matching calls run without a prompt.
    #[must_use]
    pub fn allow(mut self, rule: impl Into<String>) -> Self {
        self.spec.permissions.allow.push(rule.into());
        self
    }

    /// Adds a deny rule: matching calls are refused, whatever other rules say.
    #[must_use]
    pub fn deny(mut self, rule: impl Into<String>) -> Self {
        self.spec.permissions.deny.push(rule.into());
        self
    }

    /// Sets the permission mode: what happens to calls that no rule matches.
    #[must_use]
    pub fn permission_mode(mut self, mode: PermissionMode) -> Self {
        self.spec.permissions.mode = Some(mode);
        self
    }

    /// Sets the callback for permission questions. Without it, calls that would ask are denied.
    #[must_use]
    pub fn ask<F, A>(mut self, answer: F) -> Self
    where
        F: Fn(Arc<PermissionQuestion>) -> A + Send + Sync + 'static,
        A: Future<Output = PermissionAnswer> + Send + 'static,
    {
        self.spec.asking = ApproverSpec::Port(Arc::new(ClosureApprover(answer)));
        self
    }

    /// Adds a hook. `matcher` selects what it runs for (`Edit|Write`, a regular expression, or `*` for
    /// everything). A hook that panics or times out counts as failed; before a call, that blocks the
    /// call.
    #[must_use]
    pub fn hook<F, A>(mut self, event: HookEvent, matcher: &str, code: F) -> Self
    where
        F: Fn(HookCall) -> A + Send + Sync + 'static,
        A: Future<Output = HookReply> + Send + 'static,
    {
        self.spec.hooks.push(hook(event, matcher, self.spec.hooks.len(), code));
        self
    }

    /// Limits the number of model requests per prompt.
    #[must_use]
    pub fn max_turns(mut self, turns: u32) -> Self {
        self.model.limits.max_turns = Some(turns);
        self
    }

    /// Limits the cost of the session in US dollars. Models without a known price are not counted.
    #[must_use]
    pub fn max_usd(mut self, usd: f64) -> Self {
        self.model.limits.max_usd = Some(usd);
        self
    }

    /// Limits the number of tokens of the session, including cached ones.
    #[must_use]
    pub fn max_tokens(mut self, tokens: u64) -> Self {
        self.model.limits.max_tokens = Some(tokens);
        self
    }

    /// Limits the duration of each prompt.
    #[must_use]
    pub fn max_time(mut self, time: Duration) -> Self {
        self.model.limits.max_time = Some(time);
        self
    }

    /// Sets the thinking mode of the model.
    #[must_use]
    pub fn thinking(mut self, thinking: Thinking) -> Self {
        self.model.thinking = thinking;
        self
    }

    /// Requires that every prompt ends with output that matches this JSON Schema. The output is in
    /// [`TurnEnd::structured_output`](haft_agent::TurnEnd::structured_output).
    #[must_use]
    pub fn output_schema(mut self, schema: Value) -> Self {
        self.model.output_schema = Some(schema);
        self
    }

    /// Writes the session's log to this file.
    #[must_use]
    pub fn log(mut self, path: impl Into<PathBuf>) -> Self {
        self.spec.log.kept = LogDestination::File(path.into());
        self
    }

    /// Resumes the session in this log file, and appends to it unless [`AgentBuilder::log`] names
    /// another file.
    #[must_use]
    pub fn resume(mut self, path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        if self.spec.log.kept == LogDestination::Nowhere {
            self.spec.log.kept = LogDestination::File(path.clone());
        }
        self.spec.log.start = LogStart::File(path);
        self
    }

    /// Returns the session spec, for settings without a method here.
    pub fn spec(self) -> Result<SessionSpec, BuildError> {
        let mut spec = self.spec;
        spec.place.cwd = match self.cwd {
            Some(dir) => dir.canonicalize().map_err(BuildError::Directory)?,
            None => std::env::current_dir().map_err(BuildError::Directory)?,
        };
        spec.model = Some(self.model);
        Ok(spec)
    }

    /// Opens the session. Must be called inside a tokio runtime.
    pub fn build(self) -> Result<Agent, BuildError> {
        Agent::of(self.spec()?)
    }
}

/// The Config tool, which is left out because no settings files are read.
const WITHOUT_SETTINGS: &str = haft_session::SETTINGS_TOOL;

/// The default spec of embedding programs: only the given tools, only managed settings, no log, no
/// approver.
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
