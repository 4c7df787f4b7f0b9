//! What the built-in tools share.

use std::{path::Path, sync::Arc};

use haft_shell::run::{Shell, ShellConfig, Tasks};
use haft_tools::{
    FindSettings, KnownShapes, Services,
    bash::{AnalysedFacts, BashSettings},
    config::SettingsAccess,
    read::{MediaWork, MediaWorker, ReadLimits},
};
use haft_types::SessionId;
use haft_workspace::{EverythingInContext, Files, JournalLimits, Workspace, WorkspaceConfig};

use super::{
    Setup,
    settings_access::{StoredSettings, no_settings},
};
use crate::output::Failure;

/// For a session that runs calls.
pub(super) fn of_session(setup: &Setup) -> Result<Services, Failure> {
    let settings = StoredSettings { store: Arc::clone(&setup.store) };
    let services =
        services(Arc::new(settings), &setup.state_dir(), &setup.cwd, Some(setup.session_id.clone()))?;
    setup.tasks.set(Arc::clone(&services.tasks)).ok();
    Ok(services)
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
    services(no_settings(), scratch.0.path(), scratch.0.path(), None)
}

fn services(
    settings: Arc<dyn SettingsAccess>,
    state_dir: &Path,
    cwd: &Path,
    session: Option<SessionId>,
) -> Result<Services, Failure> {
    let workspace = workspace(state_dir, cwd)?;
    let id = session.as_ref().map_or("none", |id| id.as_str()).to_owned();
    let shell =
        Shell::open(ShellConfig::new(id, state_dir)).map_err(|err| format!("commands cannot run: {err}"))?;
    let roots = workspace.roots();
    Ok(Services {
        tasks: Tasks::new(shell),
        commands: Arc::new(AnalysedFacts { home: super::home(), roots: roots.clone() }),
        roots: Arc::new(roots),
        bash: BashSettings::from_env(),
        settings,
        find: FindSettings::from_env(|name| std::env::var(name).ok()),
        files: Arc::new(Files::new(Arc::new(workspace), session, EverythingInContext)),
        read: ReadLimits::from_env(),
        media: media_work(),
        config_check: Arc::new(KnownShapes),
    })
}

/// Pictures and documents are unpacked by this program, started again.
fn media_work() -> MediaWork {
    // This leads to the program itself even where its file was replaced meanwhile.
    let program = std::path::PathBuf::from("/proc/self/exe");
    let program = if program.exists() { Ok(program) } else { std::env::current_exe() };
    let worker = |program| MediaWorker { program, args: vec![String::from("media-worker")] };
    program.map_or(MediaWork::Thread, |program| MediaWork::Process(worker(program)))
}
