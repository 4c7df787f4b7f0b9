//! Every integration test of this crate, in one program.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    dead_code,
    missing_docs,
    unreachable_pub,
    reason = "test code"
)]

mod abandoned_answers;
mod acp;
mod acp_buffers;
mod acp_clients;
mod acp_moments;
mod acp_odd;
mod acp_questions;
mod acp_random;
mod agent_kills;
mod agents;
mod auto_mode;
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
mod first_hour;
#[path = "common/flapping.rs"]
mod flapping;
mod git_reads;
mod headless;
#[path = "common/hosts.rs"]
mod hosts;
mod hot_paths;
mod ide_bridge;
mod import;
mod log_lines;
mod lsp;
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
mod new_tool;
mod newcomer;
mod odd_paths;
mod page_commands;
#[path = "common/peer.rs"]
mod peer;
mod plugins;
mod prefix;
mod print;
mod promises;
mod random_requests;
mod readme;
mod replay;
mod review_action;
mod rewind;
mod sandbox;
mod scarce;
mod sdk;
mod sdk_faults;
mod sdk_launch;
mod sdk_python;
mod sdk_trust;
mod sdk_typescript;
mod sessions;
mod settings;
mod settings_effects;
mod strange_servers;
mod tags;
mod tasks;
mod telemetry;
mod terminal;
mod terminal_faults;
mod terminal_tmux;
mod tool;
mod tool_host;
mod tool_host_meeting;
mod triggers;
mod trust_and_keys;
mod undo_commands;
mod view;
mod view_hostile;
mod view_large;
mod view_server;
mod web;
mod worktree_commands;
