//! Every integration test of this crate, in one program.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    dead_code,
    missing_docs,
    unreachable_pub,
    reason = "test code"
)]

mod agents;
mod bash;
mod bash_analysed_once;
mod bash_limits;
mod bash_undo;
mod bash_undo_rest;
mod bash_undo_safety;
mod cron;
mod edit;
mod encodings;
mod file_rig;
mod finding_corpus;
mod finding_rig;
mod git;
mod git_commit_isolation;
mod git_hostile;
mod git_refusals;
mod git_rig;
mod git_undo;
mod glob;
mod grep;
mod ls;
mod lsp;
mod lsp_real;
mod lsp_rig;
mod media;
mod model_visible_text;
mod multi_edit;
mod near_miss;
mod notebook_edit;
mod read;
mod repl;
mod search;
mod shell_rig;
mod task_list;
#[cfg(feature = "web")]
mod web_corpus;
#[cfg(feature = "web")]
mod web_fetch;
#[cfg(feature = "web")]
mod web_hostile;
#[cfg(feature = "web")]
mod web_pages;
#[cfg(feature = "web")]
mod web_real;
#[cfg(feature = "web")]
mod web_rig;
#[cfg(feature = "web")]
mod web_search;
#[cfg(feature = "web")]
mod web_server;
mod write;
