//! Services that the built-in tools of a session share.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    sync::{Arc, LazyLock, Mutex, PoisonError},
    time::Duration,
};

use haft_agent::Masker;
use haft_builtin_tools::{
    KnownShapes, SearchToolSettings, ToolServices,
    bash::{BashInspector, BashSettings, NoConfiner},
    config::NoSettings,
    cron::CronServices,
    git::Git,
    read::ReadLimits,
    remote_trigger::TriggerServices,
    task_list::TaskServices,
};
use haft_command_undo::{JournalCommandUndo, NoSnapshots, SnapshotLimits};
use haft_media::{MediaWork, MediaWorker};
use haft_permission::HookOpinion;
use haft_shell::{
    env::EnvPolicy,
    output::Blank,
    run::{NO_BASH, Shell, ShellConfig, TaskRegistry},
};
use haft_tool::{CallContext, DynTool, Tool as _, erase};
use haft_tool_runtime::{CallSession, ResultStore, StoreLimits};
use haft_triggers::TriggerStore;
use haft_types::EnvVars;
use haft_workspace::{JournalLimits, SessionFiles, Workspace, WorkspaceConfig};
use serde_json::json;

use super::{
    ChosenProvider,
    lsp::lsp_desk,
    results_in_context::{ChildContextViews, MainContextView},
    settings_access::StoredSettings,
    stored_prompts::schedule_services,
    web::SessionWeb,
};
use crate::{
    EventSender, OpenError,
    agents::{AgentKindCatalog, SubagentRegistry},
    environment::{MCP_RESULTS, SessionEnvironment, TOOL_RESULTS},
    late_pipeline::LatePipeline,
    remote_mail::{RemoteMail, RemoteMailer},
    task_hooks::{TaskHooks, task_lists},
    team_registry::TeamRegistry,
    user_messages::SessionMessenger,
    worktrees::SessionWorktrees,
};

/// Whether commands and their output are recorded on disk.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ShellRecords {
    /// On disk, so that they outlive this process.
    OnDisk,
    /// Not recorded: no command will run.
    None,
}

/// Files and commands of a session, and the built-in tools that use them.
pub(crate) struct SessionServices {
    pub(crate) files: Arc<SessionFiles>,
    /// The registry of shell commands.
    pub(crate) tasks: Arc<TaskRegistry>,
    /// All built-in tools, including those the session does not offer.
    pub(crate) tools: Vec<Arc<dyn DynTool>>,
    /// Read-only tools for front ends.
    pub(crate) readers: ReadOnlyTools,
    /// Models used by the web tools.
    web: SessionWeb,
    pub(crate) lsp: Arc<haft_builtin_tools::lsp::LspServers>,
    /// The pipeline with hooks and rules; set later during the build.
    pub(crate) late: Arc<LatePipeline>,
    /// Sends messages to the user.
    pub(crate) voice: Arc<SessionMessenger>,
    /// Worktrees of isolated sub-agents.
    pub(crate) worktrees: Arc<SessionWorktrees>,
}

/// Masks secrets in command output written to disk.
#[derive(Debug)]
struct SpoolMask(Masker);

impl Blank for SpoolMask {
    fn blank(&self, text: &str) -> Option<String> {
        self.0.blank(text)
    }
}

/// Read-only tools for callers other than the model.
#[derive(Clone)]
pub(crate) struct ReadOnlyTools {
    pub(crate) read: Arc<dyn DynTool>,
    pub(crate) list: Arc<dyn DynTool>,
}

impl ReadOnlyTools {
    /// Whether `path` is one of the session's stored results and no rule denies reading it.
    pub(crate) fn may_read(&self, calls: &CallSession, path: &Path) -> bool {
        if haft_paths::is_of_kernel(path) {
            return false;
        }
        let mut cx = CallContext::detached(String::from("memory"), Arc::clone(&calls.state.cwd));
        cx.home.clone_from(&calls.state.home);
        // A path that is not UTF-8 cannot appear in a tool input, so no rule allows it.
        let Some(path) = path.to_str() else { return false };
        let Ok(call) = Arc::clone(&self.read).parse(json!({"file_path": path}), &cx) else { return false };
        let policy = calls.pipeline.gate.permissions().policy();
        policy.judge(self.read.name(), call.as_ref(), &cx, &HookOpinion::default()).approved().is_ok()
    }
}

/// The current workspace directories, as the sandbox sees them.
struct LiveRoots(Arc<Workspace>);

