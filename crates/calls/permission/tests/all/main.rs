//! Integration tests; one binary.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    dead_code,
    missing_docs,
    unreachable_pub,
    reason = "test code"
)]

mod agents;
mod attacks;
mod changing_lines;
mod checkouts;
mod common;
mod file_paths;
mod followed_links;
mod found;
mod fuzz;
mod handed_names;
mod modes;
mod paths;
mod properties;
mod reasons;
mod rules;
mod spelling;
