//! Flags the Agent SDKs pass, and those their users may pass through them.

use std::{path::PathBuf, process::ExitCode};

use clap::{
    CommandFactory as _,
    error::{ContextKind, ContextValue, ErrorKind},
};
use haft_console::stdout::write_error;
use haft_model::{Effort, Thinking, ThinkingDisplay};

/// Flags of the Agent SDKs. What Haft has no use for is accepted: a program
/// that runs with the reference executable must start with this one.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Agent SDK")]
pub(crate) struct SdkArgs {
    /// How prompts come in: text, or stream-json for the protocol of the Agent SDKs.
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    pub(crate) input_format: InputFormat,
    /// Tell answers piece by piece.
    #[arg(long, hide = true)]
    pub(crate) include_partial_messages: bool,
    /// Repeat prompts on standard output.
    #[arg(long, hide = true)]
    pub(crate) replay_user_messages: bool,
    /// Who is asked for permission: `stdio` for the host.
    #[arg(long, hide = true)]
    pub(crate) permission_prompt_tool: Option<String>,
    /// MCP servers for this run: JSON text or files.
    #[arg(long, value_name = "FILE-OR-JSON")]
    pub(crate) mcp_config: Vec<String>,
    /// Use only the MCP servers of --mcp-config.
    #[arg(long)]
    pub(crate) strict_mcp_config: bool,
    /// Wait so many seconds for MCP servers that are still starting.
    #[arg(long, value_name = "SECONDS")]
    pub(crate) mcp_wait: Option<u64>,
    /// A file that replaces the system prompt.
    #[arg(long, hide = true)]
    pub(crate) system_prompt_file: Option<PathBuf>,
    /// Resume only up to this line of the log.
    #[arg(long, hide = true)]
    pub(crate) resume_session_at: Option<String>,
    /// Beta features of the provider.
    #[arg(long, hide = true)]
    pub(crate) betas: Vec<String>,
    /// Whether the model thinks.
    #[arg(long, hide = true, value_enum)]
    thinking: Option<ThinkingFlag>,
    /// How many tokens it may think.
    #[arg(long, hide = true)]
    max_thinking_tokens: Option<u32>,
    /// How much of what it thinks comes back.
    #[arg(long, hide = true, value_enum)]
    pub(crate) thinking_display: Option<DisplayFlag>,
    /// Tokens the whole task may take, as the model is told.
    #[arg(long, hide = true)]
    pub(crate) task_budget: Option<u64>,
    /// The agent that the session is.
    #[arg(long, hide = true)]
    pub(crate) agent: Option<String>,
    /// How hard it tries.
    #[arg(long, hide = true, value_enum)]
    pub(crate) effort: Option<EffortFlag>,
    /// Tell every line that is written to the log.
    #[arg(long, hide = true)]
    pub(crate) session_mirror: bool,
    /// Keep no log.
    #[arg(long, hide = true)]
    pub(crate) no_session_persistence: bool,
    /// Never ask.
    #[arg(long, hide = true)]
    pub(crate) dangerously_skip_permissions: bool,
    /// The bypass mode may be switched to later.
    #[arg(long, hide = true)]
    pub(crate) allow_dangerously_skip_permissions: bool,
    /// Tell what command hooks do.
    #[arg(long, hide = true)]
    pub(crate) include_hook_events: bool,
    /// Resume only if nothing but this turn is lost.
    #[arg(long, hide = true)]
    pub(crate) resume_drops_turn: Option<String>,
    /// Directories of plugins.
    #[arg(long, hide = true)]
    pub(crate) plugin_dir: Vec<PathBuf>,
    /// Directories of plugins whose MCP servers the host runs.
    #[arg(long, hide = true)]
    pub(crate) plugin_dir_no_mcp: Vec<PathBuf>,
    /// Who answers questions: `host`, or `none` to deny what would be asked.
    #[arg(long, hide = true, value_parser = ["host", "none"])]
    pub(crate) permission_prompts: Option<String>,
    /// Kinds of agents: a JSON object, each with `description`, `prompt` and any field of an agent file.
    #[arg(long, hide = true)]
    pub(crate) agents: Option<String>,
    /// Take every prompt word for word.
    #[arg(long, hide = true)]
    pub(crate) disable_slash_commands: bool,
    /// Only Bash, Read and Edit, and the tools of --mcp-config.
    #[arg(long)]
    pub(crate) bare: bool,
    /// Use the editor that has this directory open: selection, diagnostics and diffs as tools of the server `ide`.
    #[arg(long)]
    pub(crate) ide: bool,
    /// The host sends what the session is opened with on standard input first.
    #[arg(long, hide = true)]
    pub(crate) await_initialize: bool,
    #[command(flatten)]
    _accepted: Accepted,
}

