//! Every integration test of this crate, in one program.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    dead_code,
    missing_docs,
    unreachable_pub,
    reason = "test code"
)]

mod agent_talk;
mod agents;
mod commands;
mod host_settings;
mod kept;
mod many;
mod rig;
