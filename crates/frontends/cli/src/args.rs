use std::{path::PathBuf, sync::LazyLock};

use clap::{Args as _, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use clap_complete::Shell;
use haft_mcp_client::{ManagerOptions, McpManager};
use haft_types::PermissionMode;

pub(crate) use crate::command_args::{
    CronCommand, DemoArgs, DevCommand, MarketplaceCommand, MockModelArgs, PermissionsCommand, PluginScope,
    PluginsCommand, ReplayArgs, ReplayTools, RuleArgs, RuleScope, SandboxCommand, SessionsCommand,
    TasksCommand, ToolCommand, ToolServerArgs, TriggersCommand, WorktreesCommand,
};
use crate::{
    mcp_command::McpCommand,
    newer_flags,
    output::{CliError, complain},
    sdk_args::SdkArgs,
    setup_args::{BugArgs, DoctorArgs, ImportArgs, InitArgs, LoginArgs, LogoutArgs, ModelsArgs, NewCommand},
    tool_host_command::ToolHostArgs,
    word_lists,
};

/// The handle by which a language model holds its tools.
#[derive(Debug, Parser)]
#[command(
    name = "haft",
    version,
    about = "Tools for language-model agents: call them, judge them, run a model with them",
    max_term_width = 100,
    args_conflicts_with_subcommands = false,
    args_override_self = true
)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Option<CliCommand>,
    #[command(flatten)]
    pub(crate) run: RunArgs,
    #[command(flatten)]
    pub(crate) options: GlobalArgs,
}

impl Args {
    /// What was asked for. Without arguments, as people begin all day, the commands
    /// need not be known: making all of them takes longer than anything else does
    /// before the prompt is there.
    pub(crate) fn of_program() -> Result<(Self, clap::ArgMatches), clap::Error> {
        if 1 < std::env::args_os().len() {
            // Never taken apart: that would take half as long again as putting it together.
            let mut root = std::mem::ManuallyDrop::new(Self::command());
            let words = word_lists::one_word_each(std::env::args_os().collect(), &root, &is_tool_name);
            let matches = if newer_flags::is_of_sdk(&words) {
                let (matches, ignored) = newer_flags::parse(&mut root, words)?;
                ignored.iter().for_each(|flag| complain(&format!("ignored the unknown option {flag}")));
                matches
            } else {
                root.try_get_matches_from_mut(words)?
            };
            return Ok((Self::from_arg_matches(&matches)?, matches));
        }
        Self::of_nothing()
    }

    fn of_nothing() -> Result<(Self, clap::ArgMatches), clap::Error> {
        let flags = GlobalArgs::augment_args(RunArgs::augment_args(clap::Command::new("haft")));
        let matches = flags.try_get_matches_from(["haft"])?;
        let (run, options) = (RunArgs::from_arg_matches(&matches)?, GlobalArgs::from_arg_matches(&matches)?);
        Ok((Self { command: None, run, options }, matches))
    }
}

/// Names and aliases of the tools that come with Haft.
pub(crate) fn tool_names() -> &'static [String] {
    static NAMES: LazyLock<Vec<String>> = LazyLock::new(|| {
        let scratch = tempfile::tempdir().ok();
        let tools = scratch.and_then(|it| haft_session::described_tools(it.path()).ok()).unwrap_or_default();
        let resources = haft_mcp_client::resource_tools(&McpManager::new(ManagerOptions::detached()));
        let named = tools.iter().chain(&resources);
        let mut names: Vec<String> =
            named.flat_map(|it| it.aliases().into_iter().chain([it.name().to_owned()])).collect();
        names.extend(haft_session::TOOLS_OF_SESSIONS.map(str::to_owned));
        names
    });
    &NAMES
}

/// Whether a tool that comes with Haft has this name, or had it once.
pub(crate) fn is_tool_name(name: &str) -> bool {
    let renamed = haft_permission::Names::built_in();
    tool_names().iter().any(|it| it == name || it == renamed.canonical(name))
}

