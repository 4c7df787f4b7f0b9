//! Every integration test of this crate, in one program.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    dead_code,
    missing_docs,
    unreachable_pub,
    reason = "test code"
)]

mod against_bash;
mod common;
mod corpora;
mod env;
mod harmless_run;
mod judging;
mod memory;
mod output;
mod own;
mod run;
mod sandbox;
mod tables;
mod tasks;
