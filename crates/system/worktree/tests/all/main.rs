//! Worktrees against the real git.
#![allow(clippy::unwrap_used, missing_docs, unreachable_pub, reason = "test code")]

mod cutting;
mod hostile;
mod losing;
mod making;
mod rig;
mod sweeping;
