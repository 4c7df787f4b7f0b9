//! Flags of a session, for `haft`, `haft -p` and the Agent SDKs. Each struct is one heading of
//! `haft --help`.

mod model;

use std::path::PathBuf;

use model::ModelArgs;
pub(crate) use model::ProviderName;

/// Flags of a session.
#[derive(Clone, Debug, Default, clap::Args)]
#[group(skip)]
pub(crate) struct RunArgs {
    /// The prompt; piped standard input is appended as data, or is the prompt if none is given
    #[arg(value_name = "PROMPT")]
    pub(crate) prompt: Option<String>,
    /// Which session.
    #[command(flatten)]
    pub(crate) session: SessionArgs,
    /// Which model, and how it thinks.
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    /// What goes in and what comes out.
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    /// Where a run ends.
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
    /// What the model may do.
    #[command(flatten)]
    pub(crate) permissions: PermissionArgs,
    /// MCP servers, agents and plugins.
    #[command(flatten)]
    pub(crate) extensions: ExtensionArgs,
    /// Record the run for `haft replay`
    #[arg(long, value_name = "FILE", help_heading = "Session options")]
    pub(crate) record: Option<PathBuf>,
    /// The host sends what the session is opened with on standard input first.
    #[arg(long, hide = true)]
    pub(crate) await_initialize: bool,
    #[command(flatten)]
    _accepted: AcceptedArgs,
}

/// Which session runs, and how it is kept.
#[derive(Clone, Debug, Default, clap::Args)]
#[group(skip)]
#[command(next_help_heading = "Session options")]
pub(crate) struct SessionArgs {
    /// Run the prompt without a UI, print the answer and exit
    ///
    /// Calls that would prompt are denied.
    #[arg(short, long)]
    pub(crate) print: bool,
    /// Resume the latest session of this directory
    #[arg(short, long = "continue", conflicts_with = "resume")]
    pub(crate) continue_: bool,
    /// Resume a session by id, id prefix or title
    #[arg(long, value_name = "ID")]
    pub(crate) resume: Option<String>,
    /// With --continue or --resume: continue in a copy and keep the original
    #[arg(long)]
    pub(crate) fork_session: bool,
    /// Id of the new session
    #[arg(long, value_name = "UUID")]
    pub(crate) session_id: Option<uuid::Uuid>,
    /// Resume only up to this log line
    #[arg(long, value_name = "LINE")]
    pub(crate) resume_session_at: Option<String>,
    /// Resume only if nothing but this turn is lost
    #[arg(long, value_name = "ID")]
    pub(crate) resume_drops_turn: Option<String>,
    /// Do not write a session log
    #[arg(long)]
    pub(crate) no_session_persistence: bool,
    /// Run as this agent: its prompt, tools and model
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// Connect to the editor that has this directory open
    ///
    /// Its selection, diagnostics and diffs are tools of the server `ide`.
    #[arg(long)]
    pub(crate) ide: bool,
}

/// What a run reads and prints.
#[derive(Clone, Debug, Default, clap::Args)]
#[group(skip)]
#[command(next_help_heading = "Prompt and output options")]
pub(crate) struct OutputArgs {
    /// Format of standard input; stream-json is the protocol of the Agent SDKs
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    pub(crate) input_format: InputFormat,
    /// text, json (one object) or stream-json (one object per line)
    ///
    /// The format of the answer.
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    pub(crate) output_format: OutputFormat,
    /// Require output that matches this JSON Schema
    #[arg(long, value_name = "SCHEMA", allow_hyphen_values = true)]
    pub(crate) json_schema: Option<String>,
    /// Replace the system prompt
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) system_prompt: Option<String>,
    /// Replace the system prompt with the text of a file
    #[arg(long, value_name = "FILE")]
    pub(crate) system_prompt_file: Option<PathBuf>,
    /// Extend the system prompt
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) append_system_prompt: Option<String>,
    /// Take the prompt literally: no slash commands, no @files
    #[arg(long)]
    pub(crate) disable_slash_commands: bool,
    /// Let the model send progress messages (SendUserMessage)
    #[arg(long)]
    pub(crate) brief: bool,
    /// Print parts of answers as they arrive (stream-json)
    #[arg(long)]
    pub(crate) include_partial_messages: bool,
    /// Print what command hooks do (stream-json)
    #[arg(long)]
    pub(crate) include_hook_events: bool,
    /// Repeat prompts on standard output (stream-json)
    #[arg(long)]
    pub(crate) replay_user_messages: bool,
    /// Print every line that is written to the session log (stream-json)
    #[arg(long)]
    pub(crate) session_mirror: bool,
    /// Print more to standard error
    #[arg(long)]
    pub(crate) verbose: bool,
}

