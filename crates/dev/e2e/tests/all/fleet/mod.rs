//! Fleet jobs with real workers, a strict mock model, and a store in a file or on a server.
#![allow(clippy::print_stderr, reason = "test code")]

mod clocks;
mod clusters;
mod commands;
mod disks;
mod harness;
mod jobs;
mod limits;
mod network_partitions;
mod run_messages;
mod scenarios;
#[path = "../../../../../engine/fleet-store/tests/all/support/mod.rs"]
#[allow(dead_code, unreachable_pub, reason = "its own tests use the rest, from other crates")]
mod support;
mod takeovers;
mod tool_hosts;
