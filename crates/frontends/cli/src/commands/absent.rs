//! Stand-ins for commands of features that this build lacks; they print an error.

use haft_console::stdout::{CliError, CommandExit};

/// `haft acp` without the feature `acp`.
#[cfg(not(feature = "acp"))]
pub(crate) mod acp {
    use haft_console::{GlobalArgs, stdout::CommandExit};

    use crate::args::RunArgs;

    /// Protocol versions that this build supports.
    pub(crate) const PROTOCOLS: &[u64] = &[];

    pub(crate) fn run(_: &RunArgs, _: &GlobalArgs) -> CommandExit {
        super::absent("haft acp", "acp")
    }
}

/// `haft view` without the feature `view`.
#[cfg(not(feature = "view"))]
pub(crate) mod view {
    use haft_console::{GlobalArgs, stdout::CommandExit};

    use crate::args::ViewArgs;

    pub(crate) fn run(_: &ViewArgs, _: &GlobalArgs) -> CommandExit {
        super::absent("haft view", "view")
    }
}

/// The error of a command whose feature was not compiled in.
pub(crate) fn absent(command: &str, feature: &str) -> CommandExit {
    Err(CliError::Message(format!(
        "this build of haft has no `{command}`: install the packaged program, or build haft-cli with --features {feature}"
    )))
}
