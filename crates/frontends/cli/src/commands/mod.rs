//! The subcommands, one file or folder each.

#[cfg(not(all(feature = "acp", feature = "fleet", feature = "view")))]
pub(crate) mod absent;
pub(crate) mod agents;
pub(crate) mod bug;
pub(crate) mod context;
pub(crate) mod cost;
pub(crate) mod cron;
pub(crate) mod demo;
pub(crate) mod dev;
pub(crate) mod doctor;
pub(crate) mod import;
pub(crate) mod init;
pub(crate) mod login;
pub(crate) mod mcp;
pub(crate) mod models;
pub(crate) mod new;
pub(crate) mod permissions;
pub(crate) mod plugins;
pub(crate) mod replay;
pub(crate) mod rewind;
pub(crate) mod sandbox;
pub(crate) mod sessions;
pub(crate) mod tasks;
pub(crate) mod tool;
pub(crate) mod tool_host;
pub(crate) mod triggers;
pub(crate) mod trust;
pub(crate) mod undo;
pub(crate) mod update;
#[cfg(feature = "view")]
pub(crate) mod view;
pub(crate) mod worktrees;

#[cfg(not(feature = "view"))]
pub(crate) use absent::view;
