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
mod corpora;
mod cost;
mod demo;
mod diagnostic_log;
mod faces;
mod file_rows;
mod files;
#[path = "common/flapping.rs"]
mod flapping;
mod headless;
#[path = "common/hosts.rs"]
mod hosts;
mod log_lines;
mod mcp;
mod mcp_host;
mod mcp_hostile;
mod mcp_login;
mod mcp_needs;
mod mcp_odd;
mod mcp_peers;
mod mcp_questions;
mod mcp_serve;
mod mcp_terminal;
#[path = "common/peer.rs"]
mod peer;
mod prefix;
mod print;
mod readme;
mod replay;
mod sandbox;
mod sdk;
mod sdk_faults;
mod sdk_python;
mod sdk_typescript;
mod sessions;
mod settings;
mod tasks;
mod telemetry;
mod tool;
mod undo_commands;
