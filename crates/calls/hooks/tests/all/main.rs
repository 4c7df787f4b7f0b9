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
mod engine;
mod gate_table;
#[cfg(feature = "http")]
mod http;
mod processes;
