//! Integration tests; one binary.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    dead_code,
    missing_docs,
    unreachable_pub,
    reason = "test code"
)]

mod commit;
mod faults;
mod hard_links;
mod lines;
mod overlay;
mod patch;
mod race;
mod reads;
mod support;
mod text;
mod undo;