/// Flags of a run with a model.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "With a model")]
pub(crate) struct RunArgs {
    /// What to do; read from standard input when it is not given here.
    #[arg(value_name = "PROMPT")]
    pub(crate) prompt: Option<String>,
    /// Work on the prompt without asking anybody, print the answer, and exit.
    #[arg(short, long)]
    pub(crate) print: bool,
    /// How the answer is printed: text, json (one object), stream-json (one object per line).
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    pub(crate) output_format: OutputFormat,
    /// Which model.
    #[arg(long)]
    pub(crate) model: Option<String>,
    /// Who answers; by default whoever the environment has a key for.
    #[arg(long, value_enum, value_name = "NAME")]
    pub(crate) provider: Option<ProviderName>,
    /// Another address of the provider.
    #[arg(long, value_name = "URL")]
    pub(crate) base_url: Option<String>,
    /// Which model when that one cannot answer.
    #[arg(long)]
    pub(crate) fallback_model: Option<String>,
    /// Requests to the model at most.
    #[arg(long)]
    pub(crate) max_turns: Option<u32>,
    /// Dollars at most.
    #[arg(long, value_parser = dollars)]
    pub(crate) max_budget_usd: Option<f64>,
    /// Replaces the system prompt.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) system_prompt: Option<String>,
    /// Added to the system prompt.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) append_system_prompt: Option<String>,
    /// The model tells the user what matters while it works, with SendUserMessage.
    #[arg(long)]
    pub(crate) brief: bool,
    /// JSON Schema the output must follow.
    #[arg(long, allow_hyphen_values = true)]
    pub(crate) json_schema: Option<String>,
    /// Only these tools, separated by commas; empty for none.
    #[arg(long)]
    pub(crate) tools: Option<Vec<String>>,
    /// Go on with this session: its id, the beginning of it, or its name.
    #[arg(long, value_name = "ID")]
    pub(crate) resume: Option<String>,
    /// Go on with the newest session of this directory.
    #[arg(short, long = "continue", conflicts_with = "resume")]
    pub(crate) continue_: bool,
    /// Go on under a new id; the old session stays as it is.
    #[arg(long)]
    pub(crate) fork_session: bool,
    /// Use this id for a new session.
    #[arg(long, value_name = "UUID")]
    pub(crate) session_id: Option<uuid::Uuid>,
    /// Exit with 0 even if calls were denied.
    #[arg(long)]
    pub(crate) allow_denials: bool,
    /// Write the whole run into this file, to be played again with `haft replay`.
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
    /// Say more on standard error.
    #[arg(long)]
    pub(crate) verbose: bool,
    /// Flags of the Agent SDKs.
    #[command(flatten)]
    pub(crate) sdk: SdkArgs,
}

/// Flags of a run with a model mean nothing to other commands: they are refused,
/// not ignored.
pub(crate) fn refuse_run_flags(args: &Args, matches: &clap::ArgMatches) -> Result<(), CliError> {
    let takes_them = matches!(
        args.command,
        None | Some(CliCommand::Acp { .. } | CliCommand::Replay(_) | CliCommand::Context { .. })
    );
    if takes_them {
        return Ok(());
    }
    let flags = RunArgs::augment_args(clap::Command::new("run"));
    let given = flags.get_arguments().find(|flag| {
        let id = flag.get_id().as_str();
        matches.try_contains_id(id).unwrap_or(false)
            && matches.value_source(id) == Some(clap::parser::ValueSource::CommandLine)
    });
    let Some(flag) = given else { return Ok(()) };
    let name = flag.get_long().map_or_else(|| String::from("a prompt"), |long| format!("--{long}"));
    Err(CliError::Message(format!(
        "{name} is for runs with a model (haft -p); this command has no use for it"
    )))
}

/// Hosts mean nothing to commands that touch no files of a session: they are
/// refused there, not ignored.
pub(crate) fn refuse_hosts(args: &Args) -> Result<(), CliError> {
    let why = match &args.command {
        _ if args.options.host.is_empty() => return Ok(()),
        None | Some(CliCommand::Acp { .. } | CliCommand::Context { .. }) => return Ok(()),
        Some(CliCommand::Tool(ToolCommand::Call { .. } | ToolCommand::Run { .. })) => return Ok(()),
        Some(CliCommand::Undo { .. } | CliCommand::Redo | CliCommand::History) => return Ok(()),
        Some(CliCommand::Replay(_)) => {
            "a recorded run is played again without its hosts: results come from the recording"
        }
        Some(CliCommand::Mcp(_)) => {
            "MCP servers and what `haft mcp serve` offers are on this machine; start it over there"
        }
        Some(CliCommand::ToolHost(_)) => "a tool host serves its own machine",
        Some(CliCommand::Rewind(_) | CliCommand::Diff { .. }) => {
            "the record of changes is on the host: run this command there, or use haft undo --host"
        }
        Some(_) => "this command has nothing to do on another machine",
    };
    Err(CliError::Message(format!("--host: {why}")))
}

/// How the answer is printed.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, clap::ValueEnum)]
pub(crate) enum OutputFormat {
    /// The answer.
    #[default]
    Text,
    /// One object at the end.
    Json,
    /// One object per line, as it happens.
    StreamJson,
}

/// Who answers.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub(crate) enum ProviderName {
    /// Anthropic, or a server that speaks its form.
    Anthropic,
    /// Claude on AWS Bedrock.
    Bedrock,
    /// Claude on Google Vertex.
    Vertex,
    /// Claude in Microsoft Foundry.
    Foundry,
    /// OpenAI, or any server that speaks Chat Completions.
    Openai,
    /// OpenAI, or any server that speaks Responses.
    OpenaiResponses,
    /// Google's Gemini API.
    Gemini,
    /// OpenRouter.
    Openrouter,
    /// Ollama on this machine.
    Ollama,
    /// LM Studio on this machine.
    Lmstudio,
    /// vLLM on this machine.
    Vllm,
    /// The server of llama.cpp on this machine.
    Llamacpp,
}

