//! Stand-ins for commands that this build lacks: they say so.

use crate::output::{CliError, CommandExit};

/// `haft fleet` without the feature `fleet`.
#[cfg(not(feature = "fleet"))]
pub(crate) mod fleet_command {
    use crate::{args::GlobalArgs, fleet_args::FleetCommand, output::CommandExit};

    pub(crate) fn run(_: FleetCommand, _: &GlobalArgs) -> CommandExit {
        super::absent("haft fleet", "fleet")
    }
}

/// `haft acp` without the feature `acp`.
#[cfg(not(feature = "acp"))]
pub(crate) mod acp_command {
    use crate::{
        args::{GlobalArgs, RunArgs},
        output::CommandExit,
    };

    /// The versions of the protocol that this build speaks.
    pub(crate) const PROTOCOLS: &[u64] = &[];

    pub(crate) fn run(_: &RunArgs, _: &GlobalArgs) -> CommandExit {
        super::absent("haft acp", "acp")
    }
}

/// `haft view` without the feature `view`.
#[cfg(not(feature = "view"))]
pub(crate) mod view_command {
    use crate::{
        args::{GlobalArgs, ViewArgs},
        output::CommandExit,
    };

    pub(crate) fn run(_: &ViewArgs, _: &GlobalArgs) -> CommandExit {
        super::absent("haft view", "view")
    }
}

fn absent(command: &str, feature: &str) -> CommandExit {
    Err(CliError::Message(format!(
        "this build of haft has no `{command}`: install the packaged program, or build haft-cli with --features {feature}"
    )))
}
