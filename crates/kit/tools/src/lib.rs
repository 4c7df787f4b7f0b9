//! The built-in tools, one folder each, and [`base`], the one ordered list.
//!
//! **Does not know** the runtime that calls it, the agent loop, or any rule.
//! What a tool needs from above it names as a small trait of its own and takes
//! in its constructor.
//!
//! **Invariant:** adding a tool touches one folder and one line of [`base`].

use std::sync::Arc;

use haft_shell::run::Tasks;
use haft_tool::{DynTool, erase};
use haft_workspace::Files;

pub mod bash;
pub mod config;
pub mod edit;
mod files;
mod finding;
pub mod glob;
pub mod grep;
pub mod ls;
pub mod monitor;
pub mod multi_edit;
pub mod notebook_edit;
pub mod read;
pub mod repl;
pub mod search;
pub mod sleep;
pub mod task_input;
pub mod task_output;
pub mod task_stop;
pub mod todo_write;
pub mod write;

pub use files::{
    guard::{ConfigCheck, KnownShapes},
    report::Sizes,
};
pub use finding::FindSettings;

/// What the tools of one session share, and what they need from above.
pub struct Services {
    /// Reads and changes settings.
    pub settings: Arc<dyn config::SettingsAccess>,
    /// How searching tools search.
    pub find: FindSettings,
    /// The files of the session, and what was seen of them.
    pub files: Arc<Files>,
    /// How much Read shows at once.
    pub read: read::ReadLimits,
    /// Where Read unpacks pictures and documents.
    pub media: read::MediaWork,
    /// Keeps edits from breaking files that decide what is allowed.
    pub config_check: Arc<dyn ConfigCheck>,
    /// Commands that run, and those that go on in the background.
    pub tasks: Arc<Tasks>,
    /// What is known about a command before it runs.
    pub commands: Arc<dyn bash::CommandFacts>,
    /// The directories commands may stay in.
    pub roots: Arc<dyn bash::Workspace>,
    /// Time limits and the like of commands.
    pub bash: bash::BashSettings,
    /// Which walls hold commands.
    pub confine: Arc<dyn bash::Confine>,
    /// Makes what commands change undoable.
    pub snapshots: Arc<dyn bash::Snapshots>,
}

/// Every built-in tool there is. The single source of truth: help, search,
/// schemas and docs come from it.
pub fn base(services: &Services) -> Vec<Arc<dyn DynTool>> {
    let tasks = || Arc::clone(&services.tasks);
    let commands = Arc::new(files::seen_commands::SeenCommands {
        facts: Arc::clone(&services.commands),
        files: Arc::clone(&services.files),
    });
    let confine = || Arc::clone(&services.confine);
    let bash = bash::Bash::new(tasks(), commands, Arc::clone(&services.roots), services.bash)
        .with_snapshots(Arc::clone(&services.snapshots))
        .with_confinement(confine());
    let repl = repl::Repl::new(Arc::clone(services.tasks.shell()), services.bash.shown_chars);
    let monitor = monitor::Monitor::new(tasks(), monitor::Neighbourhood::default());
    vec![
        erase(bash),
        erase(config::Config::new(Arc::clone(&services.settings))),
        erase(edit::Edit::new(Arc::clone(&services.files), Arc::clone(&services.config_check))),
        erase(glob::Glob::new(services.find)),
        erase(grep::Grep::new(services.find)),
        erase(ls::Ls::new(services.find)),
        erase(monitor.with_confinement(confine())),
        erase(multi_edit::MultiEdit::new(Arc::clone(&services.files), Arc::clone(&services.config_check))),
        erase(notebook_edit::NotebookEdit::new(Arc::clone(&services.files))),
        erase(read::Read::new(Arc::clone(&services.files), services.read).with_media(services.media.clone())),
        erase(repl.with_confinement(confine()).with_snapshots(Arc::clone(&services.snapshots))),
        erase(search::Search::new(services.find)),
        erase(sleep::Sleep::new(tasks())),
        erase(task_input::TaskInput::new(tasks(), services.bash.shown_chars).with_confinement(confine())),
        erase(task_output::TaskOutput::new(
            tasks(),
            Arc::new(task_output::NoOtherTasks),
            services.bash.shown_chars,
        )),
        erase(task_stop::TaskStop::new(tasks(), Arc::new(task_output::NoOtherTasks))),
        erase(todo_write::TodoWrite::default()),
        erase(write::Write::new(Arc::clone(&services.files), Arc::clone(&services.config_check))),
    ]
}
