//! Every integration test of this crate, in one program.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    dead_code,
    missing_docs,
    unreachable_pub,
    reason = "test code"
)]

mod agent_asks;
mod agent_endings;
mod agent_files;
mod agent_messages;
mod agent_parts;
mod agent_resource_counters;
mod agents;
mod agents_mid_session;
mod baseline_protection;
mod commands;
mod directories;
mod forks;
mod host_settings;
mod hostile_agents;
mod kinds;
mod known_pitfalls;
mod main_agent;
mod many_sessions;
mod memory;
mod money;
mod rig;
mod skills;
mod task_lists_and_teams;
mod team_mail;
mod usage_totals;
mod worktrees;
