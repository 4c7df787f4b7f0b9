//! Flags of the commands of the first hour.

use std::path::PathBuf;

/// Flags of `haft models`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ModelsArgs {
    /// Only models whose name holds this.
    pub(crate) filter: Option<String>,
    /// Do not look for servers on this machine.
    #[arg(long)]
    pub(crate) no_local: bool,
}

/// Flags of `haft doctor`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct DoctorArgs {
    /// Also try to reach the provider (no key is sent) and servers of models on this machine.
    #[arg(long)]
    pub(crate) online: bool,
    /// Print the path of the program itself and nothing else, for hosts that start it directly.
    #[arg(long)]
    pub(crate) binary: bool,
}

/// Flags of `haft login`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct LoginArgs {
    /// Whose key: anthropic, openai, gemini or openrouter.
    #[arg(default_value = "anthropic", value_parser = ["anthropic", "openai", "gemini", "openrouter"])]
    pub(crate) provider: String,
    /// Keep it in a file for your eyes only, even where there is a keyring.
    #[arg(long)]
    pub(crate) file: bool,
    /// Ask the provider whether it takes the key before it is kept; costs nothing.
    #[arg(long)]
    pub(crate) check: bool,
}

impl LoginArgs {
    /// `haft login` alone.
    pub(crate) fn usual() -> Self {
        Self { provider: String::from("anthropic"), file: false, check: false }
    }
}

/// Flags of `haft logout`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct LogoutArgs {
    /// Whose key; all of them when nobody is named.
    #[arg(value_parser = ["anthropic", "openai", "gemini", "openrouter"])]
    pub(crate) provider: Option<String>,
}

/// Flags of `haft init`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct InitArgs {
    /// Write without asking; what is there is never overwritten.
    #[arg(long)]
    pub(crate) yes: bool,
    /// Only show what would be written.
    #[arg(long, conflicts_with = "yes")]
    pub(crate) dry_run: bool,
}

/// Flags of `haft import`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ImportArgs {
    /// Whose configuration.
    #[arg(value_enum)]
    pub(crate) from: ImportFrom,
    /// Only show what would be taken, and what not.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Take rules that allow something without asking about each.
    #[arg(long)]
    pub(crate) yes: bool,
}

/// Whose configuration is brought along.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub(crate) enum ImportFrom {
    /// Claude Code.
    Claude,
    /// Codex.
    Codex,
    /// The Gemini CLI.
    Gemini,
    /// opencode.
    Opencode,
}

/// What `haft new` writes.
#[derive(Clone, Debug, clap::Subcommand)]
pub(crate) enum NewCommand {
    /// Write a crate with a tool, its test, and a server for MCP clients.
    Tool {
        /// The name: `word-count`.
        name: String,
        /// Into this new directory; by default one of the tool's name.
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
        /// The source of Haft to depend on; by default that of this program.
        #[arg(long, value_name = "DIR")]
        haft: Option<PathBuf>,
    },
}

/// Flags of `haft bug`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct BugArgs {
    /// Into this file; by default one in this directory named after the time.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Add the log of this session, with everything that looks secret masked.
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
}