impl haft_builtin_tools::bash::WorkingDirs for LiveRoots {
    fn roots(&self) -> Vec<PathBuf> {
        self.0.roots()
    }
}

impl SessionServices {
    /// Creates the services. `in_request` tells which results are part of the next request.
    pub(crate) fn open(
        premises: &SessionEnvironment,
        in_request: MainContextView,
        records: ShellRecords,
        chosen: Option<&ChosenProvider>,
        agents: &Arc<SubagentRegistry>,
        programs: &[PathBuf],
        far_post: Option<&Arc<dyn RemoteMail>>,
    ) -> Result<Self, OpenError> {
        let get = |name: &str| premises.variables.text(name);
        let workspace = match records {
            ShellRecords::None => premises.described_workspace(),
            ShellRecords::OnDisk => premises.workspace()?,
        };
        let roots = workspace.roots();
        let variables = premises.variables.clone();
        let mut config =
            ShellConfig::with_variables(premises.session_id.as_str(), premises.state_dir(), variables);
        config.environment = environment(premises, programs);
        config.keeper = Some(premises.walls.keeper());
        config.blank = Some(Arc::new(SpoolMask(premises.masker.clone())));
        let shell = open_shell(premises, config.clone(), records)?;
        let session = Some(premises.session_id.clone());
        let files = Arc::new(SessionFiles::new(Arc::new(workspace), session, in_request));
        let (home, limits) = (premises.home.clone(), SnapshotLimits::default());
        let web = SessionWeb::new(premises, chosen);
        let read = haft_builtin_tools::read::Read::new(Arc::clone(&files), ReadLimits::from(get));
        let readers = ReadOnlyTools {
            read: erase(read.with_media(media_work(premises.program.as_ref()))),
            list: erase(haft_builtin_tools::ls::Ls::new(SearchToolSettings::from_env(get))),
        };
        let naming = Arc::downgrade(agents);
        files.reads().name_agents(move |agent| {
            naming.upgrade().map_or_else(|| agent.to_string(), |agents| agents.address_of(agent))
        });
        let late = Arc::new(LatePipeline::default());
        let lists = task_lists(premises);
        let watch =
            TaskHooks { late: Arc::clone(&late), agents: Arc::clone(agents), lists: Arc::clone(&lists) };
        let teams = TeamRegistry::open(agents, &lists, &premises.state_dir(), premises.session_id.as_str());
        let worktrees = SessionWorktrees::new(premises, shell.owner(), &files, &late, &readers.read);
        let tasks = TaskRegistry::new(shell);
        premises.tasks.set(Arc::downgrade(&tasks)).ok();
        let voice = Arc::new(SessionMessenger {
            events: premises.events.clone(),
            files: Arc::clone(&files),
            lists: Arc::clone(&lists),
            agents: Arc::clone(agents),
            tasks: Arc::clone(&tasks),
            session: premises.session_id.clone(),
            log: Mutex::default(),
        });
        let lsp = lsp_desk(premises, &config, &files);
        let services = ToolServices {
            lsp: Arc::clone(&lsp),
            triggers: triggers(premises),
            tasks,
            commands: Arc::new(BashInspector { home: home.clone(), roots: roots.clone() }),
            roots: Arc::new(LiveRoots(Arc::clone(files.workspace()))),
            bash: bash_settings(premises, get),
            confine: Arc::clone(&premises.walls) as Arc<_>,
            snapshots: Arc::new(JournalCommandUndo::new(Arc::clone(&files), home, limits, Git::NAME)),
            settings: Arc::new(StoredSettings { store: Arc::clone(&premises.store) }),
            find: SearchToolSettings::from_env(get),
            files: Arc::clone(&files),
            read: ReadLimits::from(get),
            media: media_work(premises.program.as_ref()),
            config_check: Arc::new(KnownShapes),
            schedule: schedule_services(premises),
            web: web.services(premises),
            agents: Arc::clone(agents) as Arc<_>,
            post: match far_post {
                Some(far) => Arc::new(RemoteMailer { near: Arc::clone(agents), far: Arc::clone(far) }),
                None => Arc::clone(agents) as Arc<_>,
            },
            plans: (premises.plans_dir(), premises.session_id.to_string()),
            other_tasks: Arc::clone(agents) as Arc<_>,
            task_lists: TaskServices { lists, watch: Arc::new(watch) },
            teams,
            user: Arc::clone(&voice) as Arc<_>,
            suggestions: premises.session_dir().join("suggested-prs.jsonl"),
            worktrees: Arc::clone(&worktrees) as Arc<_>,
        };
        own_processes(premises);
        let tools = haft_builtin_tools::base(&services);
        let tasks = services.tasks;
        Ok(Self { files, tasks, tools, readers, web, lsp, late, voice, worktrees })
    }

