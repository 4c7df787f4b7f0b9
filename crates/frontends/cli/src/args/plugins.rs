//! Flags of `haft plugins`.

use clap::Subcommand;
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub(crate) enum PluginsCommand {
    /// List plugins and marketplaces, where each comes from, and problems in their files
    List,
    /// Enable a plugin
    Enable {
        /// `NAME@MARKETPLACE`, or the name if it is unique
        id: String,
        /// Which settings file
        #[arg(long, value_enum, default_value_t = PluginScope::User)]
        scope: PluginScope,
    },
    /// Disable a plugin
    Disable {
        /// `NAME@MARKETPLACE`, or the name if it is unique
        id: String,
        /// Which settings file
        #[arg(long, value_enum, default_value_t = PluginScope::User)]
        scope: PluginScope,
    },
    /// Check a plugin or marketplace directory
    Validate {
        /// The directory
        #[arg(default_value = ".")]
        path: PathBuf,
    },
    /// Install a plugin from a marketplace and enable it
    Install {
        /// `NAME@MARKETPLACE`, or the name if it is unique
        id: String,
        /// Which settings file enables it
        #[arg(long, value_enum, default_value_t = PluginScope::User)]
        scope: PluginScope,
    },
    /// Uninstall a plugin and disable it
    Uninstall {
        /// `NAME@MARKETPLACE`, or the name if it is unique
        id: String,
        /// Which settings file disables it
        #[arg(long, value_enum, default_value_t = PluginScope::User)]
        scope: PluginScope,
    },
    /// Show or set the options of a plugin
    Configure {
        /// `NAME@MARKETPLACE`, or the name if it is unique
        id: String,
        /// `KEY=VALUE`; a `KEY` alone reads the value from standard input
        #[arg(value_name = "KEY=VALUE")]
        values: Vec<String>,
    },
    /// Manage marketplaces: directories and git repositories of this machine
    Marketplace {
        #[command(subcommand)]
        command: MarketplaceCommand,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum MarketplaceCommand {
    /// Add a marketplace
    Add {
        /// Its directory, or a git repository of this machine
        from: String,
    },
    /// Remove a marketplace
    Remove {
        /// Name of the marketplace
        name: String,
    },
    /// Update a marketplace that is a git repository
    Update {
        /// Name of the marketplace
        name: String,
    },
}

/// Whose settings.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum PluginScope {
    /// Yours, everywhere
    User,
    /// The project's, for everybody
    Project,
    /// Yours, for this project
    Local,
}
