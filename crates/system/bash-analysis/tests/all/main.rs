//! Integration tests; one binary.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    dead_code,
    missing_docs,
    unreachable_pub,
    reason = "test code"
)]

mod against_bash;
#[path = "../../../shell/tests/all/common/mod.rs"]
mod common;
mod corpora;
mod harmless_run;
mod judging;
mod tables;