/// Flags every command takes.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Everywhere")]
pub(crate) struct GlobalArgs {
    /// Print JSON for programs instead of text for people.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Work in this directory.
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    /// What happens to calls no rule speaks about: default, acceptEdits, plan, auto, dontAsk,
    /// bypassPermissions.
    #[arg(long, global = true, value_name = "MODE", alias = "permissionMode")]
    pub(crate) permission_mode: Option<PermissionMode>,
    /// Allow rules for this run, separated by commas or blanks: `Read,Bash(git log *)`.
    #[arg(long = "allowedTools", alias = "allowed-tools", global = true, value_name = "RULES")]
    pub(crate) allowed_tools: Vec<String>,
    /// Deny rules for this run; a bare tool name removes the tool.
    #[arg(long = "disallowedTools", alias = "disallowed-tools", global = true, value_name = "RULES")]
    pub(crate) disallowed_tools: Vec<String>,
    /// Another directory that counts as part of the workspace.
    #[arg(long = "add-dir", alias = "addDir", global = true, value_name = "DIR")]
    pub(crate) add_dir: Vec<PathBuf>,
    /// Work on another machine: files and commands are there, NAME=ssh://user@box/dir, NAME=https://box/, or a NAME of
    /// the settings. Several times for several machines.
    #[arg(long, global = true, value_name = "NAME=ADDRESS")]
    pub(crate) host: Vec<String>,
    /// Settings for this run: a file, or JSON text.
    #[arg(long, global = true, value_name = "FILE-OR-JSON")]
    pub(crate) settings: Option<String>,
    /// Settings nobody can weaken, from the program that embeds us: JSON text.
    #[arg(long, global = true, hide = true, value_name = "JSON", allow_hyphen_values = true)]
    pub(crate) managed_settings: Option<String>,
    /// Which settings files are read: user, project, local, separated by commas; empty for none.
    #[arg(long, global = true, value_name = "LIST")]
    pub(crate) setting_sources: Option<String>,
}

/// Flags of `haft view`.
#[derive(Debug, clap::Args)]
pub(crate) struct ViewArgs {
    /// Which session, or the path of a log. Without one: all sessions, or for a file the newest of this directory.
    pub(crate) session: Option<String>,
    /// Write one self-contained page into this file.
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Write a trace that Perfetto and Chrome read into this file.
    #[arg(long, value_name = "FILE")]
    pub(crate) perfetto: Option<PathBuf>,
    /// Let the page take changes of files back.
    #[arg(long, conflicts_with_all = ["html", "perfetto"])]
    pub(crate) allow_undo: bool,
    /// Listen here instead of on any free port of this machine alone.
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with_all = ["html", "perfetto"])]
    pub(crate) listen: Option<std::net::SocketAddr>,
    /// End after so many seconds without an open page.
    #[arg(long, value_name = "SECONDS", default_value_t = 1800, conflicts_with_all = ["html", "perfetto"])]
    pub(crate) ends_after: u64,
    /// Print the address and open no browser.
    #[arg(long, conflicts_with_all = ["html", "perfetto"])]
    pub(crate) no_open: bool,
}

/// Where a session goes back to.
#[derive(Debug, clap::Args)]
pub(crate) struct RewindArgs {
    /// Which session: its id, the beginning of it, or its title; the newest when nothing is named.
    pub(crate) session: Option<String>,
    /// The number of the message, as `haft rewind` lists it. The conversation before it becomes a new session; the old one stays.
    #[arg(long, value_name = "NUMBER")]
    pub(crate) to: Option<usize>,
    /// Only files.
    #[arg(long, requires = "to", conflicts_with = "talk")]
    pub(crate) files: bool,
    /// Only the conversation.
    #[arg(long, requires = "to")]
    pub(crate) talk: bool,
}

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
    Fleet(Box<crate::fleet_args::FleetCommand>),
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

/// An amount that a sum can reach.
fn dollars(text: &str) -> Result<f64, String> {
    let amount = text.parse::<f64>().ok().filter(|it| it.is_finite() && 0.0 <= *it);
    amount.ok_or_else(|| String::from("an amount of dollars is a number from 0 on"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test code")]

    use super::*;

    #[test]
    fn nothing_is_the_same_with_and_without_the_commands() {
        let matches = Args::command().try_get_matches_from(["haft"]).unwrap();
        let with = Args::from_arg_matches(&matches).unwrap();
        let (without, _) = Args::of_nothing().unwrap();
        assert_eq!(format!("{without:?}"), format!("{with:?}"));
    }
}
