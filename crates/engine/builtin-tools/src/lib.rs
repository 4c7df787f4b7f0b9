//! The built-in tools, one folder each, and [`base`], the one ordered list.
//!
//! **Does not know** the runtime that calls it, the agent loop, or any rule.
//! What a tool needs from above it names as a small trait of its own and takes
//! in its constructor.
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

/// Tools that act on files and commands of the machine they run on. A session
/// with a tool host has these there.
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

/// Tools that are about directories of this machine and have no meaning where
/// files are on another one.
pub fn needs_own_files(name: &str) -> bool {
    worktree::NAMES.contains(&name)
}

/// What the tools of one session share, and what they need from above.
pub struct ToolServices {
    /// Reads and changes settings.
    pub settings: Arc<dyn config::SettingsAccess>,
    /// How searching tools search.
    pub find: SearchToolSettings,
    /// The files of the session, and what was seen of them.
    pub files: Arc<SessionFiles>,
    /// How much Read shows at once.
    pub read: read::ReadLimits,
    /// Where Read unpacks pictures and documents.
    pub media: haft_media::MediaWork,
    /// Keeps edits from breaking files that decide what is allowed.
    pub config_check: Arc<dyn ConfigCheck>,
    /// Commands that run, and those that go on in the background.
    pub tasks: Arc<TaskRegistry>,
    /// What is known about a command before it runs.
    pub commands: Arc<dyn bash::CommandInspector>,
    /// The directories commands may stay in.
    pub roots: Arc<dyn bash::WorkingDirs>,
    /// Time limits and the like of commands.
    pub bash: bash::BashSettings,
    /// Which walls hold commands.
    pub confine: Arc<dyn bash::CommandConfiner>,
    /// Makes what commands change undoable.
    pub snapshots: Arc<dyn bash::CommandSnapshots>,
    /// Fetches pages and searches the web.
    pub web: WebToolServices,
    /// Stores prompts that run later.
    pub schedule: cron::CronServices,
    /// Fires prompts that wait for it.
    pub triggers: remote_trigger::TriggerServices,
    /// Asks language servers.
    pub lsp: Arc<lsp::LspServers>,
    /// Starts agents.
    pub agents: Arc<dyn agent::SubagentSpawner>,
    /// Where plans are kept, and under which name.
    pub plans: (std::path::PathBuf, String),
    /// Carries messages between agents.
    pub post: Arc<dyn send_message::AgentMailer>,
    /// Tasks that are no commands: agents that work.
    pub other_tasks: Arc<dyn task_output::AgentTasks>,
    /// Lists of tasks.
    pub task_lists: task_list::TaskServices,
    /// Makes and ends teams.
    pub teams: Arc<dyn team::Teams>,
    /// Speaks to the person.
    pub user: Arc<dyn brief::UserMessenger>,
    /// Where suggested pull requests are written down.
    pub suggestions: std::path::PathBuf,
    /// Makes and removes worktrees.
    pub worktrees: Arc<dyn worktree::Worktrees>,
}

/// Every built-in tool there is. The single source of truth: help, search,
/// schemas and docs come from it.
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