    /// Sets the budget that model requests of tools are charged to.
    pub(super) fn charge_to(&self, agent: &haft_agent::Agent) {
        self.web.charge_to(agent);
    }

    /// Sets the agent that receives delayed diagnostics of edits.
    pub(super) fn tell_news_to(&self, agent: &haft_agent::Agent) {
        let inbox = agent.inbox.clone();
        self.lsp.tell_with(Box::new(move |text| inbox.mention(haft_agent::UserInput::text(text))));
    }
}

/// The webhook triggers in the user's settings. Project settings cannot define triggers.
fn triggers(premises: &SessionEnvironment) -> TriggerServices {
    let store = Arc::clone(&premises.store);
    TriggerServices {
        store: TriggerStore::at(premises.state_dir().join("triggers")),
        triggers: Arc::new(move || {
            let set = store.current().settings.get("triggers").map(|it| it.value);
            set.as_ref().map(haft_triggers::read_triggers).unwrap_or_default().0
        }),
        session: Some(premises.session_id.as_str().to_owned()),
    }
}

/// The environment variables commands inherit: settings override the session's environment. Plugin
/// programs are appended to `PATH`, so they cannot shadow programs that rules refer to.
fn environment(premises: &SessionEnvironment, programs: &[PathBuf]) -> EnvPolicy {
    let loaded = premises.loaded();
    let set = &loaded.settings.env;
    let named = |name: &str| set.iter().find(|it| it.0 == name).map(|it| it.1.value.clone());
    let mut policy = EnvPolicy::from(|name| named(name).or_else(|| premises.variables.text(name)));
    policy.set_all(set.iter().map(|(name, value)| (name.clone(), value.value.clone())));
    policy.programs = programs.to_vec();
    policy
}

/// Opens the shell service. Reports if the machine has no usable shell.
fn open_shell(
    premises: &SessionEnvironment,
    config: ShellConfig,
    records: ShellRecords,
) -> Result<Arc<Shell>, OpenError> {
    let shell = open_on_disk_or_not(premises, config, records)?;
    if !shell.has_bash() {
        premises.events.notice(String::from(NO_BASH));
    }
    Ok(shell)
}

/// Opens the shell service with its state on disk, or in memory if the disk is not writable. A lock held
/// by another process is an error, not such a case.
fn open_on_disk_or_not(
    premises: &SessionEnvironment,
    config: ShellConfig,
    records: ShellRecords,
) -> Result<Arc<Shell>, OpenError> {
    use std::io::ErrorKind::{
        AlreadyExists, NotADirectory, PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull,
    };
    // A file or a dangling link in place of a directory counts as not writable.
    let takes_nothing = |err: &std::io::Error| {
        let refused = matches!(err.kind(), StorageFull | QuotaExceeded | ReadOnlyFilesystem);
        refused || matches!(err.kind(), PermissionDenied | NotADirectory | AlreadyExists)
    };
    let failed = |err: std::io::Error| OpenError::Start(format!("commands cannot run: {err}"));
    if records == ShellRecords::None {
        return Shell::open_without_disk(config).map_err(failed);
    }
    end_own_orphans(premises);
    match Shell::open(config.clone()) {
        Err(err) if takes_nothing(&err) => {
            let state = config.state.display().to_string();
            premises.events.notice(format!(
                "{state} cannot be written ({err}): output of commands stays in memory, and what a killed session \
                 leaves running is not found again"
            ));
            Shell::open_without_disk(config).map_err(failed)
        }
        opened => opened.map_err(failed),
    }
}

/// Time for processes of a killed session to exit.
const ORPHAN_TIMEOUT: Duration = Duration::from_secs(2);

/// Ends what a killed run of this session left running, before the session starts processes of its own
/// that could not be told apart.
fn end_own_orphans(premises: &SessionEnvironment) {
    let registries = Shell::registries(&premises.state_dir());
    let orphans = haft_process::end_orphans_of(&registries, premises.session_id.as_str(), ORPHAN_TIMEOUT);
    premises.tell_ended(&orphans.found);
}

