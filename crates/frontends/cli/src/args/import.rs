//! Flags of `haft import`.

/// Flags of `haft import`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ImportArgs {
    /// The other agent
    #[arg(value_enum)]
    pub(crate) from: ImportFrom,
    /// Only show what would be imported and what not
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Import allow rules without a prompt for each
    #[arg(long)]
    pub(crate) yes: bool,
}

/// Whose configuration is brought along.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub(crate) enum ImportFrom {
    /// Claude Code
    Claude,
    /// Codex
    Codex,
    /// The Gemini CLI
    Gemini,
    /// opencode
    Opencode,
}
