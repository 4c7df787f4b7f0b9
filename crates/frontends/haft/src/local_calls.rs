//! Tool calls without a session: the call pipeline with the rules and hooks of managed settings.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use haft_config::{LoadOptions, LoadedSettings, SettingsPaths, SettingsStore, home_directory, state_dir};
use haft_hooks::{
    EventInput, HookEnvironment, HookInput, HookPorts, Hooks, SessionEnd, SessionSource, SessionStart,
};
use haft_permission::{BashJudge, LivePermissions, Policy};
use haft_settings_rules::{add_boundaries, add_directories, add_rules, link_to, mode};
use haft_tool::{DynTool, Exposure, Tool as _, erase};
use haft_tool_runtime::{
    CallReport, CallSession, CallSessionState, Gate, Pipeline, Pool, ResultStore, SessionHooks, SharedPool,
    StoreLimits, ToolSearch,
};
use haft_types::{EnvVars, SessionId, ToolUse};
use tokio_util::sync::CancellationToken;

use crate::BuildError;

/// Subdirectory of a session's directory for large results.
const TOOL_RESULTS: &str = "tool-results";

/// The call pipeline, and the settings it was built from.
pub(crate) struct LocalCalls {
    session: CallSession,
    place: CallPlace,
    store: SettingsStore,
    loaded: Arc<LoadedSettings>,
    /// Whether the SessionStart hooks have run.
    has_begun: bool,
}

/// Directory and environment variables of calls.
struct CallPlace {
    cwd: PathBuf,
    home: Option<PathBuf>,
    variables: EnvVars,
    results: PathBuf,
}

impl LocalCalls {
    pub(crate) fn open(tools: Vec<Arc<dyn DynTool>>) -> Result<Self, BuildError> {
        let cwd = std::env::current_dir().and_then(|it| it.canonicalize()).map_err(BuildError::Directory)?;
        // Only managed settings apply.
        let options = LoadOptions { layers: Vec::new(), ..LoadOptions::default() };
        Self::open_at(cwd, EnvVars::of_process(), options, tools)
    }

    fn open_at(
        cwd: PathBuf,
        variables: EnvVars,
        options: LoadOptions,
        tools: Vec<Arc<dyn DynTool>>,
    ) -> Result<Self, BuildError> {
        let home = home_directory(variables.os_text("HOME"));
        let paths = SettingsPaths::detect(&cwd, &|name| variables.os_text(name));
        let state = paths.state.clone().unwrap_or_else(state_dir::temporary_state);
        state_dir::keep_private(&state);
        let store = SettingsStore::open(paths, options);
        let id = session_id();
        let directory = state.join("sessions").join(id.as_str());
        let place = CallPlace { cwd, home, variables, results: directory.join(TOOL_RESULTS) };
        let loaded = store.current();
        let policy = policy(&place, &store, &loaded)?;
        let pool = SharedPool::new(Pool::assemble(Vec::new(), Vec::new()));
        let is_searched = policy.removes(ToolSearch::NAME).is_none()
            && tools.iter().any(|tool| tool.exposure() == Exposure::Deferred);
        let search = is_searched.then(|| erase(ToolSearch::new(pool.clone())));
        pool.set(Pool::assemble(tools.into_iter().chain(search).collect(), Vec::new()));
        let hooks = SessionHooks::new(hooks(&place, &store, &loaded), id, directory.join("log.jsonl"));
        let gate = Gate::of_session(Arc::new(LivePermissions::new(policy))).with_hooks(hooks);
        let results = ResultStore::new(&place.results, StoreLimits::default());
        let mut state = CallSessionState::new(&place.cwd);
        state.home = place.home.as_deref().map(Arc::from);
        let session = CallSession::new(Arc::new(Pipeline::new(gate, results)), pool, state);
        Ok(Self { session, place, store, loaded, has_begun: false })
    }

    /// Runs the calls of one message. Returns one report per call, in order.
    pub(crate) async fn run(&mut self, calls: Vec<ToolUse>, cancel: &CancellationToken) -> Vec<CallReport> {
        self.follow_settings();
        if !std::mem::replace(&mut self.has_begun, true) {
            let start = SessionStart { source: SessionSource::Startup, model: None };
            tell_hooks(&self.session, &self.place.cwd, start.into()).await;
        }
        self.session.run_message(calls, cancel).await
    }

    /// Applies the current rules and hooks; the mode does not change. If they disable the mode, the old
    /// policy stays in force.
    fn follow_settings(&mut self) {
        let Some(loaded) = self.store.reload_if_changed() else { return };
        self.loaded = loaded;
        let gate = &self.session.pipeline.gate;
        let Ok(mut policy) = policy(&self.place, &self.store, &self.loaded) else { return };
        policy.mode = gate.mode();
        gate.permissions().replace(&policy);
        gate.hooks().set(hooks(&self.place, &self.store, &self.loaded));
    }
}

impl Drop for LocalCalls {
    /// Runs the SessionEnd hooks, if there is still a runtime.
    fn drop(&mut self) {
        let (true, Ok(runtime)) = (self.has_begun, tokio::runtime::Handle::try_current()) else { return };
        let empty = CallSessionState::new(&self.place.cwd);
        let pipeline = Arc::clone(&self.session.pipeline);
        let session = CallSession::new(pipeline, self.session.pool.clone(), empty);
        // The tool search refers to the pool that contains it; this breaks the cycle.
        session.pool.set(Pool::assemble(Vec::new(), Vec::new()));
        let cwd = self.place.cwd.clone();
        runtime.spawn(async move {
            let end = SessionEnd { reason: String::from("other") };
            tell_hooks(&session, &cwd, end.into()).await;
            session.close().await;
        });
    }
}

