//! Language servers of a session: settings, search path, and the shell they run in.

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{
        Arc, LazyLock, Mutex, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
};

use haft_builtin_tools::lsp::{LspServers, ServerShell};
use haft_lsp::{LanguageStatus, LspSettings, ProgramPath, ServerPool};
use haft_shell::run::{Shell, ShellConfig};
use haft_workspace::SessionFiles;
use serde_json::Value;

use crate::environment::SessionEnvironment;

/// Shells of language servers, by state directory and inherited environment.
type ServerShells = Mutex<HashMap<(PathBuf, String), Weak<ServerShell>>>;
static SHELLS: LazyLock<ServerShells> = LazyLock::new(Mutex::default);
static OPENED: AtomicU64 = AtomicU64::new(0);

/// Creates the language servers of the session. Starts none.
pub(super) fn lsp_desk(
    premises: &SessionEnvironment,
    config: &ShellConfig,
    files: &SessionFiles,
) -> Arc<LspServers> {
    let store = Arc::clone(&premises.store);
    let events = premises.events.clone();
    let told = Mutex::new(Vec::new());
    let settings = Arc::new(move || {
        let loaded = store.current();
        let get = |name: &str| loaded.settings.get(name).map(|it| it.value.clone());
        let (settings, wrong) = read_settings(get);
        let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
        for problem in wrong.into_iter().filter(|it| !told.contains(it)).collect::<Vec<_>>() {
            events.notice(problem.clone());
            told.push(problem);
        }
        settings
    });
    let config = config.clone();
    let open_shell = Box::new(move || server_shell(&config));
    let desk = LspServers::new(ServerPool::of_process(), open_shell, settings, programs(premises));
    let store = Arc::clone(&premises.store);
    let distrust = Box::new(move || {
        let loaded = store.current();
        let folder = &loaded.pending_trust.as_ref()?.folder;
        Some(format!("{} has settings that nobody has trusted yet (`haft trust`)", folder.display()))
    });
    let login_path = Arc::clone(&premises.login_path);
    let desk = desk
        .with_confinement(Arc::clone(&premises.walls) as Arc<_>)
        .with_distrust(distrust)
        .with_further_dirs(Box::new(move || login_path.dirs().to_vec()));
    let desk = Arc::new(desk);
    desk.follow(files, &premises.cwd);
    desk
}

impl SessionEnvironment {
    /// The languages of the project and the servers configured for them. Starts nothing.
    pub fn languages_here(&self) -> Vec<LanguageStatus> {
        let loaded = self.store.current();
        let (settings, _) = read_settings(|name| loaded.settings.get(name).map(|it| it.value.clone()));
        programs(self).survey(&self.cwd, &settings)
    }
}

/// Parses the settings. Returns the problems found in them.
fn read_settings(get: impl Fn(&str) -> Option<Value>) -> (LspSettings, Vec<String>) {
    let mut settings = LspSettings::default();
    let wrong = get("lsp.servers").map(|it| settings.read_servers(&it)).unwrap_or_default();
    let disabled = get("lsp.disabled");
    let names = disabled.as_ref().and_then(Value::as_array).into_iter().flatten();
    settings.disabled = names.filter_map(Value::as_str).map(str::to_owned).collect();
    settings.quiet_edits = get("lsp.editDiagnostics") == Some(Value::Bool(false));
    settings.most_memory = match get("lsp.memoryMb").as_ref().and_then(Value::as_u64) {
        Some(0) => None,
        Some(said) => Some(said.saturating_mul(1 << 20)),
        None => half_of_the_memory(),
    };
    (settings, wrong)
}

/// Half of the machine's memory in bytes; `None` if it is unknown.
fn half_of_the_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let total = text.lines().find_map(|it| it.strip_prefix("MemTotal:"))?;
    total.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes * 512)
}

/// The search path for language servers: `PATH` and the usual installation directories of the user,
/// without programs of the project.
fn programs(premises: &SessionEnvironment) -> ProgramPath {
    let path = premises.variables.text("PATH").unwrap_or_default();
    let mut dirs: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let home = premises.home.as_deref();
    let usual = [".cargo/bin", ".local/bin", "go/bin", ".npm-global/bin", ".deno/bin", ".bun/bin"];
    dirs.extend(home.into_iter().flat_map(|home| usual.map(|it| home.join(it))));
    dirs.extend(["/usr/local/bin", "/usr/bin", "/opt/homebrew/bin"].map(PathBuf::from));
    // If the home directory is the project, its programs are allowed: they are the user's.
    let never = Some(premises.cwd.clone()).filter(|cwd| home != Some(cwd.as_path()));
    ProgramPath { path: dirs, never: never.into_iter().collect() }
}

/// Returns the shell shared by all sessions of this process that inherit the same environment.
fn server_shell(config: &ShellConfig) -> std::io::Result<Arc<ServerShell>> {
    let inherited = format!("{:?} {:?}", config.variables, config.environment);
    let mut shells = SHELLS.lock().unwrap_or_else(PoisonError::into_inner);
    shells.retain(|_, shell| 0 < shell.strong_count());
    let key = (config.state.clone(), inherited);
    if let Some(shell) = shells.get(&key).and_then(Weak::upgrade) {
        return Ok(shell);
    }
    let mut own = config.clone();
    let number = OPENED.fetch_add(1, Ordering::Relaxed);
    own.session = format!("servers-{}-{number}", std::process::id());
    let shell = Shell::open(own.clone()).or_else(|_| Shell::open_without_disk(own))?;
    let shell = Arc::new(ServerShell(shell));
    shells.insert(key, Arc::downgrade(&shell));
    Ok(shell)
}
