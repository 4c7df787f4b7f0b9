//! Flags of `haft plugins`.

use clap::Subcommand;
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub(crate) enum PluginsCommand {
    /// List them.
    List,
    /// Switch a plugin on.
    Enable {
        /// `name@marketplace`, or its name where only one has it.
        id: String,
        /// In which settings.
        #[arg(long, value_enum, default_value_t = PluginScope::User)]
        scope: PluginScope,
    },
    /// Switch a plugin off.
    Disable {
        /// `name@marketplace`, or its name where only one has it.
        id: String,
        /// In which settings.
        #[arg(long, value_enum, default_value_t = PluginScope::User)]
        scope: PluginScope,
    },
    /// Say what is wrong with a plugin or a marketplace in a directory.
    Validate {
        /// The directory.
        #[arg(default_value = ".")]
        path: PathBuf,
    },
    /// Put a plugin of a marketplace on this machine and switch it on.
    Install {
        /// `name@marketplace`, or its name where only one has it.
        id: String,
        /// In which settings it is switched on.
        #[arg(long, value_enum, default_value_t = PluginScope::User)]
        scope: PluginScope,
    },
    /// Take a plugin that was installed away, and switch it off.
    Uninstall {
        /// `name@marketplace`, or its name where only one has it.
        id: String,
        /// In which settings it is switched off.
        #[arg(long, value_enum, default_value_t = PluginScope::User)]
        scope: PluginScope,
    },
    /// Show what a plugin wants to know, or tell it.
    Configure {
        /// `name@marketplace`, or its name where only one has it.
        id: String,
        /// `KEY=VALUE`; a `KEY` alone reads the value from standard input.
        #[arg(value_name = "KEY=VALUE")]
        values: Vec<String>,
    },
    /// Lists of plugins: directories and git repositories of this machine.
    Marketplace {
        #[command(subcommand)]
        command: MarketplaceCommand,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum MarketplaceCommand {
    /// Know a list from now on.
    Add {
        /// Its directory, or a git repository of this machine.
        from: String,
    },
    /// Forget a list.
    Remove {
        /// Its name.
        name: String,
    },
    /// Copy a list anew that is a git repository.
    Update {
        /// Its name.
        name: String,
    },
}

/// Whose settings.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum PluginScope {
    /// The person's.
    User,
    /// The project's, for everybody.
    Project,
    /// The project's, for this person.
    Local,
}
