//! What the built-in tools share.

use std::{path::Path, sync::Arc, time::Duration};

use haft_process::ProcessOwner;
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
    config::{NoSettings, SettingsAccess},
    read::{MediaWork, MediaWorker, ReadLimits},
};
use haft_types::SessionId;
use haft_workspace::{Files, JournalLimits, Workspace, WorkspaceConfig};
use tokio::signal::unix::SignalKind;

use super::{Setup, Signals, seen::InRequest, settings_access::StoredSettings};
use crate::output::{Failure, complain};

/// For a session that runs calls.
pub(super) fn of_session(setup: &Setup) -> Result<Services, Failure> {
    let settings = StoredSettings { store: Arc::clone(&setup.store) };
    let mut services = services(
        Arc::new(settings),
        &setup.state_dir(),
        &setup.cwd,
        Some((setup.session_id.clone(), environment(setup))),
        InRequest(setup.held.clone()),
    )?;
    services.confine = setup.walls();
    let (files, limits) = (Arc::clone(&services.files), SnapshotLimits::default());
    services.snapshots = Arc::new(JournalSnapshots::new(files, setup.home.clone(), limits));
    setup.tasks.set(Arc::clone(&services.tasks)).ok();
    setup.files.set(Arc::clone(&services.files)).ok();
    own_processes(setup, &services.tasks);
    Ok(services)
}

/// Tools that look, for whoever is not the model.
#[derive(Clone)]
pub(crate) struct Readers {
    /// Shows files.
    pub(crate) read: Arc<dyn DynTool>,
    /// Shows directories.
    pub(crate) list: Arc<dyn DynTool>,
}

impl Setup {
    /// The files of the session, once its tools are there.
    pub(crate) fn files(&self) -> Option<&Arc<Files>> {
        self.files.get()
    }

    /// The commands of the session, once its tools are there.
    pub(crate) fn tasks(&self) -> Option<&Arc<Tasks>> {
        self.tasks.get()
    }

    /// What owns the processes of the session; nothing lists them before its
    /// tools are there.
    pub(crate) fn processes(&self) -> Arc<ProcessOwner> {
        self.tasks().map(|it| Arc::clone(it.shell().owner())).unwrap_or_default()
    }

    /// Tools that look at the session's files, whichever the model may use.
    pub(crate) fn readers(&self) -> Result<Readers, Failure> {
        let files = self.files().cloned();
        let files = files.ok_or_else(|| Failure::Message(String::from("the session has no files")))?;
        let read = haft_tools::read::Read::new(files, ReadLimits::from_env()).with_media(media_work());
        let list = haft_tools::ls::Ls::new(FindSettings::from_env(|name| std::env::var(name).ok()));
        Ok(Readers { read: erase(read), list: erase(list) })
    }
}

/// What commands may see of the environment: settings speak before the
/// environment we were started in.
fn environment(setup: &Setup) -> EnvPolicy {
    let set = &setup.loaded.settings.env;
    let named = |name: &str| set.iter().find(|it| it.0 == name).map(|it| it.1.value.clone());
    let mut policy = EnvPolicy::from(|name| named(name).or_else(|| std::env::var(name).ok()));
    policy.set_all(set.iter().map(|(name, value)| (name.clone(), value.value.clone())));
    policy
}

/// Signals that end us.
const ENDING: [SignalKind; 2] = [SignalKind::terminate(), SignalKind::hangup()];

/// Nothing runs unseen: orphans of commands become ours, what killed sessions
/// left is ended, and a signal that ends us ends what our commands started.
fn own_processes(setup: &Setup, tasks: &Arc<Tasks>) {
    /// How long processes may take to go.
    const PATIENCE: Duration = Duration::from_secs(2);
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
    haft_shell::own::adopt_orphans().ok();
    let registries = Shell::registries(&setup.state_dir());
    runtime.spawn_blocking(move || {
        let ended = haft_shell::own::end_leftovers(&registries, PATIENCE);
        for it in ended {
            let count = it.processes.len();
            complain(&format!(
                "ended {count} process(es) that a killed session left running: {}",
                haft_types::text::one_line(&it.command, 100)
            ));
        }
    });
    // Whoever embeds us has a way of its own to end us.
    let signals = match setup.signals {
        Signals::Handled => &[][..],
        Signals::End if setup.asker.is_some() => &ENDING[1..],
        Signals::End => &ENDING[..],
    };
    for kind in signals {
        let (tasks, kind) = (Arc::clone(tasks), *kind);
        runtime.spawn(async move {
            let Ok(mut signal) = tokio::signal::unix::signal(kind) else { return };
            signal.recv().await;
            tokio::task::spawn_blocking(move || tasks.shell().owner().end(PATIENCE)).await.ok();
            std::process::exit(128 + kind.as_raw_value());
        });
    }
}

/// The files of the project, and the record of what changed in them.
pub(super) fn workspace(state_dir: &Path, cwd: &Path) -> Result<Workspace, Failure> {
    let root = cwd.canonicalize().unwrap_or_else(|_| cwd.to_owned());
    let config = WorkspaceConfig { state_dir: state_dir.to_owned(), root, limits: JournalLimits::default() };
    Ok(Workspace::open(config).map_err(|err| err.to_string())?)
}

/// A directory that goes when it is dropped.
pub(crate) struct Scratch(tempfile::TempDir);

impl Scratch {
    /// A new one.
    pub(crate) fn new() -> Result<Self, Failure> {
        Ok(Self(tempfile::tempdir()?))
    }
}

/// For looking at tools without calling them: nothing of the user is touched.
pub(crate) fn scratch_services(scratch: &Scratch) -> Result<Services, Failure> {
    services(Arc::new(NoSettings), scratch.0.path(), scratch.0.path(), None, InRequest(None))
}

fn services(
    settings: Arc<dyn SettingsAccess>,
    state_dir: &Path,
    cwd: &Path,
    session: Option<(SessionId, EnvPolicy)>,
    shown: InRequest,
) -> Result<Services, Failure> {
    let workspace = workspace(state_dir, cwd)?;
    let (session, environment) = session.unzip();
    let id = session.as_ref().map_or("none", |id| id.as_str()).to_owned();
    let mut config = ShellConfig::new(id, state_dir);
    config.environment = environment.unwrap_or(config.environment);
    let shell = Shell::open(config).map_err(|err| format!("commands cannot run: {err}"))?;
    let roots = workspace.roots();
    Ok(Services {
        tasks: Tasks::new(shell),
        commands: Arc::new(AnalysedFacts { home: super::home(), roots: roots.clone() }),
        roots: Arc::new(roots),
        bash: BashSettings::from_env(),
        confine: Arc::new(NoConfine),
        snapshots: Arc::new(NoSnapshots),
        settings,
        find: FindSettings::from_env(|name| std::env::var(name).ok()),
        files: Arc::new(Files::new(Arc::new(workspace), session, shown)),
        read: ReadLimits::from_env(),
        media: media_work(),
        config_check: Arc::new(KnownShapes),
    })
}

/// Pictures and documents are unpacked by this program, started again.
pub(super) fn media_work() -> MediaWork {
    // This leads to the program itself even where its file was replaced meanwhile.
    let program = std::path::PathBuf::from("/proc/self/exe");
    let program = if program.exists() { Ok(program) } else { std::env::current_exe() };
    let worker = |program| MediaWorker { program, args: vec![String::from("media-worker")] };
    program.map_or(MediaWork::Thread, |program| MediaWork::Process(worker(program)))
}
