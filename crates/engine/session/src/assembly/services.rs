//! What the built-in tools of a session share.

use std::{
    collections::HashSet,
    path::PathBuf,
    sync::{Arc, LazyLock, Mutex, PoisonError},
    time::Duration,
};

use haft_agent::Held;
use haft_shell::{
    env::EnvPolicy,
    run::{Shell, ShellConfig, Tasks},
};
use haft_tool::{DynTool, erase};
use haft_tools::{
    FindSettings, KnownShapes, Services,
    bash::{
        AnalysedFacts, BashSettings, NoConfine, NoSnapshots,
        undo::{JournalSnapshots, SnapshotLimits},
    },
    config::NoSettings,
    read::{MediaWork, MediaWorker, ReadLimits},
};
use haft_types::Variables;
use haft_workspace::{Files, JournalLimits, Workspace, WorkspaceConfig};

use super::{seen::InRequest, settings_access::StoredSettings};
use crate::{EventSender, OpenError, premises::Premises};

/// The files and commands of a session, and the built-in tools that use them.
pub(crate) struct SessionServices {
    /// The files.
    pub(crate) files: Arc<Files>,
    /// The commands.
    pub(crate) tasks: Arc<Tasks>,
    /// Every built-in tool, wanted or not.
    pub(crate) tools: Vec<Arc<dyn DynTool>>,
    /// Tools that look, for faces.
    pub(crate) readers: Readers,
}

/// Tools that look, for whoever is not the model.
#[derive(Clone)]
pub(crate) struct Readers {
    /// Shows files.
    pub(crate) read: Arc<dyn DynTool>,
    /// Shows directories.
    pub(crate) list: Arc<dyn DynTool>,
}

impl SessionServices {
    /// Opens them. `held` says which results the next request still shows.
    pub(crate) fn open(premises: &Premises, held: Option<Held>) -> Result<Self, OpenError> {
        let get = |name: &str| premises.variables.text(name);
        let workspace = premises.workspace()?;
        let roots = workspace.roots();
        let variables = premises.variables.clone();
        let mut config =
            ShellConfig::with_variables(premises.session_id.as_str(), premises.state_dir(), variables);
        config.environment = environment(premises);
        let shell = Shell::open(config);
        let shell = shell.map_err(|err| OpenError::Start(format!("commands cannot run: {err}")))?;
        let session = Some(premises.session_id.clone());
        let files = Arc::new(Files::new(Arc::new(workspace), session, InRequest(held)));
        let (home, limits) = (premises.home.clone(), SnapshotLimits::default());
        let services = Services {
            tasks: Tasks::new(shell),
            commands: Arc::new(AnalysedFacts { home: home.clone(), roots: roots.clone() }),
            roots: Arc::new(roots),
            bash: BashSettings::from(get),
            confine: Arc::clone(&premises.walls) as Arc<_>,
            snapshots: Arc::new(JournalSnapshots::new(Arc::clone(&files), home, limits)),
            settings: Arc::new(StoredSettings { store: Arc::clone(&premises.store) }),
            find: FindSettings::from_env(get),
            files: Arc::clone(&files),
            read: ReadLimits::from(get),
            media: media_work(premises.program.as_ref()),
            config_check: Arc::new(KnownShapes),
        };
        let read = haft_tools::read::Read::new(Arc::clone(&files), services.read);
        let readers = Readers {
            read: erase(read.with_media(services.media.clone())),
            list: erase(haft_tools::ls::Ls::new(services.find)),
        };
        own_processes(premises);
        let tools = haft_tools::base(&services);
        Ok(Self { files, tasks: services.tasks, tools, readers })
    }
}

/// What commands may see of the environment: settings speak before the
/// environment of the session.
fn environment(premises: &Premises) -> EnvPolicy {
    let loaded = premises.loaded();
    let set = &loaded.settings.env;
    let named = |name: &str| set.iter().find(|it| it.0 == name).map(|it| it.1.value.clone());
    let mut policy = EnvPolicy::from(|name| named(name).or_else(|| premises.variables.text(name)));
    policy.set_all(set.iter().map(|(name, value)| (name.clone(), value.value.clone())));
    policy
}

/// Nothing runs unseen: orphans of commands become ours, and what killed
/// sessions left is ended. Done once per process and directory.
fn own_processes(premises: &Premises) {
    /// How long processes may take to go.
    const PATIENCE: Duration = Duration::from_secs(2);
    static SWEPT: LazyLock<Mutex<HashSet<PathBuf>>> = LazyLock::new(Mutex::default);
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
    haft_process::adopt_orphans().ok();
    let registries = Shell::registries(&premises.state_dir());
    if !SWEPT.lock().unwrap_or_else(PoisonError::into_inner).insert(registries.clone()) {
        return;
    }
    let events: EventSender = premises.events.clone();
    runtime.spawn_blocking(move || {
        for it in haft_process::end_leftovers(&registries, PATIENCE) {
            let (count, command) = (it.processes.len(), haft_types::text::one_line(&it.command, 100));
            events.notice(format!("ended {count} process(es) that a killed session left running: {command}"));
        }
    });
}

/// Pictures and documents are unpacked by the program `haft`, where it is at
/// hand.
pub(crate) fn media_work(program: Option<&PathBuf>) -> MediaWork {
    program.map_or(MediaWork::Thread, |program| {
        MediaWork::Process(MediaWorker { program: program.clone(), args: vec![String::from("media-worker")] })
    })
}

/// The built-in tools as they are described, in a directory of their own:
/// nothing of a person is touched, and none of them may be called.
pub fn described_tools(scratch: &std::path::Path) -> Result<Vec<Arc<dyn DynTool>>, OpenError> {
    let config = WorkspaceConfig {
        state_dir: scratch.to_owned(),
        root: scratch.to_owned(),
        limits: JournalLimits::default(),
    };
    let workspace = Workspace::open(config).map_err(|err| OpenError::Start(err.to_string()))?;
    let shell = Shell::open(ShellConfig::with_variables("none", scratch, Variables::of_process()));
    let shell = shell.map_err(|err| OpenError::Start(format!("commands cannot run: {err}")))?;
    let (roots, variables) = (workspace.roots(), Variables::of_process());
    let get = |name: &str| variables.text(name);
    Ok(haft_tools::base(&Services {
        tasks: Tasks::new(shell),
        commands: Arc::new(AnalysedFacts { home: None, roots: roots.clone() }),
        roots: Arc::new(roots),
        bash: BashSettings::from(get),
        confine: Arc::new(NoConfine),
        snapshots: Arc::new(NoSnapshots),
        settings: Arc::new(NoSettings),
        find: FindSettings::from_env(get),
        files: Arc::new(Files::new(Arc::new(workspace), None, InRequest(None))),
        read: ReadLimits::from(get),
        media: MediaWork::Thread,
        config_check: Arc::new(KnownShapes),
    }))
}
