//! The language servers of a session: which server handles a file, its sandbox, and which ones the user
//! has approved.

use std::{
    collections::BTreeSet,
    io,
    os::{fd::OwnedFd, unix::net::UnixStream as StdUnixStream},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use haft_lsp::{
    ConfiguredServer, LaunchedServer, LspClient, LspProcess, LspSettings, ProgramPath, ServerLauncher,
    ServerPlan, ServerPool, ServerUnavailable,
};
use haft_shell::{
    own::{Lifetime, resident_bytes},
    run::{Job, JobSpec, Shell, Stop, TerminalMode},
    sandbox::{Confinement, ReadOnlySandbox},
};
use haft_tool::{BoxFuture, ToolContext, ToolError};
use haft_types::{AgentId, CallId};
use tokio::net::UnixStream;

use super::diagnostic_changes::DiagnosticTracker;
use crate::bash::{CommandConfiner, ConfinedCommand, NoConfiner, OutsideSandbox};

/// Opens the shell that servers run in. Sessions with the same environment share it, so a server may
/// outlive the session that started it.
pub type OpenServerShell = Box<dyn Fn() -> io::Result<Arc<ServerShell>> + Send + Sync>;

/// Returns further directories with programs, such as those on the `PATH` of the login shell. May take
/// seconds.
pub type ExtraProgramDirs = Box<dyn Fn() -> Vec<PathBuf> + Send + Sync>;

/// The shell that servers run in. Servers run as long as a session holds a reference.
#[derive(Debug)]
pub struct ServerShell(pub Arc<Shell>);

/// Maximum lifetime of a server.
const LIFE: Duration = Duration::from_secs(7 * 24 * 60 * 60);

pub struct LspServers {
    pub(super) pool: Arc<ServerPool>,
    open_shell: OpenServerShell,
    shell: OnceLock<Arc<ServerShell>>,
    confine: Arc<dyn CommandConfiner>,
    settings: Arc<dyn Fn() -> LspSettings + Send + Sync>,
    programs: ProgramPath,
    /// Further directories with programs; slow to compute.
    further_dirs: ExtraProgramDirs,
    /// `programs` plus the further directories, once they were computed.
    further: OnceLock<ProgramPath>,
    /// Servers from plugins, tried after those from settings.
    of_plugins: Mutex<Vec<ConfiguredServer>>,
    /// Why servers of this project need approval (it is not trusted); `None` if they do not.
    distrust: Box<dyn Fn() -> Option<String> + Send + Sync>,
    /// How many servers stopped for using too much memory have been reported to this session.
    stopped: AtomicUsize,
    /// Approved command lines, with the root directory.
    agreed: Mutex<BTreeSet<(String, PathBuf)>>,
    /// Keys of the shell and sandbox combinations this session uses; see [`held`].
    held: Mutex<BTreeSet<String>>,
    pub(super) news: DiagnosticTracker,
}

impl std::fmt::Debug for LspServers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LspServers").field("programs", &self.programs).finish_non_exhaustive()
    }
}

impl LspServers {
    /// Creates the servers of a session: they run in `pool` and their programs are searched in
    /// `programs`.
    pub fn new(
        pool: Arc<ServerPool>,
        open_shell: OpenServerShell,
        settings: Arc<dyn Fn() -> LspSettings + Send + Sync>,
        programs: ProgramPath,
    ) -> Self {
        Self {
            stopped: AtomicUsize::new(pool.stopped_for_memory(0).len()),
            of_plugins: Mutex::default(),
            distrust: Box::new(|| None),
            pool,
            open_shell,
            shell: OnceLock::new(),
            confine: Arc::new(NoConfiner),
            settings,
            programs,
            further_dirs: Box::new(Vec::new),
            further: OnceLock::new(),
            agreed: Mutex::default(),
            held: Mutex::default(),
            news: DiagnosticTracker::default(),
        }
    }

    /// Never starts a server; for tools that are only described.
    pub fn closed() -> Arc<Self> {
        let refused = Box::new(|| Err(io::Error::other("this session starts no servers")));
        let settings = Arc::new(LspSettings::default);
        Arc::new(Self::new(ServerPool::of_process(), refused, settings, ProgramPath::default()))
    }

    /// Runs servers in a sandbox.
    pub fn with_confinement(mut self, confine: Arc<dyn CommandConfiner>) -> Self {
        self.confine = confine;
        self
    }

