//! Flags that stand before or after any command.

use std::path::PathBuf;

use haft_types::PermissionMode;

/// Flags every command takes.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Everywhere")]
pub struct GlobalArgs {
    /// Print JSON for programs instead of text for people.
    #[arg(long, global = true)]
    pub json: bool,
    /// Work in this directory.
    #[arg(long, global = true, value_name = "DIR")]
    pub cwd: Option<PathBuf>,
    /// What happens to calls no rule speaks about: default, acceptEdits, plan, auto, dontAsk,
    /// bypassPermissions.
    #[arg(long, global = true, value_name = "MODE", alias = "permissionMode")]
    pub permission_mode: Option<PermissionMode>,
    /// Allow rules for this run, separated by commas or blanks: `Read,Bash(git log *)`.
    #[arg(long = "allowedTools", alias = "allowed-tools", global = true, value_name = "RULES")]
    pub allowed_tools: Vec<String>,
    /// Deny rules for this run; a bare tool name removes the tool.
    #[arg(long = "disallowedTools", alias = "disallowed-tools", global = true, value_name = "RULES")]
    pub disallowed_tools: Vec<String>,
    /// Another directory that counts as part of the workspace.
    #[arg(long = "add-dir", alias = "addDir", global = true, value_name = "DIR")]
    pub add_dir: Vec<PathBuf>,
    /// Work on another machine: files and commands are there, NAME=ssh://user@box/dir, NAME=https://box/, or a NAME of
    /// the settings. Several times for several machines.
    #[arg(long, global = true, value_name = "NAME=ADDRESS")]
    pub host: Vec<String>,
    /// Settings for this run: a file, or JSON text.
    #[arg(long, global = true, value_name = "FILE-OR-JSON")]
    pub settings: Option<String>,
    /// Settings nobody can weaken, from the program that embeds us: JSON text.
    #[arg(long, global = true, hide = true, value_name = "JSON", allow_hyphen_values = true)]
    pub managed_settings: Option<String>,
    /// Which settings files are read: user, project, local, separated by commas; empty for none.
    #[arg(long, global = true, value_name = "LIST")]
    pub setting_sources: Option<String>,
}
