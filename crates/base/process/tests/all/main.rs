//! Integration tests; one binary.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, unreachable_pub, reason = "test code")]

mod killed;
mod support;
mod trees;
