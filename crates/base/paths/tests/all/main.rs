//! Integration tests; one binary.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "test code")]

mod replaced;
