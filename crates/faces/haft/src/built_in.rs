//! The tools the program `haft` has, for agents of your own.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use haft_agent::{Held, Restored};
use haft_shell::run::{Shell, ShellConfig, Tasks};
use haft_tool::DynTool;
use haft_tools::{
    FindSettings, KnownShapes, Services,
    bash::{
        AnalysedFacts, BashSettings, NoConfine,
        undo::{JournalSnapshots, SnapshotLimits},
    },
    config::NoSettings,
    read::{MediaWork, ReadLimits},
};
use haft_types::{AgentId, CallId, SessionId};
use haft_workspace::{ContextView, Files, JournalLimits, SeenRecord, Viewer, Workspace, WorkspaceConfig};

/// Files, commands and search in one directory, as a session has them.
///
/// What calls change is kept in a journal below the state directory, where
/// `haft undo` finds it. What commands leave running ends with this value.
pub struct BuiltIn {
    tools: Vec<Arc<dyn DynTool>>,
    files: Arc<Files>,
    tasks: Arc<Tasks>,
}

/// How long processes may take to go.
const PATIENCE: Duration = Duration::from_secs(2);

impl BuiltIn {
    /// Opens the directory. `shown` knows which results the next request still
    /// holds.
    pub(crate) fn open(
        cwd: &Path,
        state_dir: &Path,
        session: &SessionId,
        shown: Held,
    ) -> Result<Self, String> {
        let config = WorkspaceConfig {
            state_dir: state_dir.to_owned(),
            root: cwd.to_owned(),
            limits: JournalLimits::default(),
        };
        let workspace = Workspace::open(config).map_err(|err| err.to_string())?;
        let shell = ShellConfig::new(session.as_str(), state_dir);
        let shell = Shell::open(shell).map_err(|err| format!("commands cannot run: {err}"))?;
        let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
        let roots = workspace.roots();
        let files = Arc::new(Files::new(Arc::new(workspace), Some(session.clone()), InRequest(shown)));
        let tasks = Tasks::new(shell);
        let services = Services {
            tasks: Arc::clone(&tasks),
            commands: Arc::new(AnalysedFacts { home: home.clone(), roots: roots.clone() }),
            roots: Arc::new(roots),
            bash: BashSettings::from_env(),
            confine: Arc::new(NoConfine),
            snapshots: Arc::new(JournalSnapshots::new(Arc::clone(&files), home, SnapshotLimits::default())),
            settings: Arc::new(NoSettings),
            find: FindSettings::from_env(|name| std::env::var(name).ok()),
            files: Arc::clone(&files),
            read: ReadLimits::from_env(),
            media: MediaWork::Thread,
            config_check: Arc::new(KnownShapes),
        };
        // Settings are files of the program `haft`; an embedder has none.
        let tools = haft_tools::base(&services).into_iter().filter(|tool| tool.name() != "Config");
        Ok(Self { tools: tools.collect(), files, tasks })
    }

    /// The tools.
    pub fn tools(&self) -> &[Arc<dyn DynTool>] {
        &self.tools
    }

    /// Knows again what an earlier run of the session had read.
    pub(crate) fn restore_seen(&self, restored: &Restored) {
        for (call, meta) in &restored.meta {
            let record = meta.get("haft/seen").cloned().map(serde_json::from_value::<SeenRecord>);
            if let Some(Ok(record)) = record {
                let viewer = Viewer { agent: AgentId::Main, call: call.clone() };
                self.files.reads().restore(&viewer, &record);
            }
        }
    }
}

impl Drop for BuiltIn {
    fn drop(&mut self) {
        self.tasks.shell().owner().end(PATIENCE);
    }
}

struct InRequest(Held);

impl ContextView for InRequest {
    fn holds(&self, _agent: &AgentId, call: &CallId) -> bool {
        self.0.holds(call)
    }
}