/// Accepted without effect.
#[derive(Clone, Debug, Default, clap::Args)]
struct Accepted {
    #[arg(long, hide = true, num_args = 0..=1)]
    debug: Option<Option<String>>,
    #[arg(long, hide = true)]
    debug_file: Option<PathBuf>,
    #[arg(long, hide = true)]
    debug_to_stderr: bool,
    #[arg(long, hide = true)]
    await_claim: bool,
    /// What `initialize` will hold is found in it.
    #[arg(long, hide = true)]
    initialize_fields: Option<String>,
    #[arg(long, hide = true)]
    managed_settings_in_initialize: bool,
    #[arg(long, hide = true)]
    nested_model_access: bool,
    #[arg(long, hide = true)]
    project_config_root: Option<PathBuf>,
    #[arg(long, hide = true)]
    exclude_dynamic_system_prompt_sections: bool,
    #[arg(long, hide = true)]
    name: Option<String>,
}

/// How prompts come in.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, clap::ValueEnum)]
pub(crate) enum InputFormat {
    /// Text.
    #[default]
    Text,
    /// One object per line.
    StreamJson,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
enum ThinkingFlag {
    Adaptive,
    Enabled,
    Disabled,
}

/// How much of what the model thinks comes back.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub(crate) enum DisplayFlag {
    Summarized,
    Omitted,
    Highlights,
}

impl From<DisplayFlag> for ThinkingDisplay {
    fn from(flag: DisplayFlag) -> Self {
        match flag {
            DisplayFlag::Summarized => Self::Summarized,
            DisplayFlag::Omitted => Self::Omitted,
            DisplayFlag::Highlights => Self::Highlights,
        }
    }
}

/// How hard the model tries.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub(crate) enum EffortFlag {
    Low,
    Medium,
    High,
    Xhigh,
    Max,
}

impl From<EffortFlag> for Effort {
    fn from(flag: EffortFlag) -> Self {
        match flag {
            EffortFlag::Low => Self::Low,
            EffortFlag::Medium => Self::Medium,
            EffortFlag::High => Self::High,
            EffortFlag::Xhigh => Self::Xhigh,
            EffortFlag::Max => Self::Max,
        }
    }
}

impl SdkArgs {
    /// Whether and how the model thinks.
    pub(crate) fn thinking(&self) -> Thinking {
        let from_env = || std::env::var("MAX_THINKING_TOKENS").ok()?.trim().parse().ok();
        match self.thinking {
            Some(ThinkingFlag::Disabled) => Thinking::Off,
            Some(ThinkingFlag::Adaptive) => Thinking::Adaptive,
            Some(ThinkingFlag::Enabled) | None => {
                Thinking::of_budget(self.max_thinking_tokens.or_else(from_env))
            }
        }
    }
}

/// What to do where the words of a prompt were given one by one, or a command is misspelt.
fn unquoted_prompt(err: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(word)) = err.get(ContextKind::InvalidArg) else { return None };
    let given: Vec<String> = std::env::args_os().skip(1).filter_map(|it| it.into_string().ok()).collect();
    let first = given.iter().find(|it| !it.starts_with('-'))?;
    let is_prompt = !word.starts_with('-') && crate::args::Args::command().find_subcommand(first).is_none();
    if err.kind() != ErrorKind::UnknownArgument || !is_prompt {
        return None;
    }
    let quoted = format!("A prompt of several words goes into quotes: haft \"{first} {word} …\"");
    let prints = given.iter().any(|it| it == "-p" || it == "--print");
    let meant = if prints { None } else { crate::run::print::nearest_command(first) };
    Some(match meant {
        Some(meant) => format!("There is no command {first}; did you mean `haft {meant}`? {quoted}"),
        None => quoted,
    })
}

/// Flags that make no sense. Under an SDK that is one line and exit 1; a
/// person gets help with it.
pub(crate) fn refuse(err: &clap::Error) -> ExitCode {
    let is_sdk = std::env::args_os().any(|it| it.to_string_lossy().starts_with("--input-format"));
    if !is_sdk || !err.use_stderr() {
        crate::args::help_width::print(err).ok();
        if let Some(tip) = unquoted_prompt(err) {
            write_error(&tip);
        }
        return ExitCode::from(u8::try_from(err.exit_code()).unwrap_or(2));
    }
    write_error(err.render().to_string().lines().next().unwrap_or("error: bad flags"));
    ExitCode::from(1)
}
