//! The built-in tools, one folder each, and [`base`], the one ordered list of them.
//!
//! **Does not know** the runtime that calls the tools, the agent loop, or any permission rule. What a tool needs from
//! above is a small trait of its own, passed to its constructor.
//!
//! **Invariant:** adding a tool touches one folder and one line of [`base`].

use std::sync::Arc;

use haft_shell::run::TaskRegistry;
use haft_tool::{DynTool, Tool, erase};
use haft_workspace::SessionFiles;

pub mod agent;
pub mod ask_user_question;
pub mod bash;
pub mod brief;
pub mod config;
pub mod cron;
pub mod edit;
mod edit_common;
pub mod enter_plan_mode;
pub mod exit_plan_mode;
pub mod explore;
pub mod git;
pub mod glob;
pub mod grep;
pub mod list_agents;
pub mod ls;
pub mod lsp;
pub mod monitor;
pub mod multi_edit;
pub mod notebook_edit;
pub mod read;
pub mod remote_trigger;
pub mod repl;
pub mod search;
mod search_common;
pub mod send_message;
pub mod sleep;
pub mod suggest_background_pr;
pub mod task_input;
pub mod task_list;
pub mod task_output;
pub mod task_stop;
pub mod team;
pub mod todo_write;
#[cfg(feature = "web")]
pub mod web_fetch;
#[cfg(feature = "web")]
pub mod web_search;
#[cfg_attr(not(feature = "web"), path = "no_web_tools.rs")]
mod web_tools;
pub mod worktree;
pub mod write;

pub use edit_common::{
    change_report::Sizes,
    config_check::{ConfigCheck, KnownShapes},
    edit_observer::{EditObserver, NoEditObserver},
};
pub use search_common::SearchToolSettings;
pub use web_tools::WebToolServices;

/// Tools that act on files and commands of the machine they run on. With a remote tool host, they run
/// there.
pub const OF_MACHINE: &[&str] = &[
    <bash::Bash as Tool>::NAME,
    <edit::Edit as Tool>::NAME,
    <git::Git as Tool>::NAME,
    <glob::Glob as Tool>::NAME,
    <grep::Grep as Tool>::NAME,
    <ls::Ls as Tool>::NAME,
    <lsp::Lsp as Tool>::NAME,
    <monitor::Monitor as Tool>::NAME,
    <multi_edit::MultiEdit as Tool>::NAME,
    <notebook_edit::NotebookEdit as Tool>::NAME,
    <read::Read as Tool>::NAME,
    <repl::Repl as Tool>::NAME,
    <search::Search as Tool>::NAME,
    <task_input::TaskInput as Tool>::NAME,
    <task_output::TaskOutput as Tool>::NAME,
    <task_stop::TaskStop as Tool>::NAME,
    <write::Write as Tool>::NAME,
];

/// Whether the tool works on directories of this machine and is useless when the files are on a remote
/// host.
pub fn needs_own_files(name: &str) -> bool {
    worktree::NAMES.contains(&name)
}

/// The services that the tools of one session share.
pub struct ToolServices {
    pub settings: Arc<dyn config::SettingsAccess>,
    /// Settings of Glob, Grep, LS and Search.
    pub find: SearchToolSettings,
    /// The files of the session, and which of them the model has seen.
    pub files: Arc<SessionFiles>,
    /// How much of a file Read shows per call.
    pub read: read::ReadLimits,
    /// Where Read decodes images and PDFs.
    pub media: haft_media::MediaWork,
    /// Rejects edits that would break configuration files.
    pub config_check: Arc<dyn ConfigCheck>,
    /// Background tasks, and the shell that runs commands.
    pub tasks: Arc<TaskRegistry>,
    /// Analyses commands before they run.
    pub commands: Arc<dyn bash::CommandInspector>,
    /// The directories in which `cd` persists for later commands.
    pub roots: Arc<dyn bash::WorkingDirs>,
    /// Time limits and output limits of commands.
    pub bash: bash::BashSettings,
    /// Chooses the sandbox of each command.
    pub confine: Arc<dyn bash::CommandConfiner>,
    pub snapshots: Arc<dyn bash::CommandSnapshots>,
    pub web: WebToolServices,
    /// Stores scheduled prompts.
    pub schedule: cron::CronServices,
    /// Starts the prompts of configured triggers.
    pub triggers: remote_trigger::TriggerServices,
    pub lsp: Arc<lsp::LspServers>,
    pub agents: Arc<dyn agent::SubagentSpawner>,
    /// Directory of plan files, and the name of this session's plan.
    pub plans: (std::path::PathBuf, String),
    pub post: Arc<dyn send_message::AgentMailer>,
    /// Tasks that are not commands: running agents.
    pub other_tasks: Arc<dyn task_output::AgentTasks>,
    pub task_lists: task_list::TaskServices,
    pub teams: Arc<dyn team::Teams>,
    /// Shows messages to the user.
    pub user: Arc<dyn brief::UserMessenger>,
    /// File that suggested pull requests are appended to.
    pub suggestions: std::path::PathBuf,
    pub worktrees: Arc<dyn worktree::Worktrees>,
}

