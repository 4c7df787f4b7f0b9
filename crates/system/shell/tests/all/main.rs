//! Integration tests; one binary.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    dead_code,
    missing_docs,
    unreachable_pub,
    reason = "test code"
)]

mod common;
mod env;
mod memory;
mod output;
mod own;
mod run;
mod tasks;
mod without_pidfd;
