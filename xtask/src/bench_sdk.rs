//! Agent SDKs: Haft compared with the executable that ships with the Python SDK.

use crate::command;

/// Runs queries, permission prompts and tool calls through the protocol.
pub(crate) fn run() -> Result<(), String> {
    command::cargo(&["build", "--release", "-p", "haft-cli", "--bin", "haft"])?;
    command::cargo(&["bench", "--quiet", "-p", "haft-e2e", "--bench", "sdk"])
}
