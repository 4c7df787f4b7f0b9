//! The commands of the program.

use clap::Subcommand;
use clap_complete::Shell;

use super::{
    BugArgs, CronCommand, DemoArgs, DevCommand, DoctorArgs, ImportArgs, InitArgs, LoginArgs, LogoutArgs,
    McpCommand, ModelsArgs, NewCommand, PermissionsCommand, PluginsCommand, ReplayArgs, RewindArgs,
    SandboxCommand, SessionsCommand, TasksCommand, ToolCommand, TriggersCommand, ViewArgs, WorktreesCommand,
};
use crate::commands::tool_host::ToolHostArgs;
use haft_fleet::commands::args::FleetCommand;

#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    /// List, describe and call tools.
    #[command(subcommand)]
    Tool(ToolCommand),
    /// See what is allowed, and why.
    #[command(subcommand)]
    Permissions(PermissionsCommand),
    /// Take back what a tool changed; what somebody changed since stays and is reported.
    Undo {
        /// Which call, entry or turn; the latest change when nothing is named.
        id: Option<String>,
        /// Take back the whole turn: the one of this id (`turn` in `haft history --json`), or the one that the change of this id belongs to.
        #[arg(long, requires = "id")]
        turn: bool,
    },
    /// Lend files and commands of this machine to sessions on other ones (`haft --host`).
    ToolHost(ToolHostArgs),
    /// Prompts that run without a session: list them, run what is due, set up the timer.
    #[command(subcommand)]
    Cron(CronCommand),
    /// Prompts that others start: signed webhooks become runs.
    #[command(subcommand)]
    Triggers(TriggersCommand),
    /// Bring back what the latest undo took.
    Redo,
    /// Go back to before something was said: files and conversation together. Without --to, lists what was said.
    Rewind(RewindArgs),
    /// List what tools changed, newest first.
    History,
    /// Show what a change did.
    Diff {
        /// Which call or entry; the latest change when nothing is named.
        id: Option<String>,
    },
    /// See what commands have running, in this and other sessions, and end it.
    Tasks {
        #[command(subcommand)]
        command: Option<TasksCommand>,
    },
    /// List the kinds of agents a session here knows, where each comes from, and files with mistakes.
    Agents,
    /// List the skills and commands a session here knows, where each comes from, and files with mistakes.
    Skills,
    /// List plugins and marketplaces, where each comes from, and files with mistakes; switch plugins on and off.
    Plugins {
        #[command(subcommand)]
        command: Option<PluginsCommand>,
    },
    /// List worktrees that sessions made here, keep what is in them, remove them.
    Worktrees {
        #[command(subcommand)]
        command: Option<WorktreesCommand>,
    },
    /// See what holds commands on this machine, and try it out.
    #[command(subcommand)]
    Sandbox(SandboxCommand),
    /// Show what this project's settings would run, and agree to it.
    Trust {
        /// Agree without asking.
        #[arg(long)]
        yes: bool,
        /// Take back what was agreed to.
        #[arg(long, conflicts_with = "yes")]
        revoke: bool,
    },
    /// MCP servers for Haft, and Haft as an MCP server.
    #[command(subcommand)]
    Mcp(McpCommand),
    /// Watch a recorded model repair a small project with real tools: no key, no network.
    Demo(DemoArgs),
    /// Play a recorded run again: same answers, no network.
    Replay(ReplayArgs),
    /// List, show, search and name the sessions of this directory.
    Sessions {
        #[command(subcommand)]
        command: Option<SessionsCommand>,
    },
    /// Show what fills the model's window in a session.
    Context {
        /// Which session; the newest of this directory when none is named.
        session: Option<String>,
    },
    /// Show what a session cost: requests, tokens, money, and what its cached prefix was lost to.
    Cost {
        /// Which session, or the beginning of its id; the newest of this directory when none is
        /// named.
        session: Option<String>,
    },
    /// Show sessions in a browser; or write one as a page that needs nothing else, or as a trace for profilers.
    View(ViewArgs),
    /// Make the terminal usable again after a program was killed on it.
    Reset,
    /// Say whether it works here, and what to do where it does not.
    Doctor(DoctorArgs),
    /// List models with windows and prices, and servers of models on this machine.
    Models(ModelsArgs),
    /// Keep a key, typed hidden or from standard input.
    Login(LoginArgs),
    /// Forget a key.
    Logout(LogoutArgs),
    /// Write AGENTS.md and .haft/settings.json from what is found in this project; asks first.
    Init(InitArgs),
    /// Bring along what you have set up for another agent; says what was taken and what was not.
    Import(ImportArgs),
    /// Begin something of your own.
    #[command(subcommand)]
    New(NewCommand),
    /// Write an archive for a report of a problem, with secrets masked.
    Bug(BugArgs),
    /// Say how to update, the way this program came.
    Update,
    /// Sessions on many machines: jobs, workers, results.
    #[command(subcommand)]
    Fleet(Box<FleetCommand>),
    /// Serve editors: the Agent Client Protocol on standard input and output.
    Acp {
        /// Asks for a key in this terminal and keeps it, as `haft login` does; for editors
        #[arg(long)]
        login: bool,
    },
    /// For those who work on Haft itself, and for those who test agents.
    #[command(subcommand)]
    Dev(DevCommand),
    /// Unpack a picture or a document on standard input; Read starts this by itself.
    #[command(hide = true)]
    MediaWorker {
        /// What to do, as JSON.
        task: String,
    },
    /// Print a completion script for your shell.
    Completions {
        /// Which shell.
        shell: Shell,
    },
}