/// Makes this process the subreaper of orphaned commands, ends processes of killed sessions, and deletes
/// expired stored results of all sessions. Runs once per process and directory.
fn own_processes(premises: &SessionEnvironment) {
    static SWEPT: LazyLock<Mutex<HashSet<PathBuf>>> = LazyLock::new(Mutex::default);
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
    haft_process::adopt_orphans().ok();
    let registries = Shell::registries(&premises.state_dir());
    if !SWEPT.lock().unwrap_or_else(PoisonError::into_inner).insert(registries.clone()) {
        return;
    }
    let events: EventSender = premises.events.clone();
    let sessions = premises.sessions_dir();
    runtime.spawn_blocking(move || {
        for it in haft_process::end_leftovers(&registries, ORPHAN_TIMEOUT) {
            let (count, command) = (it.processes.len(), haft_types::text::one_line(&it.command, 100));
            events.notice(format!("ended {count} process(es) that a killed session left running: {command}"));
        }
        for name in [MCP_RESULTS, TOOL_RESULTS] {
            ResultStore::sweep_all(&sessions, name, StoreLimits::default());
        }
    });
}

/// Decoding of images and documents in a separate `haft` process, if the executable is known.
pub(crate) fn media_work(program: Option<&PathBuf>) -> MediaWork {
    program.map_or(MediaWork::Thread, |program| {
        MediaWork::Process(MediaWorker { program: program.clone(), args: vec![String::from("media-worker")] })
    })
}

/// The built-in tools for description only, in the given scratch directory. A call must not be made; no
/// user file is touched.
pub fn described_tools(scratch: &std::path::Path) -> Result<Vec<Arc<dyn DynTool>>, OpenError> {
    let config = WorkspaceConfig {
        state_dir: scratch.to_owned(),
        root: scratch.to_owned(),
        limits: JournalLimits::default(),
    };
    let workspace = Workspace::open(config).map_err(|err| OpenError::Start(err.to_string()))?;
    let shell = Shell::open(ShellConfig::with_variables("none", scratch, EnvVars::of_process()));
    let shell = shell.map_err(|err| OpenError::Start(format!("commands cannot run: {err}")))?;
    let (roots, variables) = (workspace.roots(), EnvVars::of_process());
    let get = |name: &str| variables.text(name);
    Ok(haft_builtin_tools::base(&ToolServices {
        lsp: haft_builtin_tools::lsp::LspServers::closed(),
        triggers: haft_builtin_tools::remote_trigger::TriggerServices::none(scratch),
        tasks: TaskRegistry::new(shell),
        commands: Arc::new(BashInspector { home: None, roots: roots.clone() }),
        roots: Arc::new(roots),
        bash: BashSettings::from(get),
        confine: Arc::new(NoConfiner),
        snapshots: Arc::new(NoSnapshots),
        settings: Arc::new(NoSettings),
        find: SearchToolSettings::from_env(get),
        files: Arc::new(SessionFiles::new(
            Arc::new(workspace),
            None,
            MainContextView { main: None, children: ChildContextViews::default() },
        )),
        read: ReadLimits::from(get),
        media: MediaWork::Thread,
        config_check: Arc::new(KnownShapes),
        schedule: CronServices::at(scratch, None),
        web: haft_builtin_tools::WebToolServices::plain(scratch),
        agents: Arc::new(haft_builtin_tools::agent::NoSubagents {
            listed: AgentKindCatalog::default_kinds(),
        }),
        post: Arc::new(haft_builtin_tools::send_message::NoMailer),
        plans: (scratch.to_owned(), String::from("plan")),
        other_tasks: Arc::new(haft_builtin_tools::task_output::NoAgentTasks),
        task_lists: TaskServices::alone(scratch),
        teams: Arc::new(haft_builtin_tools::team::NoTeams),
        user: Arc::new(haft_builtin_tools::brief::NoUser),
        suggestions: scratch.join("suggested-prs.jsonl"),
        worktrees: Arc::new(haft_builtin_tools::worktree::NoWorktrees),
    }))
}

/// Settings of the Bash tool: environment variables, then the settings.
fn bash_settings(premises: &SessionEnvironment, get: impl Fn(&str) -> Option<String>) -> BashSettings {
    let loaded = premises.loaded();
    BashSettings::from(|name| {
        let setting = match name {
            "BASH_MAX_OUTPUT_LENGTH" => "bashOutputMaxChars",
            "TASK_MAX_OUTPUT_LENGTH" => "taskOutputMaxChars",
            _ => return get(name),
        };
        get(name).or_else(|| loaded.settings.get(setting)?.value.as_u64().map(|it| it.to_string()))
    })
}
