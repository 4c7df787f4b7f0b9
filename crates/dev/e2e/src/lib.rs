//! End-to-end tests of the program `haft`: `tests/all`, one module per subject.
//!
//! They start the program that `haft_testkit::haft_binary` finds and do not link the
//! crate it comes from, so a change in it costs one link. Build it before you run them
//! without `cargo xtask`: `cargo build && cargo nextest run -p haft-e2e readme`.
