use std::{
    cell::Cell,
    ffi::{CStr, CString, OsStr, OsString},
    fs::File,
    io::{self, Write as _},
    os::{
        fd::{AsFd as _, OwnedFd, RawFd},
        unix::ffi::OsStrExt as _,
    },
    panic::AssertUnwindSafe,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use haft_process::{
    MARK_VARIABLE, OwnedSpawnRequest, ProcessOwner, ProcessPurpose, ProcessTag, SpawnIntent, SpawnRequest,
    file_name_of_id,
};
use haft_sandbox::{BaselineSandbox, FdAllocator};
use haft_types::EnvVars;
use rustix::{
    event::{EventfdFlags, eventfd},
    fs::{MemfdFlags, SealFlags},
    pipe::{PipeFlags, pipe_with},
    process::{Resource, Signal, getrlimit},
};
use tokio::sync::{Notify, watch};

use crate::{
    env::{EnvPolicy, LoginEnvOptions, ShellDefinitions, entry},
    output::{Blank, SpoolDir, SpoolLimits, SpoolQuota},
    run::{
        bash::{NO_BASH, find_bash, is_program},
        cgroup::Cgroup,
        job::{ControlState, Exit, FeedJob, FinalCwd, Job, JobEnd, JobPhase, JobSpec, SharedJob},
        pty::JobIo,
        supervisor::{StartedJob, Supervisor},
        thread_pool,
    },
};

/// Configuration of a session's shell.
#[derive(Clone, Debug)]
pub struct ShellConfig {
    /// Name of the session's files.
    pub session: String,
    /// State directory for outputs and the process registry.
    pub state: PathBuf,
    /// The bash that runs commands.
    pub bash: PathBuf,
    /// Variables to inherit, subject to `environment`.
    pub variables: EnvVars,
    /// Which variables commands get.
    pub environment: EnvPolicy,
    /// How to capture the login shell's environment; `None` to use only `variables`.
    pub capture: Option<LoginEnvOptions>,
    /// A script that is sourced before every command.
    pub before_each: Option<PathBuf>,
    /// Limits for the output of one command.
    pub spool: SpoolLimits,
    /// Maximum bytes of all outputs on disk.
    pub quota: u64,
    /// How long outputs of ended sessions are kept.
    pub keep: Duration,
    /// Maximum bytes of memory per command.
    pub memory: Option<u64>,
    /// Redacts secrets in stored outputs.
    pub blank: Option<Arc<dyn Blank>>,
    /// Supplies the baseline sandbox.
    pub keeper: Option<Arc<dyn BaselineGuard>>,
}

/// Supplies the baseline sandbox for commands without another sandbox.
pub trait BaselineGuard: std::fmt::Debug + Send + Sync {
    /// The sandbox for this command line; `None` if there is nothing to protect or it is not supported.
    fn walls(&self, command: &str, cwd: &Path) -> Option<Arc<BaselineSandbox>>;
}

impl ShellConfig {
    /// Defaults, with this process's environment.
    pub fn new(session: impl Into<String>, state: impl Into<PathBuf>) -> Self {
        Self::with_variables(session, state, EnvVars::of_process())
    }

    /// Defaults, for commands that inherit these variables.
    pub fn with_variables(session: impl Into<String>, state: impl Into<PathBuf>, variables: EnvVars) -> Self {
        let found = find_bash(variables.os_text("PATH").as_deref());
        let bash = found.unwrap_or_else(|| PathBuf::from("/bin/bash"));
        let variable = |names: [&str; 2]| names.into_iter().find_map(|name| variables.text(name));
        let memory = variable(["HAFT_TOOL_MEMORY_LIMIT", "CLAUDE_CODE_TOOL_MEMORY_LIMIT"]);
        let state = state.into();
        let mut capture = LoginEnvOptions::from_variables(&bash, &variables);
        capture.kept = Some(state.join("cache"));
        Self {
            session: session.into(),
            environment: EnvPolicy::from(|name| variables.text(name)),
            capture: Some(capture).filter(|_| !variables.is_on(NO_LOGIN_SHELL)),
            state,
            before_each: variable(["HAFT_ENV_FILE", "CLAUDE_ENV_FILE"]).map(PathBuf::from),
            spool: SpoolLimits::default(),
            quota: 512 << 20,
            keep: Duration::from_secs(7 * 24 * 60 * 60),
            memory: memory.and_then(|text| crate::run::parse_bytes(&text)),
            blank: None,
            keeper: None,
            variables,
            bash,
        }
    }
}

/// Environment variable that disables capturing the login shell's environment.
const NO_LOGIN_SHELL: &str = "HAFT_NO_LOGIN_SHELL";

/// Directory of process registries, below the state directory.
const REGISTRIES: &str = "processes";
/// Directory of outputs, below the state directory.
const OUTPUTS: &str = "tasks";

/// Descriptor number of [`JobSpec::channel`] in the command.
const CHANNEL: RawFd = 3;

/// Runs the commands of one session.
#[derive(Debug)]
pub struct Shell {
    config: ShellConfig,
    owner: Arc<ProcessOwner>,
    spools: SpoolDir,
    numbers: AtomicU64,
    /// Two unused descriptor numbers within our limit.
    descriptors: Descriptors,
    prepared: OnceLock<PreparedEnvironment>,
    /// Whether the environment is already being captured.
    warmed: AtomicBool,
    notices: Mutex<Vec<String>>,
    /// Whether the notice that memory cannot be limited was issued.
    unlimited: AtomicBool,
    null: File,
}

#[derive(Clone, Copy, Debug)]
struct Descriptors {
    status: RawFd,
    prelude: RawFd,
    top: RawFd,
}

#[derive(Debug)]
struct PreparedEnvironment {
    environment: Vec<CString>,
    definitions: ShellDefinitions,
}

impl Shell {
    /// Opens the session's directories and deletes expired outputs of ended sessions. Processes they
    /// left running are listed by [`haft_process::leftovers`] of [`Shell::registries`].
    pub fn open(config: ShellConfig) -> io::Result<Arc<Self>> {
        let outputs = config.state.join(OUTPUTS);
        SpoolDir::sweep(&outputs, config.keep);
        let quota = SpoolQuota::new(config.quota);
        let spools = SpoolDir::create(&outputs, &config.session, config.spool, quota)?;
        let spools = spools.with_redactor(config.blank.clone());
        let owner = ProcessOwner::open(&Self::registries(&config.state), &config.session)?;
        Self::with(config, spools, owner)
    }

    /// For a state directory that cannot be written: outputs stay in memory, and processes are tracked
    /// only while this process runs.
    pub fn open_without_disk(config: ShellConfig) -> io::Result<Arc<Self>> {
        let quota = SpoolQuota::new(config.quota);
        let spools =
            SpoolDir::without_disk(&config.state.join(OUTPUTS), &config.session, config.spool, quota);
        let owner = ProcessOwner::unrecorded(&config.session);
        Self::with(config, spools, owner)
    }

    fn with(config: ShellConfig, spools: SpoolDir, owner: Arc<ProcessOwner>) -> io::Result<Arc<Self>> {
        let numbers = AtomicU64::new(spools.highest_number());
        let named = |err: io::Error| io::Error::new(err.kind(), format!("/dev/null: {err}"));
        let null = File::open("/dev/null").map_err(named)?;
        let descriptors = Descriptors::within_limit();
        Ok(Arc::new(Self {
            config,
            owner,
            spools,
            numbers,
            descriptors,
            prepared: OnceLock::new(),
            warmed: AtomicBool::new(false),
            notices: Mutex::default(),
            unlimited: AtomicBool::new(false),
            null,
        }))
    }

    /// Directory of the process registries.
    pub fn registries(state: &Path) -> PathBuf {
        state.join(REGISTRIES)
    }

    /// Path of a task's output, if it is on disk.
    pub fn output_of(state: &Path, session: &str, task: &str) -> PathBuf {
        Self::outputs_of(state, session).join(format!("{}.out", file_name_of_id(task)))
    }

    /// Directory of a session's outputs.
    pub fn outputs_of(state: &Path, session: &str) -> PathBuf {
        state.join(OUTPUTS).join(file_name_of_id(session))
    }

    pub(crate) fn config(&self) -> &ShellConfig {
        &self.config
    }

    /// Owner of the session's processes.
    pub fn owner(&self) -> &Arc<ProcessOwner> {
        &self.owner
    }

    /// Directory of the session's outputs.
    pub fn outputs(&self) -> &Path {
        self.spools.path()
    }

    /// Notices about the user's shell; each is returned once.
    pub fn take_notices(&self) -> Vec<String> {
        std::mem::take(&mut *self.notices.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Starts capturing the login shell's environment in the background, so that the first command need
    /// not wait for it. Returns at once; further calls do nothing.
    pub fn warm_up(self: &Arc<Self>) {
        if self.warmed.swap(true, Ordering::Relaxed) {
            return;
        }
        let shell = Arc::clone(self);
        std::thread::Builder::new()
            .name(String::from("haft-shell"))
            .spawn(move || {
                shell.prepared();
            })
            .ok();
    }

    /// Whether bash exists.
    pub fn has_bash(&self) -> bool {
        is_program(&self.config.bash)
    }

    /// Starts a command. Returns at once; fails if bash is missing. Other errors become the result of
    /// the job.
    pub fn start(self: &Arc<Self>, spec: JobSpec) -> io::Result<Job> {
        if !self.has_bash() {
            return Err(io::Error::new(io::ErrorKind::NotFound, NO_BASH));
        }
        let shared = self.shared(spec, "bash")?;
        let wake = shared.wake_descriptor().ok_or(io::ErrorKind::NotConnected)?;
        let (shell, job) = (Arc::clone(self), Job(Arc::clone(&shared)));
        thread_pool::run(move || {
            // Set once there is a process.
            let running = Cell::new(None);
            let supervised = AssertUnwindSafe(|| {
                let started = shell.spawn(&shared)?;
                running.set(Some(started.mark.clone()));
                Supervisor::new(Arc::clone(&shared), started, wake).run();
                Ok(())
            });
            let ended: Result<io::Result<()>, _> = std::panic::catch_unwind(supervised);
            // Whatever happened, waiters must be released.
            match (ended, running.take()) {
                (Ok(Ok(())), _) => {}
                (Ok(Err(err)), _) => end_with(&shared, Exit::NotStarted(err.to_string())),
                (Err(_), None) => {
                    end_with(&shared, Exit::NotStarted(String::from("its supervisor crashed")));
                }
                (Err(_), Some(mark)) => {
                    shell.owner.signal(&mark, Signal::KILL);
                    shell.owner.forget(&mark);
                    end_with(&shared, Exit::Lost(String::from("its supervisor crashed, so it was killed")));
                }
            }
        })?;
        Ok(job)
    }

    /// Creates a job without a process; its output is written through the [`FeedJob`].
    pub fn feed(&self, spec: JobSpec) -> io::Result<(Job, FeedJob)> {
        let shared = self.shared(spec, "feed")?;
        Ok((Job(Arc::clone(&shared)), FeedJob(shared)))
    }

    fn shared(&self, mut spec: JobSpec, kind: &str) -> io::Result<Arc<SharedJob>> {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed) + 1;
        let id = format!("{kind}_{number}");
        let started = Instant::now();
        Ok(Arc::new(SharedJob {
            spool: Mutex::new(self.spools.spool(&id)),
            id,
            owner: Arc::clone(&self.owner),
            started,
            phase: watch::Sender::new(JobPhase::Running),
            printed: watch::Sender::new(0),
            control: Mutex::new(ControlState {
                stop: None,
                stop_at: started.checked_add(spec.limit),
                interrupt: false,
                flush: Vec::new(),
            }),
            wake: Mutex::new(Some(Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))),
            channel: Mutex::new(spec.channel.take()),
            asked: Notify::new(),
            keyboard: Mutex::new(None),
            spec,
        }))
    }

    fn spawn(&self, shared: &SharedJob) -> io::Result<StartedJob> {
        self.warmed.store(true, Ordering::Relaxed);
        self.prepared();
        let spec = &shared.spec;
        let about = SpawnIntent {
            purpose: ProcessPurpose::Command,
            call: &spec.call,
            command: &spec.command,
            task: &shared.id,
        };
        let mark = self.owner.announce(about, spec.lifetime)?;
        self.launch(shared, &mark).inspect_err(|_| self.owner.forget(&mark))
    }

    fn launch(&self, shared: &SharedJob, mark: &ProcessTag) -> io::Result<StartedJob> {
        let spec = &shared.spec;
        let wires = JobIo::open(spec.terminal)?;
        let (status, status_end) = pipe_with(PipeFlags::CLOEXEC)?;
        rustix::io::ioctl_fionbio(&status, true)?;
        let definitions = self.prepared().definitions.needed_for(&spec.command);
        let cgroup = self.memory_group(shared);
        let door = cgroup.as_ref().and_then(|it| it.door().ok());
        let guard = crate::run::rm_guard(&spec.precious);
        let prelude = sealed(&self.prelude(mark, &format!("{definitions}{guard}"), door.is_some()))?;
        let command = CString::new(spec.command.as_bytes())?;
        let directory = CString::new(spec.cwd.as_os_str().as_bytes())?;
        let bash = CString::new(self.config.bash.as_os_str().as_bytes())?;
        let mut descriptors = wires.descriptors(&self.null);
        descriptors.extend([
            (status_end.as_fd(), self.descriptors.status),
            (prelude.as_fd(), self.descriptors.prelude),
        ]);
        let channel = shared.channel.lock().unwrap_or_else(PoisonError::into_inner).take();
        descriptors.extend(channel.iter().map(|channel| (channel.as_fd(), CHANNEL)));
        descriptors.extend(door.iter().map(|door| (door.as_fd(), self.descriptors.door())));
        let output = wires.output(shared)?;
        let mut argv: Vec<&CStr> = Vec::new();
        let mut program = bash.as_c_str();
        let wrapped =
            spec.confinement.as_ref().map(|it| it.wrap(self.descriptors.for_walls())).transpose()?;
        let mut environment = self.environment(spec, mark);
        if let Some(wrapped) = &wrapped {
            program = &wrapped.program;
            argv.extend(wrapped.arguments.iter().map(CString::as_c_str));
            argv.push(&bash);
            descriptors.extend(wrapped.descriptors.iter().map(|(fd, number)| (fd.as_fd(), *number)));
            for (name, value) in &wrapped.variables {
                set(&mut environment, name, OsStr::new(value));
            }
        }
        argv.extend([c"bash", c"--norc", c"--noprofile", c"-c", &command]);
        let launch = SpawnRequest {
            program,
            argv: &argv,
            environment: &environment,
            directory: &directory,
            descriptors: &descriptors,
            terminal: wires.terminal(),
        };
        let pid = match &spec.reading {
            Some(walls) => walls.start(OwnedSpawnRequest::from_request(&launch)?)?,
            None => match self.config.keeper.as_ref().and_then(|it| it.walls(&spec.command, &spec.cwd)) {
                Some(walls) => walls.start(OwnedSpawnRequest::from_request(&launch)?)?,
                None => launch.start()?,
            },
        };
        tracing::debug!(session = self.config.session, call = %spec.call, task = shared.id, ?pid, limit = ?spec.limit, "a command runs");
        let root = self.owner.started(mark, pid);
        // The script joins by itself before it starts anything; this covers shells that do not get that
        // far.
        cgroup.as_ref().map(|it| it.add(pid).ok());
        drop(descriptors);
        let guard = wrapped.map(|it| it.guard);
        drop(wires);
        Ok(StartedJob { pid, root, mark: mark.clone(), output, status, cgroup, guard })
    }

    fn environment(&self, spec: &JobSpec, mark: &ProcessTag) -> Vec<CString> {
        let mut environment = self.prepared().environment.clone();
        let prelude = format!("/proc/self/fd/{}", self.descriptors.prelude);
        let own = [
            (MARK_VARIABLE, mark.cookie()),
            ("BASH_ENV", &prelude),
            ("CLAUDE_CODE_SESSION_ID", &self.config.session),
        ];
        let given = spec.variables.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        for (name, value) in own.into_iter().chain(given) {
            set(&mut environment, name, OsStr::new(value));
        }
        set(&mut environment, "PWD", spec.cwd.as_os_str());
        // Idempotency key for services.
        set(&mut environment, "HAFT_CALL_ID", OsStr::new(spec.call.as_str()));
        if let Some(scratch) = spec.reading.as_ref().and_then(|walls| walls.policy().scratch.as_ref()) {
            set(&mut environment, "TMPDIR", scratch.as_os_str());
        }
        environment
    }

    fn memory_group(&self, shared: &SharedJob) -> Option<Cgroup> {
        let bytes = self.config.memory?;
        let name = format!("haft-{}-{}", std::process::id(), shared.id);
        let group = Cgroup::create(&name, bytes);
        if let Err(err) = &group
            && !self.unlimited.swap(true, Ordering::Relaxed)
        {
            let notice = format!("the memory limit for commands is not enforced: {err}");
            self.notices.lock().unwrap_or_else(PoisonError::into_inner).push(notice);
        }
        group.ok()
    }

    /// Script that bash reads before the command: hides itself, reports the final directory at exit, and
    /// defines the aliases and functions the command uses.
    fn prelude(&self, mark: &ProcessTag, definitions: &str, joins: bool) -> String {
        let Descriptors { status, prelude, .. } = self.descriptors;
        let mark = mark.shell_text();
        let door = self.descriptors.door();
        let join = if joins {
            format!("{{ echo 0 >&{door}; }} 2>/dev/null\nexec {door}>&-\n")
        } else {
            String::new()
        };
        let mut text = format!(
            "{join}{mark}unset BASH_ENV\nexec {prelude}<&-\n\
             trap '{{ printf .; \\builtin pwd -P; }} 2>/dev/null >&{status}' EXIT\n"
        );
        if let Some(script) = &self.config.before_each {
            let script = crate::env::quote(&script.to_string_lossy());
            text.push_str(&format!("[ -r {script} ] && . {script}\n"));
        }
        text.push_str(definitions);
        text
    }

    fn prepared(&self) -> &PreparedEnvironment {
        self.prepared.get_or_init(|| {
            let policy = &self.config.environment;
            let own =
                || self.config.variables.iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
            let captured = self.config.capture.as_ref().map(|plan| {
                // Start-up files see only the variables that pass.
                let visible: Vec<(OsString, OsString)> = own().filter(|it| policy.passes(&it.0)).collect();
                plan.capture(&self.owner, &visible)
            });
            let captured = captured.unwrap_or_default();
            self.notices.lock().unwrap_or_else(PoisonError::into_inner).extend(captured.notices);
            let pid = std::process::id().to_string();
            let mut all = policy.environment(own(), &captured.environment);
            all.retain(|(name, _)| {
                !["PWD", "OLDPWD", "SHLVL", "_", "CLAUDE_PID"].iter().any(|it| name == it)
            });
            all.push((OsString::from("CLAUDE_PID"), OsString::from(pid)));
            let environment = all.iter().filter_map(|(name, value)| entry(name, value)).collect();
            PreparedEnvironment { environment, definitions: captured.definitions }
        })
    }
}

impl Descriptors {
    /// High enough to be unused, and not numbers that scripts commonly use for locks.
    fn within_limit() -> Self {
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(1024);
        let top = i32::try_from(limit.min(180)).unwrap_or(180);
        Self { status: top - 7, prelude: top - 6, top }
    }

    /// Descriptor through which a command with a memory limit joins its cgroup.
    fn door(self) -> RawFd {
        self.top - 2
    }

    fn for_walls(self) -> FdAllocator {
        FdAllocator { status: self.status, order: self.top - 5, user: self.top - 4, net: self.top - 3 }
    }
}

/// Sets a variable, replacing any earlier value.
fn set(environment: &mut Vec<CString>, name: &str, value: &OsStr) {
    environment
        .retain(|it| !it.as_bytes().strip_prefix(name.as_bytes()).is_some_and(|rest| rest.starts_with(b"=")));
    environment.extend(entry(OsStr::new(name), value));
}

fn end_with(shared: &SharedJob, exit: Exit) {
    let end = Arc::new(JobEnd {
        exit,
        stopped: None,
        elapsed: shared.started.elapsed(),
        cwd: FinalCwd::Untold,
        left: Vec::new(),
        out_of_memory: false,
        violations: Vec::new(),
    });
    shared.mark_gone(end);
}

/// A sealed memory file with the script.
fn sealed(text: &str) -> io::Result<OwnedFd> {
    let mut file: File =
        rustix::fs::memfd_create("prelude", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?.into();
    file.write_all(text.as_bytes())?;
    let seals = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
    rustix::fs::fcntl_add_seals(&file, seals)?;
    Ok(file.into())
}
