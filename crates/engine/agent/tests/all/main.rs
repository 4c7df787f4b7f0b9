//! Every integration test of this crate, in one program.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    dead_code,
    missing_docs,
    unreachable_pub,
    reason = "test code"
)]

mod common;
mod log;
mod prefix;
mod prompt_tags;
mod survival;
mod turns;
mod unpaid;
mod unusable;
mod windows;
