//! Flags that may precede or follow any subcommand.

use std::path::PathBuf;

use haft_types::PermissionMode;

/// Flags that every command accepts; not every command uses them.
#[derive(Clone, Debug, Default, clap::Args)]
#[group(skip)]
#[command(next_help_heading = "Workspace and settings options")]
pub struct GlobalArgs {
    /// Working directory
    #[arg(long, global = true, value_name = "DIR")]
    pub cwd: Option<PathBuf>,
    /// default, acceptEdits, plan, auto, dontAsk or bypassPermissions
    ///
    /// The decision for calls that no rule matches.
    #[arg(
        long,
        global = true,
        help_heading = "Permission options",
        display_order = 0,
        value_name = "MODE",
        alias = "permissionMode"
    )]
    pub permission_mode: Option<PermissionMode>,
    /// Allow these calls without a prompt
    ///
    /// Rules such as `Read,Bash(git log *)`, separated by commas or spaces.
    #[arg(
        long = "allowedTools",
        alias = "allowed-tools",
        global = true,
        help_heading = "Permission options",
        display_order = 1,
        value_name = "RULES"
    )]
    pub allowed_tools: Vec<String>,
    /// Deny these calls; a bare tool name removes the tool
    #[arg(
        long = "disallowedTools",
        alias = "disallowed-tools",
        global = true,
        help_heading = "Permission options",
        display_order = 2,
        value_name = "RULES"
    )]
    pub disallowed_tools: Vec<String>,
    /// Add a directory to the workspace; may be repeated
    #[arg(long = "add-dir", alias = "addDir", global = true, value_name = "DIR")]
    pub add_dir: Vec<PathBuf>,
    /// Work on another machine; may be repeated
    ///
    /// NAME=ssh://user@box/dir, NAME=https://box/, or a NAME of the settings: files and commands are there.
    #[arg(long, global = true, value_name = "NAME=ADDRESS")]
    pub host: Vec<String>,
    /// Settings for this run: a file or JSON text
    #[arg(long, global = true, value_name = "FILE-OR-JSON")]
    pub settings: Option<String>,
    /// Settings that nothing can weaken, from an embedding program
    #[arg(long, global = true, value_name = "JSON", allow_hyphen_values = true)]
    pub managed_settings: Option<String>,
    /// Which settings files are read: user, project, local, separated by commas; empty for none
    #[arg(long, global = true, value_name = "LIST")]
    pub setting_sources: Option<String>,
    /// Print JSON instead of text
    #[arg(long, global = true, help_heading = "Other options")]
    pub json: bool,
}
