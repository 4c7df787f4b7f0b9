//! All end-to-end tests in one binary, because linking is slow.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    dead_code,
    missing_docs,
    unreachable_pub,
    reason = "test code"
)]

mod acp;
mod acp_buffers;
mod acp_cancellation;
mod acp_clients;
mod acp_malformed_clients;
mod acp_questions;
mod acp_random;
mod agents;
mod agents_process_killed;
mod auto_mode;
mod common;
mod cost;
mod cron;
mod demo;
mod diagnostic_log;
mod docs_walkthrough;
#[path = "common/editor.rs"]
mod editor;
#[path = "common/editor_kits.rs"]
mod editor_kits;
mod file_path_table;
mod files;
#[path = "common/flapping.rs"]
mod flapping;
mod fleet;
mod frontends_agree;
mod git_read_permissions;
#[path = "common/hosts.rs"]
mod hosts;
mod hot_paths;
mod ide_bridge;
mod import;
mod local_model_ports;
mod log_lines;
mod lsp;
mod mcp;
mod mcp_bad_servers;
mod mcp_conformance;
mod mcp_host;
mod mcp_login;
mod mcp_official_clients;
mod mcp_questions;
mod mcp_serve;
mod mcp_terminal;
mod mcp_unusual_servers;
mod model_input_repair;
mod new_tool;
mod odd_file_systems;
mod odd_paths;
mod page_commands;
#[path = "common/peer.rs"]
mod peer;
mod permission_tables;
mod plugins;
mod prefix;
mod print;
mod print_scripting;
mod random_requests;
mod readme;
mod regressions;
mod replay;
mod resource_exhaustion;
mod retracted_answers;
mod review_action;
mod rewind;
mod sandbox;
mod sdk;
mod sdk_faults;
mod sdk_launch;
mod sdk_python;
mod sdk_trust;
mod sdk_typescript;
mod sessions;
mod settings;
mod settings_effects;
mod setup_commands;
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
mod undo_commands;
mod unrecorded_calls;
mod untrusted_project;
mod view;
mod view_hostile;
mod view_large;
mod view_server;
mod web;
mod worktree_commands;
