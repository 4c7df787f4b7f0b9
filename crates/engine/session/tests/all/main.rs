//! Every integration test of this crate, in one program.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    dead_code,
    missing_docs,
    unreachable_pub,
    reason = "test code"
)]

mod agent_endings;
mod agent_talk;
mod agents;
mod boards;
mod commands;
mod forks;
mod host_settings;
mod kept;
mod kinds;
mod many;
mod memory;
mod money;
mod rig;
mod skills;
mod worktrees;