    /// Requires approval before a server starts, as long as `distrust` returns a reason.
    pub fn with_distrust(mut self, distrust: Box<dyn Fn() -> Option<String> + Send + Sync>) -> Self {
        self.distrust = distrust;
        self
    }

    /// Also searches these directories for programs that are not found elsewhere.
    pub fn with_further_dirs(mut self, dirs: ExtraProgramDirs) -> Self {
        self.further_dirs = dirs;
        self
    }

    /// Replaces the servers that plugins provide.
    pub fn set_plugin_servers(&self, servers: Vec<ConfiguredServer>) {
        *self.of_plugins.lock().unwrap_or_else(PoisonError::into_inner) = servers;
    }

    pub(super) fn settings(&self) -> LspSettings {
        let mut settings = (self.settings)();
        settings
            .servers
            .extend(self.of_plugins.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned());
        settings
    }

    /// Returns why starting a server for this file must ask, whatever the rules say.
    pub(super) fn distrusted(&self, file: &Path, top: &Path) -> Option<String> {
        let why = (self.distrust)()?;
        self.to_agree(file, top).map(|line| format!("{why}, and `{line}` may run code of the project"))
    }

    /// Returns the servers stopped for using too much memory since the last call.
    pub(super) fn news_of_memory(&self) -> Vec<String> {
        let news = self.pool.stopped_for_memory(self.stopped.load(Ordering::Relaxed));
        self.stopped.fetch_add(news.len(), Ordering::Relaxed);
        news
    }

    /// Returns the server for a file. Reads the disk.
    pub(super) fn plan(&self, file: &Path, top: &Path) -> Result<ServerPlan, ServerUnavailable> {
        let settings = self.settings();
        match (self.programs.plan(file, top, &settings), self.further.get()) {
            (Err(ServerUnavailable::Missing { .. }), Some(further)) => further.plan(file, top, &settings),
            (planned, _) => planned,
        }
    }

    /// Like [`LspServers::plan`], but also searches the further directories. A program found only there
    /// is an error for this call, because its command line has not been approved. May take seconds.
    pub(super) fn plan_for_call(&self, file: &Path, top: &Path) -> Result<ServerPlan, String> {
        let why = match self.plan(file, top) {
            Ok(plan) => return Ok(plan),
            Err(why @ ServerUnavailable::Missing { .. }) if self.further.get().is_none() => why,
            Err(why) => return Err(why.to_string()),
        };
        self.further.get_or_init(|| {
            let mut programs = self.programs.clone();
            programs.path.extend((self.further_dirs)());
            programs
        });
        match self.plan(file, top) {
            Ok(plan) => Err(format!(
                "{} was found just now, on the PATH of the person's login shell. Call this again with the same input",
                plan.program.display()
            )),
            Err(_) => Err(why.to_string()),
        }
    }

    /// Returns the command line that starting a server for this file would run, if it has not been
    /// approved yet. A server may execute code of the project, so it needs permission like any command.
    pub(super) fn to_agree(&self, file: &Path, top: &Path) -> Option<String> {
        let plan = self.plan(file, top).ok()?;
        let known = self.agreed().contains(&(plan.line(), plan.root.clone()));
        (!known).then(|| plan.line())
    }

    fn agreed(&self) -> MutexGuard<'_, BTreeSet<(String, PathBuf)>> {
        self.agreed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn shell(&self) -> io::Result<&Arc<ServerShell>> {
        match self.shell.get() {
            Some(shell) => Ok(shell),
            None => {
                let opened = (self.open_shell)()?;
                Ok(self.shell.get_or_init(|| opened))
            }
        }
    }

    /// Returns the server of a plan, starting it if necessary. The caller must have permission to run
    /// it.
    pub(super) async fn client<P>(
        &self,
        plan: &ServerPlan,
        cx: &ToolContext<P>,
    ) -> Result<Arc<LspClient>, ToolError> {
        let line = plan.line();
        let about = ConfinedCommand {
            command: &line,
            cwd: &plan.root,
            agent: &cx.agent_id,
            outside: OutsideSandbox::No,
            permit: cx.permit(),
        };
        let (confinement, reading) = self.confine.choose(&about).held()?;
        let shell = self.shell().map_err(|err| ToolError::failed(format!("no server can start: {err}")))?;
        let held = held(&shell.0, confinement.as_deref(), reading.as_deref());
        self.agreed().insert((line, plan.root.clone()));
        self.held.lock().unwrap_or_else(PoisonError::into_inner).insert(held.clone());
        let launcher = ShellLauncher {
            shell: Arc::clone(&shell.0),
            call: cx.call_id.clone(),
            agent: cx.agent_id.clone(),
            confinement,
            reading,
        };
        self.pool.limit_memory(self.settings().most_memory);
        let started = self.pool.get(plan, &held, &launcher).await;
        started.map_err(|fault| ToolError::failed(fault.to_string()))
    }

