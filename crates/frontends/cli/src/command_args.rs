//! Flags of the commands below `haft`, one type each.

use std::path::PathBuf;

use clap::Subcommand;

use crate::args::OutputFormat;

#[derive(Debug, Subcommand)]
pub(crate) enum ToolCommand {
    /// List the tools.
    List,
    /// Show what a model is told about a tool.
    Describe {
        /// Name or alias of the tool.
        name: String,
    },
    /// Call one tool through the whole pipeline.
    Call {
        /// Name or alias of the tool.
        name: String,
        /// Input: JSON, `@file`, or `-` for standard input.
        #[arg(default_value = "{}", value_name = "JSON")]
        input: String,
        /// Read the files it names first: Edit and Write only change what was read.
        #[arg(long)]
        read_first: bool,
        #[command(flatten)]
        servers: ToolServerArgs,
    },
    /// Run calls from standard input, one JSON line per model message.
    ///
    /// An object `{"id"?, "name", "input"}` is a message with one call, an array is one message with
    /// several. One report line comes back per call, in the order of the calls. What tools remember
    /// lives on from line to line.
    Run {
        #[command(flatten)]
        servers: ToolServerArgs,
    },
}

/// MCP servers for calls without a model.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct ToolServerArgs {
    /// MCP servers for this run: JSON text or a file; may be given again.
    #[arg(long, value_name = "FILE-OR-JSON")]
    pub(crate) mcp_config: Vec<String>,
    /// Use only the MCP servers of --mcp-config.
    #[arg(long)]
    pub(crate) strict_mcp_config: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PermissionsCommand {
    /// Decide without running anything.
    Test {
        /// A shell command to judge.
        #[arg(required_unless_present = "batch")]
        command: Option<String>,
        /// Judge JSON lines from standard input: `{"tool","input","cwd","home"?,"mode"?,"rules":{"allow",
        /// "ask","deny"},"additional_dirs"?,"classifier"?}`. `classifier` is what the model of auto mode would
        /// say: `allow`, `block` or `ask`.
        #[arg(long)]
        batch: bool,
    },
    /// Say why a call would be allowed, asked about or denied.
    Explain {
        /// Name or alias of the tool, or a shell command.
        tool: String,
        /// Input: JSON, `@file`, or `-` for standard input.
        #[arg(value_name = "JSON")]
        input: Option<String>,
        /// Decide for an agent of this kind, and show what every level above it says.
        #[arg(long, value_name = "NAME")]
        agent: Option<String>,
    },
    /// List the rules in force and where each comes from.
    List,
    /// Let calls run without a question from now on; says what the rules match.
    Allow(RuleArgs),
    /// Ask before calls from now on, in every mode.
    Ask(RuleArgs),
    /// Refuse calls from now on.
    Deny(RuleArgs),
    /// Take rules back, wherever they stand in your files.
    Revoke {
        /// Rules as they are written: `haft permissions list` shows them.
        #[arg(required = true, value_name = "RULE")]
        rules: Vec<String>,
    },
    /// Show what was decided in a session, call by call.
    Log {
        /// The id, its beginning, or the name; the newest if left out.
        session: Option<String>,
    },
}

/// Rules, and where they are kept.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct RuleArgs {
    /// Rules: `Bash(git log *)`, `Edit(src/**)`, `WebFetch(domain:docs.rs)`.
    #[arg(required = true, value_name = "RULE")]
    pub(crate) rules: Vec<String>,
    /// Whose settings: yours for this project, the project's, or yours everywhere.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) scope: RuleScope,
}

/// Whose settings a rule goes into.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, clap::ValueEnum)]
pub(crate) enum RuleScope {
    /// Yours, for this project.
    #[default]
    Local,
    /// The project's.
    Project,
    /// Yours, everywhere.
    User,
}

#[derive(Debug, Subcommand)]
pub(crate) enum WorktreesCommand {
    /// List them, and what is only in them.
    List,
    /// Keep what is changed in one as commits with a name; the worktree stays as it is.
    Rescue {
        /// Its name.
        name: String,
    },
    /// Remove one. What is only in it is kept first, and where is said.
    Remove {
        /// Its name.
        name: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum SessionsCommand {
    /// List them, newest first.
    List,
    /// Show what was said and done.
    Show {
        /// The id, its beginning, or the name.
        id: String,
    },
    /// Find a text in all of them.
    Search {
        /// What to look for; upper and lower case are the same.
        text: String,
    },
    /// Give one a name.
    Title {
        /// The id, its beginning, or the name.
        id: String,
        /// The name.
        title: String,
    },
    /// Print where its log is.
    Path {
        /// The id, its beginning, or the name.
        id: String,
    },
}

/// Flags of `haft dev mock-model`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct MockModelArgs {
    /// The script: see docs/reference/mock-model.md.
    pub(crate) script: PathBuf,
    /// Listen on this port; a free one by default. The address is the first line of output.
    #[arg(long, default_value_t = 0)]
    pub(crate) port: u16,
    /// Append every request to this file, as JSON lines.
    #[arg(long, value_name = "FILE")]
    pub(crate) requests: Option<PathBuf>,
    /// Write their sizes and times only.
    #[arg(long, requires = "requests")]
    pub(crate) without_bodies: bool,
}

/// Flags of `haft replay`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ReplayArgs {
    /// What is printed: a transcript, one object at the end, or one per line.
    #[arg(long = "output-format", id = "replay_output_format", value_enum, value_name = "FORMAT")]
    pub(crate) output_format: Option<OutputFormat>,
    /// The file `--record` wrote.
    pub(crate) file: PathBuf,
    /// Where results come from: recorded, or real (run in the working directory, under the rules of
    /// this run: a file gives no permissions).
    #[arg(long, value_enum, default_value_t)]
    pub(crate) tools: ReplayTools,
    /// Play only so many answers; then the model of this run goes on.
    #[arg(long, value_name = "K")]
    pub(crate) fork_at: Option<usize>,
}

