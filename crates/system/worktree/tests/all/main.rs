//! Integration tests with the real git.
#![allow(clippy::unwrap_used, missing_docs, unreachable_pub, reason = "test code")]

mod create;
mod hostile;
mod interrupted;
mod no_data_loss;
mod rig;
mod sweeping;