/// Where a run ends.
#[derive(Clone, Debug, Default, clap::Args)]
#[group(skip)]
#[command(next_help_heading = "Limits")]
pub(crate) struct LimitArgs {
    /// Maximum number of model requests
    #[arg(long, value_name = "N")]
    pub(crate) max_turns: Option<u32>,
    /// Maximum cost in US dollars
    #[arg(long, value_name = "USD", value_parser = dollars)]
    pub(crate) max_budget_usd: Option<f64>,
    /// Exit with 0 although calls were denied
    #[arg(long)]
    pub(crate) allow_denials: bool,
}

/// Which tools the model has, and who answers permission prompts.
#[derive(Clone, Debug, Default, clap::Args)]
#[group(skip)]
#[command(next_help_heading = "Permission options")]
pub(crate) struct PermissionArgs {
    /// Only these tools, separated by commas; empty for none, `default` for all
    #[arg(long, value_name = "LIST")]
    pub(crate) tools: Option<Vec<String>>,
    /// Only Bash, Read, Edit and the tools of --mcp-config
    #[arg(long)]
    pub(crate) bare: bool,
    /// Never prompt (mode bypassPermissions); refused for root unless IS_SANDBOX=1
    #[arg(long)]
    pub(crate) dangerously_skip_permissions: bool,
    /// Allow switching to the mode bypassPermissions later
    #[arg(long)]
    pub(crate) allow_dangerously_skip_permissions: bool,
    /// MCP tool that answers permission prompts; `stdio` for the host
    #[arg(long, value_name = "TOOL")]
    pub(crate) permission_prompt_tool: Option<String>,
    /// Who answers permission prompts: the host, or nobody, which denies the calls
    #[arg(long, value_name = "WHO", value_parser = ["host", "none"])]
    pub(crate) permission_prompts: Option<String>,
}

/// MCP servers, agents and plugins of a run.
#[derive(Clone, Debug, Default, clap::Args)]
#[group(skip)]
#[command(next_help_heading = "Extension options")]
pub(crate) struct ExtensionArgs {
    /// MCP servers of this run: JSON text or a file; may be repeated
    #[arg(long, value_name = "FILE-OR-JSON")]
    pub(crate) mcp_config: Vec<String>,
    /// Use only the MCP servers of --mcp-config
    #[arg(long)]
    pub(crate) strict_mcp_config: bool,
    /// Wait this long for MCP servers that are still starting
    #[arg(long, value_name = "SECONDS")]
    pub(crate) mcp_wait: Option<u64>,
    /// Agent types by name, each with `description`, `prompt` and any field of an agent file
    #[arg(long, value_name = "JSON")]
    pub(crate) agents: Option<String>,
    /// Load plugins from this directory; may be repeated
    #[arg(long, value_name = "DIR")]
    pub(crate) plugin_dir: Vec<PathBuf>,
    /// The same, but without the MCP servers of the plugins, which the host runs
    #[arg(long, value_name = "DIR")]
    pub(crate) plugin_dir_no_mcp: Vec<PathBuf>,
}

/// Flags that the Agent SDKs pass and that have no effect: a program that runs with the
/// reference executable must start with this one.
#[derive(Clone, Debug, Default, clap::Args)]
#[group(skip)]
struct AcceptedArgs {
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

/// Parses an amount in US dollars that is finite and not negative.
fn dollars(text: &str) -> Result<f64, String> {
    let amount = text.parse::<f64>().ok().filter(|it| it.is_finite() && 0.0 <= *it);
    amount.ok_or_else(|| String::from("an amount of dollars is a number from 0 on"))
}
