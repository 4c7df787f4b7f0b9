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
mod agent_bills;
mod agent_endings;
mod agent_files;
mod agent_news;
mod agent_parts;
mod agent_talk;
mod agent_weight;
mod agents;
mod boards;
mod commands;
mod directories;
mod forks;
mod host_settings;
mod hostile_agents;
mod kept;
mod kinds;
mod main_agent;
mod many;
mod memory;
mod money;
mod pains;
mod rig;
mod skills;
mod team_mail;
mod worktrees;
