use std::{path::PathBuf, sync::Arc, time::Duration};

use haft_agent::{AgentSettings, Base, Conversation, Environment, Memory, Prompt, Restored, log::LogFile};
use haft_hooks::{HookCall, HookDefinition, HookEvent, Hooks, Ports};
use haft_model::{Provider, Thinking};
use haft_permission::{Behavior, Destination, Origin, Policy, ShellCommands};
use haft_runtime::{
    Answer, Ask, CallSession, Gate, Pipeline, Pool, ResultStore, SessionHooks, SessionState, SharedPool,
    StoreLimits, ToolSearch,
};
use haft_tool::{DynTool, erase};
use haft_types::{PermissionMode, SessionId};
use serde_json::Value;

use super::{
    Agent, Asked, HookReply,
    closures::{AskClosure, hook},
};

/// What an agent is made of. See [`Agent::builder`].
pub struct AgentBuilder {
    provider: Arc<dyn Provider>,
    settings: AgentSettings,
    tools: Vec<Arc<dyn DynTool>>,
    cwd: Option<PathBuf>,
    system: Option<String>,
    append: Option<String>,
    rules: Vec<(Behavior, String)>,
    mode: PermissionMode,
    ask: Option<Arc<dyn Ask>>,
    hooks: Vec<HookDefinition>,
    output: Option<Value>,
    log: Option<PathBuf>,
    resume: Option<PathBuf>,
    #[cfg(feature = "tools")]
    built_in: bool,
    #[cfg(feature = "tools")]
    state_dir: Option<PathBuf>,
}

/// Why there is no agent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The working directory is not there.
    #[error("the working directory: {0}")]
    Directory(std::io::Error),
    /// A log cannot be read or written.
    #[error("the session log {path}: {source}")]
    Log {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The output cannot follow this.
    #[error("{0}")]
    OutputSchema(String),
    /// The built-in tools cannot work.
    #[error("the built-in tools: {0}")]
    BuiltIn(String),
    /// A rule makes no sense.
    #[error("the rule {rule}: {problem}")]
    Rule {
        /// Which.
        rule: String,
        /// Why.
        problem: String,
    },
}

/// The model when nobody names one.
const DEFAULT_MODEL: &str = "claude-opus-4-5";

impl AgentBuilder {
    pub(super) fn new(provider: Arc<dyn Provider>) -> Self {
        Self {
            provider,
            settings: AgentSettings::new(DEFAULT_MODEL),
            tools: Vec::new(),
            cwd: None,
            system: None,
            append: None,
            rules: Vec::new(),
            mode: PermissionMode::default(),
            ask: None,
            hooks: Vec::new(),
            output: None,
            log: None,
            resume: None,
            #[cfg(feature = "tools")]
            built_in: false,
            #[cfg(feature = "tools")]
            state_dir: None,
        }
    }

    /// Which model; see the provider for names.
    #[must_use]
    pub fn model(mut self, model: impl Into<String>) -> Self {
        self.settings.model = model.into();
        self
    }

    /// Which model when that one cannot answer.
    #[must_use]
    pub fn fallback_model(mut self, model: impl Into<String>) -> Self {
        self.settings.fallback_model = Some(model.into());
        self
    }

    /// A tool the model may call.
    #[must_use]
    pub fn tool(mut self, tool: Arc<dyn DynTool>) -> Self {
        self.tools.push(tool);
        self
    }

    /// Tools the model may call.
    #[must_use]
    pub fn tools(mut self, tools: impl IntoIterator<Item = Arc<dyn DynTool>>) -> Self {
        self.tools.extend(tools);
        self
    }

    /// The tools the program `haft` has: files, commands, search.
    #[cfg(feature = "tools")]
    #[must_use]
    pub fn built_in_tools(mut self) -> Self {
        self.built_in = true;
        self
    }

