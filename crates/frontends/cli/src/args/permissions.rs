//! Flags of `haft permissions`.

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum PermissionsCommand {
    /// Show the decision for a shell command without running it
    Test {
        /// The shell command
        #[arg(required_unless_present = "batch")]
        command: Option<String>,
        /// Judge JSON lines from standard input: `{"tool","input","cwd","home"?,"mode"?,"rules":{"allow",
        /// "ask","deny"},"additional_dirs"?,"classifier"?}`. `classifier` is what the model of auto mode would
        /// say: `allow`, `block` or `ask`.
        #[arg(long)]
        batch: bool,
    },
    /// Show why a call is allowed, asked about or denied
    Explain {
        /// Name or alias of the tool, or a shell command
        tool: String,
        /// Input: JSON, `@file`, or `-` for standard input.
        #[arg(value_name = "JSON")]
        input: Option<String>,
        /// Decide for an agent of this type, and show the decision of every level above it
        #[arg(long, value_name = "NAME")]
        agent: Option<String>,
    },
    /// List the rules in force and their files
    List,
    /// Add allow rules: matching calls run without a prompt
    Allow(RuleArgs),
    /// Add ask rules: matching calls prompt in every mode
    Ask(RuleArgs),
    /// Add deny rules
    Deny(RuleArgs),
    /// Remove rules from your settings files
    Revoke {
        /// Rules as `haft permissions list` shows them
        #[arg(required = true, value_name = "RULE")]
        rules: Vec<String>,
    },
    /// Show the decision for every call of a session
    Log {
        /// Session id, id prefix or title; the latest if none is given
        session: Option<String>,
    },
}

/// Rules, and where they are kept.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct RuleArgs {
    /// Rules: `Bash(git log *)`, `Edit(src/**)`, `WebFetch(domain:docs.rs)`
    #[arg(required = true, value_name = "RULE")]
    pub(crate) rules: Vec<String>,
    /// Which settings file
    #[arg(long, value_enum, default_value_t)]
    pub(crate) scope: RuleScope,
}

/// Whose settings a rule goes into.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, clap::ValueEnum)]
pub(crate) enum RuleScope {
    /// Yours, for this project
    #[default]
    Local,
    /// The project's
    Project,
    /// Yours, everywhere
    User,
}
