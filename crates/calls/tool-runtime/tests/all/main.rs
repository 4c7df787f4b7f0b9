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
mod children;
mod common;
mod foreseen;
mod one_more_tool;
mod parse_once;
mod pool;
mod results;
mod schedule;
mod search_queries;
mod tags;
mod witness;