    /// Where the built-in tools keep what they need to undo changes, and the
    /// output of commands; `~/.haft`, as the program has it, when nobody says.
    #[cfg(feature = "tools")]
    #[must_use]
    pub fn state_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.state_dir = Some(dir.into());
        self
    }

    /// Where it works; the current directory when nobody says.
    #[must_use]
    pub fn cwd(mut self, dir: impl Into<PathBuf>) -> Self {
        self.cwd = Some(dir.into());
        self
    }

    /// Replaces the system prompt.
    #[must_use]
    pub fn system_prompt(mut self, text: impl Into<String>) -> Self {
        self.system = Some(text.into());
        self
    }

    /// Adds to the system prompt.
    #[must_use]
    pub fn append_system_prompt(mut self, text: impl Into<String>) -> Self {
        self.append = Some(text.into());
        self
    }

    /// Calls that match this rule need no question: `Read`, `Bash(git log *)`.
    #[must_use]
    pub fn allow(mut self, rule: impl Into<String>) -> Self {
        self.rules.push((Behavior::Allow, rule.into()));
        self
    }

    /// Calls that match this rule are refused, whatever else is said.
    #[must_use]
    pub fn deny(mut self, rule: impl Into<String>) -> Self {
        self.rules.push((Behavior::Deny, rule.into()));
        self
    }

    /// What happens to calls no rule speaks about.
    #[must_use]
    pub fn permission_mode(mut self, mode: PermissionMode) -> Self {
        self.mode = mode;
        self
    }

    /// Who is asked about calls that no rule decides. Without this they are
    /// denied.
    #[must_use]
    pub fn ask<F, A>(mut self, answer: F) -> Self
    where
        F: Fn(Asked) -> A + Send + Sync + 'static,
        A: Future<Output = Answer> + Send + 'static,
    {
        self.ask = Some(Arc::new(AskClosure(answer)));
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
        self.hooks.push(hook(event, matcher, self.hooks.len(), code));
        self
    }

    /// Requests to the model per prompt, at most.
    #[must_use]
    pub fn max_turns(mut self, turns: u32) -> Self {
        self.settings.limits.max_turns = Some(turns);
        self
    }

    /// Dollars at most, where prices are known.
    #[must_use]
    pub fn max_usd(mut self, usd: f64) -> Self {
        self.settings.limits.max_usd = Some(usd);
        self
    }

    /// Tokens at most, cached ones included.
    #[must_use]
    pub fn max_tokens(mut self, tokens: u64) -> Self {
        self.settings.limits.max_tokens = Some(tokens);
        self
    }

    /// Time per prompt, at most.
    #[must_use]
    pub fn max_time(mut self, time: Duration) -> Self {
        self.settings.limits.max_time = Some(time);
        self
    }

    /// Whether and how the model thinks.
    #[must_use]
    pub fn thinking(mut self, thinking: Thinking) -> Self {
        self.settings.thinking = thinking;
        self
    }

    /// A prompt must end in output that follows this JSON Schema; it is in
    /// [`TurnEnd::structured_output`](haft_agent::TurnEnd::structured_output).
    #[must_use]
    pub fn output_schema(mut self, schema: Value) -> Self {
        self.output = Some(schema);
        self
    }

    /// Keeps the session in this file.
    #[must_use]
    pub fn log(mut self, path: impl Into<PathBuf>) -> Self {
        self.log = Some(path.into());
        self
    }

    /// Goes on from the session in this file, and keeps it there.
    #[must_use]
    pub fn resume(mut self, path: impl Into<PathBuf>) -> Self {
        self.resume = Some(path.into());
        self
    }

    /// Puts it together.
    pub fn build(self) -> Result<Agent, BuildError> {
        let cwd = match &self.cwd {
            Some(dir) => dir.canonicalize().map_err(BuildError::Directory)?,
            None => std::env::current_dir().map_err(BuildError::Directory)?,
        };
        let session_id = SessionId::from(uuid::Uuid::new_v4().to_string());
        let gate = self.gate(&cwd, &session_id)?;
        let (conversation, mut restored) = self.conversation(&session_id, &cwd)?;
        #[cfg_attr(not(feature = "tools"), expect(unused_mut, reason = "nothing is added"))]
        let mut tools = self.tools.clone();
        #[cfg(feature = "tools")]
        let built_in = self.built_in(&cwd, &session_id, conversation.held())?;
        #[cfg(feature = "tools")]
        if let Some(built_in) = &built_in {
            built_in.restore_seen(&restored);
            tools.splice(0..0, built_in.tools().iter().cloned());
        }
        let session = session(gate, tools, &session_id, &cwd);
        let prompt = Prompt {
            base: self.system.map_or(Base::Haft, Base::Replaced),
            environment: Environment::of(&cwd),
            memory: Memory::default(),
            deferred_tools: Vec::new(),
            append: self.append,
            servers: std::collections::BTreeMap::new(),
            starting: Vec::new(),
        };
        let (mut inner, events) =
            haft_agent::Agent::new(self.provider, session, conversation, self.settings, prompt);
        inner.restore_spending(restored.usage, restored.usd);
        inner.tools.state.apply(&restored.changes);
        inner.restore_requests(&mut restored);
        inner.restore_kept(restored.kept);
        if let Some(schema) = self.output {
            inner.require_output(schema).map_err(BuildError::OutputSchema)?;
        }
        Ok(Agent {
            inner,
            events,
            #[cfg(feature = "tools")]
            _built_in: built_in,
        })
    }

    #[cfg(feature = "tools")]
    fn built_in(
        &self,
        cwd: &std::path::Path,
        session_id: &SessionId,
        held: haft_agent::Held,
    ) -> Result<Option<crate::BuiltIn>, BuildError> {
        if !self.built_in {
            return Ok(None);
        }
        let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
        let of_home = || home.map_or_else(|| std::env::temp_dir().join("haft"), |home| home.join(".haft"));
        let state_dir = self.state_dir.clone().unwrap_or_else(of_home);
        let built_in = crate::BuiltIn::open(cwd, &state_dir, session_id, held);
        built_in.map(Some).map_err(BuildError::BuiltIn)
    }

    fn gate(&self, cwd: &std::path::Path, session_id: &SessionId) -> Result<Gate, BuildError> {
        let origin = Origin::new("the program", Destination::Session).rooted(cwd);
        let mut policy = Policy::builder(cwd).mode(self.mode).commands(Arc::new(ShellCommands));
        for (behavior, rule) in &self.rules {
            policy = policy.rules(&origin, *behavior, [rule.clone()]);
        }
        let policy = policy.build();
        if let Some(warning) = policy.warnings().first() {
            return Err(BuildError::Rule {
                rule: warning.rule.text.to_string(),
                problem: warning.message.clone(),
            });
        }
        let hooks = Hooks::new(self.hooks.clone(), Ports::default());
        let log = self.log.clone().or_else(|| self.resume.clone()).unwrap_or_default();
        let gate = Gate::new(policy).with_hooks(SessionHooks::new(hooks, session_id.clone(), log));
        Ok(match &self.ask {
            Some(ask) => gate.with_ask(Arc::clone(ask)),
            None => gate,
        })
    }

    fn conversation(
        &self,
        session_id: &SessionId,
        cwd: &std::path::Path,
    ) -> Result<(Conversation, Restored), BuildError> {
        let failed = |path: &PathBuf| {
            let path = path.clone();
            move |source| BuildError::Log { path, source }
        };
        let (mut conversation, restored) = match &self.resume {
            Some(path) => Conversation::resume(session_id.clone(), cwd, path, None).map_err(failed(path))?,
            None => (Conversation::new(session_id.clone(), cwd, None), Restored::default()),
        };
        if let Some(path) = self.log.as_ref().or(self.resume.as_ref()) {
            conversation.set_log(LogFile::open(path).map_err(failed(path))?);
            conversation.mask(haft_agent::Masker::of_env(std::env::vars()));
        }
        Ok((conversation, restored))
    }
}

/// What runs the calls.
fn session(
    gate: Gate,
    tools: Vec<Arc<dyn DynTool>>,
    session_id: &SessionId,
    cwd: &std::path::Path,
) -> CallSession {
    let results = std::env::temp_dir().join("haft").join(session_id.as_str()).join("tool-results");
    let pool = SharedPool::new(Pool::assemble(Vec::new(), Vec::new()));
    let deferred = tools.iter().any(|tool| tool.spec().exposure == haft_tool::Exposure::Deferred);
    let search = deferred.then(|| erase(ToolSearch::new(pool.clone())));
    pool.set(Pool::assemble(tools.into_iter().chain(search).collect(), Vec::new()));
    let pipeline = Pipeline::new(gate, ResultStore::new(results, StoreLimits::default()));
    CallSession::new(Arc::new(pipeline), pool, SessionState::new(cwd.to_owned()))
}
