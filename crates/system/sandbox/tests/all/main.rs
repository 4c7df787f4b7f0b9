//! Integration tests; one binary.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    dead_code,
    missing_docs,
    unreachable_pub,
    reason = "test code"
)]

mod baseline;
#[path = "../../../shell/tests/all/common/mod.rs"]
mod common;
mod policies;
mod read_only;
mod read_only_common_commands;
