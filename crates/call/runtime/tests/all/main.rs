//! Every integration test of this crate, in one program.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    dead_code,
    missing_docs,
    unreachable_pub,
    reason = "test code"
)]

mod calls;
mod common;
mod pool;
mod results;
mod schedule;
mod search_queries;
mod witness;
