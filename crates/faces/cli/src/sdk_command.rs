//! `haft --input-format stream-json`: the executable behind the Agent SDKs.
//!
//! One process per session. Lines come in while a turn runs and are answered
//! at once; everything that goes out passes through one place, so that what an
//! agent did is told before what it then asks.

mod ask_tool;
mod control;
mod driver;
mod extensions;
mod file_requests;
mod finish;
mod lines;
mod main_agent;
mod mentions;
mod observe;
mod requests;
mod rewind;
mod server_requests;
mod start;
mod states;
mod tasks;
mod telling;
mod turn;
mod usage;

use std::process::ExitCode;

use haft_sdk::{bounded_line, failed_start};

use crate::{
    args::{Options, RunArgs},
    output::{Failure, print_line, write_error},
    wiring,
};

/// Runs a session and says how it ended.
pub(crate) fn run(run: &RunArgs, options: &Options) -> ExitCode {
    let runtime = match wiring::runtime() {
        Ok(runtime) => runtime,
        Err(failure) => return failed(&failure),
    };
    let code = runtime.block_on(async {
        match start::start(run, options) {
            Ok(driver) => driver.run().await,
            Err(start::Refused::Flags(failure)) => failed(&failure),
            // The SDKs turn this frame into the text of their error.
            Err(start::Refused::Session { id, failure: Failure::Message(problem) }) => {
                print_line(&bounded_line(&failed_start(&id, &problem))).ok();
                ExitCode::from(1)
            }
            Err(start::Refused::Session { failure, .. }) => failed(&failure),
        }
    });
    // What is still blocked somewhere does not keep us from ending.
    runtime.shutdown_background();
    code
}

fn failed(failure: &Failure) -> ExitCode {
    if let Failure::Message(problem) = failure {
        write_error(&format!("Error: {problem}"));
    }
    ExitCode::from(1)
}
