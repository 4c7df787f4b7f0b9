//! Every integration test of this crate, in one program.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    dead_code,
    missing_docs,
    unreachable_pub,
    reason = "test code"
)]

#[path = "../../../shell/tests/all/common/mod.rs"]
mod common;
mod keeping;
mod reading;
mod reading_usual;
mod walls;
