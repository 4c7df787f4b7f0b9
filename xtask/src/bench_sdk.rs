//! The Agent SDKs: Haft beside the executable that comes with the Python SDK.

use crate::run;

/// A query, questions and calls through the protocol.
pub(crate) fn run() -> Result<(), String> {
    run::cargo(&["bench", "--quiet", "-p", "haft-cli", "--bench", "sdk"])
}
