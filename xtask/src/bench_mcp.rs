//! `cargo xtask bench mcp`: MCP client and server compared with a plain rmcp server and those of the
//! TypeScript and Python SDKs.

use crate::command;

/// Runs the benchmarks, which are examples of haft-mcp-client and haft-mcp-server. The peers are those
/// of the tests, if installed.
pub(crate) fn run() -> Result<(), String> {
    command::cargo(&["build", "--release", "--quiet"])?;
    let packages = ["-p", "haft-mcp-client", "-p", "haft-mcp-server"];
    command::cargo(&[&["build", "--release", "--quiet", "--examples"][..], &packages].concat())?;
    let target = command::target_dir()?;
    let haft = target.join("release/haft").display().to_string();
    let peers = target.join("mcp-peers").display().to_string();
    let bench = target.join("release/examples/bench_mcp").display().to_string();
    command::command(&bench, &[&haft, &peers])
}