    /// Returns the running server that handles a file, with the language id. Reads the disk.
    pub(super) fn running(&self, file: &Path, top: &Path) -> Option<(Arc<LspClient>, String)> {
        let helds = self.held.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if helds.is_empty() {
            return None;
        }
        let plan = self.plan(file, top).ok()?;
        let client = helds.iter().find_map(|held| self.pool.serving(file, &plan.program, held))?;
        Some((client, plan.language))
    }

    /// Returns all running servers this session uses.
    pub(super) fn all_running(&self) -> Vec<Arc<LspClient>> {
        let helds = self.held.lock().unwrap_or_else(PoisonError::into_inner).clone();
        helds.iter().flat_map(|held| self.pool.held_by(held)).collect()
    }
}

impl Drop for LspServers {
    /// The last session that uses the shell stops its servers.
    fn drop(&mut self) {
        if self.shell.get().is_some_and(|shell| Arc::strong_count(shell) == 1) {
            for client in self.all_running() {
                client.kill("its session ended");
            }
        }
    }
}

/// Returns a key for the shell and sandbox a server runs in. Servers are shared only within the same
/// key.
fn held(shell: &Arc<Shell>, walls: Option<&Confinement>, reading: Option<&ReadOnlySandbox>) -> String {
    use std::hash::{DefaultHasher, Hash as _, Hasher as _};
    let mut hasher = DefaultHasher::new();
    walls.map(|it| format!("{:?}", it.policy())).hash(&mut hasher);
    reading.map(|it| std::ptr::from_ref(it).addr()).hash(&mut hasher);
    format!("{:x}-{:x}", Arc::as_ptr(shell).addr(), hasher.finish())
}

/// Starts servers like commands: same environment, sandbox and process ownership.
struct ShellLauncher {
    shell: Arc<Shell>,
    call: CallId,
    agent: AgentId,
    confinement: Option<Arc<Confinement>>,
    reading: Option<Arc<ReadOnlySandbox>>,
}

impl ServerLauncher for ShellLauncher {
    fn launch(&self, plan: &ServerPlan) -> io::Result<LaunchedServer> {
        let (ours, theirs) = StdUnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let job = self.shell.start(JobSpec {
            call: self.call.clone(),
            agent: self.agent.clone(),
            command: format!("exec {} <&3 >&3 3>&-", plan.line()),
            cwd: plan.root.clone(),
            limit: LIFE,
            variables: plan.env.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
            lifetime: Lifetime::Guarded,
            confinement: self.confinement.clone(),
            reading: self.reading.clone(),
            precious: Vec::new(),
            channel: Some(Arc::new(OwnedFd::from(theirs))),
            terminal: TerminalMode::None,
        })?;
        let channel = UnixStream::from_std(ours)?;
        let process = ServerJob { job, shell: Arc::clone(&self.shell), call: self.call.clone() };
        Ok(LaunchedServer { channel, process: Arc::new(process) })
    }
}

struct ServerJob {
    job: Job,
    shell: Arc<Shell>,
    call: CallId,
}

impl LspProcess for ServerJob {
    fn ended(&self) -> BoxFuture<'_, String> {
        Box::pin(async {
            let end = self.job.ended().await;
            self.job.flush().await;
            match &end.exit {
                haft_shell::run::Exit::Code(code) => format!("it exited with code {code}"),
                haft_shell::run::Exit::Signal(signal) => format!("it was ended by signal {signal}"),
                other => format!("it ended: {other:?}"),
            }
        })
    }

    fn errors(&self) -> String {
        self.job.recent_lines(20).join("\n")
    }

    fn stop(&self) {
        self.job.stop(Stop::Asked);
    }

    fn memory(&self) -> Option<u64> {
        let all = self.shell.owner().list();
        let of_it = all.iter().filter(|it| it.call == self.call.as_str()).flat_map(|it| &it.processes);
        Some(resident_bytes(of_it.map(|it| it.id)))
    }
}
