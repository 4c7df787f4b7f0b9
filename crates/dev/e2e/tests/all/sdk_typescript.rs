//! The real TypeScript Agent SDK with Haft as its executable.
#![allow(clippy::unwrap_used, clippy::print_stderr, missing_docs, reason = "test code")]

use crate::hosts;

use std::path::Path;

use tokio::process::Command;

#[tokio::test]
async fn typescript_cases() {
    let Some(dir) = hosts::node() else { return };
    // Node resolves modules relative to the script's directory.
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/agent_sdk");
    for name in ["harness.mjs", "cases.mjs", "launch_cases.mjs", "more_cases.mjs"] {
        std::fs::copy(cases.join(name), dir.join(name)).unwrap();
    }
    let mut program = Command::new("node");
    program.arg(dir.join("cases.mjs"));
    match hosts::run_cases(program).await {
        Ok(passed) => eprintln!("{passed} cases passed"),
        Err(problems) => panic!("{problems}"),
    }
}
