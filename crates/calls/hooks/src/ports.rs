//! What this crate asks of the rest of Haft.

use std::{
    ffi::OsString,
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use haft_process::ProcessOwner;
use haft_types::EnvVars;
use serde_json::Value;

use crate::{ExternalHandler, HookEvent, HookFailure, HookId, HookInput, HookOutput, HookReport};

/// One event on its way to its handlers. Cheap to clone.
#[derive(Clone, Debug)]
pub struct HookCall {
    /// The input, typed.
    pub input: Arc<HookInput>,
    /// The input as handlers receive it.
    pub json: Arc<Value>,
    /// The same as bytes.
    pub bytes: Bytes,
}

impl HookCall {
    pub(crate) fn new(input: &HookInput) -> Self {
        let json = input.to_json();
        let bytes = Bytes::from(json.to_string());
        Self { input: Arc::new(input.clone()), json: Arc::new(json), bytes }
    }

    /// Which event this is.
    pub fn event(&self) -> HookEvent {
        self.input.event.event()
    }
}

/// What a callback answers: JSON from somewhere else, or a typed answer.
#[derive(Clone, Debug)]
pub enum CallbackAnswer {
    /// To be read like the answer of a command.
    Json(Value),
    /// Ready to use.
    Typed(Box<HookOutput>),
}

impl From<Value> for CallbackAnswer {
    fn from(json: Value) -> Self {
        Self::Json(json)
    }
}

impl From<HookOutput> for CallbackAnswer {
    fn from(output: HookOutput) -> Self {
        Self::Typed(Box::new(output))
    }
}

/// A hook that is code of this process. The Agent SDK's hooks are such
/// callbacks: they forward the input to the embedder and await its answer.
///
/// The future is dropped when the hook's time is up. An error, like a panic,
/// means that the hook could not run; it is never a no.
pub trait HookCallback: Send + Sync + 'static {
    /// Answers one event.
    fn call(&self, call: HookCall) -> BoxFuture<'_, Result<CallbackAnswer, String>>;
}

impl<F, A> HookCallback for F
where
    F: Fn(HookCall) -> A + Send + Sync + 'static,
    A: Future<Output = Result<CallbackAnswer, String>> + Send + 'static,
{
    fn call(&self, call: HookCall) -> BoxFuture<'_, Result<CallbackAnswer, String>> {
        Box::pin(self(call))
    }
}

/// Runs the handlers that need a model or an MCP server.
pub trait ExternalHandlers: Send + Sync + 'static {
    /// Runs one, and returns its answer as JSON. A text is read like the output
    /// of a command.
    fn run<'a>(
        &'a self,
        handler: &'a ExternalHandler,
        call: &'a HookCall,
    ) -> BoxFuture<'a, Result<Value, HookFailure>>;
}

/// Keeps the full text of what is too long to hand on.
pub trait TextStore: Send + Sync + 'static {
    /// Stores the text and says where, or that it could not be stored.
    fn keep(&self, hook: &HookId, text: &str) -> Option<PathBuf>;
}

/// Whether a permission rule is about the call of an event.
pub type RuleMatcher<'a> = dyn Fn(&str) -> bool + Send + Sync + 'a;

/// Is told what happens while it happens. Calls come from the task that runs
/// the hooks and must not block.
pub trait HookObserver: Send + Sync + 'static {
    /// A handler starts.
    fn started(&self, _start: &HookStart<'_>) {}
    /// A handler that was waited for is done.
    fn finished(&self, _report: &HookReport) {}
    /// A handler nobody waited for is done. `rewake` is what the model should
    /// be told, if the hook asked for that.
    fn finished_in_background(&self, _report: &HookReport, _rewake: Option<&str>) {}
}

/// A handler that starts.
#[derive(Clone, Copy, Debug)]
pub struct HookStart<'a> {
    /// Which hook.
    pub id: &'a HookId,
    /// At which event.
    pub event: HookEvent,
    /// What matchers looked at: the tool's name, for instance.
    pub subject: Option<&'a str>,
    /// What the person should see meanwhile.
    pub status_message: Option<&'a str>,
}

/// Which servers may be asked, and what they may be told.
#[derive(Clone, Debug, Default)]
pub struct HttpPolicy {
    /// Addresses, with `*` for any text; none means any address.
    pub allowed_urls: Option<Vec<String>>,
    /// Variables that may be put into headers; none means those the hook names.
    pub allowed_env_vars: Option<Vec<String>>,
}

