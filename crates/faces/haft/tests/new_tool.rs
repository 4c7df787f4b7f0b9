//! What `haft new tool` writes: it compiles, and its own tests pass.
#![allow(clippy::unwrap_used, dead_code, missing_docs, unreachable_pub, reason = "test code")]

#[path = "../../cli/src/new_command/tool.rs.txt"]
mod template_tool;

include!("../../cli/src/new_command/server.rs.txt");
