//! Flags of `haft sandbox`.

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum SandboxCommand {
    /// Say what is enforced on this machine, what is not, and how that was found out.
    Check,
    /// Run a program in the sandbox of this directory.
    Run {
        /// The program and its arguments.
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "CMD")]
        command: Vec<std::ffi::OsString>,
    },
}
