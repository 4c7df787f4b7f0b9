//! The Agent SDKs: Haft beside the executable that comes with the Python SDK.

use crate::command;

/// A query, questions and calls through the protocol.
pub(crate) fn run() -> Result<(), String> {
    command::cargo(&["build", "--release", "-p", "haft-cli", "--bin", "haft"])?;
    command::cargo(&["bench", "--quiet", "-p", "haft-e2e", "--bench", "sdk"])
}