/// Where results come from.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, clap::ValueEnum)]
pub(crate) enum ReplayTools {
    /// What the calls returned then.
    #[default]
    Recorded,
    /// The tools run.
    Real,
}

/// Flags of `haft demo`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct DemoArgs {
    /// Do not wait between words.
    #[arg(long)]
    pub(crate) fast: bool,
    /// Keep the project when it is over.
    #[arg(long)]
    pub(crate) keep: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TasksCommand {
    /// List it: whose it is, its processes, its command.
    List,
    /// End it, with everything it started.
    Stop {
        /// A task, a call or a process; what sessions that are gone left when nothing is named.
        id: Option<String>,
    },
    /// Print what it printed so far.
    Output {
        /// A task, a call or a process.
        id: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum PluginsCommand {
    /// List them.
    List,
    /// Switch a plugin on.
    Enable {
        /// `name@marketplace`, or its name where only one has it.
        id: String,
        /// In which settings.
        #[arg(long, value_enum, default_value_t = PluginScope::User)]
        scope: PluginScope,
    },
    /// Switch a plugin off.
    Disable {
        /// `name@marketplace`, or its name where only one has it.
        id: String,
        /// In which settings.
        #[arg(long, value_enum, default_value_t = PluginScope::User)]
        scope: PluginScope,
    },
    /// Say what is wrong with a plugin or a marketplace in a directory.
    Validate {
        /// The directory.
        #[arg(default_value = ".")]
        path: PathBuf,
    },
    /// Put a plugin of a marketplace on this machine and switch it on.
    Install {
        /// `name@marketplace`, or its name where only one has it.
        id: String,
        /// In which settings it is switched on.
        #[arg(long, value_enum, default_value_t = PluginScope::User)]
        scope: PluginScope,
    },
    /// Take a plugin that was installed away, and switch it off.
    Uninstall {
        /// `name@marketplace`, or its name where only one has it.
        id: String,
        /// In which settings it is switched off.
        #[arg(long, value_enum, default_value_t = PluginScope::User)]
        scope: PluginScope,
    },
    /// Show what a plugin wants to know, or tell it.
    Configure {
        /// `name@marketplace`, or its name where only one has it.
        id: String,
        /// `KEY=VALUE`; a `KEY` alone reads the value from standard input.
        #[arg(value_name = "KEY=VALUE")]
        values: Vec<String>,
    },
    /// Lists of plugins: directories and git repositories of this machine.
    Marketplace {
        #[command(subcommand)]
        command: MarketplaceCommand,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum MarketplaceCommand {
    /// Know a list from now on.
    Add {
        /// Its directory, or a git repository of this machine.
        from: String,
    },
    /// Forget a list.
    Remove {
        /// Its name.
        name: String,
    },
    /// Copy a list anew that is a git repository.
    Update {
        /// Its name.
        name: String,
    },
}

/// Whose settings.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum PluginScope {
    /// The person's.
    User,
    /// The project's, for everybody.
    Project,
    /// The project's, for this person.
    Local,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SandboxCommand {
    /// Say what is enforced on this machine, what is not, and how that was found out.
    Check,
    /// Run a program in the sandbox of this directory.
    Run {
        /// The program and its arguments.
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "CMD")]
        command: Vec<std::ffi::OsString>,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum DevCommand {
    /// Write the generated pages of the documentation.
    Docs {
        /// Into this directory.
        dir: PathBuf,
    },
    /// Write the manual pages.
    Man {
        /// Into this directory.
        dir: PathBuf,
    },
    /// Serve a scripted model on loopback that judges requests like the real services.
    MockModel(MockModelArgs),
}

#[derive(Debug, Subcommand)]
pub(crate) enum TriggersCommand {
    /// Show the triggers of your settings.
    List,
    /// Listen for signed deliveries and run what they start, until interrupted.
    Serve {
        /// At this address of the machine.
        #[arg(long, default_value = "127.0.0.1")]
        bind: std::net::IpAddr,
        /// At this port; 0 takes a free one.
        #[arg(long, default_value_t = 8787)]
        port: u16,
    },
    /// Fire a trigger yourself, and wait for it.
    Fire {
        /// Which.
        name: String,
        /// What its template is filled with; - reads it.
        #[arg(long)]
        body: Option<String>,
    },
    /// Show what came of runs.
    Logs {
        /// Of this trigger only.
        name: Option<String>,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum CronCommand {
    /// Show stored prompts and when they run next.
    List,
    /// Remove a stored prompt.
    Remove {
        /// Which.
        id: String,
    },
    /// Run what is due, unattended, and exit; the timer calls this every minute.
    RunDue,
    /// Show what came of runs.
    Logs {
        /// Of this stored prompt only.
        id: Option<String>,
    },
    /// Install the timer: a systemd unit, or a line in your crontab.
    Install {
        /// Only show what would be set up.
        #[arg(long)]
        print: bool,
    },
    /// Take the timer away.
    Uninstall,
}
