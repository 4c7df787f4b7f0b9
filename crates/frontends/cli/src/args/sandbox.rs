//! Flags of `haft sandbox`.

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum SandboxCommand {
    /// Show which sandbox features this machine supports, and how that was tested
    Check,
    /// Run a command in the sandbox of this directory
    Run {
        /// The command and its arguments
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "CMD")]
        command: Vec<std::ffi::OsString>,
    },
}
