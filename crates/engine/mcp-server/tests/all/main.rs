//! All integration tests of this crate, in one binary.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    dead_code,
    missing_docs,
    unreachable_pub,
    reason = "test code"
)]

mod docs;
mod pipes;
mod serve;
#[path = "../../../mcp-client/tests/all/support/mod.rs"]
mod support;