/// Returns every built-in tool. Help, search, schemas and docs are derived from this list.
pub fn base(services: &ToolServices) -> Vec<Arc<dyn DynTool>> {
    let tasks = || Arc::clone(&services.tasks);
    let commands = Arc::new(edit_common::command_reads::CommandReads {
        facts: Arc::clone(&services.commands),
        files: Arc::clone(&services.files),
    });
    let confine = || Arc::clone(&services.confine);
    let bash = bash::Bash::new(tasks(), commands, Arc::clone(&services.roots), services.bash)
        .with_snapshots(Arc::clone(&services.snapshots))
        .with_confinement(confine());
    let repl = repl::Repl::new(Arc::clone(services.tasks.shell()), services.bash.shown_chars);
    let monitor = monitor::Monitor::new(tasks(), monitor::LocalAddressPolicy::default());
    let news = || Arc::clone(&services.lsp) as Arc<dyn EditObserver>;
    let others = || Arc::clone(&services.other_tasks);
    let mut all = vec![
        erase(agent::Agent::new(Arc::clone(&services.agents))),
        erase(ask_user_question::AskUserQuestion),
        erase(bash),
        erase(config::Config::new(Arc::clone(&services.settings))),
        erase(
            edit::Edit::new(Arc::clone(&services.files), Arc::clone(&services.config_check))
                .with_news(news()),
        ),
        erase(
            git::Git::new(tasks())
                .with_confinement(confine())
                .with_snapshots(Arc::clone(&services.snapshots)),
        ),
        erase(enter_plan_mode::EnterPlanMode),
        erase(exit_plan_mode::ExitPlanMode::new(services.plans.0.clone(), services.plans.1.clone())),
        erase(explore::Explore::new(Arc::clone(&services.agents))),
        erase(glob::Glob::new(services.find)),
        erase(grep::Grep::new(services.find).beside(Arc::clone(&services.files))),
        erase(list_agents::ListAgents::new(Arc::clone(&services.post))),
        erase(ls::Ls::new(services.find)),
        erase(lsp::Lsp::new(Arc::clone(&services.lsp))),
        erase(monitor.with_confinement(confine())),
        erase(
            multi_edit::MultiEdit::new(Arc::clone(&services.files), Arc::clone(&services.config_check))
                .with_news(news()),
        ),
        erase(notebook_edit::NotebookEdit::new(Arc::clone(&services.files))),
        erase(read::Read::new(Arc::clone(&services.files), services.read).with_media(services.media.clone())),
        erase(remote_trigger::RemoteTrigger::new(services.triggers.clone())),
        erase(repl.with_confinement(confine()).with_snapshots(Arc::clone(&services.snapshots))),
        erase(search::Search::new(services.find).beside(Arc::clone(&services.files))),
        erase(send_message::SendMessage::new(Arc::clone(&services.post))),
        erase(sleep::Sleep::new(tasks())),
        erase(task_input::TaskInput::new(tasks(), services.bash.shown_chars).with_confinement(confine())),
        erase(task_output::TaskOutput::new(tasks(), others(), services.bash.task_shown_chars)),
        erase(task_stop::TaskStop::new(tasks(), others())),
        erase(todo_write::TodoWrite::default()),
    ];
    all.extend(web_tools::tools(&services.web, &services.media));
    all.push(erase(
        write::Write::new(Arc::clone(&services.files), Arc::clone(&services.config_check)).with_news(news()),
    ));
    all.extend(cron::tools(&services.schedule, tasks()));
    all.extend(task_list::tools(&services.task_lists));
    all.extend(team::tools(&services.teams));
    all.extend(worktree::tools(&services.worktrees));
    all.push(erase(brief::Brief::new(Arc::clone(&services.user))));
    all.push(erase(brief::SendUserMessage::new(Arc::clone(&services.user))));
    all.push(erase(suggest_background_pr::SuggestBackgroundPr::new(services.suggestions.clone())));
    all
}
