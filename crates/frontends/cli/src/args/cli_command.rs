//! The commands of the program.

use clap::Subcommand;
use clap_complete::Shell;
use haft_fleet::commands::args::FleetCommand;

use super::{
    BugArgs, CronCommand, DemoArgs, DevCommand, DoctorArgs, ImportArgs, InitArgs, LoginArgs, LogoutArgs,
    McpCommand, ModelsArgs, NewCommand, PermissionsCommand, PluginsCommand, ReplayArgs, RewindArgs,
    SandboxCommand, SessionsCommand, TasksCommand, ToolCommand, TriggersCommand, ViewArgs, WorktreesCommand,
};
use crate::commands::tool_host::ToolHostArgs;

#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    /// List, describe and call tools
    #[command(subcommand)]
    Tool(ToolCommand),
    /// Show, test and change permission rules
    #[command(subcommand)]
    Permissions(PermissionsCommand),
    /// Undo a change; files edited since are left alone and named
    Undo {
        /// Call, history entry or turn; the latest change if none is given
        id: Option<String>,
        /// Undo a whole turn: the one with this id (`turn` in `haft history --json`), or the one that this change belongs to
        #[arg(long, requires = "id")]
        turn: bool,
    },
    /// Let sessions on other machines use this one (`haft --host`)
    ToolHost(ToolHostArgs),
    /// Manage and run prompts on a schedule
    #[command(subcommand)]
    Cron(CronCommand),
    /// Run prompts that signed webhooks start
    #[command(subcommand)]
    Triggers(TriggersCommand),
    /// Redo the last undo
    Redo,
    /// Return a session and its files to an earlier message
    ///
    /// Without --to, list the messages.
    Rewind(RewindArgs),
    /// List changes, newest first
    History,
    /// Show what a change did
    Diff {
        /// Call or history entry; the latest change if none is given
        id: Option<String>,
    },
    /// List and stop background commands of all sessions
    Tasks {
        #[command(subcommand)]
        command: Option<TasksCommand>,
    },
    /// List agent types, where each comes from, and problems in their files
    Agents,
    /// List skills and slash commands, where each comes from, and problems in their files
    Skills,
    /// List, install, enable and check plugins; manage marketplaces
    Plugins {
        #[command(subcommand)]
        command: Option<PluginsCommand>,
    },
    /// List, rescue and remove worktrees made by sessions
    Worktrees {
        #[command(subcommand)]
        command: Option<WorktreesCommand>,
    },
    /// Show which sandbox features this machine supports, or run a command in the sandbox
    #[command(subcommand)]
    Sandbox(SandboxCommand),
    /// Review and accept what this project's settings would run
    Trust {
        /// Accept without a prompt
        #[arg(long)]
        yes: bool,
        /// Withdraw what was accepted
        #[arg(long, conflicts_with = "yes")]
        revoke: bool,
    },
    /// Manage MCP servers, and serve Haft's tools over MCP
    #[command(subcommand)]
    Mcp(McpCommand),
    /// Watch a recorded model fix a bug with real tools (no key, no network)
    Demo(DemoArgs),
    /// Replay a recorded run without network
    Replay(ReplayArgs),
    /// List, show, search and rename the sessions of this directory
    Sessions {
        #[command(subcommand)]
        command: Option<SessionsCommand>,
    },
    /// Show what fills the context window of a session
    Context {
        /// Session id, id prefix or title; the latest of this directory if none is given
        session: Option<String>,
    },
    /// Show requests, tokens, cost and prompt cache losses of a session
    Cost {
        /// Session id, id prefix or title; the latest of this directory if none is given
        session: Option<String>,
    },
    /// Show sessions in a browser, or export one
    View(ViewArgs),
    /// Restore the terminal after a crash
    Reset,
    /// Check the installation and say how to fix problems
    Doctor(DoctorArgs),
    /// List models with context window and price, and local model servers
    Models(ModelsArgs),
    /// Save an API key, typed hidden or read from standard input
    Login(LoginArgs),
    /// Delete saved API keys
    Logout(LogoutArgs),
    /// Write AGENTS.md and .haft/settings.json for this project
    Init(InitArgs),
    /// Import the configuration of another agent
    Import(ImportArgs),
    /// Create a tool of your own
    #[command(subcommand)]
    New(NewCommand),
    /// Write an archive for a bug report, secrets masked
    Bug(BugArgs),
    /// Show how to update this installation
    Update,
    /// Run sessions on many machines: jobs, workers, results
    #[command(subcommand)]
    Fleet(Box<FleetCommand>),
    /// Serve editors over the Agent Client Protocol (standard input and output)
    Acp {
        /// Save an API key in this terminal, as `haft login` does; for editors
        #[arg(long)]
        login: bool,
    },
    /// Tools for testing agents and for working on Haft
    #[command(subcommand)]
    Dev(DevCommand),
    /// Decode untrusted images and documents (internal)
    #[command(hide = true)]
    MediaWorker {
        /// The task, as JSON
        task: String,
    },
    /// Print a shell completion script
    Completions {
        /// The shell
        shell: Shell,
    },
}
