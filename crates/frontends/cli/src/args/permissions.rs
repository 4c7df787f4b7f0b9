//! Flags of `haft permissions`.

use clap::Subcommand;

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
