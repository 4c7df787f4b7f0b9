//! What a session knows about servers: which one serves a file, what holds it,
//! and which were agreed to.

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

/// Opens the shell that servers run in: one for all sessions that have the same
/// environment, so that a server outlives the session that needed it first.
pub type OpenServerShell = Box<dyn Fn() -> io::Result<Arc<ServerShell>> + Send + Sync>;

/// Says where programs may be beside the usual directories. May take seconds.
pub type ExtraProgramDirs = Box<dyn Fn() -> Vec<PathBuf> + Send + Sync>;

/// The shell that servers run in. As long as somebody has it, they stay.
#[derive(Debug)]
pub struct ServerShell(pub Arc<Shell>);

/// A server lives this long at most.
const LIFE: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// The servers of a session.
pub struct LspServers {
    pub(super) pool: Arc<ServerPool>,
    open_shell: OpenServerShell,
    shell: OnceLock<Arc<ServerShell>>,
    confine: Arc<dyn CommandConfiner>,
    settings: Arc<dyn Fn() -> LspSettings + Send + Sync>,
    programs: ProgramPath,
    /// Where else programs may be. Takes its time.
    further_dirs: ExtraProgramDirs,
    /// The same programs and those there, once somebody looked.
    further: OnceLock<ProgramPath>,
    /// Servers of plugins, after those of settings.
    of_plugins: Mutex<Vec<ConfiguredServer>>,
    /// Why servers of this project should not start unasked, if so.
    distrust: Box<dyn Fn() -> Option<String> + Send + Sync>,
    /// How many of those that were stopped for their memory this session knows of.
    stopped: AtomicUsize,
    /// Command lines with their roots that were agreed to.
    agreed: Mutex<BTreeSet<(String, PathBuf)>>,
    /// What holds the servers of this session.
    held: Mutex<BTreeSet<String>>,
    pub(super) news: DiagnosticTracker,
}

impl std::fmt::Debug for LspServers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LspServers").field("programs", &self.programs).finish_non_exhaustive()
    }
}

impl LspServers {
    /// Servers of this pool, found in these directories.
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

    /// No server at all: for tools that are only described.
    pub fn closed() -> Arc<Self> {
        let refused = Box::new(|| Err(io::Error::other("this session starts no servers")));
        let settings = Arc::new(LspSettings::default);
        Arc::new(Self::new(ServerPool::of_process(), refused, settings, ProgramPath::default()))
    }

    /// Puts servers behind walls.
    pub fn with_confinement(mut self, confine: Arc<dyn CommandConfiner>) -> Self {
        self.confine = confine;
        self
    }

    /// Asks before servers start as long as this says why.
    pub fn with_distrust(mut self, distrust: Box<dyn Fn() -> Option<String> + Send + Sync>) -> Self {
        self.distrust = distrust;
        self
    }

    /// Looks for programs there, too, where they are nowhere else.
    pub fn with_further_dirs(mut self, dirs: ExtraProgramDirs) -> Self {
        self.further_dirs = dirs;
        self
    }

    /// The servers of plugins, from now on.
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

    /// Why starting a server for this file is asked about whatever rules say.
    pub(super) fn distrusted(&self, file: &Path, top: &Path) -> Option<String> {
        let why = (self.distrust)()?;
        self.to_agree(file, top).map(|line| format!("{why}, and `{line}` may run code of the project"))
    }

    /// Which servers were stopped for their memory since this was last asked.
    pub(super) fn news_of_memory(&self) -> Vec<String> {
        let news = self.pool.stopped_for_memory(self.stopped.load(Ordering::Relaxed));
        self.stopped.fetch_add(news.len(), Ordering::Relaxed);
        news
    }

    /// Which server a file needs. Looks at the disk.
    pub(super) fn plan(&self, file: &Path, top: &Path) -> Result<ServerPlan, ServerUnavailable> {
        let settings = self.settings();
        match (self.programs.plan(file, top, &settings), self.further.get()) {
            (Err(ServerUnavailable::Missing { .. }), Some(further)) => further.plan(file, top, &settings),
            (planned, _) => planned,
        }
    }

    /// Which server a file needs, wherever it may be. One that was found only now is an
    /// error: nobody was asked about it yet. May take seconds.
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

    /// The command line that starting a server for this file would run, where
    /// nobody agreed to it yet. A server may run code of the project, so that it
    /// is asked for like any other command.
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

    /// The server of a plan; started if it does not run. The call was let do so.
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

    /// The server of this session that knows a file, if it runs. Looks at the
    /// disk.
    pub(super) fn running(&self, file: &Path, top: &Path) -> Option<(Arc<LspClient>, String)> {
        let helds = self.held.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if helds.is_empty() {
            return None;
        }
        let plan = self.plan(file, top).ok()?;
        let client = helds.iter().find_map(|held| self.pool.serving(file, &plan.program, held))?;
        Some((client, plan.language))
    }

    /// All servers this session uses.
    pub(super) fn all_running(&self) -> Vec<Arc<LspClient>> {
        let helds = self.held.lock().unwrap_or_else(PoisonError::into_inner).clone();
        helds.iter().flat_map(|held| self.pool.held_by(held)).collect()
    }
}

impl Drop for LspServers {
    /// The last session that has the shell takes its servers along.
    fn drop(&mut self) {
        if self.shell.get().is_some_and(|shell| Arc::strong_count(shell) == 1) {
            for client in self.all_running() {
                client.kill("its session ended");
            }
        }
    }
}

/// What holds a server, in one word: the shell it runs in and its walls.
fn held(shell: &Arc<Shell>, walls: Option<&Confinement>, reading: Option<&ReadOnlySandbox>) -> String {
    use std::hash::{DefaultHasher, Hash as _, Hasher as _};
    let mut hasher = DefaultHasher::new();
    walls.map(|it| format!("{:?}", it.policy())).hash(&mut hasher);
    reading.map(|it| std::ptr::from_ref(it).addr()).hash(&mut hasher);
    format!("{:x}-{:x}", Arc::as_ptr(shell).addr(), hasher.finish())
}

/// Starts servers as commands: with the environment, the walls and the
/// ownership of those.
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
