//! Tests with real engines: one suite for all of them, and fault injection.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    missing_docs,
    unreachable_pub,
    reason = "test code"
)]

mod clusters;
mod conformance;
mod cuts;
mod faults;
mod kill_rig;
mod repeats;
mod sim;
mod support;
