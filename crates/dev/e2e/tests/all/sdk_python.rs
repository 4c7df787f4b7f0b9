//! The real Python Agent SDK with Haft as its executable.
#![allow(clippy::unwrap_used, clippy::print_stderr, missing_docs, reason = "test code")]

use crate::hosts;

use std::path::Path;

use tokio::process::Command;

#[tokio::test]
async fn python_cases() {
    let Some(python) = hosts::python() else { return };
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/agent_sdk");
    let mut program = Command::new(&python);
    program.arg("-B").arg(dir.join("cases.py"));
    if let Some(examples) = hosts::python_examples(&python) {
        program.env("HAFT_SDK_EXAMPLES", examples);
    }
    match hosts::run_cases(program).await {
        Ok(passed) => eprintln!("{passed} cases passed"),
        Err(problems) => panic!("{problems}"),
    }
}
