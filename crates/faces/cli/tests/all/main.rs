//! Every integration test of this crate, in one program.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    dead_code,
    missing_docs,
    unreachable_pub,
    reason = "test code"
)]

mod acp;
mod acp_clients;
mod agents;
mod common;
mod corpora;
mod cost;
mod cron;
mod demo;
mod diagnostic_log;
#[path = "common/editor.rs"]
mod editor;
#[path = "common/editor_kits.rs"]
mod editor_kits;
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
mod model_mistakes;
mod newcomer;
#[path = "common/peer.rs"]
mod peer;
mod prefix;
mod print;
mod readme;
mod replay;
mod rewind;
mod sandbox;
mod scarce;
mod sdk;
mod sdk_faults;
mod sdk_python;
mod sdk_typescript;
mod sessions;
mod settings;
mod tasks;
mod telemetry;
mod terminal;
mod tool;
mod trust_and_keys;
mod undo_commands;
mod view;