/// The environment of a hook's process.
#[derive(Clone, Debug, Default)]
pub struct HookEnvironment {
    /// The variables hooks inherit; those of this process when nobody says.
    pub inherited: Option<EnvVars>,
    /// The project, as hooks know it.
    pub project_dir: PathBuf,
    /// Where a hook may write `export` lines for later commands.
    pub env_file: Option<PathBuf>,
    /// More variables; they win over inherited ones.
    pub set: Vec<(String, String)>,
    /// Inherited variables hooks must not see.
    pub remove: Vec<String>,
}

impl HookEnvironment {
    /// The whole environment for one call of a hook with variables of its own.
    pub(crate) fn variables(&self, call: &HookCall, own: &[(String, String)]) -> Vec<(OsString, OsString)> {
        let keep = |name: &OsString| {
            let name = name.to_string_lossy();
            !self.remove.iter().any(|it| *it == name)
        };
        let inherited = self.inherited.clone().unwrap_or_else(EnvVars::of_process);
        let inherited = inherited.inherited().map(|(name, value)| (name.to_owned(), value.to_owned()));
        let mut all: Vec<_> = inherited.filter(|(name, _)| keep(name)).collect();
        all.extend(self.set.iter().chain(own).map(|(name, value)| (name.into(), value.into())));
        let mut add = |names: &[&str], value: OsString| {
            all.extend(names.iter().map(|name| (OsString::from(name), value.clone())));
        };
        let base = &call.input.base;
        add(&["CLAUDE_PROJECT_DIR", "HAFT_PROJECT_DIR"], self.project_dir.clone().into());
        add(&["CLAUDE_CODE_SESSION_ID", "HAFT_SESSION_ID"], base.session_id.as_str().into());
        add(&["CLAUDE_PID", "HAFT_PID"], std::process::id().to_string().into());
        add(&["CLAUDECODE", "HAFT"], "1".into());
        if let Some(effort) = &base.effort {
            add(&["CLAUDE_EFFORT", "HAFT_EFFORT"], effort.level.clone().into());
        }
        if let Some(file) = self.env_file.as_deref().filter(|_| takes_env_file(call.event())) {
            add(&["CLAUDE_ENV_FILE", "HAFT_ENV_FILE"], file.into());
        }
        all
    }
}

fn takes_env_file(event: HookEvent) -> bool {
    matches!(
        event,
        HookEvent::SessionStart | HookEvent::Setup | HookEvent::CwdChanged | HookEvent::FileChanged
    )
}

/// Everything the engine needs from outside. All of it is optional but the
/// environment.
#[derive(Clone, Default)]
pub struct HookPorts {
    /// The environment of hooks' processes.
    pub environment: HookEnvironment,
    /// Owns the processes of the session. The default owner lists them nowhere.
    pub processes: Arc<ProcessOwner>,
    /// Limits for HTTP hooks.
    pub http: HttpPolicy,
    /// Runs MCP tools, prompts and agents. Without it they fail.
    pub external: Option<Arc<dyn ExternalHandlers>>,
    /// Keeps long texts. Without it they are cut.
    pub keep_text: Option<Arc<dyn TextStore>>,
    /// Is told what happens.
    pub observer: Option<Arc<dyn HookObserver>>,
    /// The settings file in which a person can disable a hook.
    pub user_settings: Option<PathBuf>,
    /// Whether a command that cannot be started, crashes or ends with a status other
    /// than 0 and 2 closes what its event closes. Otherwise only status 2 blocks, as
    /// authors of hooks expect, unless a definition says `"on_error": "closed"`.
    pub strict_commands: bool,
}

impl fmt::Debug for HookPorts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ports")
            .field("environment", &self.environment)
            .field("http", &self.http)
            .finish_non_exhaustive()
    }
}

/// The directory a hook runs in: the session's, unless it is gone.
pub(crate) fn working_directory<'a>(call: &'a HookCall, environment: &'a HookEnvironment) -> &'a Path {
    let candidates = [call.input.base.cwd.as_path(), environment.project_dir.as_path()];
    candidates.into_iter().find(|path| path.is_dir()).unwrap_or(Path::new("/"))
}