async fn tell_hooks(session: &CallSession, cwd: &Path, event: EventInput) {
    let gate = &session.pipeline.gate;
    let base = gate.hooks().base(cwd.to_owned(), gate.mode());
    gate.hooks().get().run(&HookInput { base, event, aliases: Vec::new() }).await;
}

/// The permission policy: the defaults and the managed settings.
fn policy(place: &CallPlace, store: &SettingsStore, loaded: &LoadedSettings) -> Result<Policy, BuildError> {
    let permissions = &loaded.settings.permissions;
    let CallPlace { cwd, home, variables, results } = place;
    let mut builder = Policy::builder(cwd)
        .mode(mode(None, permissions).map_err(BuildError::Mode)?)
        .commands(Arc::new(BashJudge))
        .readable_dir(results);
    if let Some(home) = home {
        builder = builder.home(home);
    }
    builder = add_rules(builder, permissions, None);
    builder = add_directories(builder, permissions, cwd, home.as_deref());
    if let Some(link) = link_to(cwd, variables.text("PWD")) {
        builder = builder.additional_dir(link, None);
    }
    for dir in store.places().protected() {
        builder = builder.protect(dir);
    }
    Ok(add_boundaries(builder, permissions).build())
}

fn hooks(place: &CallPlace, store: &SettingsStore, loaded: &LoadedSettings) -> Hooks {
    let settings = &loaded.settings;
    let set = settings.env.iter().map(|(name, value)| (name.clone(), value.value.clone())).collect();
    let strict = settings.get("strictHooks").and_then(|it| it.value.as_bool());
    let ports = HookPorts {
        environment: HookEnvironment {
            inherited: Some(place.variables.clone()),
            project_dir: store.places().project.clone(),
            set,
            ..HookEnvironment::default()
        },
        http: settings.http_hooks.clone(),
        user_settings: store.places().state.as_ref().map(|state| state.join("settings.json")),
        strict_commands: strict.unwrap_or_default(),
        ..HookPorts::default()
    };
    Hooks::new(settings.hooks.clone(), ports)
}

/// A random session id for these calls.
fn session_id() -> SessionId {
    let number = state_dir::unguessable() & !(0xf << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62;
    let hex = format!("{number:032x}");
    let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
    parts.join("-").into()
}

#[cfg(test)]
mod tests {
    use haft_config::FlagSettings;
    use haft_tool::{ErrorKind, tool};
    use schemars::JsonSchema;
    use serde::Deserialize;
    use serde_json::{Value, json};

    use super::*;

    #[derive(Deserialize, JsonSchema)]
    struct SpokenText {
        text: String,
    }

    /// Calls in a new directory with these settings of the organisation.
    fn calls(dir: &Path, managed: &Value) -> LocalCalls {
        let repeat =
            tool("Repeat", "Repeats.", async |args: SpokenText, _cx| Ok(args.text.repeat(40_000).into()));
        let speak = tool("Speak", "Speaks.", async |args: SpokenText, _cx| Ok(args.text.into()));
        let tools = vec![repeat.read_only().build(), speak.read_only().build()];
        let variables = EnvVars::of_process().with("HOME", dir).without("HAFT_CONFIG_DIR");
        let arguments = vec![FlagSettings::managed(&managed.to_string())];
        let options = LoadOptions { layers: Vec::new(), arguments, ..LoadOptions::default() };
        let variables = variables.without("CLAUDE_CONFIG_DIR");
        LocalCalls::open_at(dir.canonicalize().unwrap(), variables, options, tools).unwrap()
    }

    async fn run(calls: &mut LocalCalls, name: &str) -> CallReport {
        let call = ToolUse { id: "c1".into(), name: name.to_owned(), input: json!({"text": "hello"}) };
        calls.run(vec![call], &CancellationToken::new()).await.pop().unwrap()
    }

    #[tokio::test]
    async fn rules_and_hooks_of_the_organisation_hold() {
        let dir = tempfile::tempdir().unwrap();
        for (managed, error) in [
            (json!({}), None),
            (json!({"permissions": {"deny": ["Speak"]}}), Some(ErrorKind::Denied)),
            (json!({"permissions": {"ask": ["Speak"]}}), Some(ErrorKind::Denied)),
            (hook("exit 0"), None),
            (hook("echo not now >&2; exit 2"), Some(ErrorKind::Denied)),
        ] {
            let report = run(&mut calls(dir.path(), &managed), "Speak").await;
            assert_eq!(report.error, error, "{managed} {}", report.content.to_text());
        }
    }

    fn hook(command: &str) -> Value {
        let hooks = json!([{"matcher": "Speak", "hooks": [{"type": "command", "command": command}]}]);
        json!({"hooks": {"PreToolUse": hooks}})
    }

    #[tokio::test]
    async fn large_results_are_stored_in_the_state_directory() {
        let dir = tempfile::tempdir().unwrap();
        let mut calls = calls(dir.path(), &json!({}));
        let report = run(&mut calls, "Repeat").await;
        let stored = std::fs::read_dir(&calls.place.results).unwrap().count();
        assert_eq!((report.error, stored), (None, 1), "{}", report.content.to_text());
        assert!(calls.place.results.starts_with(dir.path().canonicalize().unwrap().join(".haft/sessions")));
    }

    #[test]
    fn session_id_is_a_random_uuid() {
        let (one, other) = (session_id(), session_id());
        assert_ne!(one, other);
        let id = one.as_str();
        assert_eq!((id.len(), &id[14..15]), (36, "4"), "{id}");
        assert!("89ab".contains(&id[19..20]), "{id}");
    }
}
