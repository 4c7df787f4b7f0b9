//! Builds a session out of flags, settings and the machine.

use std::{path::PathBuf, sync::Arc};

use haft_permission::Policy;
use haft_runtime::{
    Gate, Pipeline, Pool, ResultStore, Session, SessionState, SharedPool, StoreLimits, ToolSearch,
    Visibility, visible,
};
use haft_tool::{BoxFuture, erase};
use haft_tools::{
    Services,
    config::{Setting, SettingsAccess},
};
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::{args::Options, ask_terminal::AskTerminal, output::Failure};

/// Whether somebody may be asked.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Attended {
    /// The person at the terminal, if there is one.
    IfTerminal,
    /// Nobody: standard input is data.
    Never,
}

/// The async runtime. Built only for commands that call tools.
pub(crate) fn runtime() -> Result<Runtime, Failure> {
    let built = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    built.map_err(|err| Failure::Message(format!("the runtime could not be started: {err}")))
}

/// The directory to work in.
pub(crate) fn cwd(options: &Options) -> Result<PathBuf, Failure> {
    let here = std::env::current_dir().map_err(|err| format!("the working directory is gone: {err}"))?;
    let Some(wanted) = &options.cwd else { return Ok(here) };
    let cwd = here.join(wanted).canonicalize().map_err(|err| format!("{}: {err}", wanted.display()))?;
    if !cwd.is_dir() {
        return Err(Failure::Message(format!("{} is not a directory", cwd.display())));
    }
    Ok(cwd)
}

/// The tools of this session.
pub(crate) fn pool(_options: &Options) -> Result<Pool, Failure> {
    let services = Services { settings: Arc::new(NoSettings) };
    let base = haft_tools::base(&services);
    Ok(Pool::assemble(visible(&base, &Visibility::default()), Vec::new()))
}

/// A session ready to run calls.
pub(crate) async fn session(options: &Options, attended: Attended) -> Result<Session, Failure> {
    let cwd = cwd(options)?;
    let pool = SharedPool::new(pool(options)?);
    let _search = erase(ToolSearch::new(pool.clone()));
    let mut policy = Policy::default();
    if let Some(mode) = options.permission_mode {
        policy.mode = mode;
    }
    let mut gate = Gate::new(policy);
    if attended == Attended::IfTerminal && AskTerminal::is_there() {
        gate = gate.with_ask(Arc::new(AskTerminal));
    }
    let results = ResultStore::new(cwd.join(".haft/tool-results"), StoreLimits::default());
    Ok(Session::new(Arc::new(Pipeline::new(gate, results)), pool, SessionState::new(cwd)))
}

struct NoSettings;

impl SettingsAccess for NoSettings {
    fn get(&self, _setting: &str) -> Option<Setting> {
        None
    }

    fn known(&self) -> Vec<String> {
        Vec::new()
    }

    fn set<'a>(&'a self, _setting: &'a str, _value: Value) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async { Err(String::from("there is no settings file")) })
    }
}
