//! Tests at the boundary: providers against the strict mock server.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, unreachable_pub, reason = "test code")]

mod body;
mod faults;
mod forms;
mod fuzz;
mod gemini;
mod lint;
mod odd_servers;
mod prompted;
mod property;
mod replay;
mod router;
mod served;
mod stream;
mod support;
