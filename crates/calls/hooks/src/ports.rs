//! Interfaces to the rest of Haft.

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

/// An event passed to handlers. Cheap to clone.
#[derive(Clone, Debug)]
pub struct HookCall {
    /// The typed input.
    pub input: Arc<HookInput>,
    /// The input as JSON, as handlers get it.
    pub json: Arc<Value>,
    /// The serialised JSON.
    pub bytes: Bytes,
}

impl HookCall {
    pub(crate) fn new(input: &HookInput) -> Self {
        let json = input.to_json();
        let bytes = Bytes::from(json.to_string());
        Self { input: Arc::new(input.clone()), json: Arc::new(json), bytes }
    }

    pub fn event(&self) -> HookEvent {
        self.input.event.event()
    }
}

/// Answer of a callback.
#[derive(Clone, Debug)]
pub enum CallbackAnswer {
    /// JSON, parsed like the answer of a command.
    Json(Value),
    /// A typed answer.
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

/// A hook implemented in this process. Hooks of the Agent SDK are callbacks that forward the input to
/// the embedding program.
///
/// The future is dropped at the hook's timeout. An error or panic is a failure of the hook, never a
/// denial.
pub trait HookCallback: Send + Sync + 'static {
    /// Handles one event.
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

/// Runs handlers that need a model or an MCP server.
pub trait ExternalHandlers: Send + Sync + 'static {
    /// Runs a handler and returns its answer as JSON. A JSON string is parsed like the output of a
    /// command.
    fn run<'a>(
        &'a self,
        handler: &'a ExternalHandler,
        call: &'a HookCall,
    ) -> BoxFuture<'a, Result<Value, HookFailure>>;
}

/// Stores texts that are too long to pass on.
pub trait TextStore: Send + Sync + 'static {
    /// Stores a text and returns the file; `None` on failure.
    fn keep(&self, hook: &HookId, text: &str) -> Option<PathBuf>;
}

/// Decides whether a permission rule matches the call of an event.
pub type RuleMatcher<'a> = dyn Fn(&str) -> bool + Send + Sync + 'a;

/// Gets progress events. Called by the task that runs the hooks; must not block.
pub trait HookObserver: Send + Sync + 'static {
    /// A handler starts.
    fn started(&self, _start: &HookStart<'_>) {}
    /// A foreground handler is done.
    fn finished(&self, _report: &HookReport) {}
    /// A background handler is done. `rewake` is a text for the model, if the hook requested it.
    fn finished_in_background(&self, _report: &HookReport, _rewake: Option<&str>) {}
}

/// Description of a starting handler.
#[derive(Clone, Copy, Debug)]
pub struct HookStart<'a> {
    pub id: &'a HookId,
    pub event: HookEvent,
    /// Subject for matchers, such as the tool's name.
    pub subject: Option<&'a str>,
    /// Status text for the user.
    pub status_message: Option<&'a str>,
}

/// Restrictions for HTTP hooks.
#[derive(Clone, Debug, Default)]
pub struct HttpPolicy {
    /// Allowed URLs, with `*` as wildcard; `None` allows all.
    pub allowed_urls: Option<Vec<String>>,
    /// Variables allowed in headers; `None` allows those the hook names.
    pub allowed_env_vars: Option<Vec<String>>,
}

/// Environment of hook processes.
#[derive(Clone, Debug, Default)]
pub struct HookEnvironment {
    /// Variables to inherit; `None` for those of this process.
    pub inherited: Option<EnvVars>,
    /// Project directory passed to hooks.
    pub project_dir: PathBuf,
    /// File to which a hook may write `export` lines for later commands.
    pub env_file: Option<PathBuf>,
    /// Additional variables, which override inherited ones.
    pub set: Vec<(String, String)>,
    /// Inherited variables to remove.
    pub remove: Vec<String>,
}

impl HookEnvironment {
    /// Complete environment of one run; `own` are the hook's variables.
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

/// Dependencies of the engine. All are optional except the environment.
#[derive(Clone, Default)]
pub struct HookPorts {
    /// Environment of hook processes.
    pub environment: HookEnvironment,
    /// Owner of the session's processes. The default one keeps no registry.
    pub processes: Arc<ProcessOwner>,
    /// Restrictions for HTTP hooks.
    pub http: HttpPolicy,
    /// Runs MCP tools, prompts and agents. Without it such hooks fail.
    pub external: Option<Arc<dyn ExternalHandlers>>,
    /// Stores long texts. Without it they are truncated.
    pub keep_text: Option<Arc<dyn TextStore>>,
    /// Gets progress events.
    pub observer: Option<Arc<dyn HookObserver>>,
    /// The user's settings file, named in messages about disabling a hook.
    pub user_settings: Option<PathBuf>,
    /// Whether a command that cannot start, crashes, or exits with a status other than 0 and 2 blocks
    /// where its event blocks on failure. By default only status 2 blocks, as authors of hooks expect,
    /// unless the definition sets `"on_error": "closed"`.
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

/// Working directory of a hook: the session's, or a fallback if it no longer exists.
pub(crate) fn working_directory<'a>(call: &'a HookCall, environment: &'a HookEnvironment) -> &'a Path {
    let candidates = [call.input.base.cwd.as_path(), environment.project_dir.as_path()];
    candidates.into_iter().find(|path| path.is_dir()).unwrap_or(Path::new("/"))
}
