//! The command line: its flags and commands, and how it is parsed.

mod bug;
mod cli_command;
mod cron;
mod demo;
mod dev;
mod doctor;
pub(crate) mod help;
mod import;
mod init;
mod list_flags;
mod login;
pub(crate) mod mcp;
mod mock_model;
mod models;
mod new;
mod newer_flags;
pub(crate) mod parse_error;
mod permissions;
mod plugins;
mod refused_flags;
mod replay;
mod rewind;
mod run;
mod sandbox;
mod sessions;
mod tasks;
mod tool;
mod triggers;
mod view;
mod worktrees;

use std::sync::LazyLock;

use clap::{Args as _, CommandFactory as _, FromArgMatches as _, Parser};
use haft_console::GlobalArgs;
use haft_mcp_client::{ManagerOptions, McpManager};

pub(crate) use self::{
    bug::BugArgs,
    cli_command::CliCommand,
    cron::CronCommand,
    demo::DemoArgs,
    dev::DevCommand,
    doctor::DoctorArgs,
    import::{ImportArgs, ImportFrom},
    init::InitArgs,
    login::{LoginArgs, LogoutArgs},
    mcp::McpCommand,
    mock_model::MockModelArgs,
    models::ModelsArgs,
    new::NewCommand,
    permissions::{PermissionsCommand, RuleArgs, RuleScope},
    plugins::{MarketplaceCommand, PluginScope, PluginsCommand},
    refused_flags::{refuse_hosts, refuse_run_flags},
    replay::{ReplayArgs, ReplayTools},
    rewind::RewindArgs,
    run::{InputFormat, OutputFormat, ProviderName, RunArgs},
    sandbox::SandboxCommand,
    sessions::SessionsCommand,
    tasks::TasksCommand,
    tool::{ToolCommand, ToolServerArgs},
    triggers::TriggersCommand,
    view::ViewArgs,
    worktrees::WorktreesCommand,
};
use haft_console::stdout::print_error;

/// The handle by which a language model holds its tools.
#[derive(Debug, Parser)]
#[command(
    name = "haft",
    version,
    about = "Haft: a coding agent for the terminal, scripts and editors",
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
    /// Parses the command line of this process. Without arguments, the most common case, it skips
    /// building the subcommands: that takes longer than everything else before the prompt appears.
    pub(crate) fn of_program() -> Result<(Self, clap::ArgMatches), clap::Error> {
        if 1 < std::env::args_os().len() {
            // Never dropped: dropping takes half as long as building, and the process needs it only
            // once.
            let mut root = std::mem::ManuallyDrop::new(Self::command());
            let words = list_flags::one_word_each(std::env::args_os().collect(), &root, &is_tool_name);
            let matches = if newer_flags::is_of_sdk(&words) {
                let (matches, ignored) = newer_flags::parse(&mut root, words)?;
                ignored.iter().for_each(|flag| print_error(&format!("ignored the unknown option {flag}")));
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

/// Names and aliases of the built-in tools.
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

/// Whether this is the name or a former name of a built-in tool.
pub(crate) fn is_tool_name(name: &str) -> bool {
    let renamed = haft_permission::Names::built_in();
    tool_names().iter().any(|it| it == name || it == renamed.canonical(name))
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
