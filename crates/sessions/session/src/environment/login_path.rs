//! The `PATH` of the user's login shell, used for programs missing in the `PATH` Haft was started with.
//! Editors start Haft without the variables of shell start-up files.

use std::{
    collections::BTreeSet,
    ffi::{OsStr, OsString},
    os::unix::fs::PermissionsExt as _,
    path::PathBuf,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use haft_process::ProcessOwner;
use haft_shell::{env::LoginEnvOptions, run::ShellConfig};
use haft_types::EnvVars;

use crate::EventSender;

/// Time limit of the login shell.
const TIMEOUT: Duration = Duration::from_secs(2);

/// The `PATH` of the login shell. The shell is run once, when a program is missing.
pub(crate) struct LoginShellPath {
    variables: EnvVars,
    state_dir: PathBuf,
    events: EventSender,
    dirs: OnceLock<Vec<PathBuf>>,
    /// Programs whose lookup was reported to the user.
    told: Mutex<BTreeSet<String>>,
}

impl LoginShellPath {
    pub(super) fn new(variables: EnvVars, state_dir: PathBuf, events: EventSender) -> Arc<Self> {
        let (dirs, told) = (OnceLock::new(), Mutex::default());
        Arc::new(Self { variables, state_dir, events, dirs, told })
    }

    /// The absolute directories of the `PATH`. Blocks on the first call, up to [`TIMEOUT`].
    pub(crate) fn dirs(&self) -> &[PathBuf] {
        self.dirs.get_or_init(|| {
            let config = ShellConfig::with_variables("login-path", &self.state_dir, self.variables.clone());
            let Some(plan) = config.capture else { return Vec::new() };
            let plan = LoginEnvOptions { patience: TIMEOUT, ..plan };
            // Start-up files of the user see the variables that commands see, and no more.
            let visible = self.variables.iter().filter(|(name, _)| config.environment.passes(name));
            let visible: Vec<(OsString, OsString)> =
                visible.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
            let captured = plan.capture(&ProcessOwner::unrecorded("login-path"), &visible);
            let path = captured.environment.into_iter().find(|(name, _)| name == "PATH");
            let path = path.map(|(_, value)| value).unwrap_or_default();
            std::env::split_paths(&path).filter(|dir| dir.is_absolute()).collect()
        })
    }

    /// The complete `PATH` if it contains the missing program. Reports it to the user once per program.
    /// Blocks.
    pub(crate) fn leading_to(&self, program: &str) -> Option<OsString> {
        let dirs = self.dirs();
        let found = dirs.iter().map(|dir| dir.join(program)).find(|file| {
            let about = std::fs::metadata(file);
            about.is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
        })?;
        self.tell(program, found.as_os_str());
        std::env::join_paths(dirs).ok()
    }

    fn tell(&self, program: &str, found: &OsStr) {
        let is_new = self.told.lock().unwrap_or_else(PoisonError::into_inner).insert(program.to_owned());
        if is_new {
            let found = found.to_string_lossy();
            self.events.notice(format!(
                "`{program}` is not on the PATH that Haft was started with; {found} is used, from the PATH of your login \
                 shell"
            ));
        }
    }
}
